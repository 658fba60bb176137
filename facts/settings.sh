#!/bin/sh
# Part of the probe: how the node is set up for RDMA, beside what it is made of. Read before
# probe.sh, whose functions these call and which calls `settings`.
# shellcheck disable=SC2034,SC2154 # variables that are set or used in probe.sh

SSHD='^(strictmodes|pubkeyauthentication|usepam) '

settings() {
    own=${PATH%%:/usr/sbin:*} # without the folders of the machine that a tree lies on
    NICS=$(nics)
    show cat /proc/sys/kernel/kptr_restrict
    pci_settings
    module_settings
    limits
    logins
    addresses
    qos
}

# --- Short forms --------------------------------------------------------------------------------

lines() { # PATTERN GLOB...: lines PATH:LINE
    pattern=$1
    shift
    section "grep -sHE '$pattern' $*" globbed grep -sHE "$pattern" "$@"
}

globbed() { # WORD...: a command whose globs lie in the tree
    IFS=
    for word; do
        shift
        # shellcheck disable=SC2086 # a glob
        set -- "$@" $word
    done
    exec "$@"
}

has() { (PATH=$own && command -v "$1" >/dev/null); } # PROGRAM: is it the node's own?

also() { ! has "$1" || tool "$@"; } # WORD...: a tool that many nodes do without

nics() { # interfaces of RDMA devices, without those of virtual functions
    for path in "$R"/sys/class/infiniband/*/device; do
        [ -e "$path/physfn" ] || ls "$path/net"
    done | sort -u | head -n 16
}

# --- Domains ------------------------------------------------------------------------------------

pci_settings() {
    show ls /sys/class/iommu
    lines . '/sys/kernel/iommu_groups/*/type'
    set --
    for path in "$R"/sys/bus/pci/devices/*; do
        ! matters "$path" || set -- "$@" "/sys/kernel/iommu_groups/*/devices/${path##*/}"
    done
    [ $# = 0 ] || section "ls -d $*" globbed ls -d "$@"
    # Counters of errors that are not zero: the kernel holds them, no device is read.
    set -- '/sys/bus/pci/devices/*/aer_dev_'
    lines '[1-9][0-9]*$' "$1correctable" "$1nonfatal" "$1fatal"
}

module_settings() {
    names=$(printf '%s' "$MODULES" | tr ' ' '|')
    [ -z "$names" ] ||
        lines "^ *(options|blacklist|install|softdep) +($names)" '/etc/modprobe.d/*.conf'
    lines '^[^#;]' '/etc/modules-load.d/*.conf'
    # Where a driver may be told the addresses of these symbols.
    set -- "$R"/sys/module/*/parameters/*reg_addr
    [ ! -e "$1" ] || show grep peer_memory_client /proc/kallsyms
}

limits() {
    section "grep 'Max locked memory' /proc/self/limits" \
        grep 'Max locked memory' /proc/self/limits
    for launcher in $(launchers); do
        section "grep 'Max locked memory' /proc/\$(pidof ${launcher#*:})/limits" \
            grep 'Max locked memory' "/proc/${launcher%%:*}/limits"
    done
}

# PID:NAME of the oldest process of each service: a job inherits the limits of one of them.
launchers() {
    grep -xE "$SCHEDULERS|dockerd|containerd|crio|sshd" "$R"/proc/[0-9]*/comm /dev/null |
        sed 's|^.*/\([0-9]*\)/comm:|\1:|' | sort -n | awk -F: '!seen[$2]++'
}

logins() { # what an SSH server looks at before it takes a key
    home=${HOME:-/root}
    [ -z "$R" ] || home=/root
    set -- "$home" "$home/.ssh" "$home/.ssh/authorized_keys"
    section "stat -L -c '%a %n' $*" stat -L -c '%a %n' "$@"
    ! has sshd || section "sshd -T | grep -E '$SSHD'" sshd_options
}

sshd_options() { "$(command -v sshd)" -T | grep -E "$SSHD"; } # it wants to be called by its path

addresses() {
    tool ip rule
    tool ip route
    for nic in all $NICS; do
        folder=/proc/sys/net/ipv4/conf/$nic
        lines . "$folder/arp_announce" "$folder/arp_ignore" "$folder/rp_filter"
    done
}

qos() {
    group=net
    lines . '/sys/class/net/*/ecn/roce_[nr]p/enable/*'
    group=
    lines . '/sys/kernel/config/rdma_cm/*/ports/*/default_roce_*'
    also systemctl is-active lldpad
    for nic in $NICS; do
        if has mlnx_qos; then
            tool mlnx_qos -i "$nic"
        else
            also dcb pfc show dev "$nic"
            also dcb app show dev "$nic"
        fi
    done
}
