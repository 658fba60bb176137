"""Tables of perftest: ``ib_write_bw`` and its kin, at either end of the connection."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from rackready.facts.parts.bandwidth import RdmaPoint, RdmaTest
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.sysfs import bdf
from rackready.facts.readers.tagged import split_tagged

_PROGRAM = r"(?:ib_(?:write|read|send|atomic)_(?:bw|lat)|raw_ethernet_(?:bw|lat))"
_RUN = re.compile(rf"\b({_PROGRAM})\b")
# "RDMA_Write Bidirectional BW Test", "Send Latency Test"
_TITLE = re.compile(
    r"\s*(RDMA_Write|RDMA_Read|Send|Atomic_\w{2,16}|Raw Ethernet)"
    r"(?: Post List)?( Bidirectional)? (BW|Latency) Test"
)
_LISTED = re.compile(r"\s*[A-Z][A-Za-z]{2,12} device (\d{1,3}): PCIe address is (\S{4,16})$")
_PICKED = re.compile(r"\s*Picking device No\. (\d{1,3})")
_PICKED_ROCM = re.compile(r"\s*Using [A-Z]\w{2,8} Device with ID: (\d{1,3})")
_OPTION = re.compile(r"(--use_(?:cuda|maca|rocm|hl|mlu|ppu))(?:[= ](\d{1,3}))?(?=\s|$)")
_OPTION_BUS = re.compile(r"(--use_[a-z]{2,6})_bus_id[= ](\S{4,16})")
_DEVICE = re.compile(r"(?:\s-d|--ib-dev)[= ]?(\w{2,40})")
_LIMITED = re.compile(r"--rate_limit\b|--rate_units\b")
_FIELD = re.compile(r"(\w[\w .*-]{1,24}?)\s*:\s*(\S+)")
_COLUMNS = re.compile(r"\s*#bytes\s+#iterations\s+(\S.*)$")
_NUMBER = r"\d{1,12}(?:\.\d{1,9})?"
_ROW = re.compile(rf"\s*(\d{{1,12}})\s+(\d{{1,12}})\s+({_NUMBER}(?:\s+{_NUMBER}){{1,8}})\s*$")
_GID = re.compile(r"\s*GID: (\d{1,3}(?::\d{1,3}){15})\s*$")
_FAILURE = re.compile(
    r"\s*(?:Failed to modify QP\b|Unable to |Couldn't |Failed to |Failed status |"
    r"Completion with error|mlx5: \S+ got completion with error)"
)
_BEGINS = re.compile(r"\s*#bytes|.{0,40} (?:BW|Latency) Test|\s*\d+\s+\d+\s+\d+\.\d+")
_TESTS = {"RDMA_Write": "write", "RDMA_Read": "read", "Send": "send"}
_GBITS = {  # Gb/s for one of a unit as perftest writes it; its MB are 2^20 bytes
    "Gb/sec": 1.0,
    "MB/sec": (1 << 20) * 8 / 1e9,
    "MiB/sec": (1 << 20) * 8 / 1e9,
    "GiB/sec": (1 << 30) * 8 / 1e9,
}
_MOST = 1024  # rows of a run


def read_perftest(output: Output) -> Iterator[RdmaTest]:
    """One test after another; what stands before a test's title is about its accelerator."""
    program = _RUN.search(output.line)
    known = _from_command(output.line if program else "", program[1] if program else _NAME)
    for lines in split_tagged(output.text, _BEGINS):
        yield from _tests(lines, known)


def _from_command(line: str, program: str) -> RdmaTest:
    device, option, bus = _DEVICE.search(line), _OPTION.search(line), _OPTION_BUS.search(line)
    chosen = option or bus
    return RdmaTest(
        program,
        device=device[1] if device else None,
        bidirectional=bool(re.search(r"\s(?:-b|--bidirectional)(?:\s|$)", line)),
        accelerator=int(option[2] or 0) if option else None,
        accelerator_address=_address(bus[2]) if bus else None,
        option=chosen[1] if chosen else None,
        limited=_LIMITED.search(line) is not None,
    )


