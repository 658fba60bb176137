"""The config space of a PCI function: registers as the PCI Express Base Specification has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from rackready.emulator import devices
from rackready.emulator.topology import DOWNSTREAM, ENDPOINT, ROOT, Function

_EXPRESS_VERSION = 2
_ERROR_REPORTS, _RELAXED_ORDERING, _EXTENDED_TAG, _NO_SNOOP = 0x7, 0x10, 0x100, 0x800
_ACCESS_CONTROLS = 0x5F  # all but egress control; none of them is on


@dataclass(frozen=True)
class Registers:
    """What differs between two functions of the same device."""

    serial: int  # Device Serial Number, 64 bits
    max_payload: int
    max_read_request: int


def config_space(function: Function, registers: Registers) -> bytes:
    """256 or 4096 bytes."""
    space = _Space(function.device.config_size)
    _header(space, function)
    bodies: dict[int, Callable[[int], None]] = {
        devices.POWER_MANAGEMENT: lambda at: space.words(at + 2, 0x0003, 0x0008),
        devices.SUBSYSTEM: lambda at: space.words(at + 4, *function.device.subsystem),
        devices.VENDOR_SPECIFIC: lambda at: space.words(at + 2, 0x18),
        devices.EXPRESS: lambda at: _express(space, at, function, registers),
        devices.MSI_X: lambda at: space.words(at + 2, 0x803F, 0x2000, 0, 0x3000, 0),
    }
    extended: dict[int, Callable[[int], None]] = {
        devices.ERROR_REPORTING: lambda at: space.words(at + 12, 0x2030, 0x0046),
        devices.SERIAL_NUMBER: lambda at: space.longs(
            at + 4, registers.serial & 0xFFFFFFFF, registers.serial >> 32
        ),
        devices.ACCESS_CONTROL: lambda at: space.words(at + 4, _ACCESS_CONTROLS, 0),
        devices.ROUTING_ID: lambda at: None,
        devices.VIRTUALIZATION: lambda at: _virtualization(space, at, function),
    }
    for capability, at, following in _chain(function.device.capabilities):
        space.bytes(at, capability, following)
        bodies[capability](at)
    for capability, at, following in _chain(function.device.extended):
        space.longs(at, capability | 1 << 16 | following << 20)
        extended[capability](at)
    return bytes(space.data)


def _chain(capabilities: Mapping[int, int]) -> Iterator[tuple[int, int, int]]:
    """Capability, its offset, and that of the next one; 0 ends the list."""
    offsets = [*capabilities.values(), 0]
    for number, (capability, at) in enumerate(capabilities.items(), 1):
        yield capability, at, offsets[number]


class _Space:
    def __init__(self, size: int) -> None:
        self.data = bytearray(size)

    def _write(self, at: int, size: int, values: tuple[int, ...]) -> None:
        for value in values:
            self.data[at : at + size] = value.to_bytes(size, "little")
            at += size

    def bytes(self, at: int, *values: int) -> None:
        self._write(at, 1, values)

    def words(self, at: int, *values: int) -> None:
        self._write(at, 2, values)

    def longs(self, at: int, *values: int) -> None:
        self._write(at, 4, values)


def _header(space: _Space, function: Function) -> None:
    device = function.device
    # A virtual function has no identity of its own: the standard makes these two read all ones.
    identity = (0xFFFF, 0xFFFF) if function.physical else (device.vendor, device.device)
    space.words(0x00, *identity, 0x0546, 0x0010)  # command: memory, bus master, error reporting
    space.longs(0x08, device.class_code << 8 | device.revision)
    space.bytes(0x34, next(iter(device.capabilities.values())))
    if function.port_type == ENDPOINT:
        space.bytes(0x0C, 8, 0, 0x80 if function.several else 0)
        space.words(0x2C, *device.subsystem)
    else:
        space.bytes(0x0C, 8, 0, 1)
        space.bytes(0x18, *function.buses)
        space.bytes(0x1C, 0xF0)  # base above limit: no I/O window
        space.words(0x20, 0xFFF0, 0x0000, 0xFFF1, 0x0001)  # nor any memory window


def _express(space: _Space, at: int, function: Function, registers: Registers) -> None:
    device = function.device
    endpoint = function.port_type == ENDPOINT
    leads_down = function.port_type in (ROOT, DOWNSTREAM)
    slot = 0x100 if leads_down else 0
    space.words(at + 2, _EXPRESS_VERSION | function.port_type << 4 | slot)
    space.longs(at + 4, 0x8022 | (0x1000_0000 if endpoint else 0))  # up to 512 bytes; resettable
    space.words(at + 8, 0 if function.physical else _device_control(endpoint, registers))
    link = device.link_speed | device.link_width << 4
    space.longs(at + 12, link | 0x0040_0000 | (0x0010_0000 if leads_down else 0))
    space.words(at + 18, link | 0x1000 | (0x2000 if leads_down else 0))
    space.longs(at + 36, 0x001F)  # completion timeouts
    space.longs(at + 44, (1 << device.link_speed) - 1 << 1)
    space.words(at + 48, device.link_speed, 0x001E)  # target speed; equalization complete


def _device_control(endpoint: bool, registers: Registers) -> int:
    value = _ERROR_REPORTS | _EXTENDED_TAG
    if endpoint:
        value |= _RELAXED_ORDERING | _NO_SNOOP
    value |= _encoded(registers.max_payload) << 5
    return value | _encoded(registers.max_read_request) << 12


def _encoded(size: int) -> int:
    """128 << n is written as n."""
    return size.bit_length() - 8


def _virtualization(space: _Space, at: int, function: Function) -> None:
    count = len(function.virtual)
    if count:
        space.words(at + 8, 0x0009)  # functions enabled, with memory
    first = _devfn(function.virtual[0]) - _devfn(function.bdf) if count else 0
    space.words(at + 12, 8, 8, count)
    space.words(at + 20, first, 1)
    space.words(at + 26, devices.CONNECTX_VIRTUAL.device)
    space.longs(at + 28, 0x0553, 0x0001)  # page sizes


def _devfn(bdf: str) -> int:
    return int(bdf[8:10], 16) << 3 | int(bdf[11:], 16)
