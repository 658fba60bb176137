"""Services by other ways than ``systemctl is-active``: ``systemctl status``, ``ps``, ``pgrep``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackready.facts.parts.host import Service
from rackready.facts.readers.reader import Output, reader

_UNIT = re.compile(r"[●○×*]?\s*([\w@.-]{1,80})\.service(?: - .*)?$")
_LOADED = re.compile(r"Loaded: \S+ \([^;\n]{1,200}; ([a-z-]{4,20})[;)]")
_ACTIVE = re.compile(r"Active: ([a-z]{4,15})\b")
_NOT_FOUND = re.compile(r"Unit ([\w@.-]{1,80})\.service could not be found")

# Daemons that change a NIC's settings by themselves; of others it does not matter that they run.
_DAEMONS = ("lldpad",)


def read_status(output: Output) -> Iterator[Service]:
    """``systemctl status UNIT``."""
    name, enabled = "", None
    for line in output.lines():
        if match := _NOT_FOUND.match(line):
            yield Service(match[1], active="inactive", enabled="not-found")
        elif match := _UNIT.match(line):
            name, enabled = match[1], None
        elif match := _LOADED.match(line):
            enabled = match[1]
        elif name and (match := _ACTIVE.match(line)):
            yield Service(name, active=match[1], enabled=enabled)
            name = ""


def read_processes(output: Output) -> Iterator[Service]:
    """Processes that run; what is not listed may run all the same."""
    for line in output.lines():
        for word in line.split():
            name = word.rpartition("/")[2]
            if name in _DAEMONS and not re.search(r"\bgrep\b", line):
                yield Service(name, active="active")


READERS = (
    reader(
        "systemctl status",
        read_status,
        command=r"systemctl(?:\s+-\S+)*\s+status\b",
        shape=r"^[ \t]{1,16}Active: (?:active|inactive|failed) \(",
    ),
    reader("ps -e", read_processes, command=r"(?:ps\b|pgrep\s+-(?:a|l|fa|af)\b)"),
)
