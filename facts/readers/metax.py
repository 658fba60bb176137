"""MetaX: mx-smi's table in its three generations, its list and matrix; versions; peer memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rackready.facts.model import Accelerator, AcceleratorStack
from rackready.facts.parts.accelerators import AcceleratorProcess, AcceleratorProcesses, Reading
from rackready.facts.parts.devices import Folder
from rackready.facts.parts.topology import Topology
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.search import is_of_all
from rackready.facts.readers.sysfs import bdf, number
from rackready.facts.readers.topology import read_topology

_LIST = re.compile(r"GPU#([0-9]{1,4})\s+(\S+(?: VF)?)\s+([0-9a-fA-F:.]+)\s+((?:Not )?Available.*)")
_UUID = re.compile(r"\(UUID: ([^()]*)\)$")
_REASON = re.compile(r"(Not Available)\s?\((.{1,120})\)$")
_ATTACHED = re.compile(r"Attached GPUs\s*:\s*([0-9]{1,4})\b")
_NONE = "No available devices were discovered"
_TOOL = re.compile(r"MX-SMI (\d\S*)|mx-smi\s+version: (\S+)")
_VERSION = r"(\d[^\s|]{0,60})(?=[ \t|])"  # a row ends in a bar: one that was cut ends sooner
_VERSIONS = {
    "driver_version": re.compile(rf"Kernel Mode Driver Version:\s*{_VERSION}"),
    "sdk_shown": re.compile(rf"MACA Version:\s*{_VERSION}"),
    "firmware_version": re.compile(rf"BIOS Version:\s*{_VERSION}"),
}
_MEMORY = re.compile(r"\b([0-9]{1,9})/([0-9]{1,9}) ?MiB")
_POWER = re.compile(r"\b([0-9]{1,5})W")
_TEMPERATURE = re.compile(r"\b([0-9]{1,3})C\b")
_USED = re.compile(r"([0-9]{1,3})%")
_PROCESS = re.compile(
    r"\|\s*([0-9]{1,4})\s+([0-9]{1,10})\s+(\S.{0,200}?)\s+([0-9]{1,9})(?: ?MiB)?\s*\|?$"
)
_VERSION_LINE = re.compile(r"version\s*:\s*(\d\S*)", re.IGNORECASE)
_PEER_MEMORY = re.compile(r"^[ \t]{0,16}peer_mem[ \t]+([01])[ \t]*$", re.MULTILINE)
VENDOR = "MetaX"
UNKNOWN = {"unknown", "NA", "N/A", ""}

FIRMWARE = "/lib/firmware/metax/mxc500"
"""Where the driver package puts the images of a VBIOS, when a listing does not say."""


def named(model: str) -> str:
    """The list says ``MXC500`` where the table of newer tools says ``MetaX C500``."""
    return re.sub(r"^MX(?=[A-Z]\d)", "MetaX ", model)


def tool_version(text: str) -> str | None:
    match = _TOOL.search(text)
    return (match[1] or match[2]) if match else None


def attached(output: Output) -> int | None:
    """The tool's own count of devices; only a call for all of them tells it."""
    if re.search(r"\s-i\b", output.command) or output.filters:
        return None
    match = _ATTACHED.search(output.text)
    if match:
        return int(match[1]) if is_of_all(output) else None
    return 0 if _NONE in output.text else None


def _stated(text: str) -> tuple[str | None, str | None]:
    """State and reason of ``Available``, ``Not Available(REASON)``; None: it shows no state."""
    if match := _REASON.match(text):
        return match[1], match[2]
    known = (word for word in ("Not Available", "Available") if text.startswith(word))
    return next(known, None), None


def read_matrix(output: Output) -> Iterator[Topology | AcceleratorStack]:
    """``mx-smi topo -m`` and ``-n``; the matrix alone tells whose devices these are, too."""
    yield from read_topology(output)
    if _ATTACHED.search(output.text) or tool_version(output.text):
        yield AcceleratorStack(vendor=VENDOR, tool_version=tool_version(output.text))


def read_list(output: Output) -> Iterator[AcceleratorStack]:
    """``mx-smi -L``: index, model, BDF, state with its reason, UUID where the tool prints one."""
    found = []
    for line in output.lines():
        if match := _LIST.fullmatch(line):
            index, model, address, state = match.groups()
            if uuid := _UUID.search(state):
                state = state[: uuid.start()].rstrip()
            word, reason = _stated(state)
            found.append(
                Accelerator(
                    index=int(index),
                    model=named(model),
                    bdf=bdf(address),
                    state=word or state,
                    reason=reason,
                    uuid=uuid[1] if uuid else None,
                )
            )
    none = attached(output) == 0
    if found or none:
        yield AcceleratorStack(
            vendor=VENDOR,
            accelerators=tuple(found),
            attached=len(found) if is_of_all(output) else None,
            tool_version=tool_version(output.text),
        )
    elif output.text.strip() and not output.filters:
        output.note("mx-smi printed no device that could be understood")


