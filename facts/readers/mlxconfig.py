"""Firmware settings of NICs as mlxconfig and mstconfig query them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackready.facts.parts.pcie import FirmwareSetting
from rackready.facts.readers.reader import Output, reader

_DEVICE = re.compile(r"(?:Device|PCI device|Device name):\s+(\S{3,60})$", re.IGNORECASE)
_ROW = re.compile(r"(?:\*|RO)?\s{0,12}([A-Z][A-Z0-9_]{2,60}(?:\[[\d.]{1,12}\])?)\s{2,80}(\S.*)$")
_ASKED = re.compile(r"\s-(?:d|-dev)[ =]?(\S+)")
_HEADS = ("Default", "Current", "Next Boot", "New")


def read_settings(output: Output) -> Iterator[FirmwareSetting]:
    """``mlxconfig -d DEVICE q``; with ``-e`` there are the default and the current value too."""
    asked = _ASKED.search(output.command)
    device = asked[1] if asked else ""
    columns = ["Next Boot"]
    for line in output.lines():
        if match := _DEVICE.match(line):
            device = match[1]
        elif line.startswith("Configurations:"):
            columns = sorted((name for name in _HEADS if name in line), key=line.index)
        elif match := _ROW.match(line):
            values = match[2].split()
            named = dict(zip(columns, values[-len(columns) :], strict=False)) if columns else {}
            following = named.get("Next Boot") or named.get("New") or values[0]
            yield FirmwareSetting(device, match[1], following, named.get("Current"))


READERS = (
    reader(
        "mlxconfig -d 0000:01:00.0 q",
        read_settings,
        command=r"(?:mlx|mst)config\b",
        shape=r"^Device #\d{1,3}:\n-{5,20}$|^Configurations:\s+(?:Default|Next Boot)",
    ),
)
