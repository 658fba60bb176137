# What rackready.preflight wants to know of a node, a line each. Reads only, writes nothing; runs in
# dash, bash and busybox ash, from standard input, hence one function that sees none of it.
# shellcheck shell=sh

preflight() {
    R=${RACKREADY_ROOT-}
    LC_ALL=C
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    [ -z "$R" ] || PATH=$R/usr/sbin:$R/usr/bin:$R/sbin:$R/bin:$PATH
    export LC_ALL PATH

    echo 'rackready-preflight 1'
    echo "clock $(date +%s)"
    if [ -n "$R" ] && [ -e "$R/.rackready-emulated" ]; then
        echo 'privilege emulated'
    elif [ "$(id -u)" -eq 0 ]; then
        echo 'privilege root'
    elif ! command -v sudo >/dev/null; then
        echo 'privilege none'
    elif sudo -n true 2>/dev/null; then
        echo 'privilege sudo'
    else
        echo 'privilege password'
    fi
    for path in /var/lib /etc /tmp; do
        # An emulated node may lack the folder; its tree lies on one disk anyway.
        df -Pk "$R$path" "$R/" 2>/dev/null |
            awk -v path="$path" 'NR == 2 { print "disk", path, $4 }'
    done
    for tool in od gzip base64 sha256sum flock setpci; do
        command -v "$tool" >/dev/null || echo "lacks $tool"
    done
    lock=$R/run/rackready.lock
    if [ -r "$lock" ] && command -v flock >/dev/null && ! flock -n -s "$lock" true; then
        echo "lock $(head -n 1 "$lock" | tr -cd ' -~')"
    fi
    echo end
}

preflight </dev/null 2>/dev/null
