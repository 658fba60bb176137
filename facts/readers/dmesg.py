"""The kernel log in all its forms, and what the kernel says of itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackready.facts.model import KernelLog, System
from rackready.facts.parts.modules import LogSearch
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.search import search_of

_LEVEL = r"(?:<\d{1,3}>)?"
_NAMED = r"(?:kern\s{0,3}:\w{1,8}\s{0,4}: ?)?"  # dmesg -x
_BRACKETS = r"\[[ \d.]{1,20}\]|\[[^\]]{1,40}\]"
_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]{0,8}(?:[+-]\d\d:?\d\d|Z)?"
_SYSLOG = r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,6})?"
# journalctl -k and kern.log: time, host, "kernel:"; some syslogs repeat the kernel's own stamp
_STAMP = re.compile(
    rf"{_LEVEL}{_NAMED}(?:(?:{_SYSLOG}|{_ISO}) \S{{1,64}} kernel: ?(?:\[[ \d.]{{1,20}}\] ?)?"
    rf"|(?:{_BRACKETS}|{_ISO}) ?)"
)
_UNAME = re.compile(
    r"Linux (\S+) (\d\S*) #.{0,120}?\b(x86_64|aarch64|ppc64le|riscv64|loongarch64)\b"
)
_RELEASE = re.compile(r"\d+\.\d[\w.+~-]*$")
_LOCKDOWN = re.compile(r"\[(none|integrity|confidentiality)\]")


def read_dmesg(output: Output) -> Iterator[object]:
    """Messages without their stamps. A search that showed nothing is told as well."""
    refused = "Operation not permitted" in output.text and output.text.count("\n") <= 2
    if refused:
        return
    lines = map(_message, output.text.split("\n"))
    kept = tuple(line for line in lines if line and not line.startswith("-- "))
    yield KernelLog(kept)
    yield LogSearch(search_of(output), len(kept))


def _message(row: str) -> str:
    match = _STAMP.match(row)
    return row[match.end() :].rstrip() if match else row.strip()


def read_uname(output: Output) -> Iterator[System]:
    """``uname -a``, ``-r``, ``-m`` and ``-n``."""
    text = output.text.strip()
    options = output.command.split()[1:]
    if match := _UNAME.search(text):
        yield System(kernel=match[2], machine=match[3])
    elif options == ["-r"] and _RELEASE.match(text):
        yield System(kernel=text)
    elif options == ["-m"] and re.fullmatch(r"\w+", text):
        yield System(machine=text)


def read_lockdown(output: Output) -> Iterator[System]:
    """``none [integrity] confidentiality``."""
    if match := _LOCKDOWN.search(output.text):
        yield System(lockdown=match[1])


READERS = (
    reader(
        "dmesg",
        read_dmesg,
        command=r"dmesg\b|journalctl\s.*(?:-k|--dmesg|-\w{0,8}k\w{0,8})\b|journalctl\s+_TRANSPORT=kernel"
        r"|(?:cat|[efz]?grep|tail|head|less)\s.*/var/log/(?:kern\.log|dmesg|messages|syslog)",
        shape=r"^(?:<\d+>)?\[ *\d+\.\d{6}\] \S"
        r"|^\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4}\] \S"
        r"|^[A-Z][a-z]{2} [ \d]\d [\d:]{8} \S+ kernel: |^\d{4}-\d\d-\d\dT\S+ \S+ kernel: "
        r"|^\d{4}-\d\d-\d\dT[\d:]{8},\d{6}[+-]\d\d:\d\d "
        r"|disagrees about version of symbol \w|Unknown symbol \w+ \(err -?\d"
        r"|failing symbol_get of non-GPLONLY symbol|^NVRM: Xid \(",
    ),
    reader("uname -a", read_uname, command=r"uname\b", shape=r"^Linux \S+ \d+\.\d\S* #\d"),
    reader(
        "cat /sys/kernel/security/lockdown",
        read_lockdown,
        command=r"cat\s+/sys/kernel/security/lockdown",
        shape=r"^(?:none|\[none\]) (?:integrity|\[integrity\]) (?:confidentiality|\[confid\w+\])$",
    ),
)
