"""Kernel modules and the kernel log, from the listings of the probe."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from rackready.facts.model import Module
from rackready.facts.readers.sysfs import Note, attributes, lines, number

_STAMP = re.compile(r"^(?:<\d+>)?\[[^\]]{1,40}\]\s?")


def read_modules(text: str, attribute_listing: str, note: Note) -> Mapping[str, Module]:
    """``/proc/modules`` with the parameters and versions that sysfs shows."""
    values = attributes(attribute_listing, note)
    modules = {}
    for line_number, line in lines(text):
        words = line.split()
        if len(words) < 6 or number(words[1]) is None:
            note(f"line {line_number} is no module: {line[:60]!r}")
            continue
        fields = values.get(words[0], {})
        modules[words[0]] = Module(
            name=words[0],
            references=number(words[2]),
            holders=tuple(name for name in words[3].split(",") if name not in ("", "-")),
            version=fields.get("version"),
            parameters=MappingProxyType(
                {
                    key.partition("/")[2]: value
                    for key, value in fields.items()
                    if key.startswith("parameters/")
                }
            ),
        )
    return modules


def read_kernel_log(text: str) -> tuple[str, ...]:
    """Messages of ``dmesg`` without their time stamps, in either form."""
    return tuple(_STAMP.sub("", line) for _, line in lines(text))
