"""Pasted text to evidence: which command printed which lines, known by its line or by its shape."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rackready.facts.commands import Simple, shared_out, simple_commands
from rackready.facts.model import Evidence, Gap
from rackready.facts.readers.reader import plain
from rackready.facts.readers.registry import by_command, by_line, by_shape

LARGEST = 32 << 20  # bytes of one file; of a larger one, both ends are read
_SHAPED = 1 << 18  # characters at either end in which the shape of an output is looked for
_LONGEST_LINE = 16_384  # characters; no tool prints longer ones

# root@c1:/#   [root@node1 ~]#   (base) ops@c1:~$   bash-5.1#   c1:~ #   c1#
_FULL_PROMPT = re.compile(
    r"[ \t]{0,4}(?:\([\w.-]{1,40}\) ?)?"
    r"(?:\[[\w.-]{1,64}@[^\]\n]{1,200}\]|[\w.-]{1,64}@[\w.-]{1,128}(?::[^#$\n]{0,200})?"
    r"|(?:bash|sh|zsh)-[\d.]{1,8}|[\w.-]{1,64}:[^#$\s]{1,200}) ?[#$](?:[ \t]+(\S.*)|[ \t]*)$"
)
_BARE_PROMPT = re.compile(r"([#$])[ \t]+(\S.*)$")
_STATUS = re.compile(r"\s*(\d{1,3})\s*")

# What may stand behind a bare prompt. Outputs hold lines with a leading "#" too: only a line that
# begins with a program which we or an administrator would run is a command.
_WORDS = """
apt apt-cache apt-get apt-mark awk bash cat cd chmod chown chronyc cma_roce_mode
cma_roce_tos crictl ctr curl dcb dcgmi dd depmod devlink df dkms dmesg dmidecode dnf docker
dpkg dpkg-query du echo egrep env ethtool export fi_info fi_pingpong file find findmnt flint
for free fuser getconf getenforce getfacl getent grep groups grubby head hostname
hostnamectl hwloc-ls ib_read_bw ib_read_lat ib_send_bw ib_send_lat ib_write_bw ib_write_lat
ibdev2netdev ibportstate ibstat ibstatus ibv_devices ibv_devinfo id if insmod ip iperf3 jq
journalctl kubectl last ldconfig ldd limits ls lsattr lsb_release lsblk lscpu lshw
lsinitramfs lsinitrd lsmod lsof lspci lstopo mlnx_qos mlxconfig mlxfwmanager mlxlink modinfo
modprobe mount mpicc mpiexec mpirun mst mx-smi mxvs nerdctl netplan networkctl nmcli namei
numactl nvidia-smi nproc od ofed_info ompi_info perfquery pgrep pidof ping pip pip3 podman
ppu-smi printenv prlimit prterun prun ps python python3 pwd raw_ethernet_bw rdma readelf
readlink realpath rmmod route rpm rping sed sestatus set setpci sh show_gids show_drop sinfo
scontrol squeue srun ss ssh ssh-add ssh-copy-id ssh-keygen ssh-keyscan sshd sort stat
strings su sudo sysctl systemctl tail tc tcpdump test time timedatectl top touch torchrun
tree type udevadm ulimit uname update-grub uptime vmstat w wc which while whoami whereis xxd
yum zcat zypper alltoall_perf all_gather_perf all_reduce_perf broadcast_perf reduce_perf
reduce_scatter_perf sendrecv_perf gather_perf scatter_perf hypercube_perf nv-fabricmanager
efa_metadata
"""
_PROGRAMS = frozenset(_WORDS.split())
_COMMENTED = re.compile(r"[A-Z][\w-]*\b")  # "# Host x found", "# Using devices": not in lower case


@dataclass(frozen=True)
class Pasted:
    """What a pasted text holds: evidence, and the parts that nothing could be made of."""

    evidence: tuple[Evidence, ...]
    gaps: tuple[Gap, ...] = ()


def read_paste(text: str, host: str, name: str) -> Pasted:
    """
    Evidence of a text that holds outputs of tools, one after another.

    ``name`` is the file's, for gaps. The evidence's command is the simple command that printed it;
    where only the shape tells, the name of the reader that knows it.
    """
    evidence: list[Evidence] = []
    gaps: list[Gap] = []
    for line, body in _with_status(_blocks(plain(text))):
        found = list(_evidence(line, *body, host))
        evidence += found
        if not found and (line or body[0].strip()):
            gaps.append(Gap(name, f"nothing here is known: {(line or body[0].strip())[:60]!r}"))
    return Pasted(tuple(evidence), tuple(gaps))


def _evidence(line: str, text: str, status: int | None, host: str) -> Iterator[Evidence]:
    if not line:
        for reader in by_shape(_ends(text)):
            yield Evidence(host, reader.name, text)
        return
    if by_line(line):
        yield Evidence(host, line, text, 0 if status is None else status, line=line)
        return
    for simple, part in shared_out(line, text):
        if by_command(simple.command):
            yield _of(host, simple, part, status, line)
        else:
            # cat lspci.txt, or a script of one's own that prints what a tool does
            for reader in by_shape(_ends(part)):
                yield Evidence(host, reader.name, part, 0 if status is None else status, line=line)


def _of(host: str, simple: Simple, text: str, status: int | None, line: str) -> Evidence:
    known = 0 if status is None else status
    return Evidence(host, simple.command, text, known, filters=simple.filters, line=line)


def _ends(text: str) -> str:
    return text if len(text) <= 2 * _SHAPED else f"{text[:_SHAPED]}\n{text[-_SHAPED:]}"


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Pairs of a command line ("" = none was pasted) and what stands below it."""
    line, body = "", list[str]()
    for row in text.split("\n"):
        command = None if len(row) > _LONGEST_LINE else _command_of(row)
        if command is None:
            body.append(row)
            continue
        if line or any(map(str.strip, body)):
            yield line, _joined(body)
        line, body = command, []
    if line or any(map(str.strip, body)):
        yield line, _joined(body)


