"""lspci in all its forms: names, numbers, decoded capabilities, dumps of the config space."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from rackready.facts.model import AccessControl, ErrorStatus, Express, PciFunction
from rackready.facts.parts.pci_names import VIRTUAL, class_of, vendor_of
from rackready.facts.parts.pcie import AcsLines, DriversLeftOut
from rackready.facts.readers import pci, sysfs
from rackready.facts.readers.filters import lets_through, throws_out
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.search import keeps_rows

_HEAD = re.compile(
    r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]) "
    r"(?:(?P<code>[0-9a-f]{4}): (?P<ids>[0-9a-f]{4}:[0-9a-f]{4})|"
    r"(?:Class (?P<bare>[0-9a-f]{4})|(?P<class>[A-Z0-9][^:\[]{2,60}?))"
    r"(?: \[(?P<nn>[0-9a-f]{4})\])?: (?P<name>.*))"
)
_NUMBERS = re.compile(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]|Device ([0-9a-f]{4}):([0-9a-f]{4})\b")
_PLAIN_NUMBERS = re.compile(r"([0-9a-f]{4}):([0-9a-f]{4})")
_DEVICE = re.compile(r" Device ([0-9a-f]{4})\b")
_BRACKETS = re.compile(r" \[[0-9a-f]{4}:[0-9a-f]{4}\]")
_TAIL = re.compile(r" \((?:rev|prog-if) [^)]{0,80}\)")
_DUMP = re.compile(r"([0-9a-f]{2,3}):((?: [0-9a-f]{2}){1,16})$")
_FLAG = re.compile(r"(?<![\w-])([A-Za-z][\w-]{0,24}?)([+-])(?=[\s,;]|$)")
_CAPABILITY = re.compile(r"Capabilities: \[([0-9a-f]{2,3})(?: v\d+)?\] (.*)")
_BYTES = re.compile(r"(MaxPayload|MaxReadReq) (\d{3,4}) bytes")
_SPEED = re.compile(r"Speed (\d+(?:\.\d)?)GT/s(?: \((\w+)\))?")
_WIDTH = re.compile(r"Width x(\d{1,2})(?!\d)(?: \((\w+)\))?")
_WHOLE_WIDTH = re.compile(r"Width x\d{1,2}[^\d\s]|Width x\d{1,2} \(|Width x(?![13]$)\d{1,2}$")
_BUSES = re.compile(r"Bus: primary=\w+, secondary=([0-9a-f]{2}), subordinate=([0-9a-f]{2})")
_SERIAL = re.compile(r"Device Serial Number ((?:[0-9a-f]{2}-){7}[0-9a-f]{2})")

_SPEEDS = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6}
_PORTS = (
    ("PCI-Express to PCI", 7),
    ("PCI/PCI-X to PCI-Express", 8),
    ("Root Complex Integrated Endpoint", 9),
    ("Root Complex Event Collector", 10),
    ("Legacy Endpoint", 1),
    ("Endpoint", 0),
    ("Root Port", 4),
    ("Upstream Port", 5),
    ("Downstream Port", 6),
)
# Flags of the device control word; the second names are those of lspci before 3.6.
_CONTROL = {
    "CorrErr": 0,
    "Correctable": 0,
    "NonFatalErr": 1,
    "Non-Fatal": 1,
    "FatalErr": 2,
    "Fatal": 2,
    "UnsupReq": 3,
    "Unsupported": 3,
    "RlxdOrd": 4,
    "ExtTag": 8,
    "PhantFunc": 9,
    "AuxPwr": 10,
    "NoSnoop": 11,
    "BrConfRtry": 15,
}
_ACS = {
    "SrcValid": 0,
    "TransBlk": 1,
    "ReqRedir": 2,
    "CmpltRedir": 3,
    "UpstreamFwd": 4,
    "EgressCtrl": 5,
    "DirectTrans": 6,
}
UNCORRECTABLE = {
    "DLP": 4,
    "SDES": 5,
    "TLP": 12,
    "PoisonTLP": 12,
    "FCP": 13,
    "CmpltTO": 14,
    "CmpltAbrt": 15,
    "UnxCmplt": 16,
    "RxOF": 17,
    "MalfTLP": 18,
    "ECRC": 19,
    "UnsupReq": 20,
    "ACSViol": 21,
    "UncorrIntErr": 22,
    "BlockedTLP": 23,
}
CORRECTABLE = {
    "RxErr": 0,
    "BadTLP": 6,
    "BadDLLP": 7,
    "Rollover": 8,
    "Timeout": 12,
    "AdvNonFatalErr": 13,
    "NonFatalErr": 13,
    "CorrIntErr": 14,
    "HeaderOF": 15,
}
# Bits that all versions of lspci print, and without which a register is not told.
_NEEDED = {"ACSCtl": 0x1C, "UESta": 0x3FF030, "CESta": 0x11C1}
# Of these, those that tell something where the others are missing.
_TELLING = {"ACSCtl": 0x1C, "UESta": 0x0EF030, "CESta": 0x11C1}
_ACS_LINES = tuple("\t\tACSCtl:\t" + " ".join(f"{name}{sign}" for name in _ACS) for sign in "+-")


@dataclass
class _Entry:
    """One function while its lines are read."""

    function: PciFunction
    express: Express = field(default_factory=Express)
    key: str = ""
    section: int = 0  # offset of the capability that the lines belong to
    cut: bool = False  # the line that is read may lack its end
    seen: dict[str, int] = field(default_factory=dict)  # bits that a register told, by its key
    dump: bytearray = field(default_factory=bytearray)

    def set(self, **values: object) -> None:
        self.function = replace(self.function, **values)  # type: ignore[arg-type]

    def set_express(self, **values: object) -> None:
        self.express = replace(self.express, **values)  # type: ignore[arg-type]

    def done(self) -> PciFunction:
        if len(self.dump) >= 64:
            config = bytes(self.dump)
            self.set(
                config_bytes=len(config),
                responds=bool(config.strip(b"\xff")),
                access_control=self.function.access_control or pci.read_access_control(config),
                errors=self.function.errors or pci.read_errors(config),
            )
            self.express = pci.read_express(config) or self.express
        if self.express != Express():
            self.set(express=self.express)
        return self.function

    def add(self, key: str, text: str, places: Mapping[str, int], known: int | None) -> int | None:
        """
        A word with the flags of one more line.

        None: no bit is known to be set, and of those that all versions print some are missing.
        """
        self.seen[key] = self.seen.get(key, 0) | _bits(text, places, "+-")
        word = (known or 0) | _bits(text, places)
        whole = self.seen[key] & _NEEDED[key] == _NEEDED[key]
        return word if whole or word & _TELLING[key] else None


def read_lspci(output: Output) -> Iterator[PciFunction | AcsLines | DriversLeftOut]:
    """``lspci`` with any options, whole or filtered; but no tree (-t)."""
    entry: _Entry | None = None
    nameless: list[int | None] = []
    lines = tuple(output.lines())
    within = not keeps_rows(output)
    for at, line in enumerate(lines, 1):
        if head := _HEAD.match(line):
            if entry:
                yield entry.done()
            entry = _Entry(_function(head))
        elif address := _alone(line):
            if entry:
                yield entry.done()
            entry = _Entry(PciFunction(address))
        elif entry or (entry := _asked(output)):
            # behind its last line, lspci itself would have printed more of the register
            entry.cut = within or (at == len(lines) and not output.filters)
            _line(entry, line)
        elif line.startswith("ACSCtl:"):
            nameless.append(_Entry(PciFunction("")).add("ACSCtl", line, _ACS, None))
    if entry:
        yield entry.done()
        if throws_out(output, "\tKernel driver in use: vfio-pci"):
            yield DriversLeftOut()
    if nameless:
        told = tuple(control for control in nameless if control is not None)
        yield AcsLines(told, len(told) == len(nameless) and lets_through(output, *_ACS_LINES))


_ADDRESS = re.compile(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]", re.IGNORECASE)
_SELECTED = re.compile(r"\s-s\s?(\S{7,16})(?:\s|$)")


def _alone(line: str) -> str | None:
    """The address on a line of its own: a loop prints it before what grep leaves of a function."""
    plain = line.strip(" :=-#")
    return sysfs.bdf(plain) if _ADDRESS.fullmatch(plain) else None


def _asked(output: Output) -> _Entry | None:
    """The one function that was asked for, where a search has dropped its own line."""
    asked = _SELECTED.search(output.command)
    if asked is None or not _ADDRESS.fullmatch(asked[1]):
        return None
    address = sysfs.bdf(asked[1])
    return _Entry(PciFunction(address)) if address else None


def _function(head: re.Match[str]) -> PciFunction:
    bdf = sysfs.bdf(head[1]) or head[1]
    vendor, device, name = named(head["ids"] or head["name"])
    code = head["code"] or head["nn"] or head["bare"]
    return PciFunction(
        bdf,
        vendor=vendor,
        device=device,
        class_code=class_of(code or head["class"].strip()),
        name=name,
        # all ones: the link is down, or the device has fallen off the bus
        responds=False if "(rev ff)" in (head["name"] or "") else None,
    )


def named(text: str) -> tuple[int | None, int | None, str | None]:
    """Vendor, device and name of what lspci calls a function; with -nn and -n its numbers."""
    if plain := _PLAIN_NUMBERS.fullmatch(text):
        ids = int(plain[1], 16), int(plain[2], 16)
        return *ids, "Virtual Function" if ids in VIRTUAL else None
    numbers = _NUMBERS.search(text)
    known = [part for part in numbers.groups() if part] if numbers else []
    device_only = None if known else _DEVICE.search(text)
    vendor = int(known[0], 16) if known else vendor_of(text)
    device = int(known[1], 16) if known else device_only and int(device_only[1], 16)
    # The same name with -nn as without: "Device [9999:4001]" for "Device 9999:4001".
    name = _BRACKETS.sub("", _TAIL.sub("", text)).strip()
    if name == "Device" and known:
        name = f"Device {':'.join(known)}"
    elif name.endswith(" Device") and known:
        name = f"{name} {known[1]}"
    return vendor, device, name


def _line(entry: _Entry, line: str) -> None:
    if dump := _DUMP.match(line):
        if int(dump[1], 16) == len(entry.dump):
            entry.dump += bytes.fromhex(dump[2])
        return
    if line.startswith("Capabilities: <access denied>"):
        # the kernel shows 64 bytes to those who are not root
        entry.set(config_bytes=64, responds=True)
        return
    if capability := _CAPABILITY.match(line):
        entry.section, entry.key = int(capability[1], 16), ""
        _capability(entry, capability[2])
        return
    key, colon, rest = line.partition(":")
    if line.startswith("MaxPayload ") and "MaxReadReq " in line:
        _device_control(entry, line)  # its first line may be left out by a grep
    elif colon and key in _PLAIN:
        entry.key = ""
        _PLAIN[key](entry, rest.strip(), line)
    elif colon and key in _REGISTERS:
        entry.key = key
        _REGISTERS[key](entry, rest)
    elif entry.key in _REGISTERS and not _KEY.match(line):
        _REGISTERS[entry.key](entry, line)
    elif _BYTES.search(line) and entry.express.device_control is None and "MaxReadReq" in line:
        # grep let through the second line alone
        _device_control(entry, line)
    elif line.startswith("!!! Unknown header type"):
        entry.set(responds=False)


_KEY = re.compile(r"[A-Z]\w{2,12}:\s")


def _capability(entry: _Entry, text: str) -> None:
    if text.startswith("Express"):
        kind = next((number for name, number in _PORTS if name in text), None)
        entry.set_express(offset=entry.section, port_type=kind)
    elif text.startswith("Access Control Services"):
        entry.set(access_control=AccessControl(entry.section))
    elif serial := _SERIAL.match(text):
        entry.set(serial=serial[1])


def _numa(entry: _Entry, rest: str, line: str) -> None:
    entry.set(numa_node=sysfs.number(rest))


def _driver(entry: _Entry, rest: str, line: str) -> None:
    entry.set(driver=rest)


def _slot(entry: _Entry, rest: str, line: str) -> None:
    entry.set(slot=rest)


def _buses(entry: _Entry, rest: str, line: str) -> None:
    if buses := _BUSES.match(line):
        entry.set(buses=(int(buses[1], 16), int(buses[2], 16)))


_PLAIN: Mapping[str, Callable[[_Entry, str, str], None]] = {
    "NUMA node": _numa,
    "Kernel driver in use": _driver,
    "Physical Slot": _slot,
    "Bus": _buses,
}


def _bits(text: str, places: Mapping[str, int], signs: str = "+") -> int:
    return sum({1 << places[n] for n, sign in _FLAG.findall(text) if sign in signs and n in places})


def _size(text: str, name: str) -> int | None:
    """The encoding of a size: 128 -> 0, 4096 -> 5."""
    size = next((int(size) for found, size in _BYTES.findall(text) if found == name), None)
    return None if size not in (128, 256, 512, 1024, 2048, 4096) else size.bit_length() - 8


def _device_capabilities(entry: _Entry, text: str) -> None:
    payload = _size(text, "MaxPayload")
    if payload is not None:
        entry.set_express(device_capabilities=payload)


def _device_control(entry: _Entry, text: str) -> None:
    control = entry.express.device_control
    control = (_RESERVED if control is None else control) | _bits(text, _CONTROL)
    for name, shift in (("MaxPayload", 5), ("MaxReadReq", 12)):
        encoding = _size(text, name)
        if encoding is not None:
            control = control & ~(7 << shift) | encoding << shift
    entry.set_express(device_control=control)


_RESERVED = 7 << 5 | 7 << 12
"""Encodings without a size, until the line with the sizes comes: grep may leave it out."""


def _link(text: str) -> int | None:
    """Speed and width; None where the width, which stands last, is not there."""
    speed, width = _SPEED.search(text), _WIDTH.search(text)
    if width is None:
        return None
    generation = _SPEEDS.get(speed[1], 0) if speed else 0
    return generation | int(width[1]) << 4


def _link_capabilities(entry: _Entry, text: str) -> None:
    # what it says of power saving follows the width in all versions
    if entry.express.link_capabilities is None and _WHOLE_WIDTH.search(text):
        entry.set_express(link_capabilities=_link(text))


def _link_status(entry: _Entry, text: str) -> None:
    if entry.express.link_status is not None or (status := _link(text)) is None:
        return
    if entry.cut and not _WHOLE_WIDTH.search(text):
        return
    speed, width = _SPEED.search(text), _WIDTH.search(text)
    entry.set_express(
        link_status=status,
        speed_reduced=None if not (speed and speed[2]) else speed[2] == "downgraded",
        width_reduced=None if not (width and width[2]) else width[2] == "downgraded",
    )


def _access_control(entry: _Entry, text: str) -> None:
    known = entry.function.access_control or AccessControl()
    control = entry.add("ACSCtl", text, _ACS, known.control)
    entry.set(access_control=replace(known, control=control))


def _uncorrectable(entry: _Entry, text: str) -> None:
    known = entry.function.errors or ErrorStatus()
    status = entry.add("UESta", text, UNCORRECTABLE, known.uncorrectable)
    entry.set(errors=replace(known, uncorrectable=status))


def _correctable(entry: _Entry, text: str) -> None:
    known = entry.function.errors or ErrorStatus()
    status = entry.add("CESta", text, CORRECTABLE, known.correctable)
    entry.set(errors=replace(known, correctable=status))


_REGISTERS: Mapping[str, Callable[[_Entry, str], None]] = {
    "DevCap": _device_capabilities,
    "DevCtl": _device_control,
    "LnkCap": _link_capabilities,
    "LnkSta": _link_status,
    "ACSCtl": _access_control,
    "UESta": _uncorrectable,
    "CESta": _correctable,
}

READERS = (
    reader(
        "lspci",
        read_lspci,
        command=r"lspci\b",
        shape=r"^(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7] "
        r"(?:[A-Z0-9][A-Za-z0-9 /-]{2,40}(?: \[[0-9a-f]{4}\])?: \S|[0-9a-f]{4}: [0-9a-f]{4}:)"
        r"|^[ \t]*ACSCtl:[ \t]+SrcValid[+-]",
    ),
)
