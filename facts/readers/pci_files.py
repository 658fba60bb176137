"""Files and links of sysfs about PCI functions: where they sit, whose they are, link, errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from rackready.facts.model import PciFunction, RdmaDevice, System
from rackready.facts.parts.pcie import ErrorCounters, LinkFiles
from rackready.facts.readers import pci, sysfs
from rackready.facts.readers.reader import Output, reader

_DEVICES = r"/sys/(?:bus/pci/devices|class/(?:infiniband|net))/"
_OWNER = re.compile(rf"{_DEVICES}([^/\s]+)(?:/(physfn|device|driver))?/?$")
_OF_RDMA = re.compile(r"/sys/class/infiniband/([\w.-]+)(?:/device)?/?$")
_ROOTED = re.compile(r"/pci[0-9a-f]{4,8}:[0-9a-f]{2}/")
_FILE = re.compile(
    rf"(?:{_DEVICES}|/sys/devices/\S{{0,200}}/)?([0-9a-f]{{4,8}}:[0-9a-f]{{2}}:[0-9a-f]{{2}}\.[0-7])"
    r"/(current_link_speed|current_link_width|max_link_speed|max_link_width"
    r"|aer_dev_(?:correctable|fatal|nonfatal))"
)
_SPEEDS = {"2.5": 1, "5": 2, "5.0": 2, "8": 3, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}
_FIELDS = {
    "current_link_speed": "speed",
    "current_link_width": "width",
    "max_link_speed": "speed_max",
    "max_link_width": "width_max",
}
_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?) GT/s")
_COUNT = re.compile(r"([A-Za-z_]\w{1,40}) (\d{1,20})$")


def read_links(output: Output) -> Iterator[PciFunction | RdmaDevice]:
    """``readlink -f`` and ``ls -l`` of devices in sysfs."""
    asked = [word for word in output.arguments() if word.startswith("/sys/")]
    rows = list(output.lines())
    for at, line in enumerate(rows):
        if line.startswith("l"):
            name, arrow, target = line.partition(" -> ")
            if arrow:
                yield from _link(name.split()[-1], target)
        elif len(asked) == len(rows) and "/" in line:
            yield from _link(asked[at], line)
        elif "/" in line:
            yield from _link("", line)


def _link(name: str, target: str) -> Iterator[PciFunction | RdmaDevice]:
    owner = _OWNER.match(name)
    if owner and owner[2] == "physfn":
        if (bdf := sysfs.bdf(owner[1])) and (physical := pci.function_of(target)):
            yield PciFunction(bdf, physfn=physical)
        return
    if owner and owner[2] == "driver":
        if bdf := sysfs.bdf(owner[1]):
            yield PciFunction(bdf, driver=target.rstrip("/").rpartition("/")[2])
        return
    address = pci.function_of(target)
    if address is None:
        return
    if rdma := _OF_RDMA.match(name):
        yield RdmaDevice(rdma[1], bdf=address)
    if _ROOTED.search(target):
        root, bridges = pci.path_of(target.partition(address)[0] + address)
        yield PciFunction(address, root=root, bridges=bridges)


def read_files(output: Output) -> Iterator[LinkFiles | ErrorCounters]:
    """``cat`` and ``grep .`` of link files and of error counters."""
    asked = _FILE.search(output.command)
    counters: dict[tuple[str, str], dict[str, int]] = {}
    for line in output.lines():
        named = _FILE.match(line)
        place = named or asked
        bdf, file = place.group(1, 2) if place else ("", "")
        text = line[named.end() :].lstrip(":") if named else line
        if file.startswith("aer_dev_"):
            if count := _COUNT.match(text.strip()):
                key = bdf, file.removeprefix("aer_dev_")
                counters.setdefault(key, {})[count[1]] = int(count[2])
        elif bdf and (link := _link_file(bdf, file, text)):
            yield link
    for (bdf, severity), counts in counters.items():
        whole = _is_whole(counts, output)
        yield ErrorCounters(bdf, severity, MappingProxyType(counts), whole)


def _is_whole(counts: Mapping[str, int], output: Output) -> bool:
    """
    No counter is missing that is not zero: the total, which comes last, is there and explained.

    An error may set several counters, so their sum may be larger than the total.
    """
    total = next((count for name, count in counts.items() if name.startswith("TOTAL_")), None)
    if not total:
        return total == 0
    return not output.filters and sum(counts.values()) >= 2 * total


def _link_file(bdf: str, file: str, text: str) -> LinkFiles | None:
    if file.endswith("_speed"):
        speed = _SPEED.search(text)
        value = _SPEEDS.get(speed[1]) if speed else None
    else:
        value = sysfs.number(text.strip().lstrip("x"))
    return LinkFiles(bdf, **{_FIELDS[file]: value}) if value else None


def read_cmdline(output: Output) -> Iterator[System]:
    """The kernel's command line."""
    line = next(output.lines(), "")
    if line and "No such file" not in line:
        yield System(cmdline=line)


READERS = (
    reader(
        "readlink -f /sys/bus/pci/devices/0000:01:00.0",
        read_links,
        command=rf"(?:readlink|realpath)\s+(?:-\S+\s+)*{_DEVICES}\S"
        rf"|ls\s+-[^\sl]*l\S*\s+(?:-\S+\s+)*/sys/bus/pci/devices/[0-9*]"
        rf"|ls\s+-[^\sl]*l\S*\s+(?:-\S+\s+)*/sys/class/(?:infiniband|net)/\S{1, 80}/device",
        shape=r"^/sys/devices/pci[0-9a-f]{4,8}:[0-9a-f]{2}/\S{1,200}[0-9a-f]\.[0-7]$",
    ),
    reader(
        "grep . /sys/bus/pci/devices/x/current_link_width",
        read_files,
        command=r"(?:cat|grep|head|more)\s[^\n]{0,200}?"
        r"/(?:current_link_|max_link_|aer_dev_)\w",
        shape=r"^/sys/\S{1,200}/(?:(?:current|max)_link_(?:speed|width)|aer_dev_\w{1,12}):",
    ),
    reader(
        "cat /proc/cmdline",
        read_cmdline,
        command=r"cat\s+/proc/cmdline$",
        shape=r"^BOOT_IMAGE=\S",
    ),
)
