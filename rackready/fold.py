"""Folding of node names to sets such as ``c500-[001-032]``, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

# With these in a name, ClusterShell would take it for an expression over node sets.
_OPERATORS = frozenset("[]!&^,@%*? \t")
MOST = 100_000  # names that are written out: no cluster is larger
# What makes a set large: lists of ranges, with the digits before them, which belong to the bounds.
_PIECE = re.compile(r"((?<![0-9])[0-9]*)\[([^\[\]]*)\]|[,!&^]")
_RANGE = re.compile(r"\s*([0-9]+)\s*(?:-\s*([0-9]+)\s*(?:/\s*([0-9]+)\s*)?)?")
_BETWEEN = re.compile(r",(?![^\[\]]*\])")  # commas that part node sets, not those in brackets


def fold(names: Iterable[str]) -> str:
    """Names folded by their numbers, in the order of ClusterShell; odd names stand as they are."""
    names = list(names)
    plain = [name for name in names if name and not _OPERATORS & set(name)]
    odd = sorted(set(names) - set(plain))
    try:
        folded = str(NodeSet.fromlist(plain, resolver=RESOLVER_NOGROUP)) if plain else ""
    except NodeSetException:
        folded = ",".join(sorted(set(plain)))
    return ", ".join(part for part in (*_BETWEEN.split(folded), *odd) if part)


def unfold(text: str) -> list[str]:
    """The names of a node set. ValueError when it is none, or has more names than ``MOST``."""
    try:
        if _size(text) <= MOST:
            # without a resolver: a group would be looked up with commands of this machine
            return list(NodeSet(text, resolver=RESOLVER_NOGROUP))
    except (NodeSetException, ValueError, AssertionError) as error:  # the latter: huge numbers
        raise ValueError(f"no node set: {error}") from error
    raise ValueError(f"more than {MOST:,} names")


def _size(text: str) -> int:
    """
    How many names a node set has at most: ClusterShell would write them out in memory first.

    Names count although ``!`` or ``&`` takes them away again.
    """
    total, product = 0, 1
    for piece in _PIECE.finditer(text):
        if piece[2] is None:
            total, product = total + product, 1
        else:
            product *= sum(_span(piece[1], part) for part in piece[2].split(","))
    return total + product


def _span(digits: str, part: str) -> int:
    """Numbers in ``7``, ``1-32`` or ``0-100/2``; ``digits`` stand before the bounds."""
    numbers = _RANGE.fullmatch(part)
    if numbers is None:
        raise ValueError(f"{part!r} is no range of numbers")
    first, last, step = numbers[1], numbers[2] or numbers[1], int(numbers[3] or 1)
    return max(0, int(digits + last) - int(digits + first)) // max(1, step) + 1
