"""Accelerator tools with the common layout: the table, -L, -q, links and their counters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from rackready.facts.model import Accelerator, AcceleratorStack
from rackready.facts.parts.accelerators import AcceleratorProcess, AcceleratorProcesses, Reading
from rackready.facts.parts.modules import Search
from rackready.facts.parts.pcie import DeviceQuery
from rackready.facts.parts.smi import DeviceLink, Health, MigDevice, ToolReport
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.search import is_of_all, search_of
from rackready.facts.readers.sysfs import bdf, number

_HEADER = re.compile(r"\| ?(NVIDIA|PPU)-SMI (\S+) +Driver Version: (\d[\w.-]*)(?=[ |])")
_LIBRARY = re.compile(r"NVML library version: (\S+)")
_FAILURE = re.compile(
    r"^(Failed to initialize \w+: .*|(?:NVIDIA|PPU)-SMI has failed because .*"
    r"|No devices were found.*|Unable to determine the device handle.*"
    r"|init \w+ error: driver is not loaded.*)$",
    re.MULTILINE,
)
_MEMORY = re.compile(r"(\d{1,8})MiB / +(\d{1,8})MiB")
_POWER = re.compile(r"(\d{1,5})W / ")
_TEMPERATURE = re.compile(r"(\d{1,3})C\b")
_LISTED = re.compile(r"(?:GPU|PPU) (\d{1,4}): (.{1,80}?) \(UUID: ([^()]{1,80})\)$")
_DEVICE = re.compile(r"((?:GPU|PPU) \d{1,4}): ")
_LINK = re.compile(r"Link (\d{1,3}): (.*)$")
_WIDTH = re.compile(r"(\d{1,2})x")
_REMOTE = re.compile(r"Remote Device ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")
_COUNT = re.compile(r"(\d{1,18}) (link down times|FEC uncorrectable errors)$")
_BLOCK = re.compile(r"(?:GPU|PPU) ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])$")
_TOP = re.compile(r"(\w[\w ./()-]{2,48}?) +: (.*)$")


def _tool(output: Output) -> str:
    """By what it prints: in images for PPUs, nvidia-smi is another name of ppu-smi."""
    ppu = "ppu-smi" in output.command or "ppu" in output.text[:4096].lower()
    return "ppu-smi" if ppu else "nvidia-smi"


def read_table(output: Output) -> Iterator[object]:
    """The default table: two or three rows a device, cells between bars."""
    if not output.text.strip():
        return
    tool, found, readings = _tool(output), list[Accelerator](), list[Reading]()
    if failure := _FAILURE.search(output.text):
        library = _LIBRARY.search(output.text)
        yield ToolReport(tool, failure=failure[1], library=library[1] if library else None)
        return
    version = driver = None
    ended = False
    for line in output.lines():
        if header := _HEADER.match(line):
            version, driver = header[2], header[3]
        if line.startswith(("| Processes", "| MIG devices")):
            ended = True
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) < 2:
            continue
        first, second = cells[0].split(), cells[1].split()
        address = bdf(second[0]) if second else None
        index = number(first[0]) if first else None
        if address and index is not None:
            name = re.split(r"\s{2,}", cells[0].partition(" ")[2].strip())[0]
            found.append(Accelerator(index, name, address))
        elif found and len(readings) < len(found) and (memory := _MEMORY.search(cells[1])):
            power, temperature = _POWER.search(cells[0]), _TEMPERATURE.search(cells[0])
            degrees = {"GPU": float(temperature[1])} if temperature else {}
            readings.append(
                Reading(
                    found[-1].index,
                    found[-1].bdf,
                    memory_used_mib=int(memory[1]),
                    memory_mib=int(memory[2]),
                    power_w=float(power[1]) if power else None,
                    temperatures=MappingProxyType(degrees),
                )
            )
    if version is None and not found and "MIG devices:" in output.text:
        yield from read_mig(output.text)
        return
    if version is None and not found:
        output.note(f"{tool} printed no table that could be understood")
        return
    yield ToolReport(tool, driver=driver)
    count = len(found) if found and ended and is_of_all(output) else None
    yield AcceleratorStack(tuple(found) or None, count, version, driver)
    yield from readings
    yield from read_mig(output.text)


def read_list(output: Output) -> Iterator[AcceleratorStack]:
    """``nvidia-smi -L``: a line for each; MIG devices are indented below theirs."""
    found = [
        Accelerator(int(match[1]), match[2], uuid=match[3])
        for line in output.lines()
        if (match := _LISTED.match(line))
    ]
    if found:
        count = len({item.uuid for item in found})
        yield AcceleratorStack(tuple(found), count if is_of_all(output) else None)


def _shows(output: Output, line: str) -> bool:
    """Whether such a line would have been shown, had the tool printed it."""
    search = search_of(output) if output.filters else Search()
    return search is not None and search.covers(line)


def read_links(output: Output) -> Iterator[DeviceLink]:
    """``nvlink -s``, ``icn -s``, ``-r``, ``-e`` and ``-cs``: links below a line of their device."""
    device = model = ""
    tool = _tool(output)
    partial = not _shows(output, "Link 0: <inactive>")
    for line in output.lines():
        if match := _DEVICE.match(line):
            device, model = match[1], line[match.end() :].partition(" (UUID")[0]
        elif device and (match := _LINK.match(line)):
            link, said = int(match[1]), match[2].strip()
            if said.endswith("GB/s") or said == "Connected":
                yield DeviceLink(device, link, active=True, model=model, tool=tool, partial=partial)
            elif said in ("<inactive>", "Disconnected"):
                yield DeviceLink(device, link, active=False, model=model, tool=tool)
            elif width := _WIDTH.fullmatch(said):
                yield DeviceLink(device, link, width=int(width[1]))
            elif remote := _REMOTE.match(said):
                yield DeviceLink(device, link, remote=bdf(remote[1]))
            elif count := _COUNT.match(said):
                value = int(count[1])
                downs = "down" in count[2]
                yield DeviceLink(
                    device,
                    link,
                    downs=value if downs else None,
                    uncorrectable=None if downs else value,
                )


def read_processes(output: Output) -> Iterator[AcceleratorProcesses]:
    """``pmon``: a row for each process, below two lines of titles."""
    titles: list[str] = []
    found = []
    for line in output.lines():
        words = line.split()
        if words[0] == "#":
            titles = titles or words[1:]
        elif len(titles) > 3 and len(words) >= len(titles) and words[1].isdecimal():
            memory = titles.index("mem") if titles.count("mem") == 1 else len(titles) - 2
            found.append(
                AcceleratorProcess(
                    index=int(words[0]) if words[0].isdecimal() else -1,
                    pid=int(words[1]),
                    command=" ".join(words[len(titles) - 1 :]),
                    memory_mib=number(words[memory]) if "MB" in output.text else None,
                )
            )
    if titles and (found or not output.filters):
        yield AcceleratorProcesses(_tool(output), tuple(found))


_MIG = re.compile(r"\| +(\d{1,3}) +(\d{1,3}) +(\d{1,3}) +\d{1,3} +\| +(\d{1,8})MiB / +(\d{1,8})MiB")


def read_mig(text: str) -> Iterator[MigDevice]:
    """The table of MIG devices, which stands below that of the accelerators."""
    for match in _MIG.finditer(text):
        yield MigDevice(*map(int, match.groups()))


Tree = Mapping[tuple[str, ...], str]
_SECTIONS = ("Fabric", "Remapped Rows", "Xid Errors", "Temperature")


def _searched(text: str) -> dict[str, dict[tuple[str, ...], str]]:
    """What grep left of ``-q``: its devices have no names, the first is the tool's first."""
    found: list[dict[tuple[str, ...], str]] = []
    section: tuple[str, ...] = ()
    for line in text.split("\n"):
        stripped = line.strip()
        match = _TOP.match(stripped)
        if stripped in _SECTIONS:
            section = (stripped,)
        elif match and (section or match[1].endswith(" Recovery Action")):
            path = (match[1],) if match[1].endswith(" Recovery Action") else (*section, match[1])
            if not found or path in found[-1]:
                found.append({})
            found[-1][path] = match[2]
        else:
            section = ()
    return {f"device {at}": values for at, values in enumerate(found)}


