"""Folding of node names: ``c500-[001-032]``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

# With these in a name, ClusterShell would take it for an expression over node sets.
_OPERATORS = frozenset("[]!&^,@%*? \t")
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
