# shellcheck shell=sh
# What follows converge.sh in scripts that take something back: undo and remove.
# shellcheck disable=SC2154  # the variables of converge.sh

reject() { # CHECK SUBJECT REASON: an entry that cannot be taken back
    start "$1" "$2" || return 0
    refuse "$3"
}

undone() { # ID OUTCOME: the journal says so, and only then the answer
    if write_journal undo "\"undoes\":\"$1\""; then
        answer "$2"
    else
        refuse "$reason"
    fi
}

taken_back() { # ID PATH BEFORE LINE: after a look; LINE of the manifest tells of what was before
    if [ "$found" != "$3" ]; then
        refuse "$failure"
        return
    fi
    [ "$outcome" = same ] || touches "$2"
    case $3 in absent) settle "gone $2" ;; *) settle "$4" ;; esac
    undone "$1" "$outcome"
}

undo_file() { # ID CHECK PATH BEFORE BACKUP AFTER
    start_path "$2" file "$3" || return 0
    file=$R$3
    rm -f "$file.rackready-new" 2>/dev/null # of a run that was killed
    look "$file"
    if [ "$found" = "$4" ]; then
        outcome=same
    elif [ "$found" != "$6" ]; then
        refuse 'is no longer what rackready wrote'
        return
    elif [ "$4" = absent ]; then
        outcome='done'
        try rm -f "$file" && try flush "${file%/*}"
    else
        outcome='done'
        look "$R$5"
        if ! leads_there "$5" || [ "$found" != "$4" ]; then
            refuse "the backup $5 is missing or damaged"
            return
        fi
        replace "$file" "$(stat -c %a "$R$5")" cp -p "$R$5" "$file.rackready-new"
    fi
    failure=$reason
    look "$file"
    taken_back "$1" "$3" "$4" "file $3 $4 0$(stat -c %a "$file" 2>/dev/null)"
}

undo_link() { # ID CHECK PATH BEFORE AFTER
    start_path "$2" link "$3" || return 0
    outcome='done'
    look_link "$R$3"
    if [ "$found" = "$4" ]; then
        outcome=same
    elif [ "$found" = "$5" ]; then
        try rm -f "$R$3" && { [ "$4" = absent ] || try ln -s "$4" "$R$3"; } && try flush "$R${3%/*}"
    elif [ "$found" != absent ]; then # which is what a kill between rm and ln leaves
        refuse 'is no longer what rackready wrote'
        return
    else
        try ln -s "$4" "$R$3"
    fi
    failure=$reason
    look_link "$R$3"
    taken_back "$1" "$3" "$4" "link $3 $4"
}

remove_folder() { # PATH: sets outcome; false, with reason, where it has to stay
    outcome=same
    [ -d "$R$1" ] || return 0
    outcome='done'
    try rmdir "$R$1" && try flush "$R${1%/*}/"
}

undo_dir() { # ID CHECK PATH
    start_path "$2" dir "$3" || return 0
    if remove_folder "$3"; then
        settle "gone $3"
        undone "$1" "$outcome"
    else
        refuse "$reason"
    fi
}

undo_setting() { # ID CHECK SCRIPT SUBJECT BEFORE AFTER CARD
    start "$2" "$4" || return 0
    if ! ask "$3" "$4"; then
        refuse "$reason"
    elif [ "$value" = "$5" ]; then
        undone "$1" same
    elif [ "$value" != "$6" ]; then
        refuse "reads $value, which is no longer what rackready set ($6)"
    elif set_value "$3" "$4" "$5" restore "$4" "$5" "$7"; then
        undone "$1" 'done'
    fi
}

remove() { # CHECK KIND PATH WRITTEN
    start_path "$1" "$2" "$3" || return 0
    outcome='done'
    case $2 in
    file)
        rm -f "$R$3.rackready-new" 2>/dev/null
        look "$R$3"
        ;;
    link) look_link "$R$3" ;;
    dir)
        if remove_folder "$3"; then
            settle "gone $3"
            answer "$outcome"
        else
            refuse "$reason"
        fi
        return
        ;;
    esac
    if [ "$found" = absent ]; then
        outcome=same
    elif [ "$found" != "$4" ]; then
        refuse 'is no longer what rackready wrote: kept'
        return
    elif ! try rm -f "$R$3"; then
        refuse "$reason"
        return
    else
        try flush "$R${3%/*}"
        touches "$3"
    fi
    settle "gone $3"
    answer "$outcome"
}

forget() { # CHECK: rackready's own records, when nothing else of it is left
    start "$1" "$state" || return 0
    if [ "$refused" -gt 0 ]; then
        refuse 'kept, since not everything could be removed'
        return
    fi
    rmdir "$R/etc/rackready" "$R/usr/local/lib/rackready" 2>/dev/null
    # The manifest goes last: as long as it is there, removing again begins where this was cut off.
    if try rm -rf "$R$state/backup" && try rm -f "$journal" && try rm -f "$manifest" &&
        { [ ! -d "$R$state" ] || try rmdir "$R$state"; } && try rm -f "$lock"; then
        answer 'done'
    else
        refuse "$reason"
    fi
}
