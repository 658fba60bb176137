"""Launch commands, in scripts and at prompts, and the files that they take."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType

from rackready.facts.commands import simple_commands
from rackready.facts.parts.host import Environment
from rackready.facts.parts.launch import (
    CpuList,
    HostFile,
    LaunchCommand,
    McaFile,
    Placement,
    ProgramPath,
    RankFile,
)
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.search import keeps_rows

_PROGRAM = re.compile(
    r"(?:^|[\s;&|(])((?:\S{0,200}/)?(?:mpirun|mpiexec(?:\.\w{1,20})?|prterun|orterun))\s"
)
_COUNT = ("-n", "-np", "-c")
_MCA = ("-mca", "-prtemca", "-pmixmca", "-gmca")
_TAKE_ONE = {
    "-bind-to", "-map-by", "-rank-by", "-wdir", "-path", "-N", "-npernode", "-timeout", "-output",
    "-stdin", "-tune", "-am", "-report-uri", "-ppr", "-cpu-list", "-cpu-set", "-output-filename",
    "-personality", "-app", "-wd", "-dvm-uri",
}  # fmt: skip
_HOSTFILE = ("-hostfile", "-machinefile", "-default-hostfile")
_VARIABLE = re.compile(r"(?:export\s+|local\s+)?([A-Za-z_]\w{0,80})=([\w.,:/@+^=-]{0,4096})\s*;?$")
_USED = re.compile(r"\$(?:\{(\w{1,81})\}|(\w{1,81}))")
_BEFORE = re.compile(r"(?:^|\s)([A-Za-z_]\w{0,80})=(\S{0,1024})")
_RANK = re.compile(r"rank\s+(\d{1,6})\s*=\s*(\S{1,255})\s+slots?\s*=\s*(\S{1,255})", re.IGNORECASE)
# "n1 slots=8 max_slots=16", "n1:8", "n1"
_HOST = re.compile(
    r"([A-Za-z0-9][\w.-]{0,254})(?::(\d{1,5})$|\s+(?:[a-z_-]{1,20}\s*=\s*\S{1,40}\s+){0,4}"
    r"slots\s*=\s*(\d{1,5})\b|\s+[a-z_-]{1,20}\s*=|$)"
)
_PARAMETER = re.compile(r"([a-z][a-z0-9_]{2,80})\s*=\s*(.*)$")
_SHOWN = re.compile(r"\bcat\s+([^\s|;&<>-][^\s|;&<>]{0,300})")
_ASKED = re.compile(r"(?:which|command -v|type(?: -[pP])?)\s+([\w .-]{1,200})")
_NOT_FOUND = re.compile(r"(?:([\w.-]{1,255}): )?which: no ([\w.+-]{1,80}) in \(")
_NO_TYPE = re.compile(r"(?:[\w./-]{1,80}: )?(?:line \d{1,6}: )?type: ([\w.+-]{1,80}): not found$")
# A path, the list of folders behind it, what ``type`` says, and what ssh says before the answer.
_ANSWER = re.compile(r"/\S{1,16000}$|[\w.+-]{1,80} is (?:hashed \()?/|Warning: Permanently added '")
_SSH_TAKES = "BbcDEeFIiJLlmOoPpQRSWw"  # options of ssh with a value
_NUMA = re.compile(r"NUMA node(\d{1,4}) CPU\(s\):\s+([\d,-]{1,400})$")


def read_launch(output: Output) -> Iterator[LaunchCommand | Environment]:
    """
    A command at a prompt, and those in a script; lines that end with a backslash go on.

    What it gives its processes with ``-x NAME=VALUE`` is their environment, and so is what stands
    before the command.
    """
    joined = re.sub(r"\\\n\s*", " ", output.text)
    if _is_cut(output, joined != output.text):
        joined = ""  # what belongs to a command in it was cut off
    lines = [_typed(output)] if _PROGRAM.search(f" {output.command} ") else []
    lines += [line.strip() for line in joined.split("\n") if len(line) < 16_384]
    variables: dict[str, str] = {}
    for line in lines:
        if line.startswith("#"):
            continue
        if match := _VARIABLE.match(line):
            variables[match[1]] = match[2]
        found = _PROGRAM.search(f" {line} ")
        if found is None:
            continue
        line = _USED.sub(lambda m: variables.get(m[1] or m[2], m[0]), line)
        found = _PROGRAM.search(f" {line} ")
        if found and (launch := _launch(line[max(found.start(1) - 1, 0) :])):
            yield launch
            given = {name: value for name, value in launch.exports.items() if value}
            if given:
                yield Environment(f"{launch.program} -x", MappingProxyType(given))
            before = dict(_BEFORE.findall(line[: max(found.start(1) - 1, 0)]))
            if before:
                yield Environment(f"before {launch.program}", MappingProxyType(before))


def _is_cut(output: Output, goes_on: bool) -> bool:
    """Whether rows were cut, or a search took some of those with which a command goes on."""
    for item in simple_commands(output.line) if output.line else ():
        searched = any("grep" in each.partition(" ")[0] for each in (item.command, *item.filters))
        if not keeps_rows(replace(output, filters=item.filters)) or (searched and goes_on):
            return True
    return False


def _typed(output: Output) -> str:
    """The command with the assignments before it, as far as its line is not a loop."""
    line = output.line.strip()
    return line if line.endswith(output.command) else output.command


def _launch(line: str) -> LaunchCommand | None:
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        words = line.split()
    ranks: int | None = None
    hosts: list[tuple[str, int | None]] = []
    hostfile = rankfile = prefix = None
    oversubscribes = False
    mca: dict[str, str] = {}
    exports: dict[str, str] = {}
    at = 1
    while at < len(words) and words[at].startswith("-"):
        # Open MPI takes -host, --host and, of the newer ones, --host=NAME.
        word, equals, attached = words[at].removeprefix("-").partition("=")
        word = word if word.startswith("-") else f"-{word}"
        value = attached if equals else words[at + 1] if at + 1 < len(words) else ""
        step = 1 if equals else 2
        if word in _COUNT:
            ranks = int(value) if value.isdecimal() and len(value) < 10 else None
        elif word in ("-host", "-H"):
            hosts += [_host(part) for part in value.split(",") if part]
        elif word in ("-rankfile", "-rf"):
            rankfile = value
        elif word in _HOSTFILE:
            hostfile = value
        elif word == "-prefix":
            prefix = value
        elif word in _MCA:
            mca[value] = words[at + 2] if at + 2 < len(words) else ""
            step = 3
        elif word == "-x":
            key, _, given = value.partition("=")
            exports[key] = given
        elif word not in _TAKE_ONE:
            step = 1
        if word == "-map-by" and "rankfile:file=" in value.lower():
            rankfile = value[value.lower().index("rankfile:file=") + 14 :].partition(":")[0]
        oversubscribes |= word == "-oversubscribe"
        oversubscribes |= word == "-map-by" and ":oversubscribe" in value.lower()
        at += step
    if not words:
        return None
    return LaunchCommand(
        program=words[0],
        ranks=ranks,
        hosts=tuple(dict.fromkeys(name for name, _ in hosts)),
        slots=tuple(hosts),
        hostfile=hostfile,
        rankfile=rankfile,
        prefix=prefix,
        oversubscribes=oversubscribes,
        mca=MappingProxyType(mca),
        exports=MappingProxyType(exports),
        application=tuple(words[at:]),
    )


def _host(part: str) -> tuple[str, int | None]:
    """``n1:8`` with its slots; None where it has no number, or one that is no number."""
    name, _, slots = part.partition(":")
    return name, int(slots) if slots.isdecimal() and len(slots) < 10 else None


def read_rankfile(output: Output) -> Iterator[RankFile]:
    found = [
        Placement(int(match[1]), match[2], match[3])
        for line in output.lines()
        if (match := _RANK.match(line))
    ]
    if found:
        yield RankFile(tuple(found), _path(output), not output.filters)


def _path(output: Output) -> str:
    """The file that ``cat`` was given; "" where only the shape tells what the output is."""
    found = _SHOWN.search(output.line)
    return found[1] if found else ""


def read_hostfile(output: Output) -> Iterator[HostFile]:
    found = []
    for line in output.lines():
        if match := _HOST.match(line.partition("#")[0].strip()):
            slots = match[2] or match[3]
            found.append((match[1], int(slots) if slots else None))
    if found:
        yield HostFile(tuple(found), _path(output), not output.filters)


def read_mca_file(output: Output) -> Iterator[McaFile]:
    path = next(iter(output.arguments()), "openmpi-mca-params.conf")
    values = {
        match[1]: match[2].strip()
        for line in output.lines()
        if not line.startswith("#") and (match := _PARAMETER.match(line))
    }
    yield McaFile(path, MappingProxyType(values))


def read_cpus(output: Output) -> Iterator[CpuList]:
    """``lscpu``, and ``numactl -H`` has other lines."""
    for line in output.lines():
        if match := _NUMA.match(line):
            yield CpuList(int(match[1]), match[2])


def read_which(output: Output) -> Iterator[ProgramPath]:
    """``which A B`` and ``ssh HOST 'which A; echo $PATH'``: a line for each that was found."""
    host, command = _remote(output.command)
    asked = _ASKED.search(command)
    programs = [word for word in asked[1].split() if word[0] != "-"] if asked else []
    rows = _own_rows(output, command)
    if rows is None:
        return
    paths = [word for row in rows for word in row.split() if word.startswith("/")]
    missing = {name: place for row in rows for place, name in _absent(row)}
    for program in programs:
        path = next((p for p in paths if ":" not in p and p.rpartition("/")[2] == program), "")
        if path or program in missing or _silent(output, rows):
            yield ProgramPath(host, program, path)
    for name, place in missing.items():
        if name not in programs:
            yield ProgramPath(place or host, name, "")


def _absent(row: str) -> Iterator[tuple[str, str]]:
    """Host and name of a program that a row says is in no folder of the PATH."""
    if match := _NOT_FOUND.match(row):
        yield match[1] or "", match[2]
    elif match := _NO_TYPE.match(row):
        yield "", match[1]


def _silent(output: Output, rows: list[str]) -> bool:
    """
    Whether a program that no row names is in no folder of the PATH.

    ``which`` of Debian and ``command -v`` say so by printing nothing (status 1). What else a row
    says, an error of ssh for one, means that they may not have run.
    """
    told = all(_ANSWER.match(row) or any(_absent(row)) for row in rows)
    return bool(output.line) and not output.filters and told and output.status in (None, 0, 1)


def _remote(command: str) -> tuple[str, str]:
    """Host ("" = this one) and command of ``ssh -p 22 root@HOST 'COMMAND'``."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    if not words or words[0].rpartition("/")[2] != "ssh":
        return "", command
    at = 1
    while at < len(words) and words[at].startswith("-"):
        # -p 22 and -o NAME=VALUE take the next word; -p22 has its value with it.
        at += 2 if words[at][-1] in _SSH_TAKES and len(words[at]) == 2 else 1
    if at >= len(words):
        return "", command
    return words[at].rpartition("@")[2], " ".join(words[at + 1 :])


