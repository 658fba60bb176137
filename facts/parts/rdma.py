"""What tools say of RDMA beside the devices themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class EmptyGids:
    """
    A GID table was shown, and all of it is zero: no interface lends its addresses.

    ``device`` "" stands for all devices of the host.
    """

    IDENTITY: ClassVar = (("device", "port"),)

    device: str
    port: int


@dataclass(frozen=True)
class DeviceList:
    """All RDMA devices were listed: one that is not among them is not there."""

    IDENTITY: ClassVar = (("tool",),)

    tool: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class VerbsLibrary:
    """What libibverbs itself complained about when a program started."""

    IDENTITY: ClassVar = ((),)

    without_driver: tuple[str, ...] = ()  # uverbs devices: "uverbs0"
    not_loaded: tuple[str, ...] = ()  # providers: "mlx5"
    private_symbol: str = ""  # "IBVERBS_PRIVATE_34": libraries of two versions
    no_devices: bool = False
