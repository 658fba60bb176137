# shellcheck shell=sh
# The functions of every converge script; converge.py writes the calls below them.
#
# One item goes: journal (what changes, and what it was), backup, manifest (what is ours), the
# change, its read-back, the answer. Each step is on disk before the next one begins, so that a
# kill at any point leaves nothing half written, nothing unknown to undo and nothing unowned.
# shellcheck disable=SC2154  # ours, our_folders: expressions for the paths of rackready
set -u
umask 022
R=${RACKREADY_ROOT-}
path=
for root in ${R:+"$R"} ''; do
    for folder in usr/sbin usr/bin sbin bin usr/local/sbin usr/local/bin; do
        path=${path:+$path:}$root/$folder
    done
done
PATH=$path
LC_ALL=C
export PATH LC_ALL

state=/var/lib/rackready
journal=$R$state/journal.jsonl
manifest=$R$state/manifest
lock=$R/run/rackready.lock
stop=   # not empty: why nothing more is written
locked= # not empty: the lock is ours
items=0 # answers given
refused=0
incomplete= # checks of which a file or link was refused
number=0 # of the newest journal line of this run
reload_systemd=
reload_udev=

begin() { # RUN OWNER emulated|real
    if [ -n "$R${RACKREADY_EMULATED-}" ] && [ ! -e "$R/.rackready-emulated" ]; then
        echo "rackready: $R/ is not the root of an emulated node" >&2
        exit 97
    fi
    run=$1
    now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
    kind=real
    [ ! -e "$R/.rackready-emulated" ] || kind=emulated
    if [ "$kind" != "$3" ]; then
        stop="planned for a node that is $3, and this one is $kind"
    elif [ "$kind" = real ] && [ "$(id -u)" != 0 ]; then
        stop='not root'
    elif ! command -v flock >/dev/null; then
        stop='flock is missing (package util-linux)'
    elif ! command -v sha256sum >/dev/null; then
        stop='sha256sum is missing (package coreutils)'
    elif ! leads_there "$state/backup/"; then
        stop="a link leads from $state to elsewhere"
    else
        acquire "$2 run $run pid $$ since $now"
    fi
    [ ! -e "$journal" ] || number=$(grep -cF "\"id\":\"$run:" "$journal")
}

acquire() { # HOLDER: takes the lock, or says in stop who has it
    # A redirection that fails in exec would end the shell: try it in a shell of its own.
    if ! try touch_file "$lock"; then
        stop=$reason
        return
    fi
    tries=0
    while [ "$tries" -le 10 ]; do
        [ "$tries" = 0 ] || sleep 1
        tries=$((tries + 1))
        exec 9>>"$lock"
        flock -n 9 || continue
        # A record is left over where a run was killed: it may not have reloaded anything.
        [ ! -s "$lock" ] || reload_systemd=converge reload_udev=converge
        if ! try hold "$1"; then
            stop=$reason
            return
        fi
        # Removing rackready removes the file as well: then what was locked is not the lock.
        [ "$(tail -n 1 "$lock" 2>/dev/null)" = "$1" ] || continue
        locked=yes
        return
    done
    stop="locked by $(tail -n 1 "$lock" 2>/dev/null)"
}

touch_file() {
    : >>"$1"
}

hold() {
    echo "$1" >&9
}

finish() {
    reload "$reload_systemd" "$R/run/systemd/system" systemctl daemon-reload
    reload "$reload_udev" "$R/run/udev/control" udevadm control --reload
    # An empty lock file tells the next run that this one came to its end.
    [ -z "$locked" ] || [ ! -e "$lock" ] || : >"$lock"
    echo "rackready end $items"
}

