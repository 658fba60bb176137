"""Launch commands, in scripts and at prompts, and the files that they take."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from types import MappingProxyType

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

_PROGRAM = re.compile(r"(?:^|[\s;&|(])((?:\S*/)?(?:mpirun|mpiexec(?:\.\w+)?|prterun|orterun))\s")
_COUNT = ("-n", "-np", "--n", "--np", "-c")
_MCA = ("-mca", "--mca", "--prtemca", "--pmixmca", "-gmca", "--gmca")
_TAKE_ONE = {
    "--bind-to", "--map-by", "--rank-by", "-wdir", "--wdir", "-path", "--path", "-N",
    "--npernode", "-npernode", "--timeout", "--output", "--stdin", "-tune", "--tune", "-am", "--am",
    "--report-uri", "-ppr", "--ppr", "--cpu-list", "--cpu-set", "-x",
}  # fmt: skip
_RANK = re.compile(r"rank\s+(\d{1,6})\s*=\s*(\S{1,255})\s+slots?\s*=\s*(\S{1,255})", re.IGNORECASE)
_HOST = re.compile(
    r"([A-Za-z0-9][\w.-]{0,254})(?::(\d{1,5})|\s+(?:max[-_])?slots\s*=\s*(\d{1,5}).*)$"
)
_PARAMETER = re.compile(r"([a-z][a-z0-9_]{2,80})\s*=\s*(.*)$")
_REMOTE = re.compile(
    r"(?:/\S{0,80}/)?ssh\s+(?:-\S+\s+(?:\w+=\S+\s+)?)*(?:\w+@)?(\S+)\s+['\"]?(.*?)['\"]?$"
)
_NUMA = re.compile(r"NUMA node(\d{1,4}) CPU\(s\):\s+([\d,-]{1,400})$")


def read_launch(output: Output) -> Iterator[LaunchCommand | Environment]:
    """
    A command at a prompt, and those in a script; lines that end with a backslash go on.

    What it gives its processes with ``-x NAME=VALUE`` is their environment.
    """
    joined = re.sub(r"\\\n\s*", " ", output.text)
    lines = [output.command] if _PROGRAM.search(f" {output.command} ") else []
    lines += [line.strip() for line in joined.split("\n") if len(line) < 16_384]
    for line in lines:
        found = None if line.startswith("#") else _PROGRAM.search(f" {line} ")
        if found and (launch := _launch(line[max(found.start(1) - 1, 0) :])):
            yield launch
            given = {name: value for name, value in launch.exports.items() if value}
            if given:
                yield Environment(f"{launch.program} -x", MappingProxyType(given))


def _launch(line: str) -> LaunchCommand | None:
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        words = line.split()
    ranks: int | None = None
    hosts: list[str] = []
    rankfile = prefix = None
    mca: dict[str, str] = {}
    exports: dict[str, str] = {}
    at = 1
    while at < len(words) and words[at].startswith("-"):
        word, value = words[at], words[at + 1] if at + 1 < len(words) else ""
        name, equals, attached = word.partition("=")
        step = 2
        if word in _COUNT:
            ranks = int(value) if value.isdecimal() else None
        elif word in ("-host", "--host", "-H"):
            hosts += [part.partition(":")[0] for part in value.split(",") if part]
        elif word in ("--rankfile", "-rf", "-rankfile", "--rf"):
            rankfile = value
        elif word in ("--prefix", "-prefix"):
            prefix = value
        elif word in _MCA:
            mca[value] = words[at + 2] if at + 2 < len(words) else ""
            step = 3
        elif word == "-x":
            key, _, given = value.partition("=")
            exports[key] = given
        elif equals:
            step = 1
            prefix = attached if name == "--prefix" else prefix
        elif word not in _TAKE_ONE and word not in ("--hostfile", "-hostfile", "--machinefile"):
            step = 1
        if word == "--map-by" and "rankfile:file=" in value:
            rankfile = value.partition("rankfile:file=")[2]
        at += step
    if not words:
        return None
    return LaunchCommand(
        program=words[0],
        ranks=ranks,
        hosts=tuple(dict.fromkeys(hosts)),
        rankfile=rankfile,
        prefix=prefix,
        mca=MappingProxyType(mca),
        exports=MappingProxyType(exports),
        application=tuple(words[at:]),
    )


def read_rankfile(output: Output) -> Iterator[RankFile]:
    found = [
        Placement(int(match[1]), match[2], match[3])
        for line in output.lines()
        if (match := _RANK.match(line))
    ]
    if found:
        yield RankFile(tuple(found))


def read_hostfile(output: Output) -> Iterator[HostFile]:
    found = []
    for line in output.lines():
        if match := _HOST.match(line.partition("#")[0].strip()):
            slots = match[2] or match[3]
            found.append((match[1], int(slots) if slots else None))
    if found:
        yield HostFile(tuple(found))


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
    remote = _REMOTE.match(output.command)
    host, command = (remote[1], remote[2]) if remote else ("", output.command)
    asked = re.search(r"(?:which|command -v|type -p)\s+([\w .-]{1,200})", command)
    paths = [line for line in output.lines() if line.startswith("/") and ":" not in line]
    for program in asked[1].split() if asked else ():
        if program.startswith("-"):
            continue
        path = next((p for p in paths if p.rpartition("/")[2] == program), "")
        yield ProgramPath(host, program, path)


READERS = (
    reader(
        "which mpirun",
        read_which,
        command=r"(?:which|command -v|type -p)\s|ssh\s[^\n]{0,300}?(?:which|command -v|type -p)\s",
    ),
    reader(
        "script that launches",
        read_launch,
        command=r"(?:script that launches|mpirun|mpiexec|prterun|orterun)\b",
        shape=r"^[^\n#]{0,200}?(?:^|[\s/])(?:mpirun|mpiexec|prterun|orterun) +-",
    ),
    reader(
        "cat rankfile",
        read_rankfile,
        command=r"cat\s+\S*rank[-_]?file\S*$",
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
        command=r"cat\s+\S*(?:mca-params|prte-mca)\S*$",
        shape=r"^(?:btl|oob|pml|osc|coll|plm|orte|prte)_[a-z_]{2,60} ?= ?\S",
    ),
    reader("lscpu", read_cpus, shape=r"^NUMA node\d{1,4} CPU\(s\):\s"),
)
