#!/bin/sh
# Prints a capture of this node: what its files and tools say, framed as docs/captures.md tells.
# Reads only, never fails, takes at most 30 seconds. For dash, busybox ash and bash, root or not.
# What settings.sh adds comes before it: cat settings.sh probe.sh | sh
#
# RACKREADY_ROOT             the tree to read; empty on a real node
# RACKREADY_TRANSPORT        1: print it packed, with length and checksum, to travel over SSH
# RACKREADY_VENDORS          PCI vendors of accelerators: 0x9999 ...
# RACKREADY_TOOLS            the accelerators' tools, one command a line
# RACKREADY_MODULES          kernel modules whose parameters matter
# RACKREADY_LOG              extended regular expression: the kernel messages that matter
# RACKREADY_NODES            device nodes whose users matter, files or folders
# RACKREADY_TOOL_LIMIT       seconds for one command that asks a driver
# RACKREADY_TOOLS_LIMIT      seconds for all of them together
# RACKREADY_COUNTER_SECONDS  least time between the two readings of the traffic counters

NL='
'
TAB=$(printf '\t')
CAP=65536 # bytes of one tool's output, and of one managed file
SCHEDULERS='slurmd|kubelet|k3s-agent|k3s-server|pbs_mom|sge_execd|sbatchd|condor_startd|nomad'

# What rackready may have put on a node, as in rackready/change.py: all else may be a secret.
NAME='[A-Za-z0-9_:@%+,=-][A-Za-z0-9_.:@%+,=-]*'
TRIGGER="([0-9][0-9]-)?rackready-$NAME"
OURS="/(etc|usr/local/lib)/rackready(/$NAME)+|/etc/(udev/rules|modprobe|modules-load)\.d/$TRIGGER"
OURS="$OURS|/etc/systemd/system/($NAME\.wants/)?$TRIGGER"
OUR_FOLDERS="/(etc|usr/local/lib)/rackready(/$NAME)*|/etc|/usr|/usr/local|/usr/local/lib"
OUR_FOLDERS="$OUR_FOLDERS|/etc/(udev|(udev/rules|modprobe|modules-load)\.d)"
OUR_FOLDERS="$OUR_FOLDERS|/etc/systemd(/system(/$NAME\.wants)?)?"

# --- Frames -------------------------------------------------------------------------------------