reload() { # CHECK RUNNING COMMAND ...: where something it reads was changed and it runs
    [ -n "$1" ] && [ -e "$2" ] || return 0
    check=$1 subject=$3
    shift 2
    # An emulated node has its own, or none: the machine's is not to be reloaded for it.
    case $(command -v "$1") in
    "$R"/*) try "$@" || refuse "$* failed: $reason" ;;
    esac
}

# --- answers

start() { # CHECK SUBJECT: the next item; false when nothing more is written
    check=$1 subject=$2
    [ -z "$stop" ] || { refuse "$stop"; return 1; }
}

start_path() { # CHECK file|link|dir PATH: the same for what has a path, which has to be ours
    start "$1" "$3" || return 1
    case $2 in dir) rule=$our_folders ;; *) rule=$ours ;; esac
    if ! printf '%s\n' "$3" | grep -Eqx -e "$rule" || ! leads_there "$3"; then
        refuse "not a path of rackready's"
        return 1
    fi
}

leads_there() { # PATH: no link among the folders above it leads elsewhere
    folder=${1%/*}
    while [ ! -e "$R$folder/" ] && [ ! -L "$R$folder" ]; do
        folder=${folder%/*} # it is still to be made
    done
    top=$(cd -P "$R/" && pwd -P) && real=$(cd -P "$R$folder/" 2>/dev/null && pwd -P) &&
        [ "${real%/}" = "${top%/}$folder" ]
}

answer() { # OUTCOME [REASON]
    items=$((items + 1))
    echo "rackready item $check $subject $1${2:+ $2}"
}

refuse() { # REASON: what the system says can be of several lines, and of any bytes
    refused=$((refused + 1))
    answer refused "$(printf %s "$1" | tail -n 1 | tr -c ' -~' '?' | cut -c 1-300)"
}

try() { # COMMAND ...: without output; reason is what it says on stderr when it fails
    reason=$("$@" 2>&1 >/dev/null) && return 0
    reason=${reason:-"$1 failed with status $?"}
    return 1
}

# --- what is on disk

look() { # FILE: sets found to its SHA-256, "absent", or "other" when it is no regular file
    found=absent
    if [ -L "$1" ]; then
        found=other
    elif [ -f "$1" ]; then
        found=$(sha256sum <"$1") || found=other
        found=${found%% *}
    elif [ -e "$1" ]; then
        found=other
    fi
}

look_link() { # LINK: sets found to its target, "absent", or "other" when it is no link
    found=absent
    if [ -L "$1" ]; then
        found=$(readlink "$1")
        plain "$found" || found=other
    elif [ -e "$1" ]; then
        found=other
    fi
}

plain() { # WORD: can stand in a line of journal and manifest as it is
    case $1 in '' | *[!A-Za-z0-9_./:@%+,=-]*) return 1 ;; esac
}

flush() { # FILE or FOLDER: on disk; a sync that takes no name syncs all
    sync "$1" 2>/dev/null || sync
}

append() { # FILE LINE
    # Half a line, of a run that was cut off or of a full disk, must not spoil this one. Where power
    # was lost it can end in zero bytes, which no variable holds.
    cut=$(tail -c 1 "$1" 2>/dev/null | od -An -tx1)
    case $cut in *0a*) cut= ;; esac
    cat >>"$1" <<LINE && flush "$1"
${cut:+
}$2
LINE
}

write_journal() { # KIND FIELDS: one line, before what it describes; FIELDS is JSON
    if [ ! -d "$R$state" ]; then
        if ! try mkdir -p "$R$state" || ! try flush "$R${state%/*}"; then
            stop=$reason
            return 1
        fi
    fi
    number=$((number + 1))
    set -- "\"id\":\"$run:$number\",\"time\":\"$now\",\"run\":\"$run\"" "$@"
    set -- "{$1,\"check\":\"$check\",\"kind\":\"$2\",\"subject\":\"$subject\",$3}"
    # What cannot be journaled is not done, nor is anything after it.
    try append "$journal" "$1" || { stop="journal: $reason"; reason=$stop; return 1; }
}

record() { # LINE of the manifest
    try append "$manifest" "$1"
}

recorded() { # PATH: sets was to the newest line of the manifest; false when it is not ours
    was="gone $1"
    [ ! -e "$manifest" ] || while read -r kind name rest; do
        [ "$name" != "$1" ] || was="$kind $name${rest:+ $rest}"
    done <"$manifest"
    [ "$was" != "gone $1" ]
}

settle() { # LINE: the manifest says so, if it does not yet
    name=${1#* }
    recorded "${name%% *}"
    [ "$was" = "$1" ] || record "$1"
}

touches() { # PATH: what has to be reloaded at the end
    case $1 in
    /etc/systemd/*) reload_systemd=$check ;;
    /etc/udev/*) reload_udev=$check ;;
    esac
}

make_parents() { # PATH: the folders above it, each of them journaled
    item=$subject
    folder=
    left=${1#/}
    while [ "$left" != "${left#*/}" ]; do
        folder=$folder/${left%%/*}
        left=${left#*/}
        [ ! -d "$R$folder" ] || continue
        subject=$folder
        if ! write_journal dir '"before":"absent","after":""' || ! record "dir $folder" ||
            ! try mkdir "$R$folder" || ! try flush "$R${folder%/*}/"; then
            subject=$item
            return 1
        fi
    done
    subject=$item
}

fill() { # FILE SHA256: from stdin; a here-document whose writer was killed just ends early
    cat >"$1" && look "$1" && [ "$found" = "$2" ]
}