def read_tree(text: str) -> tuple[dict[str, str], dict[str, dict[tuple[str, ...], str]]]:
    """
    ``-q``: what stands above the devices, and for each device its values by their path.

    Devices are keyed by BDF; a path is ("ECC Errors", "Volatile", "DRAM Uncorrectable").
    """
    top: dict[str, str] = {}
    devices: dict[str, dict[tuple[str, ...], str]] = {}
    current: dict[tuple[str, ...], str] | None = None
    stack: list[tuple[int, str]] = []
    for line in text.split("\n"):
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        if not stripped or stripped.startswith("="):
            continue
        if block := _BLOCK.match(stripped):
            address = bdf(block[1])
            current, stack = devices.setdefault(address or block[1].lower(), {}), []
            continue
        match = _TOP.match(stripped)
        if current is None:
            if match:
                top.setdefault(match[1], match[2])
            continue
        while stack and stack[-1][0] >= indent:
            stack.pop()
        if match:
            path = (*(name for _, name in stack), match[1])
            current[path] = match[2]
        elif len(stack) < 8:
            stack.append((indent, stripped))
    return top, devices


def read_query(output: Output) -> Iterator[object]:
    """``nvidia-smi -q`` and ``ppu-smi -q``, all of it or some ``-d`` parts."""
    tool = _tool(output)
    top, devices = read_tree(output.text)
    whole = _shows(output, "DRAM Uncorrectable : 1")
    driver, sdk = (_known(top.get(name)) for name in ("Driver Version", "SDK Version"))
    if driver or sdk:
        yield ToolReport(tool, driver=driver, sdk=sdk)
    if not devices and output.filters:
        devices = _searched(output.text)
        yield from (_health(name, tool, values, whole) for name, values in devices.items())
        if devices:
            return
    attached = next((v for k, v in top.items() if k.startswith("Attached ")), None)
    found = []
    for address, values in devices.items():
        found.append(
            Accelerator(
                index=None,
                model=_known(values.get(("Product Name",))),
                bdf=address,
                uuid=_known(values.get(("GPU UUID",)) or values.get(("PPU UUID",))),
            )
        )
        yield _health(address, tool, values, whole)
        if link := _pci_link(values):
            yield DeviceQuery(bdf=address, values=MappingProxyType(link))
    if found or attached:
        yield AcceleratorStack(tuple(found) or None, number(attached), None, driver)
    elif not top:
        output.note(f"{tool} printed nothing that could be understood")


