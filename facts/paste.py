"""Pasted text to evidence: which command printed which lines, known by its line or by its shape."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rackready.facts.commands import Simple, shared_out, simple_commands
from rackready.facts.model import Evidence, Gap
from rackready.facts.readers.reader import plain
from rackready.facts.readers.registry import by_command, by_line, by_shape

LARGEST = 32 << 20  # bytes of one file; of a larger one, both ends are read
_SHAPED = 1 << 18  # characters at either end in which the shape of an output is looked for
_MOST_ROWS = 500_000  # lines at either end of a text of more; each costs memory of its own
_LONGEST_LINE = 16_384  # characters; no tool prints longer ones

# root@c1:/#   [root@node1 ~]#   (base) ops@c1:~$   [10:11:12] root@c1:~#   bash-5.1#   c1:~ #
# and no time that a log's lines begin with: 2026-03-13T22:26:02Z # nThread 1
_FULL_PROMPT = re.compile(
    r"[ \t]{0,4}(?!\d{4}-\d\d-\d\d)(?:\([\w.-]{1,40}\) ?)?(?:\[?\d\d:\d\d(?::\d\d)?\]? )?"
    r"(?:\[[\w.-]{1,64}@[^\]\n]{1,200}\]|[\w.-]{1,64}@[\w.-]{1,128}(?::[^#$\n]{0,200})?"
    r"|(?:bash|sh|zsh)-[\d.]{1,8}|[\w.-]{1,64}:[^#$\s]{1,200}) ?[#$](?:[ \t]+(\S.*)|[ \t]*)$"
)
_BARE_PROMPT = re.compile(r"([#$])[ \t]+(\S.*)$")
# Lines around outputs: what script(1) adds to a session, and the fences of a ticket.
_AROUND = re.compile(r"Script (?:started|done)\b.{0,12} \d|```")
_STATUS = re.compile(r"\s*(\d{1,3})\s*")

# What may stand behind a bare prompt. Outputs hold lines with a leading "#" too: only a line that
# begins with a program which we or an administrator would run is a command.
_WORDS = """
all_gather_perf all_reduce_perf alltoall_perf apt apt-cache apt-get apt-mark arp awk bash
broadcast_perf cat cd chmod chown chronyc clush cma_roce_mode cma_roce_tos crictl ctr curl dcb
dcgmi dd depmod devlink df dkms dmesg dmidecode dnf docker dpkg dpkg-query dshbak du echo
efa_metadata egrep env ethtool export fi_info fi_pingpong findmnt flint fuser gather_perf getcap
getconf getenforce getent getfacl grep groups grubby hgcc hostname hostnamectl hwloc-ls
hypercube_perf ib_read_bw ib_read_lat ib_send_bw ib_send_lat ib_write_bw ib_write_lat
ibdev2netdev ibportstate ibstat ibstatus ibv_devices ibv_devinfo id ifconfig insmod ip iperf3
journalctl jq kubectl ldconfig ldd limits lldptool ls lsattr lsb_release lsblk lscpu lshw
lsinitramfs lsinitrd lsmod lsns lsof lspci lstopo macainfo mlnx_qos mlxconfig mlxfwmanager
mlxlink modinfo modprobe mount mpicc mpiexec mpirun mst mx-smi mxvs namei nerdctl netplan
networkctl nmcli nproc numactl numastat nv-fabricmanager nvcc nvidia-smi od ofed_info ompi_info
pdsh perfquery pgrep pidof ping pip pip3 podman ppu-smi printenv prlimit prterun prun ps pssh
pwd python python3 raw_ethernet_bw rdma readelf readlink realpath reduce_perf
reduce_scatter_perf rmmod rping rpm scatter_perf scontrol sed sendrecv_perf sestatus setpci sh
show_drop show_gids sinfo squeue srun ss ssh ssh-add ssh-copy-id ssh-keygen ssh-keyscan sshd
sshpass stat strings su sudo sysctl systemctl tail tc tcpdump timedatectl torchrun tree udevadm
ulimit uname update-grub uptime vmstat wc whereis which whoami xxd yum zcat zypper
"""
_PROGRAMS = frozenset(_WORDS.split())
# Commands that are also the first words of comments: only with what no sentence has.
_SENTENCES = "set find time test host file type for if while free last sort head top touch w route"
_AMBIGUOUS = frozenset(_SENTENCES.split())
_SHELL = re.compile(r"[/$|;]| -\w")
# These print what others say: the log of a job, a tool on another host or in a container.
_STARTERS = {"mpirun", "mpiexec", "prterun", "srun", "torchrun", "ssh", "docker", "kubectl"}
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
    if text.count("\n") > 2 * _MOST_ROWS:
        rows = text.split("\n", _MOST_ROWS)
        text = "\n".join((*rows[:-1], *rows[-1].rsplit("\n", _MOST_ROWS)[1:]))
        gaps.append(
            Gap(name, f"it has more than {2 * _MOST_ROWS:,} lines: only both ends were read")
        )
    for line, body in _with_status(_blocks(plain(text))):
        found = list(_evidence(line, *body, host))
        evidence += found
        if not found and (line or body[0].strip()):
            why = _why_nothing(line, body[0]) or "nothing here is known"
            gaps.append(Gap(name, f"{why}: {(line or body[0].strip())[:60]!r}"))
    return Pasted(tuple(evidence), tuple(gaps))


def _why_nothing(line: str, text: str) -> str:
    commands = simple_commands(line)
    if _says_nothing(text):
        return "it did not run to its end"
    if any(item.quiet for item in commands) and not text.strip():
        return "its errors were thrown away, so that no output tells nothing"
    if any(_counts(item) for item in commands):
        return "only counted, not shown"
    return "" if shared_out(line, text) else "which of the commands printed this can't be told"


# What a shell or ssh says where a command said nothing itself.
_NOTHING = re.compile(
    r"Killed|Terminated|Aborted|Hangup|Alarm clock|Segmentation fault(?: \(core dumped\))?"
    r"|\^C|\.{3,6}|<snip>|\[\.{3}\]|timeout(?:: .{0,200})?|Connection to \S{1,200} closed\.?"
    r"|\[sudo\] password for \S{1,80}:|sudo: a (?:terminal|password) is required.{0,120}"
)


def _says_nothing(text: str) -> bool:
    """Only words around an output, none of its own."""
    if len(text) > 2000:
        return False
    rows = [row.strip() for row in text.split("\n") if row.strip()]
    return bool(rows) and all(map(_NOTHING.fullmatch, rows))


def _counts(item: Simple) -> bool:
    """Does a pipe end in the number or the checksum of lines instead of the lines?"""
    return any(re.match(r"(?:wc|\w{1,8}sum|grep\s+(?:-\w+\s+)*-\w*c)\b", f) for f in item.filters)


def _evidence(line: str, text: str, status: int | None, host: str) -> Iterator[Evidence]:
    if not line:
        for reader in by_shape(_ends(text)):
            yield Evidence(host, reader.name, text)
        return
    if _says_nothing(text) and not any(c.program in _STARTERS for c in simple_commands(line)):
        return
    if by_line(line):
        yield Evidence(host, line, text, 0 if status is None else status, line=line)
        return
    for simple, part in shared_out(line, text):
        if _counts(simple) or (simple.quiet and not part.strip()):
            continue
        known = by_command(simple.command)
        if known:
            yield _of(host, simple, part, status, line)
        if known is None or simple.program in _STARTERS:
            # cat lspci.txt, a script of one's own, or the log of what was started
            for reader in by_shape(_ends(part)):
                if reader is known:
                    continue
                yield replace(_of(host, simple, part, status, line), command=reader.name)


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
        if _AROUND.match(row):
            continue
        if command is None:
            body.append(row)
            continue
        if line or any(map(str.strip, body)):
            yield line, _joined(body)
        line, body = command, []
    if line or any(map(str.strip, body)):
        yield line, _joined(body)


def _joined(body: list[str]) -> str:
    # A prompt at which nothing was typed; in the middle, a bare # is a line of an output.
    end = len(body) - (not body or not body[-1])
    while end > 0 and body[end - 1].strip() in ("#", "$"):
        end -= 1
    body = body[: max(end, 0)]
    return "".join(f"{row}\n" for row in body)


def _command_of(row: str) -> str | None:
    """The command line that a row shows behind a prompt; "" for a prompt alone."""
    if not row or ("#" not in row and "$" not in row):
        return None
    if full := _FULL_PROMPT.match(row):
        return (full[1] or "").strip()
    bare = _BARE_PROMPT.match(row)
    if bare is None:
        return None
    line = bare[2].strip()
    simple = simple_commands(line[:400])[0]
    known = simple.program in _PROGRAMS and not _COMMENTED.match(line)
    if simple.program in _AMBIGUOUS or line.split()[0] in _AMBIGUOUS:
        known = _SHELL.search(line) is not None
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