replace() { # FILE MODE COMMAND ...: COMMAND makes the new content as FILE.rackready-new
    file=$1 mode=$2 new=$1.rackready-new
    shift 2
    if try "$@" && try chmod "$mode" "$new" && try flush "$new" && try mv -f "$new" "$file"; then
        try flush "${file%/*}"
    else
        rm -f "$new" 2>/dev/null
        return 1
    fi
}

holds() { # FILE SHA256 MODE: it is what is wanted; sets found
    look "$1"
    [ "$found" = "$2" ] && [ "$(stat -c %a "$1")" = "$3" ]
}

# --- steps

refuse_part() { # REASON: what applies or keeps the settings of this check is not in place
    incomplete="$incomplete $check"
    refuse "$1"
}

put_file() { # CHECK PATH MODE SHA256 <TEXT
    start_path "$1" file "$2" || return 0
    file=$R$2
    if holds "$file" "$4" "$3"; then
        answer same
        return
    fi
    if [ "$found" = other ]; then
        refuse_part 'exists and is not a regular file'
        return
    fi
    if ! recorded "$2" && [ "$found" != absent ]; then
        refuse_part 'exists and was not written by rackready'
        return
    fi
    before=$found
    make_parents "$2" && back_up "$2" "$4" "$3" && record "file $2 $4 0$3" &&
        replace "$file" "$3" fill "$file.rackready-new" "$4"
    failure=$reason
    if holds "$file" "$4" "$3"; then
        touches "$2"
        answer 'done'
    else
        refuse_part "$failure"
        [ "$found" != absent ] || settle "gone $2"
    fi
}

back_up() { # PATH SHA256 MODE: journals that $R$PATH, which is as before says, is to be replaced
    backup=
    [ "$before" = absent ] || backup=$state/backup/$run/$((number + 1))$1
    set -- "$1" "\"before\":\"$before\",\"backup\":\"$backup\",\"after\":\"$2\",\"mode\":\"0$3\""
    write_journal file "$2" || return 1
    [ -n "$backup" ] || return 0
    # A person may have put a secret in: the copies are for root alone.
    try mkdir -p -m 700 "$R$state/backup" && try mkdir -p "$R${backup%/*}" &&
        try cp -p "$R$1" "$R$backup" && try flush "$R$backup"
}

put_link() { # CHECK PATH TARGET
    start_path "$1" link "$2" || return 0
    look_link "$R$2"
    if [ "$found" = "$3" ]; then
        answer same
        return
    fi
    if [ "$found" != absent ] && ! { recorded "$2" && [ "$was" = "link $2 $found" ]; }; then
        refuse_part 'exists and was not written by rackready'
        return
    fi
    make_parents "$2" && write_journal link "\"before\":\"$found\",\"after\":\"$3\"" &&
        record "link $2 $3" && try rm -f "$R$2" && try ln -s "$3" "$R$2" && try flush "$R${2%/*}"
    failure=$reason
    look_link "$R$2"
    if [ "$found" = "$3" ]; then
        touches "$2"
        answer 'done'
    else
        refuse_part "$failure"
        [ "$found" != absent ] || settle "gone $2"
    fi
}

ask() { # SCRIPT SUBJECT: sets value to what the script reads; false, with reason, if it cannot
    reason="$1 is not installed"
    [ -e "$R$1" ] || return 1
    # The value on stdout, the reason on stderr: only one of them is there.
    value=$(sh "$R$1" read "$2" 2>&1) || { reason=$value; return 1; }
    reason="$1 read $2 printed no value"
    plain "$value"
}

set_value() { # SCRIPT SUBJECT VALUE COMMAND ...: answers
    script=$1 target=$2 wanted=$3
    shift 3
    said=$(sh "$R$script" "$@" 2>&1)
    if ! ask "$script" "$target"; then
        refuse "$reason"
        return 1
    fi
    if [ "$value" != "$wanted" ]; then
        # The script's own words, without its name and the subject.
        said=$(printf %s "$said" | tail -n 1)
        refuse "${said:+${said#*: refused: }; }it reads $value, not $wanted"
        return 1
    fi
}

apply_setting() { # CHECK SCRIPT SUBJECT VALUE CARD
    start "$1" "$3" || return 0
    blocked=
    case "$incomplete " in *" $check "*) blocked=yes ;; esac
    if ! ask "$2" "$3"; then
        refuse "$reason"
    elif [ "$value" = "$4" ]; then
        answer same
    elif [ -n "$blocked" ]; then
        # The script sets what its configuration says: that may be something else than wanted.
        refuse "still $value: a file that sets it was refused"
    elif ! write_journal setting \
        "\"script\":\"$2\",\"card\":\"$5\",\"before\":\"$value\",\"after\":\"$4\""; then
        refuse "$reason"
    elif set_value "$2" "$3" "$4" apply "$3"; then
        answer 'done'
    fi
}
