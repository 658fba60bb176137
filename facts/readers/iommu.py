"""IOMMU: its units, its groups, and what each group does with addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackready.facts.parts.pcie import IommuGroup, IommuKinds, IommuUnits
from rackready.facts.readers import sysfs
from rackready.facts.readers.filters import lets_through
from rackready.facts.readers.reader import Output, reader

_KIND = r"(identity|DMA-FQ|DMA|auto|blocked|unmanaged)"
_TYPE_FILE = re.compile(r"/sys/kernel/iommu_groups/(\d{1,6})/type")
_TYPE_LINE = re.compile(rf"\S{{0,60}}?iommu_groups/(\d{{1,6}})/type:\s*{_KIND}$")
_NUMBERED = re.compile(rf"(?:group )?(\d{{1,6}}):? {_KIND}$", re.IGNORECASE)
_BARE = re.compile(rf"{_KIND}$")
_ANY_KIND = re.compile(rf"(?<![\w-]){_KIND}$")
# Rows with types, of which a search may have let through some alone.
_SAMPLES = tuple(
    f"/sys/kernel/iommu_groups/1/type:{kind}" for kind in ("identity", "DMA", "DMA-FQ")
)
_MEMBER = re.compile(
    r"iommu_groups/(\d{1,6})/devices/([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
)
_LINKED = re.compile(
    r"/sys/bus/pci/devices/([0-9a-f:.]{12,16})/iommu_group\b.{0,40}?iommu_groups/(\d{1,6})$"
)
_FOLDER = re.compile(r"(?:/\S{0,80}/)?ls\s+(?:-\S+\s+)*/sys/kernel/iommu_groups/(\d{1,6})/devices")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_NO_FOLDER = re.compile(r"/sys/class/iommu/?['’\"]?: No such file")
_UNIT = re.compile(r"(?:dmar|ivhd|smmu3?\.|smmuv3|arm-smmu|iommu|virtio)[\w.@:-]{0,60}")


def read_groups(output: Output) -> Iterator[IommuGroup | IommuKinds]:
    """Types and members of groups, one file or many."""
    asked = _TYPE_FILE.search(output.command)
    folder = _FOLDER.match(output.command)
    counted = any(word.split()[:2] == ["uniq", "-c"] for word in output.filters)
    kinds: list[str] = []
    members: dict[int, list[str]] = {}
    typed = False
    for line in output.lines():
        typed = typed or _ANY_KIND.search(line) is not None
        if match := _TYPE_LINE.match(line):
            yield IommuGroup(int(match[1]), match[2])
        elif match := _MEMBER.search(line):
            members.setdefault(int(match[1]), []).append(match[2])
        elif match := _LINKED.search(line):
            members.setdefault(int(match[2]), []).append(match[1])
        elif folder:
            members.setdefault(int(folder[1]), []).extend(_ADDRESS.findall(line)[:64])
        elif match := _BARE.match(line):
            if asked:
                yield IommuGroup(int(asked[1]), match[1])
            else:
                kinds.append(match[1])
        elif match := _NUMBERED.match(line):
            if counted:
                kinds.append(match[2])
            else:
                yield IommuGroup(int(match[1]), match[2])
    for number, addresses in members.items():
        yield IommuGroup(number, members=tuple(dict.fromkeys(addresses)))
    held_back = typed and not lets_through(output, *_SAMPLES)
    if kinds or held_back:
        yield IommuKinds(tuple(sorted(set(kinds))), whole=not held_back)


def read_link(output: Output) -> Iterator[IommuGroup]:
    """``readlink /sys/bus/pci/devices/BDF/iommu_group``."""
    asked = re.search(r"/devices/([0-9a-f:.]{12,16})/iommu_group", output.command)
    for line in output.lines():
        match = re.search(r"iommu_groups/(\d{1,6})$", line)
        if match and asked and (bdf := sysfs.bdf(asked[1])):
            yield IommuGroup(int(match[1]), members=(bdf,))


def read_units(output: Output) -> Iterator[IommuUnits]:
    """``ls /sys/class/iommu``: an empty folder, or none, means that there is no IOMMU in use."""
    names = tuple(word for line in output.lines() for word in line.split() if _UNIT.fullmatch(word))
    nothing = output.text.strip() in ("", "total 0") and not output.filters
    if names or nothing or _NO_FOLDER.search(output.text):
        yield IommuUnits(names)


READERS = (
    reader("ls /sys/class/iommu", read_units, command=r"ls\s+(?:-\S+\s+)*/sys/class/iommu/?$"),
    reader(
        "readlink /sys/bus/pci/devices/0000:01:00.0/iommu_group",
        read_link,
        command=r"(?:readlink|realpath)\s+(?:-\S+\s+)*/sys/bus/pci/devices/\S+/iommu_group$",
    ),
    reader(
        "grep . /sys/kernel/iommu_groups/1/type",
        read_groups,
        command=r"(?:cat|grep|head|ls|find)\s[^\n]{0,120}?/sys/kernel/iommu_groups\b",
        line=r"for\s[^;\n]{0,120}/sys/kernel/iommu_groups/",
        shape=r"^\S{0,60}iommu_groups/\d{1,6}/(?:type:|devices/[0-9a-f]{4}:)",
    ),
)