# While $group is set, commands ask a driver that may never answer: they run in the background and
# are abandoned when late. After one late command of a group its others are skipped. Functions used
# here end in `exec` where they can: then the process to abandon is the command, not a shell.
section() { # TITLE WORD...: the output of WORD... (absolute paths lie in the tree), named TITLE
    title=$1
    shift
    for word; do
        shift
        case $word in /*) word=$R$word ;; esac
        set -- "$@" "$word"
    done
    clock
    if [ -z "$group" ] || [ -z "$scratch" ]; then
        begin "$title"
        output "$@"
        end "$status"
    elif [ "$late" != "${late#*" $group "}" ]; then
        nothing "$title" "skipped $group was late"
    elif [ "$now" -ge "$deadline" ]; then
        nothing "$title" 'skipped no time left'
    else
        begin "$title"
        file=$scratch/$count
        "$@" >"$file" &
        await "$!" "$CAP"
        output head -c "$CAP" "$file"
        [ "${#body}" -lt "$CAP" ] || ! too_long "$CAP" || ended="cut at $CAP bytes"
        end "$ended"
    fi
}

begin() { # TITLE
    printf '$ %s\n' "$1"
    count=$((count + 1))
}

end() { printf '? %s\n' "$1"; } # STATUS, or why there is none

nothing() { # TITLE REASON: a section without output
    begin "$1"
    end "$2"
}

output() { # WORD...: the framed output of WORD...; sets status
    body=$({ ("$@"); printf '?%s' "$?"; } | storable)
    status=${body##*\?}
    body=${body%\?*}
    case $body in
        '') ;;
        *[!"$TAB$NL"\ -~]*) "$@" | od -An -v -tx1 | sed 's/^/x/' ;;
        *"$NL") printf '%s' "$body" | sed 's/^/|/' ;;
        *"$NL"*)
            printf '%s\n' "${body%"$NL"*}" | sed 's/^/|/'
            printf '\\%s\n' "${body##*"$NL"}"
            ;;
        *) printf '\\%s\n' "$body" ;;
    esac
}

# A variable can't hold a zero byte: as 0x01 it leads to the hex form, which shows it as it was.
storable() {
    if [ -z "$R" ]; then tr '\000' '\001'; else tr '\000' '\001' | sed "s|$R/|/|g"; fi
}

await() { # PID CAP; sets ended: its exit status, or why there is none
    limit=$((now + ${RACKREADY_TOOL_LIMIT:-6}))
    [ "$limit" -le "$deadline" ] || limit=$deadline
    pause=0.01
    while kill -0 "$1"; do
        sleep "$pause" || sleep 1 # not every sleep knows fractions
        pause=0.05
        clock
        if [ "$now" -gt "$limit" ]; then
            # Waiting could last for ever. What is left holds its own file, not our output.
            kill -s TERM "$1"
            late="$late$group "
            ended="late $1"
            return
        fi
        ! too_long "$2" || kill -s KILL "$1" # it would fill the disk
    done
    wait "$1"
    ended=$?
}

too_long() { [ "$(wc -c <"$file")" -gt "$1" ]; } # CAP

clock() { # sets now: seconds on a clock that nobody sets
    read -r now _ </proc/uptime || now=$(date +%s)
    now=${now%.*}
}

# --- Short forms --------------------------------------------------------------------------------

show() { section "$*" "$@"; } # WORD...: a command under its own name

values() { # FOLDER GLOB...: lines NAME/ATTRIBUTE:VALUE
    folder=$1
    shift
    section "cd $folder && grep -s '' $*" matches '' "$folder" "$@"
}

matches() { # PATTERN FOLDER GLOB...
    pattern=$1
    cd "$2" || return
    shift 2
    # With a single file, grep would leave out its name: hence /dev/null.
    # shellcheck disable=SC2068 # the globs expand here, in FOLDER
    exec grep -s "$pattern" $@ /dev/null
}

# --- Domains ------------------------------------------------------------------------------------

system() {
    show cat /proc/sys/kernel/hostname
    show cat /etc/os-release
    show cat /proc/sys/kernel/osrelease
    show uname -m
    show cat /proc/cmdline
    show cat /proc/sys/kernel/random/boot_id
    section "grep -E '^(Uid|Gid|CapEff):' /proc/self/status" identity
    show cat /sys/kernel/security/lockdown
    show date +%s
    values /sys/class/dmi/id sys_vendor product_name product_serial board_serial bios_version \
        bios_date
    section "grep -m 1 '^model name' /proc/cpuinfo" grep -m 1 '^model name' /proc/cpuinfo
    show grep MemTotal /proc/meminfo
    section 'test -e /.rackready-emulated && echo emulated' emulated
}

identity() {
    status_file=$R/proc/self/status
    [ -e "$status_file" ] || status_file=/proc/self/status
    grep -E '^(Uid|Gid|CapEff):' "$status_file"
}

emulated() { test -e "$R/.rackready-emulated" && echo emulated; }

pci() {
    show ls -l /sys/bus/pci/devices
    values /sys/bus/pci/devices '*/class' '*/vendor' '*/device' '*/numa_node'
    section 'cd /sys/bus/pci/devices && ls -ld */driver */physfn' pci_links
    values /sys/bus/pci/slots '*/address'
    # Many, and always ASCII: all are framed at once. A dead function may take a minute to read.
    clock
    ended=
    file=$scratch/config
    if [ -z "$scratch" ]; then
        dumps=$(config_spaces)
    else
        config_spaces >"$file" &
        await "$!" 4194304
        dumps=$(cat "$file")
    fi
    if [ -n "$dumps" ]; then printf '%s\n' "$dumps" | sed 's/^[0-9a-f*]/|&/'; fi
    count=$((count + $(printf '%s\n' "$dumps" | grep -c '^\$')))
    case $ended in late*) end "$ended" ;; esac
}

pci_links() { cd "$R/sys/bus/pci/devices" && ls -ld -- */driver */physfn; }

is_bdf() {
    case $1 in *[!0-9a-f:.]*) return 1 ;; ????*:??:??.[0-7]) ;; *) return 1 ;; esac
}

config_spaces() {
    whole=' '
    for path in "$R"/sys/bus/pci/devices/* "$R"/sys/class/infiniband/*/device; do
        case $path in */device) ;; *) matters "$path" || continue ;; esac
        # The real folder of a function lies in those of the bridges above it.
        cd -P "$path" || continue
        IFS=/
        for part in $PWD; do
            ! is_bdf "$part" || whole="$whole$part "
        done
        unset IFS
    done
    for path in "$R"/sys/bus/pci/devices/*; do
        bdf=${path##*/}
        is_bdf "$bdf" || continue
        case $whole in *" $bdf "*) size=4096 ;; *) size=256 ;; esac
        printf '$ od -Ax -tx1 -N %s /sys/bus/pci/devices/%s/config\n' "$size" "$bdf"
        od -Ax -tx1 -N "$size" "$path/config"
        end "$?"
    done
}