def _own_rows(output: Output, command: str) -> list[str] | None:
    """What this one of several hosts printed, in a loop over them; None where it can't be told."""
    rows = list(output.lines())
    sisters = [item.command for item in simple_commands(output.line)] if output.line else []
    sisters = [item for item in sisters if _remote(item)[0] and _remote(item)[1] == command]
    if len(sisters) < 2 or output.command not in sisters or not rows:
        return rows
    parts: list[list[str]] = [[]]
    for row in rows:
        parts[-1].append(row)
        # A list of folders ends what a host printed; without it, each has printed one line.
        if ":" in row if "echo $PATH" in command else True:
            parts.append([])
    if len(parts) - 1 != len(sisters) or parts[-1]:
        return None
    return parts[sisters.index(output.command)]


READERS = (
    reader(
        "which mpirun",
        read_which,
        command=r"(?:which|command -v|type)\s|ssh\s[^\n]{0,300}?\b(?:which|command -v|type)\s",
        shape=r"^(?:[\w.-]{1,255}: )?which: no (?:mpirun|orted|prted|prterun) in \(",
    ),
    reader(
        "script that launches",
        read_launch,
        # "mpirun ... bash -c 'ulimit -l'" looks at a limit: it is no job
        command=r"(?:script that launches|mpirun|mpiexec|prterun|orterun)\b"
        r"(?![^\n]{0,600}?\bulimit\s+-[SH]{0,2}[al]['\"]?\s*$)",
        shape=r"^[^\n#]{0,200}?(?:^|[\s/])(?:mpirun|mpiexec|prterun|orterun) +-",
    ),
    reader(
        "cat rankfile",
        read_rankfile,
        command=r"cat\s+\S{0,200}rank[-_]?file\S*$",
        shape=r"^rank +\d{1,6} ?= ?\S{1,255} +slots? ?=",
    ),
    reader(
        "cat hostfile",
        read_hostfile,
        command=r"cat\s+(?!\S*known_hosts|/etc/hosts)\S*(?:host|machine)s?[-_]?(?:file|list)?\S{0,12}$",
        shape=r"^[A-Za-z0-9][\w.-]{0,200}\s+(?:max[-_])?slots\s*=\s*\d",
    ),
    reader(
        "cat openmpi-mca-params.conf",
        read_mca_file,
        command=r"cat\s+\S{0,200}(?:mca-params|prte-mca)\S*$",
        shape=r"^(?:btl|oob|pml|osc|coll|plm|orte|prte)_[a-z_]{2,60} ?= ?\S",
    ),
    reader("lscpu", read_cpus, shape=r"^NUMA node\d{1,4} CPU\(s\):\s"),
)
