"""PCI functions: place in the tree, config space, PCI Express capability."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from struct import unpack_from

from rackready.facts.model import AccessControl, ErrorStatus, Express, PciFunction
from rackready.facts.readers.sysfs import Note, attributes, bdf, lines, links, number

_DUMP_LINE = re.compile(r"([0-9a-fA-F]{6,8})((?:\s+[0-9a-fA-F]{2}){0,16})", re.ASCII)
_LARGEST = 4096  # bytes of config space
_EXPRESS = 0x10
_ERRORS, _SERIAL, _ACCESS_CONTROL = 0x0001, 0x0003, 0x000D  # extended capabilities


def read_dump(text: str, note: Note) -> bytes:
    """Bytes of ``od -Ax -tx1``; a ``*`` repeats the line before it up to the next address."""
    data = bytearray()
    last, repeat = b"", False
    for line_number, line in lines(text):
        if line == "*":
            repeat = True
            continue
        match = _DUMP_LINE.fullmatch(line)
        if match is None:
            note(f"line {line_number} is no dump: {line[:60]!r}")
            return bytes(data)
        address = int(match[1], 16)
        if repeat and last and address <= _LARGEST:
            data += last * ((address - len(data)) // len(last))
        if address != len(data) or address > _LARGEST:
            note(f"line {line_number}: address {address:#x} follows byte {len(data):#x}")
            return bytes(data)
        last, repeat = bytes.fromhex(match[2]), False
        data += last
    return bytes(data)


def read_express(config: bytes) -> Express | None:
    """The PCI Express capability, found by walking the capability list from byte 0x34."""
    if len(config) < 64 or not config[6] & 0x10:
        return None
    pointer, seen = config[0x34] & 0xFC, set[int]()
    while pointer >= 0x40 and pointer not in seen:
        seen.add(pointer)
        if pointer + 2 > len(config):
            return None
        if config[pointer] == _EXPRESS:
            if pointer + 0x14 > len(config):
                return None
            flags, devcap, devctl, _, linkcap, _, linksta = unpack_from(
                "<HIHHIHH", config, pointer + 2
            )
            return Express(pointer, flags >> 4 & 0xF, devcap, devctl, linkcap, linksta)
        pointer = config[pointer + 1] & 0xFC
    return None


def _extended(config: bytes, wanted: int, size: int) -> int | None:
    """Offset of an extended capability that is there with ``size`` bytes."""
    pointer, seen = 0x100, set[int]()
    while 0x100 <= pointer <= len(config) - size and pointer not in seen:
        seen.add(pointer)
        (header,) = unpack_from("<I", config, pointer)
        if header & 0xFFFF == wanted:
            return pointer
        pointer = header >> 20 & 0xFFC
    return None


def read_serial(config: bytes) -> str | None:
    """Device Serial Number of the extended capability 0003, as lspci writes it."""
    at = _extended(config, _SERIAL, 12)
    if at is None:
        return None
    low, high = unpack_from("<II", config, at + 4)
    return "-".join(f"{byte:02x}" for byte in (high << 32 | low).to_bytes(8, "big"))


def read_access_control(config: bytes) -> AccessControl | None:
    """Access Control Services, extended capability 000d."""
    at = _extended(config, _ACCESS_CONTROL, 8)
    return None if at is None else AccessControl(at, unpack_from("<H", config, at + 6)[0])


def read_errors(config: bytes) -> ErrorStatus | None:
    """Status words of Advanced Error Reporting, extended capability 0001."""
    at = _extended(config, _ERRORS, 0x14)
    if at is None:
        return None
    uncorrectable, correctable = (unpack_from("<I", config, at + o)[0] for o in (4, 0x10))
    return ErrorStatus(uncorrectable, correctable)


def path_of(target: str) -> tuple[str | None, tuple[str, ...]]:
    """Host bridge and bridges of a sysfs path: ``.../pci0000:c8/0000:c8:01.0/0000:c9:00.0``."""
    root, bridges = None, list[str]()
    for part in target.split("/"):
        if part.startswith("pci") and ":" in part:
            root = part
        elif (address := bdf(part)) is not None:
            bridges.append(address)
    return root, tuple(bridges[:-1])


def function_of(target: str) -> str | None:
    """BDF of the PCI function in a path: ``.../0000:c9:00.0/net/eth0``; None = not a PCI device."""
    return next((address for part in reversed(target.split("/")) if (address := bdf(part))), None)


def pci_functions(
    listing: str,
    attribute_listing: str,
    link_listing: str | None,
    slot_listing: str,
    dumps: Iterable[tuple[str, str]],
    note: Note,
) -> Mapping[str, PciFunction]:
    """
    All PCI functions of a host, by BDF.

    ``listing`` is ``ls -l`` of the devices folder, ``link_listing`` that of the ``driver`` and
    ``physfn`` links (None = not to be had, so unknown), ``dumps`` are pairs of BDF and ``od``
    output.
    """
    values = attributes(attribute_listing, note)
    owners: dict[str, dict[str, str]] = {}
    for name, target in links(link_listing or "", note):
        device, _, kind = name.partition("/")
        owners.setdefault(device, {})[kind] = target.rsplit("/", 1)[-1]
    slots = {
        f"{address}.{function}": slot
        for slot, fields in attributes(slot_listing, note).items()
        if (address := fields.get("address")) is not None
        for function in range(8)
    }

    def config_of(address: str, text: str) -> bytes:
        return read_dump(text, lambda reason: note(f"{address}: {reason}"))

    configs = {address: config_of(address, text) for address, text in dumps}
    functions: dict[str, PciFunction] = {}
    for name, target in links(listing, note):
        address = bdf(name)
        if address is None:
            note(f"no PCI address: {name[:60]!r}")
            continue
        root, bridges = path_of(target)
        fields, owner = values.get(name, {}), owners.get(name, {})
        config = configs.get(address, b"")
        functions[address] = PciFunction(
            bdf=address,
            vendor=number(fields.get("vendor"), 16),
            device=number(fields.get("device"), 16),
            class_code=number(fields.get("class"), 16),
            root=root,
            bridges=bridges,
            numa_node=number(fields.get("numa_node")),
            driver=None if link_listing is None else owner.get("driver", ""),
            physfn=None if link_listing is None else owner.get("physfn", ""),
            express=read_express(config),
            config_bytes=len(config),
            responds=bool(config.strip(b"\xff")) if config else None,
            serial=read_serial(config),
            slot=slots.get(address),
            access_control=read_access_control(config),
            errors=read_errors(config),
        )
    return functions