matters() { # FOLDER of a function: is it an accelerator, or does it move packets?
    read -r class <"$1/class" && read -r vendor <"$1/vendor" || return
    case "$class $VENDORS " in 0x02* | 0x12* | *" $vendor "*) ;; *) return 1 ;; esac
}

rdma() {
    group=infiniband
    show ls -l /sys/class/infiniband
    values /sys/class/infiniband '*/fw_ver' '*/board_id' '*/node_guid' '*/sys_image_guid' \
        '*/ports/*/state' '*/ports/*/phys_state' '*/ports/*/rate' '*/ports/*/link_layer'
    # An empty GID is all zeros.
    section "cd /sys/class/infiniband && grep -s '[1-9a-f]' */ports/*/gids/*" \
        matches '[1-9a-f]' /sys/class/infiniband '*/ports/*/gids/*'
    values /sys/class/infiniband '*/ports/*/gid_attrs/types/*'
    values /sys/class/infiniband '*/ports/*/gid_attrs/ndevs/*'
    classes='*/tc/*/traffic_class'
    section "cd /sys/class/infiniband && grep -s '' $classes; ls -d $classes" traffic_classes
    group=
}

# A class that is not set reads as an empty file: only its name tells that the driver knows it.
traffic_classes() {
    (matches '' "$R/sys/class/infiniband" "$classes")
    # shellcheck disable=SC2086 # a glob
    cd "$R/sys/class/infiniband" && ls -d $classes
}

counters() {
    group=infiniband
    values /sys/class/infiniband '*/ports/*/counters/port_xmit_data' \
        '*/ports/*/counters/port_rcv_data'
    group=
}

counters_again() {
    clock
    set -- "$R"/sys/class/infiniband/*/ports/*/counters
    if [ -e "$1" ] && [ "$now" -le $((began + seconds)) ]; then sleep "$seconds"; fi
    counters
}

net() {
    group=net
    show ls -l /sys/class/net
    values /sys/class/net '*/address' '*/mtu' '*/operstate' '*/speed' '*/dev_port'
    tool ip -o addr show
}

kernel() {
    show cat /proc/modules
    parameters=
    for module in $MODULES; do
        parameters="$parameters $module/parameters/*"
    done
    values /sys/module "*/version$parameters"
    [ -z "$LOG" ] || section "dmesg | grep -E '$LOG' | tail -n 400" kernel_log
}

kernel_log() { # with the exit status of dmesg, which may be forbidden
    log=$(dmesg) || return
    printf '%s\n' "$log" | grep -E -e "$LOG" | tail -n 400
}

managed() {
    manifest=/var/lib/rackready/manifest
    show cat "$manifest"
    set -f
    # shellcheck disable=SC2013 # a line is one word; reading them in a pipe would lose the count
    for entry in $(awk '$2 ~ /^\/[!-~]*$/ { kind[$2] = $1 }
        END { for (path in kind) print kind[path] ":" path }' "$R$manifest" | sort); do
        kind=${entry%%:*} path=${entry#*:}
        case $kind in file | link | dir) is_ours || kind=other ;; *) continue ;; esac
        case $kind in
            other) nothing "ls -ld $path" "skipped not a path of rackready's" ;;
            file) show ls -ld "$path"; managed_file "$path" ;;
            link) show readlink "$path" ;;
            dir) show ls -ld "$path" ;;
        esac
    done
    set +f
    show tail -c 131072 /var/lib/rackready/journal.jsonl
    show cat /run/rackready.lock
}

is_ours() { # what a line of the manifest names, and no link leads from there to elsewhere
    case $kind in dir) rule=$OUR_FOLDERS ;; *) rule=$OURS ;; esac
    folder=${path%/*}
    printf '%s\n' "$path" | grep -Eqx -e "$rule" || return
    [ -e "$R$folder/" ] || return 0
    case $(cd -P "$R$folder/" && pwd -P) in "$top$folder" | "$top$folder/") ;; *) return 1 ;; esac
}

managed_file() { # PATH; a command that fails says that it is gone
    file=$R$1
    why=
    if [ -L "$file" ] || { [ -e "$file" ] && [ ! -f "$file" ]; }; then
        why='skipped not a regular file'
    elif [ -f "$file" ] && [ ! -r "$file" ]; then
        why='skipped not readable'
    fi
    if [ -n "$why" ]; then nothing "sha256sum $1" "$why"; else show sha256sum "$1"; fi
    [ -n "$why" ] || [ ! -f "$file" ] || ! too_long "$CAP" || why="skipped over $CAP bytes"
    if [ -n "$why" ]; then nothing "cat $1" "$why"; else show cat "$1"; fi
}

users() {
    [ -z "$NODES" ] || section "users of $NODES" holders
    section "cat /proc/[0-9]*/comm | grep -xE '$SCHEDULERS' | sort -u" schedulers
    # shellcheck disable=SC2086 # a list of paths
    show ls -l $NODES /dev/infiniband
}

