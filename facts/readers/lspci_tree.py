"""
``lspci -t``: the PCI tree as lspci draws it, so where each function sits.

    -+-[0000:16]-+-01.0-[17-1a]----00.0-[18-1a]--+-00.0-[19]----00.0  name, with -v alone
     |           |                               \\-01.0-[1a]--+-00.0
     |           |                                            \\-00.1
     \\-[0000:c8]---01.0-[c9]----00.0

Domain and bus of a root stand in brackets; behind a bridge stand the buses below it. A line goes on
at the column of the branch that it belongs to. A bus with a domain below a bridge is one more bus
of that bridge: its virtual functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from rackready.facts.model import PciFunction
from rackready.facts.parts.pci_names import BRIDGE
from rackready.facts.readers.lspci import named
from rackready.facts.readers.reader import Output, reader

_ROOT = r"\[[0-9a-f]{4,8}:[0-9a-f]{2}\]-"
_START = re.compile(rf"([^|+\\\[]{{0,40}}?)-(?:\+-)?{_ROOT}")
# Asked for one bridge (-s), lspci before 3.8 begins with that.
_PART = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):(?=[01][0-9a-f]\.[0-7]-\[)")
_BRANCH = re.compile(r"([ |]*)([+\\])-")
_BUS = re.compile(r"\[([0-9a-f]{4,8}):([0-9a-f]{2})\]-")
# lspci before 3.0 repeats the domain in front of the buses.
_FUNCTION = re.compile(
    r"([01][0-9a-f]\.[0-7])"
    r"(?:-\[(?:[0-9a-f]{4,8}:)?([0-9a-f]{2})(?:-([0-9a-f]{2}))?\]|  (\S.*)|(?=-)|$)"
)
_IN_ORDER = re.compile(r"(?:head|cat|tee|less|more|nl)\b")
_PCI_BRIDGE = BRIDGE << 16 | 0x0400


@dataclass(frozen=True)
class _Bus:
    """A bus: what leads to it, and the last bus that may lie below it."""

    domain: str
    number: int
    last: int = 0xFF
    root: str | None = None
    bridges: tuple[str, ...] | None = None  # None: the part above was not drawn


@dataclass
class _Branch:
    """A column at which the next lines go on: functions of a bus, or buses of a bridge."""

    column: int
    bus: _Bus | None  # None: the roots
    ended: bool = False
    function: str = ""  # the last one; they stand in order


@dataclass
class _Drawing:
    """What was drawn so far."""

    margin: int = 0
    branches: list[_Branch] = field(default_factory=list)
    torn: bool = False  # a line does not fit those above it

    def read(self, line: str) -> Iterator[PciFunction]:
        if start := _START.match(line):
            self.margin, self.branches = start.end(1), []
            yield from self._along(line[self.margin :], 0, None)
            return
        if part := _PART.match(line):
            self.margin, self.branches = 0, []
            yield from self._along(line, part.end(), _Bus(part[1], int(part[2], 16)))
            return
        line = line[self.margin :]
        branch = _BRANCH.match(line)
        if branch is None:
            return
        if (known := self._known(branch[1])) is None:
            self.torn = True
            return
        yield from self._along(line, len(branch[1]), known.bus)

    def _known(self, before: str) -> _Branch | None:
        """The branch that a line goes on with; None where lines above it are missing."""
        while self.branches and self.branches[-1].column > len(before):
            self.branches.pop()
        if not self.branches or self.branches[-1].column != len(before):
            return None
        *above, branch = self.branches
        bars = [column for column, mark in enumerate(before) if mark == "|"]
        if branch.ended or bars != [item.column for item in above if not item.ended]:
            return None
        return branch

    def _along(self, line: str, at: int, bus: _Bus | None) -> Iterator[PciFunction]:
        """Functions of one line from ``at`` on, where ``bus`` is."""
        while at < len(line):
            if line[at] == "-":
                at += 1
            elif line[at] in "+\\":
                if not self.branches or self.branches[-1].column != at:
                    self.branches.append(_Branch(at, bus))
                self.branches[-1].ended = line[at] == "\\"
                at += 1
            elif name := _BUS.match(line, at):
                at, bus = name.end(), _named_bus(bus, name[1], int(name[2], 16))
            elif (found := _FUNCTION.match(line, at)) and bus is not None:
                if not self._in_order(found, at, bus):
                    self.torn = True
                    return
                function = _function(found, bus)
                yield function
                if function.buses is None:
                    return
                at, bus = found.end(), _below(bus, function)
            else:
                return

    def _in_order(self, found: re.Match[str], at: int, bus: _Bus) -> bool:
        """False where a function or the buses below it can't stand here."""
        if self.branches and self.branches[-1].column == at - 2:
            branch = self.branches[-1]
            if found[1] <= branch.function:
                return False
            branch.function = found[1]
        if found[2] is None or found[2] == "00":
            return True
        first, last = int(found[2], 16), int(found[3] or found[2], 16)
        return bus.number < first <= last <= bus.last


def read_tree(output: Output) -> Iterator[PciFunction]:
    """The tree with or without names and numbers (``-v``, ``-nn``), whole or from a bridge on."""
    drawing = _Drawing()
    # What grep lets through stands alone: of each line only what it draws from its root on counts.
    alone = any(not _IN_ORDER.match(item) for item in output.filters)
    for line in output.text.split("\n"):
        if alone:
            drawing = _Drawing()
            if _BRANCH.match(line) and not re.match(rf" [+\\]-{_ROOT}", line):
                continue
            line = f"-+{line[2:]}" if line.startswith((" +-[", " \\-[")) else line
        yield from drawing.read(line.expandtabs(8).rstrip())
    if drawing.torn and not alone:
        output.note("the tree of lspci lacks lines or blanks; what hangs on them is left out")


def _named_bus(above: _Bus | None, domain: str, number: int) -> _Bus:
    if above is None:
        return _Bus(domain, number, root=f"pci{domain}:{number:02x}", bridges=())
    return replace(above, number=number)


def _below(bus: _Bus, bridge: PciFunction) -> _Bus:
    first, last = bridge.buses or (0, 0)
    bridges = None if bus.bridges is None else (*bus.bridges, bridge.bdf)
    return replace(bus, number=first, last=last, bridges=bridges)


def _function(found: re.Match[str], bus: _Bus) -> PciFunction:
    vendor, device, name = named(found[4]) if found[4] else (None, None, None)
    first, last = found[2], found[3] or found[2]
    return PciFunction(
        f"{bus.domain}:{bus.number:02x}:{found[1]}",
        vendor=vendor,
        device=device,
        name=name,
        class_code=_PCI_BRIDGE if first else None,
        root=bus.root,
        bridges=bus.bridges,
        buses=(int(first, 16), int(last, 16)) if first else None,
    )


READERS = (
    reader(
        "lspci -t",
        read_tree,
        command=r"lspci(?:\s+\S+){0,12}?\s+-[A-Za-z]{0,8}t[A-Za-z]{0,8}(?=\s|$)",
        shape=rf"^[^\n|+\\\[]{{0,40}}(?:-(?:\+-)?| [+\\]-){_ROOT}[+-]-[01][0-9a-f]\.[0-7]"
        r"|^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]-\[[0-9a-f]{2}[\]-]",
    ),
)
