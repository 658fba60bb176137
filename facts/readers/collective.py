"""Tables of the nccl-tests family: all_reduce_perf and the others, of NCCL, RCCL, MCCL, PCCL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rackready.facts.parts.bandwidth import Collective, Point
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.tagged import split_tagged

TESTS = (
    "all_reduce|all_gather|reduce_scatter|alltoall|alltoallv|sendrecv|broadcast|reduce|gather"
    "|scatter|hypercube|allreduce|allgather"
)
_PROGRAM = re.compile(rf"\b({TESTS})_perf\b")
_NAMED = re.compile(rf"(?:#\s*)?(?:The test is|Collective test starting:)\s+({TESTS})_perf\b")
_HEADER = re.compile(r"\s*(?:#\s*)?size\s+(?:count\s|time)[^\n]*\bbusbw\b")
_OPTIONS = re.compile(r"\s*#\s*nThreads?:?\s+\d")
_RANK = re.compile(
    r"\s*#\s*Rank\s+(\d{1,6})\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+\d+\s+"
    r"\[[^\]\s]{1,20}\]\s+(\S.*)$"
)
_BOUNDS = re.compile(r"\s*(?:#\s*)?Out of bounds values\s*:\s*(\d{1,12})\s+(\w+)")
_AVERAGE = re.compile(r"\s*(?:#\s*)?Avg bus bandwidth\s*:\s*([\d.]{1,20})")
_VALIDATION = re.compile(r"\b(?:validation|check):\s*(\d)")
_FAILURE = re.compile(r"\S+: Test \w+ failure .*")
_ROW = re.compile(r"\s*\d{1,16}\s+\S.*$")
_TYPE = re.compile(r"(?:u?int\d{1,2}|float\d*|half|double|bfloat16|fp?\d\w*|f8\w+)$")
_INTEGER = re.compile(r"\d{1,16}$")
# What a column holds; in a row that was cut the values stand one column further right.
_VALUES = (
    ("time", re.compile(r"\d[\d.]{0,20}(?:e[+-]\d\d)?$")),
    ("wrong", re.compile(r"\d{1,16}(?:e[+-]\d\d)?$|N/A$")),
    ("bw", re.compile(r"\d[\d.]{0,20}(?:e[+-]\d\d)?$|[+-]?(?:inf|nan)$")),
)
_BEGINS = re.compile(
    r"\s*(?:#\s*)?(?:size\s+(?:count|time)|nThreads?\b|Rank\s+\d|Out of bounds|Avg bus)"
    r"|\s*\d{1,16}\s+\d{1,16}\s+[a-z]\w*\s"
)
_USUAL = ("time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong")
_MOST = 4096  # rows of a run


@dataclass
class _Run:
    """A run as far as it was read."""

    test: str | None
    columns: Sequence[str] = _USUAL
    points: list[Point] = field(default_factory=list)
    ranks: int = 0
    hosts: dict[str, None] = field(default_factory=dict)
    devices: dict[str, None] = field(default_factory=dict)
    bounds: tuple[int, str] | None = None
    average: float | None = None
    validated: bool | None = None
    failure: str | None = None

    def done(self) -> Iterator[Collective]:
        if self.points or self.bounds or self.ranks or self.failure:
            yield Collective(
                self.test,
                tuple(self.points),
                self.ranks or None,
                tuple(self.hosts),
                tuple(self.devices),
                self.bounds[0] if self.bounds else None,
                self.bounds[1] if self.bounds else None,
                self.average,
                self.validated,
                self.failure,
            )


def read_collective(output: Output) -> Iterator[Collective]:
    """Runs one after another, also where a launcher tags the lines of several processes."""
    program = _PROGRAM.search(output.line)
    test = program[1] if program else None
    for lines in split_tagged(output.text, _BEGINS):
        yield from _runs(lines, test)


def _runs(lines: Sequence[str], test: str | None) -> Iterator[Collective]:
    run = _Run(test)
    for line in lines:
        head = _HEADER.match(line)
        named = _NAMED.match(line)
        begins = head is not None or named is not None or _OPTIONS.match(line) is not None
        if begins and (run.points or run.bounds or (run.ranks and not head)):
            yield from run.done()
            run = _Run(test)
        if head:
            run.columns = _columns(line)
        elif named or (not run.points and (named := _PROGRAM.search(line[:2000]))):
            run.test = named[1]
        elif rank := _RANK.match(line):
            run.ranks = max(run.ranks, int(rank[1]) + 1)
            run.hosts[rank[2]] = None
            run.devices[rank[3].strip()] = None
        elif bounds := _BOUNDS.match(line):
            run.bounds = int(bounds[1]), bounds[2]
        elif average := _AVERAGE.match(line):
            run.average = _float(average[1])
        elif _OPTIONS.match(line) and (checked := _VALIDATION.search(line)):
            run.validated = checked[1] != "0"
        elif _FAILURE.match(line):
            run.failure = line.strip()[:200]
        elif _ROW.match(line) and len(run.points) < _MOST and (point := _point(line, run.columns)):
            run.points.append(point)
    yield from run.done()


def _columns(header: str) -> Sequence[str]:
    """Names of the columns from the first time on; they stand at the right of each row."""
    names = header.replace("#wrong", "wrong").replace("#", " ").split()
    start = next((at for at, name in enumerate(names) if "time" in name), len(names))
    return names[start:]


def _point(line: str, columns: Sequence[str]) -> Point | None:
    """A row; None for a line that only begins like one. Columns without a value may be blank."""
    words = line.split()
    count = len(columns)
    if len(words) <= count:
        return None
    head, tail = words[: len(words) - count], words[len(words) - count :]
    if not head or len(head) > 5 or not _INTEGER.match(head[0]):
        return None
    if len(head) > 1 and not (
        len(head) > 2 and _INTEGER.match(head[1]) and _TYPE.match(head[2]) is not None
    ):
        return None
    if not all(map(_belongs, columns, tail)):
        return None
    values = [_float(word) for word in tail]
    half = count // 2 if columns.count("busbw") > 1 else count
    out, place = _side(columns[:half], values[:half]), _side(columns[half:], values[half:])
    return Point(int(head[0]), out[0], out[1], out[2], place[1], place[2])


def _belongs(column: str, word: str) -> bool:
    shape = next((shape for name, shape in _VALUES if name in column), None)
    return shape.match(word) is not None if shape else word == "N/A" or _float(word) is not None


def _side(
    columns: Sequence[str], values: Sequence[float | None]
) -> tuple[float | None, float | None, int | None]:
    """algbw, busbw, wrong. Old generations have a column ``error`` instead: a rounding error."""
    found = dict(zip(columns, values, strict=True))
    wrong = found.get("wrong", found.get("#wrong"))
    return found.get("algbw"), found.get("busbw"), None if wrong is None else int(wrong)


def _float(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if value == value and abs(value) < 1e15 else None


READERS = (
    reader(
        "all_reduce_perf",
        read_collective,
        # With arguments it is known by its shape: such outputs hold logs of the library, too.
        command=r"all_reduce_perf$",
        shape=r"^[^\n]{0,120}?\bsize[ \t]{1,16}"
        r"(?:count[ \t]{1,8}type[ \t]|time\(us\)[ \t]{1,16}algbw)"
        r"|^[^\n]{0,60}?# {0,2}(?:Out of bounds values|Avg bus bandwidth)[ \t]{0,8}:"
        r"|^[^\n]{0,60}?#[ \t]{1,8}Rank[ \t]{1,8}\d+ (?:Group[ \t]+\d+ )?Pid[ \t]"
        r"|^[^\s:]{1,80}: Test \w+ failure ",
    ),
)