# Lines PID COMMAND DEVICE. Fails where it may not look into every process.
holders() {
    # The second argument makes ls print a heading for a single folder too.
    # shellcheck disable=SC2012
    ls -n "$R"/proc/[0-9]*/fd /dev/null |
        sed -n -e '/\/proc\/[0-9]*\/fd:$/ { s/^.*\/proc\/\([0-9]*\)\/fd:$/\1/; h; }' \
            -e '/ -> \/dev\// { G; s/^.* -> \(.*\)\n\(.*\)$/\2 \1/p; }' |
        sort -u | while read -r pid device; do
        for node in $NODES; do
            case $device in "$node" | "$node"/*) ;; *) continue ;; esac
            read -r command <"$R/proc/$pid/comm" && echo "$pid $command $device"
        done
    done
    [ -n "$R" ] || ls /proc/1/fd >/dev/null
}

schedulers() { cat "$R"/proc/[0-9]*/comm | grep -xE "$SCHEDULERS" | sort -u; }

tools() {
    set -f
    IFS=$NL
    for line in $RACKREADY_TOOLS; do
        unset IFS
        # shellcheck disable=SC2086 # a command line is words, and nothing but words
        tool $line
    done
    unset IFS
    set +f
}

tool() { # WORD...
    group=$1
    case $1 in /*) program=$R$1 ;; *) program=$1 ;; esac
    if ! command -v "$program" >/dev/null; then
        nothing "$*" absent
    elif [ -z "$scratch" ]; then
        nothing "$*" 'skipped no place for output'
    else
        section "$*" aloud "$@"
    fi
    group=
}

aloud() { exec "$@" 2>&1; } # WORD...: with its error messages

# --- The whole ----------------------------------------------------------------------------------

capture() {
    echo 'rackready-capture 1'
    count=0 group='' late=' '
    clock
    began=$now
    deadline=$((now + ${RACKREADY_TOOLS_LIMIT:-20}))
    counters
    system
    pci
    rdma
    net
    kernel
    managed
    users
    tools
    ! command -v settings >/dev/null || settings
    counters_again
    echo ". $count"
}

packed() {
    text=$(capture)
    sum=$(printf '%s\n' "$text" | sha256sum) || sum=-
    if command -v gzip >/dev/null && command -v base64 >/dev/null; then
        form=gzip+base64
        payload=$(printf '%s\n' "$text" | gzip -c | base64)
    elif command -v gzip >/dev/null; then
        form=gzip+od
        payload=$(printf '%s\n' "$text" | gzip -c | od -An -v -tx1 | tr -d ' ')
    else
        form='od'
        payload=$(printf '%s\n' "$text" | od -An -v -tx1 | tr -d ' ')
    fi
    length=$(printf '%s' "$payload" | tr -d '\n' | wc -c)
    printf '\n=== rackready probe 1 %s %s %s\n%s\n=== rackready end\n' \
        "$form" "$((length))" "${sum%% *}" "$payload"
}

main() {
    export LC_ALL=C
    unset IFS GREP_OPTIONS QUOTING_STYLE TIME_STYLE
    umask 077
    R=${RACKREADY_ROOT-}
    case $R in '' | /*) ;; *) R=$PWD/$R ;; esac
    path=
    for root in ${R:+"$R"} ''; do
        for folder in usr/sbin usr/bin sbin bin usr/local/sbin usr/local/bin; do
            path=${path:+$path:}$root/$folder
        done
    done
    PATH=$path
    PATH=$PATH:$R/opt/mxdriver/bin:$R/opt/maca/bin # last: a vendor's folder may hold an od, too
    top=$(cd -P "$R/" && pwd -P)
    top=${top%/}
    VENDORS=${RACKREADY_VENDORS-} MODULES=${RACKREADY_MODULES-}
    LOG=${RACKREADY_LOG-} NODES=${RACKREADY_NODES-} RACKREADY_TOOLS=${RACKREADY_TOOLS-}
    seconds=${RACKREADY_COUNTER_SECONDS:-1}

    trap 'rm -rf ${scratch:+"$scratch"}' EXIT
    trap 'exit 1' HUP INT PIPE TERM
    for place in /tmp /dev/shm /run; do
        scratch=$(mktemp -d "$place/rackready.XXXXXX") || continue
        echo >"$scratch/test" && break
        rm -rf "$scratch" # the disk is full
        scratch=
    done

    if [ "${RACKREADY_TRANSPORT-}" = 1 ]; then packed; else capture; fi
    return 0
}

# From standard input nothing runs before the last line has come; and no command may read it.
main </dev/null 2>/dev/null
