"""MetaX: mx-smi in its three generations, SDK version, peer memory state."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from rackready.facts.model import Accelerator, AcceleratorStack
from rackready.facts.readers.sysfs import Note, bdf, lines, number

_LIST = re.compile(r"GPU#([0-9]{1,4})\s+(\S+)\s+([0-9a-fA-F:.]+)\s+((?:Not )?Available.*)")
_UUID = re.compile(r"\(UUID: ([^()]*)\)$")
_ATTACHED = re.compile(r"Attached GPUs\s*:\s*([0-9]{1,4})\b")
_VERSIONS = {
    "tool_version": re.compile(r"MX-SMI (\S+)|mx-smi\s+version: (\S+)"),
    "driver_version": re.compile(r"Kernel Mode Driver Version:\s*([^\s|]+)"),
    "sdk_version": re.compile(r"MACA Version:\s*([^\s|]+)"),
    "firmware_version": re.compile(r"BIOS Version:\s*([^\s|]+)"),
}
_MEMORY = re.compile(r"\b([0-9]{1,9})/([0-9]{1,9}) MiB")
_POWER = re.compile(r"\b([0-9]{1,5})W")
_TEMPERATURE = re.compile(r"\b([0-9]{1,3})C\b")
_GPU = re.compile(r"GPU([0-9]{1,4})")
_UNKNOWN = {"unknown", "NA", "N/A", ""}

PROPERTIES = (
    "/sys/class/mxcd/mxcd/layout/properties",
    "/sys/class/metax/mxcd/layout/properties",
)
"""What the driver says of itself; the class has one of two names."""


def read_list(text: str) -> tuple[Accelerator, ...]:
    """``mx-smi -L``: index, model, BDF, state with its reason, UUID where the tool prints one."""
    found = []
    for _, line in lines(text):
        if match := _LIST.fullmatch(line):
            index, model, address, state = match.groups()
            if uuid := _UUID.search(state):
                state = state[: uuid.start()].rstrip()
            identity = uuid[1] if uuid else None
            found.append(Accelerator(int(index), model, bdf(address), state, identity))
    return tuple(found)


def read_table(text: str) -> tuple[Accelerator, ...]:
    """The default table: two rows a device, laid out in one of three generations."""
    found: list[Accelerator] = []
    for _, line in lines(text):
        if line.startswith("| Process"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        addresses = [(i, address) for i, cell in enumerate(cells) if (address := bdf(cell))]
        if addresses:
            position, address = addresses[0]
            # From 2.2.9 on the GPU index has a column of its own, behind that of the board.
            before = cells[position - 1].split() if position else []
            index = number(before[0]) if before else None
            if index is not None:
                model = " ".join(cells[0].split()[1:])
                found.append(Accelerator(index, model, address))
        elif found and found[-1].memory_mib is None and (memory := _MEMORY.search(line)):
            power, temperature = _POWER.search(line), _TEMPERATURE.search(line)
            state = cells[-1]
            found[-1] = replace(
                found[-1],
                state=state if "vailable" in state else None,
                memory_used_mib=int(memory[1]),
                memory_mib=int(memory[2]),
                power_w=int(power[1]) if power else None,
                temperature_c=int(temperature[1]) if temperature else None,
            )
    return tuple(found)


def read_topology(text: str) -> dict[int, tuple[str, ...]]:
    """``mx-smi topo -m``: link class from each GPU to each GPU, in index order."""
    columns: list[str] = []
    rows: dict[int, tuple[str, ...]] = {}
    for _, line in lines(text):
        words = line.split()
        if not columns:
            titles = ("GPU1", "NIC", "Node")
            if len(words) > 1 and words[0] == "GPU0" and words[1].startswith(titles):
                columns = [word for word in words if _GPU.fullmatch(word)]
        elif words[0] == "Legend:":
            break
        elif (row := _GPU.fullmatch(words[0])) and len(words) > len(columns):
            rows[int(row[1])] = tuple(words[1 : len(columns) + 1])
    return rows


def read_version_file(text: str) -> str | None:
    """``Version:3.8.1.6``."""
    match = re.search(r"version\s*:\s*(\S+)", text, re.IGNORECASE)
    return match[1] if match else None


def read_stack(outputs: Mapping[str, str], note: Note) -> AcceleratorStack:
    """Accelerators and their software from the outputs of the MetaX tools that ran."""
    table, listing = outputs.get("mx-smi"), outputs.get("mx-smi -L")
    everything = "\n".join(text for text in (table, listing) if text is not None)
    versions: dict[str, str | None] = {}
    for name, pattern in _VERSIONS.items():
        match = pattern.search(everything)
        value = next((group for group in match.groups() if group), "") if match else ""
        versions[name] = None if value in _UNKNOWN else value
    sdk = read_version_file(outputs.get("cat /opt/maca/Version.txt", "")) or read_version_file(
        outputs.get("cat /opt/maca/version.txt", "")
    )
    count = _ATTACHED.search(table or "")

    by_index = {item.index: item for item in read_table(table or "") if item.index is not None}
    for item in read_list(listing or ""):
        if item.index is None:
            continue
        known = by_index.get(item.index)
        by_index[item.index] = (
            replace(
                known,
                bdf=known.bdf or item.bdf,
                # -L gives the reason of a device that is not available
                state=item.state or known.state,
                uuid=item.uuid,
            )
            if known
            else item
        )
        if known and known.bdf != item.bdf and None not in (known.bdf, item.bdf):
            note(f"GPU {item.index} is {known.bdf} in the table and {item.bdf} in the list")
    links = read_topology(outputs.get("mx-smi topo -m", ""))
    accelerators = tuple(
        replace(item, links=links.get(index)) for index, item in sorted(by_index.items())
    )
    properties = "\n".join(outputs.get(f"cat {path}", "") for path in PROPERTIES)
    peer = re.search(r"\bpeer_mem\s+([01])\b", properties)
    seen = bool(accelerators) or (count is not None and count[1] == "0")
    if everything.strip() and not seen:
        note("mx-smi printed no device that could be understood")
    elif count is not None and int(count[1]) != len(accelerators):
        note(f"mx-smi counts {count[1]} devices and shows {len(accelerators)}")
    return AcceleratorStack(
        accelerators=accelerators if seen else None,
        attached=int(count[1]) if count else None,
        tool_version=versions["tool_version"],
        driver_version=versions["driver_version"],
        sdk_version=sdk or versions["sdk_version"],
        firmware_version=versions["firmware_version"],
        peer_memory=None if peer is None else peer[1] == "1",
    )
