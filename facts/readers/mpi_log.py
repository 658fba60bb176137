"""What Open MPI says when it can't start or connect."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackready.facts.parts.launch import LaunchFailure
from rackready.facts.readers.reader import Output, reader

_DAEMON = re.compile(r"\b(orted|prted): (?:command not found|not found|No such file)")
_BOTH = re.compile(r"Both TCP interface include and exclude lists were specified")
_LIST = re.compile(r"(Include|Exclude): (\S{1,300})")
_CONNECT = re.compile(
    r"btl_tcp_endpoint\S*\] (?:connect\(\) to|.{0,40}? to) (\S{3,60}) failed: (.{2,60})"
)
_RANKS = re.compile(r"Rank (\d{1,6}) (?:has not been|is not) (?:assigned|in the rankfile|mapped)")
_SLOTS = re.compile(r"There are not enough slots available in the system to satisfy the (\d{1,6})")
_DAEMONS = re.compile(r"(ORTE|PRTE) was unable to reliably start one or more daemons")


def read_mpi_log(output: Output) -> Iterator[LaunchFailure]:
    """Each kind with its details once; the frame of a text stands for its lines."""
    lists: dict[str, str] = {}
    both = False
    told = set()
    for line in output.text.split("\n"):
        if match := _LIST.search(line):
            lists[match[1]] = match[2]
        both = both or _BOTH.search(line) is not None
        for kind, pattern in (
            ("daemon-not-found", _DAEMON),
            ("connect", _CONNECT),
            ("rank-not-mapped", _RANKS),
            ("slots", _SLOTS),
            ("daemons", _DAEMONS),
        ):
            if (match := pattern.search(line)) and (kind, match.groups()) not in told:
                told.add((kind, match.groups()))
                yield LaunchFailure(kind, match.groups())
    if both:
        yield LaunchFailure("both", (lists.get("Include", ""), lists.get("Exclude", "")))


READERS = (
    reader(
        "log of mpirun",
        read_mpi_log,
        shape=r"Both TCP interface include and exclude lists"
        r"|\b(?:orted|prted): (?:command )?not found|^(?:ORTE|PRTE) was unable to reliably start"
        r"|mca_btl_tcp_endpoint\w*\]|^There are not enough slots available",
    ),
)