def read_table(
    output: Output,
) -> Iterator[AcceleratorStack | Reading | AcceleratorProcesses]:
    """
    The default table: two rows a device, laid out in one of three generations, then processes.

    ``--show-process`` prints the second part alone.
    """
    rows = list(output.lines())
    start = next((at for at, row in enumerate(rows) if row.startswith("| Process:")), len(rows))
    head = [row for row in rows[:start] if not row.startswith("+-")]
    devices = _devices(head)
    count = attached(output)
    versions: dict[str, Any] = {}
    for name, pattern in _VERSIONS.items():
        match = pattern.search(output.text)
        if match and match[1] not in UNKNOWN:
            versions[name] = match[1]
    if devices or count is not None or versions:
        yield AcceleratorStack(
            vendor=VENDOR,
            accelerators=tuple(device for device, _ in devices),
            attached=count,
            tool_version=tool_version(output.text),
            **versions,
        )
    for _, reading in devices:
        yield reading
    if start < len(rows):
        yield from _processes(rows[start:])
    if devices and count is not None and count != len(devices):
        output.note(f"mx-smi counts {count} devices and shows {len(devices)}")
    elif not devices and count != 0 and head and not output.filters and start == len(rows):
        output.note("mx-smi printed no device that could be understood")


def _devices(rows: Sequence[str]) -> list[tuple[Accelerator, Reading]]:
    found: list[tuple[Accelerator, Reading]] = []
    for line in rows:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        position = next((at for at, cell in enumerate(cells) if bdf(cell)), 0)
        if position:
            address = bdf(cells[position])
            # From 2.2.9 on the GPU index has a column of its own, behind that of the board.
            before = cells[position - 1].split()
            index = number(before[0]) if before and len(before[0]) < 5 else None
            if index is not None:
                model = named(" ".join(cells[0].split()[1:]))
                used = _USED.match(cells[-1])
                found.append(
                    (
                        Accelerator(index, model, address),
                        Reading(index, address, utilisation=int(used[1]) if used else None),
                    )
                )
        elif found and found[-1][1].memory_mib is None and (memory := _MEMORY.search(line)):
            device, reading = found[-1]
            state, reason = _stated(cells[-1])
            power, temperature = _POWER.search(line), _TEMPERATURE.search(line)
            found[-1] = (
                replace(device, state=state, reason=reason),
                replace(
                    reading,
                    memory_used_mib=int(memory[1]),
                    memory_mib=int(memory[2]),
                    power_w=int(power[1]) if power else None,
                    temperatures={"GPU": float(temperature[1])} if temperature else {},
                ),
            )
    return found


def _processes(rows: Sequence[str]) -> Iterator[AcceleratorProcesses]:
    """Rows ``GPU PID NAME MIB``, or ``no process found``; a table that is cut says nothing."""
    found = tuple(
        AcceleratorProcess(int(match[1]), int(match[2]), match[3], int(match[4]))
        for row in rows
        if (match := _PROCESS.match(row))
    )
    if found or any("no process found" in row for row in rows):
        yield AcceleratorProcesses("mx-smi", found)


def read_version_file(output: Output) -> Iterator[AcceleratorStack]:
    """``Version:3.8.1.6``."""
    if match := _VERSION_LINE.search(output.text):
        yield AcceleratorStack(vendor=VENDOR, sdk_version=match[1])


def read_properties(output: Output) -> Iterator[AcceleratorStack]:
    """``peer_mem 0`` among what the driver says of itself; the class has one of two names."""
    if match := _PEER_MEMORY.search(output.text):
        yield AcceleratorStack(vendor=VENDOR, peer_memory=match[1] == "1")


def read_images(output: Output) -> Iterator[Folder]:
    """``ls /lib/firmware/metax/mxc500/``: images of a VBIOS, with or without their path."""
    folder = next((word for word in output.arguments() if word.startswith("/")), FIRMWARE)
    folder = folder if not folder.endswith((".bin", "*")) else folder.rpartition("/")[0]
    words = (word for line in output.lines() for word in line.split())
    names = [word.rpartition("/")[2] for word in words if word.endswith(".bin")]
    if names:
        yield Folder(folder.rstrip("/"), tuple(names))


_OPTIONS = r"(?:\s+(?:-[itlc]\s+\S+|-i\S+))*"

READERS = (
    reader(
        "mx-smi topo -m",
        read_matrix,
        command=r"mx-smi\s+topo\b[^\n]{0,80}?\s(?:-[mn]|--show-(?:matrix|nic))\b",
        shape=r"^Device link type matrix\s*$",
    ),
    reader(
        "mx-smi -L",
        read_list,
        command=rf"mx-smi{_OPTIONS}\s+(?:-L|--list)\b",
        shape=r"^[ \t]{0,8}GPU#\d+ +\S+(?: VF)? +[0-9a-fA-F:.]+ +(?:Not )?Available",
    ),
    reader(
        "mx-smi",
        read_table,
        command=rf"mx-smi{_OPTIONS}\s*$|mx-smi{_OPTIONS}\s+--show-(?:all-)?process\b",
        shape=r"^\| MX-SMI \d|^\| Process: {20,}\|$",
    ),
    reader(
        "cat /opt/maca/Version.txt",
        read_version_file,
        command=r"(?:cat|more|head(?:\s+-\S+)*|grep\s[^|]{0,60}?)\s+/\S{0,200}maca\S{0,80}/[Vv]ersion\.txt",
        shape=r"^Version:\s?\d{1,3}(?:\.\d{1,6}){1,4}$",
    ),
    reader(
        "cat /sys/class/mxcd/mxcd/layout/properties",
        read_properties,
        command=r"(?:cat|grep\s[^|]{0,60}?)\s+/sys/class/(?:metax/)?mxcd/(?:mxcd/)?layout/properties",
        shape=r"^peer_mem[ \t]+[01]$",
    ),
    reader(
        "ls /lib/firmware/metax",
        read_images,
        command=r"ls\s[^\n]{0,80}?/lib/firmware/metax",
        shape=r"^(?:/\S{1,100}/)?mxvbios-\d[\w.-]{1,60}\.bin$",
    ),
)
