"""MetaX: what mx-smi measures and counts, in blocks of keys and values, as CSV and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rackready.facts.model import Accelerator, AcceleratorStack
from rackready.facts.parts.accelerators import ErrorCounts, Reading
from rackready.facts.parts.pcie import LinkFiles
from rackready.facts.parts.smi import DeviceLink
from rackready.facts.readers.metax import UNKNOWN, VENDOR, attached, named, tool_version
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.sysfs import bdf

_DEVICE = re.compile(r"GPU#([0-9]{1,4})\s+(\S+(?: VF)?)\s+([0-9a-fA-F:.]{7,16})$")
_PAIR = re.compile(r"(\S.{0,80}?)\s*: +(\S.*)$")
_GROUP = re.compile(r"[A-Z][\w /-]{1,60}$")
_DECIMAL = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(?:\s|$)")
_SHOWN = {"BIOS": "firmware_version", "MACA": "sdk_shown", "KMD": "driver_version"}
_MOST = 1024  # devices


@dataclass
class Block:
    """One device's part of an output: ``{"ECC Errors": {"SRAM Correctable": "0"}}``."""

    index: int
    model: str
    bdf: str | None
    groups: dict[str, dict[str, str]] = field(default_factory=dict)

    def value(self, *keys: str) -> str | None:
        """The first value under one of these keys, whatever its group."""
        for group in self.groups.values():
            for key in keys:
                if key in group:
                    return group[key]
        return None

    def number(self, *keys: str) -> float | None:
        match = _DECIMAL.match(self.value(*keys) or "")
        return float(match[1]) if match else None


def blocks(output: Output) -> list[Block]:
    """The devices of an output of ``--show-...``; keys stand below groups, which may be missing."""
    found: list[Block] = []
    group = ""
    for line in output.lines():
        if match := _DEVICE.match(line):
            found.append(Block(int(match[1]), named(match[2]), bdf(match[3])))
            group = ""
        elif line == "End of Log" or len(found) > _MOST:
            break
        elif found and (match := _PAIR.match(line)):
            found[-1].groups.setdefault(group, {})[match[1]] = match[2]
        elif _GROUP.match(line):
            group = line
    return found


def read_blocks(
    output: Output,
) -> Iterator[AcceleratorStack | Reading | ErrorCounts | LinkFiles | DeviceLink]:
    """``--show-version``, ``--show-temperature``, ``--show-memory``, ``--count-ecc`` and others."""
    found = blocks(output)
    if not found:
        if output.text.strip() and not output.filters and attached(output) != 0:
            output.note("mx-smi printed no device that could be understood")
        return
    versions: dict[str, Any] = {
        name: value
        for key, name in _SHOWN.items()
        for block in found[:1]
        if (value := block.value(key)) and value not in UNKNOWN
    }
    yield AcceleratorStack(
        vendor=VENDOR,
        accelerators=tuple(Accelerator(item.index, item.model, item.bdf) for item in found),
        attached=attached(output),
        tool_version=tool_version(output.text),
        **versions,
    )
    for block in found:
        yield from _pci_link(block)
        yield from _mesh(block)
        yield from _reading(block)
        yield from _counts(block)


_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_LINK_STATE = re.compile(r"(?:MetaXLink|MXLK|Link|Port)[ #_]?(\d{1,2})\b", re.IGNORECASE)


def _pci_link(block: Block) -> Iterator[LinkFiles]:
    """``--show-pcie``: ``Current Speed : 2.5 GT/s``, ``Current Width : x16``."""
    speed, most = (_GENERATIONS.get(block.number(f"{k} Speed") or 0) for k in ("Current", "Max"))
    width, widest = (
        int(found[1]) if (found := re.match(r"x(\d{1,2})$", value)) else None
        for value in (block.value(f"{k} Width") or "" for k in ("Current", "Max"))
    )
    if block.bdf and (speed or width):
        yield LinkFiles(block.bdf, speed, width, most, widest)


def _mesh(block: Block) -> Iterator[DeviceLink]:
    """``mxlk --show-state``: each link is enabled, or says by what it is disabled."""
    for values in block.groups.values():
        for key, value in values.items():
            state, match = value.lower(), _LINK_STATE.match(key)
            if match and re.search(r"\b(?:enabled?|disabled?)\b", state):
                up = "disable" not in state
                yield DeviceLink(f"GPU {block.index}", int(match[1]), active=up)


