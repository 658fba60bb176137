"""Limits of locked memory: ulimit, /proc/PID/limits, prlimit, systemd, limits.conf, logs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackready.facts.parts.limits import (
    UNLIMITED,
    LimitRule,
    MemLock,
    MemLockRefusal,
    PamLimits,
    ProcessId,
)
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.search import known_search

_UNLIMITED = ("unlimited", "infinity", "-1", str(2**64 - 1))
_SCALES = {"": 1024, "k": 1024, "m": 1 << 20, "g": 1 << 30}

# A value with the host or the rank that srun -l, pdsh or a loop puts before it: in KiB.
_VALUE = re.compile(r"(?:([\w.\[\]-]{1,64})[: ]\s*)?(unlimited|-1|\d{1,15})$")
# bash: max locked memory (kbytes, -l) 64; dash: locked memory(kbytes) 64;
# zsh: -l: locked-in-memory size (kbytes) 64; limit of zsh and csh: memorylocked 64kB
_NAMED = re.compile(
    r"(?:([\w.\[\]-]{1,64}): *)?"
    r"(?:max )?(?:locked[ -](?:in-)?memory(?: size)?|memorylocked|memlock)"
    r" {0,40}(?:\([^)]{1,20}\))? {0,40}(?:\(-l\))? {1,80}(unlimited|\d{1,15}) {0,8}([kKmMgG]?)[bB]?"
    r"(?:ytes)?$"
)
_PROC = re.compile(r"(?:[\w.-]{1,64}: *)?Max locked memory\s+(\w+)\s+(\w+)\s+bytes")
_PRLIMIT = re.compile(r"MEMLOCK\s+max locked-in-memory address space\s+(\w+)\s+(\w+)")
_JOB = re.compile(r"(?:srun|mpirun|mpiexec|prterun|prun|sbatch|salloc|bsub|torchrun)\b")
_CONTAINER = re.compile(
    r"(?:sudo\s+(?:-\w+\s+)*)?(?:/\S{0,80}/)?(?:[\w-]*docker|podman|nerdctl|crictl|kubectl|ctr)\s"
)
_GAP = re.compile(r"\n[ \t]{0,80}\n(?:[ \t]{0,80}\n){0,900}")
_SERVICE = re.compile(
    r"(?:pidof|pgrep)\s{1,8}(?:-\w{1,20}\s{1,8}){0,9}['\"]?([\w.@-]{1,80})"
    r"|MainPID[^)]{0,40}?\s(\w[\w.@-]{0,80})[\s)'\"]"
    r"|systemctl\s+show\s+(\w[\w.@-]{0,80})[^)]{0,60}MainPID"
)
_OWN = re.compile(r"/proc/(?:self|\$\$|\$PPID)/limits|prlimit(?:\s{1,8}--?(?!p)\S{1,40}){0,9}$")
_PID = re.compile(r"/proc/(\d{1,8})/|--?p(?:id)?[ =]?(\d{1,8})\b")
_UNIT_LIMIT = re.compile(r"(LimitMEMLOCK|LimitMEMLOCKSoft)=(\S+)$")
_RULE = re.compile(
    r"(?:(/[^:\s]{1,200}):(?:\d{1,6}:)?)?\s*([*%@\w][\w.@*:%-]{0,64})\s+(soft|hard|-)\s+memlock\s+(\S+)"
)
_REFUSED = re.compile(
    r"(ibv_\w{3,40})\b[^\n]{0,160}?Cannot allocate memory|Please set max locked memory"
    r"|RLIMIT_MEMLOCK is (\d{1,15}) bytes|Memlock limit: +(\d{1,15}|unlimited)"
)
_CURRENT = re.compile(r"\(current: (\d{1,15}|unlimited)(?: ([kMG]?)(?:i?B|bytes))?\)")


def _bytes(value: str, scale: int = 1) -> int | None:
    """Bytes of a value that a tool prints in units of ``scale``; None when it is no number."""
    if value.lower() in _UNLIMITED:
        return UNLIMITED
    return int(value) * scale if value.isdecimal() and len(value) < 20 else None


def _place(output: Output) -> tuple[str, str]:
    """Where an ``ulimit`` ran."""
    if _JOB.match(output.program):
        return "job", ""
    if _CONTAINER.match(output.line or output.command):
        return "container", ""
    return "shell", ""


def read_ulimit(output: Output) -> Iterator[MemLock]:
    """``ulimit -l`` (KiB) and ``ulimit -a`` of all shells, also within srun, ssh or a container."""
    place, name = _place(output)
    # In the output of "ulimit -a" a line says what it counts; that of "ulimit -l" is the value.
    alone = re.search(r"ulimit\s+-[SH]*l", output.command) is not None
    rows = list(output.lines())
    if alone and output.program == "ulimit" and not all(map(_VALUE.match, rows)):
        alone = False  # what stands below it is the output of something else
    for line in rows:
        if match := _NAMED.match(line):
            value = _bytes(match[2], _SCALES[match[3].lower()])
        elif alone and (match := _VALUE.match(line)):
            value = _bytes(match[2], 1024)
        else:
            continue
        if value is not None:
            # what stands before it is a host, or the number of a process
            host = match[1] if match[1] and match[1][0].isalpha() else ""
            yield MemLock(place, name or host, value)


def read_process_limits(output: Output) -> Iterator[MemLock]:
    """``/proc/PID/limits`` and ``prlimit``: bytes."""
    place, name = "process", ""
    line = output.line or output.command
    if match := _SERVICE.search(line):
        place, name = "service", next(filter(None, match.groups())).removesuffix(".service")
    elif _OWN.search(output.command):
        place = "container" if _CONTAINER.match(line) else "shell"
    elif match := _PID.search(output.command):
        name = match[1] or match[2]
    for row in output.lines():
        if match := _PROC.match(row) or _PRLIMIT.match(row):
            soft, hard = _bytes(match[1]), _bytes(match[2])
            if soft is not None:
                yield MemLock(place, name, soft, hard)


def read_unit_limits(output: Output) -> Iterator[MemLock]:
    """``systemctl show UNIT -p LimitMEMLOCK -p LimitMEMLOCKSoft``: bytes, a block for each unit."""
    units = _units((output.line or output.command).partition("|")[0])
    for number, block in enumerate(_GAP.split(output.text.strip())):
        values = {}
        unit = units[number] if number < len(units) else ""
        for row in block.splitlines():
            if match := _UNIT_LIMIT.match(row.strip()):
                values[match[1]] = _bytes(match[2])
            elif row.startswith("Id="):
                unit = row[3:].strip()
            elif "--value" in output.command and len(block.splitlines()) == 1:
                values["LimitMEMLOCK"] = _bytes(row.strip())
        hard = values.get("LimitMEMLOCK")
        soft = values.get("LimitMEMLOCKSoft", hard)
        if soft is not None:
            yield MemLock("service", unit.removesuffix(".service"), soft, hard)


def _units(command: str) -> list[str]:
    """The units among the words behind ``systemctl show``."""
    found, skip = [], False
    for word in command.split()[2:]:
        if skip:
            skip = False
        elif word in ("-p", "--property", "-P"):
            skip = True
        elif not word.startswith("-") and word != "UNIT":
            found.append(word)
    return found


def read_limits_conf(output: Output) -> Iterator[LimitRule]:
    """limits.conf and limits.d, whole or by grep: the lines of memlock."""
    if known_search(output) is None and not _ends_it(output):
        return  # what comes later counts, and may have been left out
    files = [word for word in output.arguments() if word.startswith("/")]
    file = files[0] if len(files) == 1 else ""
    for line in output.lines():
        if not line.startswith("#") and (match := _RULE.match(line)):
            value = _bytes(match[4])  # in KiB
            yield LimitRule(match[1] or file, match[2], match[3], value)


def _ends_it(output: Output) -> bool:
    """Whether only the front was cut off."""
    return all(each.partition(" ")[0] == "tail" for each in output.filters)


def read_pam(output: Output) -> Iterator[PamLimits]:
    """``grep pam_limits /etc/pam.d/sshd``: a command that prints nothing found nothing."""
    used = any(
        "pam_limits" in line and not line.partition(":")[2].lstrip().startswith("#")
        for line in output.lines()
        if not line.startswith("#")
    )
    if used or not output.text.strip():
        yield PamLimits(used)


def read_log(output: Output) -> Iterator[MemLockRefusal]:
    """Lines of UCX, libibverbs, Open MPI and NCCL on memory that could not be locked."""
    for line in output.lines():
        match = _REFUSED.search(line[:1000])
        if match is None:
            continue
        limit = None
        if current := _CURRENT.search(line[:1000]):
            limit = _bytes(current[1], _SCALES[(current[2] or "k").lower()])
        elif match[2] or match[3]:
            limit = _bytes(match[2] or match[3])
        yield MemLockRefusal(match[1] or "", limit)


def read_pids(output: Output) -> Iterator[ProcessId]:
    """``pidof NAME`` and ``pgrep -x NAME``."""
    program = next(reversed(output.arguments()), "")
    for word in output.text.split()[:256]:
        if word.isdecimal() and len(word) < 9:
            yield ProcessId(int(word), program)


_ULIMIT = r"ulimit\s+-[SH]{0,2}[al]\b(?!\s{1,4}(?:unlimited|\d))"  # with a value it sets

READERS = (
    reader(
        "ulimit -a",
        read_ulimit,
        command=_ULIMIT
        + r"|(?:limit|limits)$|(?:srun|mpirun|mpiexec|prterun|prun|ssh|pdsh|clush|su|bash|sh|zsh"
        r"|[\w-]*docker|podman|nerdctl|crictl|kubectl)\s[^\n]{0,600}?\b" + _ULIMIT,
        shape=r"^(?:max locked memory +\(k|locked memory\(k|-l: locked-in-memory|memorylocked )",
    ),
    reader(
        "cat /proc/PID/limits",
        read_process_limits,
        command=r"(?:cat|grep|sed|head|awk)\s[^\n]{0,300}?/limits\b(?!\.)|prlimit\b"
        r"|(?:srun|mpirun|ssh|[\w-]*docker|podman|kubectl)\s[^\n]{0,600}?/proc/\S{1,40}/limits\b",
        shape=r"^(?:Max locked memory +\S+ +\S+ +bytes|MEMLOCK +max locked-in-memory)",
    ),
    reader(
        "systemctl show UNIT -p LimitMEMLOCK",
        read_unit_limits,
        command=r"systemctl\s+show\b[^\n]{0,300}?LimitMEMLOCK",
        shape=r"^LimitMEMLOCK(?:Soft)?=",
    ),
    reader(
        "cat /etc/security/limits.conf",
        read_limits_conf,
        command=r"(?:cat|grep|egrep|head|tail)\s[^\n]{0,300}?/etc/security\b",
        shape=r"^[*@\w][\w@*-]{0,64}[ \t]+(?:soft|hard|-)[ \t]+memlock[ \t]",
    ),
    reader(
        "grep pam_limits /etc/pam.d/sshd",
        read_pam,
        command=r"grep\s[^\n]{0,200}?pam_limits",
    ),
    reader("pidof slurmd", read_pids, command=r"(?:pidof|pgrep)\s(?!.*-[a-zA-Z]*[al]\b)"),
    reader(
        "log of locked memory",
        read_log,
        shape=r"ibv_\w{3,40}\b[^\n]{0,160}?Cannot allocate memory|set max locked memory \(ulimit"
        r"|RLIMIT_MEMLOCK is \d|^ *Memlock limit: ",
    ),
)
