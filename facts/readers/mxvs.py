"""``mxvs``, the vendor's test of copies between accelerators and over PCIe."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from rackready.facts.parts.bandwidth import Board, CopyTest, Transfer
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.sysfs import bdf
from rackready.facts.readers.tagged import split_tagged

_TITLE = re.compile(r"\s+((?:MXVS )?[A-Z][A-Z0-9 -]{2,60}(?:TEST|BENCHMARK))\s*$")
_FIGURE = r"(\d{1,9}(?:\.\d{1,6})?)\s*([KMGT]i?B)/s"
_PAIR = re.compile(
    rf"\s*(GPU#\d{{1,4}})\s+(GPU#\d{{1,4}})\s+([A-Za-z]\S{{1,30}})\s+(\d{{1,16}})\s+{_FIGURE}\s+"
    rf"{_FIGURE}\s+[\d.]{{1,16}}\s+([A-Z]{{2,10}})"
)
_BUS = re.compile(
    r"\s*(CPU|[A-Z]{3,5}#\d{1,4})\s+(<<|>>|<>|<->|<-|->)\s+(CPU|[A-Z]{3,5}#\d{1,4})\s+"
    rf"(\d{{1,16}})\s+{_FIGURE}\s+{_FIGURE}\s+[\d.]{{1,16}}\s+([A-Z]{{2,10}})"
)
_BOARD = re.compile(r"\s*GPU ID\s+(\d{1,4})\s*$")
_FIELD = re.compile(r"\s*([A-Z][A-Z ]{1,20}?)\s{2,}(\S.*)$")
_LINK = re.compile(r"speed:\s*(\d{1,3}(?:\.\d{1,2})?)\s*GT/s\s+width:\s*x(\d{1,2})(?!\d)")
_BEGINS = re.compile("|".join(f"(?:{each.pattern})" for each in (_TITLE, _PAIR, _BUS, _BOARD)))
_RIGHT = {"PASS": True, "OK": True, "FAIL": False, "FAILED": False, "ERROR": False}
_UNITS = {"K": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3}
_TAG = r"(?:[\w.\[\],<>-]{1,80}: )?"  # who printed the line: "0: ", "node1: "
_MOST = 65_536  # rows of a table


def read_mxvs(output: Output) -> Iterator[CopyTest | Board]:
    """
    ``mxvs p2p`` and ``mxvs pcie``: a block for each board, then a table.

    Of several processes or hosts (``node1: `` before the lines) each has a table of its own.
    """
    found = [fact for lines in split_tagged(output.text, _BEGINS) for fact in _facts(lines)]
    if not found and not output.filters:
        output.note("no table of a test")
    yield from found


def _facts(lines: Iterable[str]) -> Iterator[CopyTest | Board]:
    title, transfers = "", list[Transfer]()
    board: dict[str, str] = {}
    for line in lines:
        if match := _BOARD.match(line):
            yield from _board(board)
            board = {"GPU ID": match[1]}
        elif match := _PAIR.match(line):
            source, target, link, size, *rest = match.groups()
            transfers.append(_transfer(source, target, link, size, *rest))
        elif match := _BUS.match(line):
            left, arrow, right, size, *rest = match.groups()
            source, target = (right, left) if arrow in ("<<", "<-") else (left, right)
            transfers.append(_transfer(source, target, "pcie", size, *rest))
        elif match := _TITLE.match(line):
            if transfers:
                yield CopyTest("mxvs", title, tuple(transfers[:_MOST]))
                transfers = []
            title = match[1].strip()
        elif board and (match := _FIELD.match(line)):
            board.setdefault(match[1], match[2].strip())
    yield from _board(board)
    if transfers:
        yield CopyTest("mxvs", title, tuple(transfers[:_MOST]))


def _transfer(
    source: str,
    target: str,
    link: str,
    size: str,
    effective: str,
    unit: str,
    raw: str,
    raw_unit: str,
    data: str,
) -> Transfer:
    return Transfer(
        source,
        target,
        _gigabytes(effective, unit),
        link.lower(),
        _gigabytes(raw, raw_unit),
        int(size),
        _RIGHT.get(data),
    )


def _gigabytes(number: str, unit: str) -> float:
    return round(float(number) * _UNITS[unit[0]], 6)


def _board(fields: Mapping[str, str]) -> Iterator[Board]:
    if not fields:
        return
    now, most = (_LINK.match(fields.get(name, "")) for name in ("CURRENT PCIE", "MAXIMUM PCIE"))
    yield Board(
        int(fields["GPU ID"]),
        fields.get("MODEL"),
        bdf(fields.get("BDF", "")),
        fields.get("KMD"),
        fields.get("VBIOS"),
        float(now[1]) if now else None,
        int(now[2]) if now else None,
        float(most[1]) if most else None,
        int(most[2]) if most else None,
    )


READERS = (
    reader(
        "mxvs p2p",
        read_mxvs,
        command=r"mxvs\b",
        shape=rf"^{_TAG}\s{{0,120}}MXVS [A-Z0-9]+ TEST\s*$"
        rf"|^{_TAG}\s{{0,120}}PCIE (?:UNI|BI)DIRECTIONAL BENCHMARK"
        rf"|^{_TAG} {{0,8}}GPU#\d+ +GPU#\d+ +\w+ +\d+ +[\d.]+ GB/s",
    ),
)
