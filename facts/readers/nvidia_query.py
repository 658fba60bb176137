"""Tables that nvidia-smi prints for ``--query-gpu=FIELD,FIELD --format=csv``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import MappingProxyType

from rackready.facts.parts.pcie import DeviceQuery
from rackready.facts.parts.smi import Health
from rackready.facts.readers import sysfs
from rackready.facts.readers.reader import Output, reader

_ASKED = re.compile(
    r"--query-(?:[gp]pu|remapped-rows|retired-pages)[= ]([\w.,* -]+?)(?=\s--|\s-|$)"
)
_UNIT = re.compile(r" \[[^\]]{1,12}\]$")
_VALUE = re.compile(r"(-?\d+(?:\.\d+)?) (?:%|MiB|W|MHz|C|us|ms|bytes)$")
# A field has other names in other versions.
_BUS = ("pci.bus_id", "gpu_bus_id")
_UUID = ("uuid", "gpu_uuid")


def read_query(output: Output) -> Iterator[DeviceQuery | Health]:
    """A row for each GPU; without a header the fields are those that the command asks for."""
    asked = _ASKED.search(output.command)
    fields = [name.strip() for name in asked[1].split(",")] if asked else []
    for line in output.lines():
        cells = [cell.strip() for cell in line.split(", ")]
        if len(cells) == 1:
            cells = [cell.strip() for cell in line.split(",")]
        names = [_UNIT.sub("", cell) for cell in cells]
        if all(re.fullmatch(r"[a-z][a-z0-9_.]{2,80}", name) for name in names):
            fields = names
        elif fields and len(cells) == len(fields):
            row = _row(dict(zip(fields, cells, strict=True)))
            yield row
            if health := _health(row, "ppu-smi" if "ppu" in output.command else "nvidia-smi"):
                yield health
        elif len(cells) > 1:
            output.note(f"{len(cells)} values of {len(fields)} fields: {line[:60]!r}")


def _row(cells: dict[str, str]) -> DeviceQuery:
    values = {
        name: match[1] if (match := _VALUE.match(cell)) else cell for name, cell in cells.items()
    }
    bus = next((values[name] for name in _BUS if name in values), "")
    return DeviceQuery(
        bdf=sysfs.bdf(bus),
        index=sysfs.number(values.get("index")),
        uuid=next((values[name] for name in _UUID if name in values), None),
        values=MappingProxyType(values),
    )


def _health(row: DeviceQuery, tool: str) -> Health | None:
    """The fields that ``-q`` shows as ECC errors and remapped rows."""

    def count(*names: str) -> int | None:
        found = (sysfs.number(row.values.get(name)) for name in names)
        return next((value for value in found if value is not None), None)

    def flag(*names: str) -> bool | None:
        value = next((row.values[name] for name in names if name in row.values), "")
        return {"1": True, "Yes": True, "0": False, "No": False}.get(value)

    name = row.bdf or (None if row.index is None else f"device {row.index}") or row.uuid
    if name is None:
        return None
    found = Health(
        bdf=name,
        tool=tool,
        corrected=count("ecc.errors.corrected.volatile.total"),
        uncorrected=count("ecc.errors.uncorrected.volatile.total"),
        uncorrected_ever=count("ecc.errors.uncorrected.aggregate.total"),
        remapped=count("remapped_rows.uncorrectable"),
        remap_pending=flag("remapped_rows.pending", "retired_pages.pending"),
        remap_failed=flag("remapped_rows.failure"),
    )
    return None if found == Health(bdf=name, tool=tool) else found


READERS = (
    reader(
        "nvidia-smi --query-gpu=index --format=csv",
        read_query,
        command=r"(?:nvidia|ppu)-smi\s[^\n]{0,80}?--query-(?:[gp]pu|remapped-rows|retired-pages)\b",
        shape=r"^(?:timestamp|index|name|uuid|gpu_name|gpu_uuid|pci\.bus_id|gpu_bus_id),"
        r" [a-z][a-z0-9_.]{2,60}(?: \[[^\]\n]{1,12}\])?(?:,|$)",
    ),
)