def _tests(lines: Sequence[str], known: RdmaTest) -> Iterator[RdmaTest]:
    test, points = known, list[RdmaPoint]()
    listed: dict[int, str] = {}
    columns: Sequence[str] = ()
    for line in lines:
        row = _ROW.match(line)
        if row and columns and len(points) < _MOST:
            if len(row[3].split()) < len(columns):
                continue  # it was cut, perhaps in the middle of a number
            points.append(_point(int(row[1]), columns, row[3].split()))
        elif title := _TITLE.match(line):
            if points:
                yield _done(test, points, listed)
                test, points = known, []
            kind = _TESTS.get(title[1], title[1].partition("_")[0].lower())
            kind = "raw_ethernet" if " " in kind else f"ib_{kind}"
            test = replace(
                test,
                test=f"{kind}_{'bw' if title[3] == 'BW' else 'lat'}",
                bidirectional=test.bidirectional or bool(title[2]),
            )
        elif match := _COLUMNS.match(line):
            # Each has its unit: of "99% percentile[usec]" one word is enough.
            columns = [word for word in match[1].replace("BW ", "BW_").split() if "[" in word]
        elif match := _LISTED.match(line):
            if points:
                yield _done(test, points, listed)
                test, points, listed = known, [], {}
            if (address := _address(match[2])) is not None:
                listed[int(match[1])] = address
        elif match := _PICKED.match(line) or _PICKED_ROCM.match(line):
            if points:
                yield _done(test, points, listed)
                test, points = known, []
            test = replace(test, accelerator=int(match[1]))
        elif match := _GID.match(line):
            test = replace(test, gids=(*test.gids[:15], _gid(match[1])))
        elif _FAILURE.match(line):
            test = replace(test, failure=test.failure or line.strip()[:200])
        else:
            test = _with_fields(test, line)
    if points or test != known:
        yield _done(test, points, listed)


def _done(test: RdmaTest, points: Sequence[RdmaPoint], listed: dict[int, str]) -> RdmaTest:
    address = test.accelerator_address
    if address is None and test.accelerator is not None:
        address = listed.get(test.accelerator)
    every = tuple(listed[index] for index in sorted(listed))
    return replace(test, points=tuple(points), accelerators=every, accelerator_address=address)


_FIELDS: dict[str, Callable[[RdmaTest, str], RdmaTest]] = {
    "Device": lambda test, value: replace(test, device=value),
    "Number of qps": lambda test, value: replace(test, queue_pairs=_integer(value)),
    "PCIe relax order": lambda test, value: replace(test, relaxed_ordering=value),
    "Mtu": lambda test, value: replace(test, mtu=_integer(value.partition("[")[0])),
    "Link type": lambda test, value: replace(test, link=value),
    "GID index": lambda test, value: replace(test, gid_index=_integer(value)),
}


def _with_fields(test: RdmaTest, line: str) -> RdmaTest:
    """`` Dual-port : OFF   Device : mlx5_0``: one or two fields a line."""
    if ":" not in line or len(line) > 200:
        return test
    for match in _FIELD.finditer(line):
        if setter := _FIELDS.get(match[1].strip()):
            test = setter(test, match[2])
    return test


def _point(size: int, columns: Sequence[str], values: Sequence[str]) -> RdmaPoint:
    found: dict[str, float] = {}
    for name, word in zip(columns, values, strict=False):
        what, _, unit = name.rstrip("]").partition("[")
        if what in ("BW_peak", "BW_average") and unit in _GBITS:
            found[what] = round(float(word) * _GBITS[unit], 3)
        elif what == "t_typical":
            found[what] = float(word)
    return RdmaPoint(size, found.get("BW_average"), found.get("BW_peak"), found.get("t_typical"))


def _gid(decimal: str) -> str:
    """``00:00:...:255:255:10:02:01:05``: perftest writes the bytes of a GID in decimal."""
    data = bytes(min(int(part), 255) for part in decimal.split(":"))
    return data.hex(":", 2)


def _integer(word: str) -> int | None:
    return int(word) if re.fullmatch(r"\d{1,9}", word) else None


def _address(word: str) -> str | None:
    """``1B:00`` and ``0000:1b:00.0`` -> ``0000:1b:00.0``."""
    return bdf(word) or bdf(f"{word}.0")


_NAME = "ib_write_bw"
READERS = (
    reader(
        _NAME,
        read_perftest,
        command=_PROGRAM,
        shape=r"^[^\n]{0,80}#bytes\s+#iterations\s|^[^\n]{0,60}(?:RDMA_Write|RDMA_Read|Send)"
        r"(?: Bidirectional)? (?:BW|Latency) Test",
    ),
)
