"""Topology matrices: ``nvidia-smi topo -m``, ``ppu-smi topo -m`` and others of their layout."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import MappingProxyType

from rackready.facts.parts.topology import Topology
from rackready.facts.readers.reader import Output, reader

_NAME = re.compile(r"(?:[A-Z]{3}\d{1,3}|[a-z](?:[^\W\d]|-)*\d[\w-]*)$")
_CELL = re.compile(r"(?:X|[A-Z]{2,6}\d{0,3}|N/A)$")
_NIC = re.compile(r"(NIC\d{1,3})\s*:\s*(\S+)$")
_AFFINITY = re.compile(r"(CPU|NUMA|Node) Affinity|GPU NUMA ID")
_MOST = 128  # columns: beyond, it is no matrix


def matrix(tool: str, lines: Sequence[str]) -> Topology | None:
    """
    The matrix in some lines; None when there is none.

    A terminal that is too narrow breaks rows: what a row lacks is taken from the lines below it.
    """
    names: list[str] = []
    affinity: list[str] = []
    links: dict[str, tuple[str, ...]] = {}
    nics: dict[str, str] = {}
    numa: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        words = line.split()
        if match := _NIC.match(line.strip()):
            nics[match[1]] = match[2]
        elif not links and (more := _columns(line)):
            names = [*names, *more][:_MOST]
            affinity += _affinities(line)
        elif not links and names and _AFFINITY.match(line):
            affinity += _affinities(line)
        elif words and words[0] in names:
            cells = words[1:]
            while len(cells) < len(names) and at < len(lines) and _is_rest(lines[at]):
                cells += lines[at].split()
                at += 1
            if len(cells) < len(names) or not all(map(_CELL.match, cells[: len(names)])):
                continue
            links[words[0]] = tuple(cells[: len(names)])
            rest = cells[len(names) :]
            if len(rest) < len(affinity) and at < len(lines) and not _starts_row(lines[at], names):
                rest += lines[at].split()
            node = _node(affinity, rest)
            if node is not None:
                numa[words[0]] = node
    if not links:
        return None
    return Topology(
        tool,
        tuple(names),
        MappingProxyType(links),
        MappingProxyType(nics),
        MappingProxyType(numa),
    )


def _columns(line: str) -> list[str]:
    """Names of a line that holds nothing but names of columns; [] for any other line."""
    match = _AFFINITY.search(line)
    words = line[: match.start() if match else None].split()
    good = all(map(_NAME.match, words)) and len(words) == len(set(words))
    return words if good and line[:1] in " \t" else []


def _affinities(line: str) -> list[str]:
    return [match[1] or match[0] for match in _AFFINITY.finditer(line)]


def _is_rest(line: str) -> bool:
    words = line.split()
    return bool(words) and _CELL.match(words[0]) is not None


def _starts_row(line: str, names: Sequence[str]) -> bool:
    words = line.split()
    return not words or words[0] in names


def _node(affinity: Sequence[str], rest: Sequence[str]) -> str | None:
    """The NUMA node among what stands behind the matrix; blank cells leave it open."""
    for word in ("NUMA", "Node"):
        if word in affinity and len(rest) == len(affinity):
            value = rest[affinity.index(word)]
            return value if re.fullmatch(r"\d{1,3}(?:[-,]\d{1,3})*", value) else None
    return None


def read_topology(output: Output) -> Iterator[Topology]:
    """``nvidia-smi topo -m``; the tool is named by the command that printed it."""
    tool = output.program
    found = matrix(tool, output.text.split("\n"))
    if found is not None:
        yield found
    elif output.text.strip() and not output.filters:
        output.note("no topology matrix")


READERS = (
    reader(
        "nvidia-smi topo -m",
        read_topology,
        command=r"nvidia-smi\s+topo\s+(?:-m|-mp|--matrix)\b",
        shape=r"^[ \t]+GPU0\b[^\n]*(?:CPU Affinity[ \t]+NUMA Affinity|\tCPU Affinity[ \t]*$)",
    ),
    reader(
        "ppu-smi topo -m",
        read_topology,
        command=r"ppu-smi\s+topo\s+(?:-m|--matrix)\b",
        shape=r"^[ \t]+PPU0\b[^\n]*\bCPU Affinity",
    ),
)
