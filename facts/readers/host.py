"""Services, kernel settings, packages and environment variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import MappingProxyType

from rackready.facts.model import System
from rackready.facts.parts.host import Environment, Package, Service, Setting
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.search import search_of
from rackready.facts.readers.sysfs import number

_STATES = re.compile(r"(active|inactive|failed|activating|deactivating|reloading|unknown)$")
_ENABLED = re.compile(r"(enabled|disabled|masked|static|alias|indirect|generated|not-found)\S*$")
_SETTING = re.compile(r"([a-z][\w.*/-]{2,120}) ?= ?(.*)$")
_PROC_SYS = re.compile(r"/proc/sys/([\w./@:-]{1,120}?):(.*)$")
_DPKG = re.compile(r"([a-z]{2})\s+([a-z0-9][a-z0-9.+-]+)(?::\w+)?\s+(\S+)\s")
_RPM = re.compile(r"([A-Za-z0-9][\w.+-]*?)-(\d[^-\s]*-[^-\s]+)\.(?:x86_64|aarch64|noarch)$")
_NO_DPKG = re.compile(r"dpkg-query: (?:no packages found matching|没有找到与) (\S+)")
_NO_RPM = re.compile(r"package (\S+) is not installed$")
_ERROR = re.compile(r"(?:\S{0,80}/)?(?:cat|sudo|[a-z]{0,3}sh): \S|\[sudo\] ")
_VARIABLE = re.compile(r"(?:export |declare -x )?([A-Za-z_]\w{0,80})=(.*)$")
_ID = re.compile(r"uid=(\d{1,10})\b")


def read_units(output: Output) -> Iterator[Service]:
    """``systemctl is-active A B`` and ``is-enabled A B``: a line for each unit, in order."""
    verb, *units = output.arguments()
    for unit, line in zip(units, output.lines(), strict=False):
        name = unit.removesuffix(".service")
        if verb == "is-active" and _STATES.match(line):
            yield Service(name, active=line)
        elif verb == "is-enabled" and _ENABLED.match(line):
            yield Service(name, enabled=line)
        else:
            output.note(f"no state of a unit: {line[:60]!r}")


def read_sysctl(output: Output) -> Iterator[Setting]:
    """``net.ipv4.conf.all.rp_filter = 1``."""
    for line in output.lines():
        if match := _SETTING.match(line):
            yield Setting(match[1].replace("/", "."), match[2].strip())
        else:
            output.note(f"no setting: {line[:60]!r}")


def read_proc_sys(output: Output) -> Iterator[Setting]:
    """``cat /proc/sys/kernel/kptr_restrict``."""
    (path,) = output.arguments()[:1]
    value = output.text.strip()
    if value and "\n" not in value and not _ERROR.match(value):
        yield Setting(path.removeprefix("/proc/sys/").replace("/", "."), value)


def read_proc_sys_files(output: Output) -> Iterator[Setting]:
    """``grep -H . /proc/sys/net/ipv4/conf/*/rp_filter``: ``PATH:VALUE``."""
    for line in output.lines():
        if match := _PROC_SYS.match(line):
            yield Setting(match[1].replace("/", "."), match[2].strip())


def read_dpkg(output: Output) -> Iterator[Package]:
    """
    ``dpkg -l``; a package that was asked for by name may be known not to be there.

    dpkg says so, or its whole table or what a search let through does not have it.
    """
    found = set()
    listed = not output.filters and "||/" in output.text
    search = search_of(output) if output.filters else None
    absent = set()
    for line in output.lines():
        if match := _DPKG.match(line):
            found.add(match[2])
            yield Package(match[2], match[3], installed=match[1] == "ii")
        elif match := _NO_DPKG.match(line):
            absent.add(match[1])
        elif not line.startswith(("Desired=", "| ", "|/", "||/", "+++-", "dpkg-query:", "#", "$")):
            return  # others speak, too
    for word in output.arguments():
        name = word.partition(":")[0]
        if name in found or "*" in name:
            continue
        shown = search is not None and search.covers(f"ii  {name} 1.0-1 amd64 x")
        if word in absent or listed or shown:
            yield Package(name, None, installed=False)


def read_rpm(output: Output) -> Iterator[Package]:
    """``rpm -q NAME...`` and ``rpm -qa``."""
    for line in output.lines():
        if match := _RPM.match(line):
            yield Package(match[1], match[2], installed=True)
        elif match := _NO_RPM.match(line):
            yield Package(match[1], None, installed=False)


def read_environment(output: Output) -> Iterator[Environment]:
    """``env``, ``printenv``, ``export -p``: a variable a line."""
    values = {}
    for line in output.lines():
        if match := _VARIABLE.match(line):
            values[match[1]] = match[2].strip("\"'")
    if values or output.command:
        yield Environment(output.command, MappingProxyType(values))


def read_id(output: Output) -> Iterator[System]:
    """``id`` and ``id -u``."""
    match = _ID.search(output.text)
    uid = number(match[1] if match else output.text)
    if uid is None:
        output.note(f"no user: {output.text[:60]!r}")
    else:
        yield System(uid=uid)


READERS = (
    reader("systemctl is-active", read_units, command=r"systemctl\s+is-(?:active|enabled)\b"),
    reader(
        "sysctl -a",
        read_sysctl,
        command=r"sysctl\b(?!.*-n\b)",
        shape=r"^(?:net|kernel|vm|fs)\.[a-z][\w.-]+ ?= ?\S",
    ),
    reader("cat /proc/sys/kernel/kptr_restrict", read_proc_sys, command=r"cat\s+/proc/sys/\S+$"),
    reader(
        "grep . /proc/sys/net/ipv4/conf/all/rp_filter",
        read_proc_sys_files,
        command=r"[ef]?grep\s[^\n]{0,120}?\s/proc/sys/\S",
        shape=r"^/proc/sys/(?:net|kernel|vm|fs)/[\w./-]{3,100}:\S",
    ),
    reader("dpkg -l", read_dpkg, command=r"dpkg(?:-query)?\s+-l\b", shape=r"^ii  [a-z0-9]"),
    reader("rpm -q", read_rpm, command=r"rpm\s+-q"),
    reader(
        "env",
        read_environment,
        command=r"(?:env|printenv|export -p|cat /proc/\S+/environ)\b",
        shape=r"^(?:export )?(?:(?:NCCL|MCCL|PCCL|NVSHMEM|MXSHMEM|UCX|OMPI|PMIX|PRTE|MACA|MX|FI"
        r"|GLOO|SLURM|CUDA|RDMAV|IBV|MLX5)_\w+|LD_LIBRARY_PATH|MASTER_ADDR|WORLD_SIZE)=",
    ),
    reader("id", read_id, command=r"id(?:\s+-u)?$", shape=r"^uid=\d+\("),
)