_PCI_LINK = {
    "pcie.link.gen.current": ("PCIe Generation", "Current"),
    "pcie.link.gen.max": ("PCIe Generation", "Max"),
    "pcie.link.width.current": ("Link Width", "Current"),
    "pcie.link.width.max": ("Link Width", "Max"),
}


def _pci_link(values: Tree) -> dict[str, str]:
    """The PCI Express link of a device, by the names that ``--query-gpu`` gives its fields."""
    found = {
        field: value.removesuffix("x")
        for field, end in _PCI_LINK.items()
        for path, value in values.items()
        if path[-2:] == end and number(value.removesuffix("x")) is not None
    }
    use = next((v for p, v in values.items() if p[:1] == ("Utilization",) and p[-1] in _USE), "")
    if found and use.endswith(" %"):
        found["utilization.gpu"] = use.removesuffix(" %")
    return found


_USE = ("Gpu", "GPU", "PPU", "Ppu")
_REPAIRS = {
    "PPU Reset Correctable": "reset",
    "OS Reboot Correctable": "reboot",
    "Cold Reboot Correctable": "cold-reboot",
}


def _health(address: str, tool: str, values: Tree, whole: bool) -> Health:
    """``whole``: no counter of uncorrectable errors was filtered out, so that their sum holds."""

    def total(scope: str, kind: str) -> int | None:
        found = [
            count
            for path, value in values.items()
            if len(path) >= 3
            and path[:2] == ("ECC Errors", scope)
            and f" {kind}" in f" {path[-1]}"
            and (count := number(value)) is not None
        ]
        return sum(found) if any(found) or (found and whole) else None

    def flag(name: str) -> bool | None:
        value = values.get(("Remapped Rows", name))
        value = value or values.get(("Retired Pages", f"{name} Page Blacklist"))
        return {"Yes": True, "No": False}.get(value) if value is not None else None

    def degrees(*names: str) -> int | None:
        for name in names:
            match = re.match(r"(\d{1,3}) C$", values.get(("Temperature", name), ""))
            if match:
                return int(match[1])
        return None

    remapped = number(values.get(("Remapped Rows", "Uncorrectable Error")))
    xids = {
        repair: code
        for name, repair in _REPAIRS.items()
        if (code := number(values.get(("Xid Errors", name)))) is not None
    }
    return Health(
        bdf=address,
        tool=tool,
        corrected=total("Volatile", "Correctable"),
        uncorrected=total("Volatile", "Uncorrectable"),
        uncorrected_ever=total("Aggregate", "Uncorrectable"),
        remapped=remapped if remapped or whole else None,
        remap_pending=flag("Pending"),
        remap_failed=flag("Remapping Failure Occurred"),
        fabric_state=values.get(("Fabric", "State")),
        fabric_status=values.get(("Fabric", "Status")),
        temperature_c=degrees("GPU Current Temp", "PPU Current Temp"),
        slowdown_c=degrees("GPU Slowdown Temp", "PPU Slowdown Temp"),
        worn_sram={"Yes": True, "No": False}.get(
            values.get(("ECC Errors", "Aggregate", "SRAM Threshold Exceeded"), "")
        ),
        recovery=values.get(("GPU Recovery Action",)) or values.get(("PPU Recovery Action",)),
        xids=MappingProxyType(xids),
    )