def _joined(body: list[str]) -> str:
    if body and not body[-1]:
        body = body[:-1]
    return "".join(f"{row}\n" for row in body)


def _command_of(row: str) -> str | None:
    """The command line that a row shows behind a prompt; "" for a prompt alone."""
    if not row or ("#" not in row and "$" not in row):
        return None
    if full := _FULL_PROMPT.match(row):
        return (full[1] or "").strip()
    if row.strip() in ("#", "$"):
        return None if row[0] in " \t" else ""
    bare = _BARE_PROMPT.match(row)
    if bare is None:
        return None
    line = bare[2].strip()
    simple = simple_commands(line[:400])[0]
    known = simple.program in _PROGRAMS and not _COMMENTED.match(line)
    return line if known or by_command(simple.command) else None


def _with_status(
    blocks: Iterator[tuple[str, str]],
) -> Iterator[tuple[str, tuple[str, int | None]]]:
    """Blocks with the exit status that ``echo $?`` tells, on the same line or on the next one."""
    pending: tuple[str, str] | None = None
    for line, text in blocks:
        if line == "echo $?" and pending is not None and (found := _STATUS.fullmatch(text)):
            yield pending[0], (pending[1], int(found[1]))
            pending = None
            continue
        if pending is not None:
            yield pending[0], (pending[1], None)
        pending = None
        if re.search(r";\s*echo\s+\$\?$", line):
            body, _, last = text.rstrip("\n").rpartition("\n")
            if _STATUS.fullmatch(last):
                plain = re.sub(r";\s*echo\s+\$\?$", "", line)
                yield plain, (f"{body}\n" if body else "", int(last))
                continue
        if not line and not text.strip():
            continue
        pending = line, text
    if pending is not None:
        yield pending[0], (pending[1], None)
