"""What Open MPI says when it can't start or connect."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackready.facts.parts.launch import LaunchFailure
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.tagged import tagged

_BOTH = re.compile(r"Both TCP interface include and exclude lists were specified")
_LIST = re.compile(r"(Include|Exclude): (\S{1,300})")
_SHELLS = ("bash", "-bash", "sh", "dash", "ksh", "zsh", "csh", "tcsh")

# kind -> what its line holds; of a line the first counts
_KINDS = (
    ("daemon-not-there", re.compile(r"(/\S{1,200})/(orted|prted): No such file")),
    ("daemon-not-found", re.compile(r"\b(orted|prted): (?:command not found|not found|No such)")),
    ("daemon-not-found", re.compile(r"command not found: (orted|prted)\b")),
    (
        "daemon-library",
        re.compile(r"\b(orted|prted): error while loading shared libraries: (\S{1,80}):"),
    ),
    (
        "connect",
        re.compile(
            r"btl_tcp_endpoint\S{0,80}\] (?:connect\(\) to|.{0,40}? to) "
            r"(\S{3,60}) failed: (.{2,60})"
        ),
    ),
    ("connect", re.compile(r"^\s*Message:\s{1,8}connect\(\) to (\S{3,60}) failed")),
    (
        "wrong-peer",
        re.compile(r"btl_tcp_endpoint\S{0,80}\] received unexpected process identifier"),
    ),
    ("rank-not-mapped", re.compile(r"Rank (\d{1,6}) (?:has not been|is not) (?:assigned|mapped)")),
    (
        "slots",
        re.compile(r"There are not enough slots available in the system to satisfy the (\d+)"),
    ),
    (
        "as-root",
        re.compile(r"\b(mpirun|mpiexec|prterun|orterun) has detected an attempt to run as"),
    ),
    ("daemons", re.compile(r"(ORTE|PRTE) was unable to reliably start one or more daemons")),
)


def read_mpi_log(output: Output) -> Iterator[LaunchFailure]:
    """Each kind with its details once; the frame of a text stands for its lines."""
    lists: dict[str, str] = {}
    both = False
    told = set()
    for tag, line in tagged(output.text):
        if match := _LIST.search(tag + line):
            lists[match[1]] = match[2]
        both = both or _BOTH.search(line) is not None
        name = tag.rstrip(":")
        # "bash: orted: command not found" begins as a tag does, and "0:" is a rank's
        whole = tag + line if name in _SHELLS or name.startswith("/") else line
        host = "" if whole != line or not name[:1].isalpha() else name
        for kind, pattern in _KINDS:
            if match := pattern.search(whole):
                found = LaunchFailure(kind, match.groups(default=""), host)
                if found not in told:
                    told.add(found)
                    yield found
                break
    if both:
        yield LaunchFailure("both", (lists.get("Include", ""), lists.get("Exclude", "")))


READERS = (
    reader(
        "log of mpirun",
        read_mpi_log,
        shape=r"Both TCP interface include and exclude lists"
        r"|\b(?:orted|prted): (?:command not found|not found|No such file|error while loading)"
        r"|command not found: (?:orted|prted)\b"
        r"|(?:ORTE|PRTE) was unable to reliably start|mca_btl_tcp_endpoint\w{0,40}\]"
        r"|Open MPI failed to TCP connect to a peer|There are not enough slots available"
        r"|(?:mpirun|mpiexec|prterun) has detected an attempt to run as root",
    ),
)