def _known(value: str | None) -> str | None:
    return None if value in (None, "N/A", "", "Unknown Error") else value


READERS = (
    reader(
        "nvidia-smi -L",
        read_list,
        command=r"(?:nvidia|ppu)-smi\s+(?:-L|--list-\w+)\b",
        shape=r"^(?:GPU|PPU) \d+: .{1,80} \(UUID: \S+\)\n(?! +Link \d)",
    ),
    reader(
        "nvidia-smi nvlink -s",
        read_links,
        command=r"(?:nvidia|ppu)-smi\s+(?:nvlink|icn)\b",
        shape=r"^(?:GPU|PPU) \d+: .{1,80}\n\s+Link \d+: ",
    ),
    reader(
        "nvidia-smi -q",
        read_query,
        command=r"(?:nvidia|ppu)-smi\s(?:.*\s)?-q\b",
        shape=r"^=+(?:NV|PPU)SMI LOG=+$"
        r"|^    (?:Fabric|Remapped Rows|ECC Errors|Xid Errors)$",
    ),
    reader(
        "nvidia-smi pmon -c 1",
        read_processes,
        command=r"(?:nvidia|ppu)-smi\s+pmon\b",
        shape=r"^# [gp]pu +pid +type ",
    ),
    reader(
        "nvidia-smi",
        read_table,
        command=r"(?:nvidia|ppu)-smi$",
        shape=r"^\| ?(?:NVIDIA|PPU)-SMI |^\| MIG devices: |^Failed to initialize NVML"
        r"|^NVIDIA-SMI has failed|^init HGML error: ",
    ),
)
