"""What the management tools of accelerators say of health, in the layout that several share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar


def _empty() -> Mapping[str, int]:
    return MappingProxyType({})


@dataclass(frozen=True)
class ToolReport:
    """What a tool says of itself and of the software below it; ``failure`` = why it can't work."""

    IDENTITY: ClassVar = (("tool",),)

    tool: str  # "nvidia-smi"
    driver: str | None = None
    sdk: str | None = None
    failure: str | None = None
    library: str | None = None  # version of the tool's own library, where it told that


@dataclass(frozen=True)
class DriverLoaded:
    """The version of a driver as the kernel runs it, from what the driver itself prints."""

    IDENTITY: ClassVar = (("module",),)

    module: str
    version: str


@dataclass(frozen=True)
class FabricManagerMismatch:
    """The manager of the switch fabric was made for another version of the driver."""

    IDENTITY: ClassVar = (("manager", "driver"),)

    manager: str
    driver: str


@dataclass(frozen=True)
class FabricNotReady:
    """A program was told that the fabric of switches is not set up (CUDA error 802)."""

    IDENTITY: ClassVar = ((),)

    said: str


@dataclass(frozen=True)
class ContainerSdk:
    """The SDK that an image's own start-up lines name."""

    IDENTITY: ClassVar = ((),)

    version: str


@dataclass(frozen=True)
class Health:
    """Error counters and states of one accelerator; ``xids``: kind of repair -> number."""

    IDENTITY: ClassVar = (("bdf",),)

    bdf: str
    tool: str
    corrected: int | None = None  # since the driver was loaded, or the last reset
    uncorrected: int | None = None  # the same
    uncorrected_ever: int | None = None
    remapped: int | None = None  # rows, after uncorrectable errors
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    fabric_state: str | None = None  # "Completed", "In Progress", "Not Started", "N/A"
    fabric_status: str | None = None  # "Success", or an error
    temperature_c: int | None = None
    slowdown_c: int | None = None
    worn_sram: bool | None = None  # more errors of the SRAM than the vendor allows
    recovery: str | None = None  # what the driver asks for: "None", "Reset", "Reboot"
    xids: Mapping[str, int] = field(default_factory=_empty)


@dataclass(frozen=True)
class MigDevice:
    """A part of an accelerator that was split."""

    IDENTITY: ClassVar = (("parent", "instance", "compute"),)

    parent: int  # index of the accelerator
    instance: int
    compute: int
    memory_used_mib: int
    memory_mib: int


@dataclass(frozen=True)
class DeviceLink:
    """One link between accelerators, as the accelerator at one end sees it."""

    IDENTITY: ClassVar = (("device", "link"),)

    device: str  # "PPU 2", "GPU 0"
    link: int
    active: bool | None = None
    width: int | None = None  # lanes
    remote: str | None = None  # BDF of the other end
    downs: int | None = None
    uncorrectable: int | None = None  # errors of the link that could not be corrected
    model: str | None = None  # of the device
    tool: str | None = None
    partial: bool = False  # links that are down may have been filtered out


@dataclass(frozen=True)
class Upgrade:
    """A package that the system's package manager brought to another version."""

    IDENTITY: ClassVar = (("package", "after"),)

    package: str
    before: str
    after: str
    by: str  # the command line