def _reading(block: Block) -> Iterator[Reading]:
    used, total = block.number("vram used"), block.number("vram total")
    load = block.number("GPU")
    temperatures = {
        key: float(match[1])
        for group, values in block.groups.items()
        if "emperature" in group
        for key, value in values.items()
        if value.endswith("C") and (match := _DECIMAL.match(value))
    }
    if used is not None or load is not None or temperatures:
        yield Reading(
            block.index,
            block.bdf,
            None if used is None else int(used) >> 10,
            None if total is None else int(total) >> 10,
            None if load is None else int(load),
            temperatures=temperatures,
        )


def _counts(block: Block) -> Iterator[ErrorCounts]:
    errors: dict[str, int] = {}
    retired: dict[str, int] = {}
    for group, values in block.groups.items():
        into = retired if "Retired" in group else errors if "ECC" in group else None
        for key, value in values.items():
            if into is not None and (match := re.match(r"(\d{1,18})(?:\s|$)", value)):
                into[key] = int(match[1])
    if errors or retired:
        yield ErrorCounts(block.index, block.bdf, errors, retired)


_TEMPERATURES = {"hottemp": "hotspot", "soctemp": "soc", "coretemp": "core"}


def read_monitor(output: Output) -> Iterator[Reading]:
    """``mx-smi dmon --format csv``: names, units, then a row a device and moment."""
    names: list[str] = []
    for line in output.lines():
        cells = [cell.strip() for cell in line.split(",")]
        if "bdfid" in cells or cells[:2] == ["dev", "die"]:
            names = cells
        elif names and cells[0].isdecimal() and len(cells) >= len(names):
            row = dict(zip(names, cells, strict=False))
            values = {
                key: float(match[1]) for key, cell in row.items() if (match := _DECIMAL.match(cell))
            }
            yield Reading(
                int(cells[0]) if len(cells[0]) < 5 else None,
                bdf(row.get("bdfid", "")),
                utilisation=int(values["gpu"]) if "gpu" in values else None,
                power_w=values.get("power"),
                temperatures={
                    sensor: values[key] for key, sensor in _TEMPERATURES.items() if key in values
                },
            )
    if not names and output.text.strip() and not output.filters:
        output.note("no table of measurements")


def read_json(output: Output) -> Iterator[AcceleratorStack]:
    """``mx-smi -j``: a line of text, then an object with a key for each bus address."""
    start = output.text.find("{")
    try:
        data, _ = json.JSONDecoder().raw_decode(output.text[start:] if start >= 0 else "")
    except (ValueError, RecursionError):
        output.note("no JSON that could be understood")
        return
    found = tuple(
        _accelerator(address, value)
        for key, value in data.items()
        if isinstance(value, Mapping) and (address := bdf(key))
    )
    count = data.get("attached_gpus")
    yield AcceleratorStack(
        vendor=VENDOR,
        accelerators=found,
        attached=count if isinstance(count, int) and "-i" not in output.command.split() else None,
        tool_version=tool_version(output.text[:start]),
        driver_version=_known(data.get("driver_version")),
        sdk_shown=_known(data.get("maca_version")),
    )


def _accelerator(address: str, value: Mapping[str, Any]) -> Accelerator:
    index, reason = value.get("device_id"), value.get("unavailable_reason")
    return Accelerator(
        index=index if isinstance(index, int) else None,
        bdf=address,
        state="Not Available" if reason else None,
        reason=str(reason) if reason else None,
    )


def _known(value: object) -> str | None:
    return value if isinstance(value, str) and value not in UNKNOWN else None


READERS = (
    reader(
        "mx-smi dmon",
        read_monitor,
        command=r"mx-smi\s+dmon\b",
        shape=r"^dev, ?die, ?hottemp,",
    ),
    reader(
        "mx-smi -j",
        read_json,
        command=r"mx-smi\s[^\n|]{0,200}?(?:-j|--json)\b",
        shape=r'^\s{0,8}"maca_version" ?:',
    ),
    reader(
        "mx-smi --show-version",
        read_blocks,
        command=r"mx-smi\s[^\n|]{0,200}?(?:--(?:show|count)-|--summary\b|-s\b)|mx-smi\s+mxlk\b",
        shape=r"^GPU#\d+ +\S+(?: VF)? +[0-9a-fA-F]{2,8}:[0-9a-fA-F:.]{5,14} *$",
    ),
)
