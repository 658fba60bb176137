"""Quality of service of a NIC port: what is lossless, what is marked, what slows down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar


def _nothing() -> Mapping[str, int]:
    return MappingProxyType({})


def _no_priorities() -> Mapping[int, int]:
    return MappingProxyType({})


def _no_flags() -> Mapping[int, bool]:
    return MappingProxyType({})


@dataclass(frozen=True)
class DcbPort:
    """
    Data Center Bridging of one interface, as ``mlnx_qos -i`` and ``dcb`` show it.

    ``netdev`` is "" where the output does not say whose it is. A DSCP that ``priorities`` has not
    goes to priority 0 when ``listed`` says that the whole table was shown.
    """

    IDENTITY: ClassVar = (("netdev",),)

    netdev: str
    dcbx: str | None = None  # who speaks DCBX: "os", "firmware"
    trust: str | None = None  # what picks the priority: "dscp", "pcp", "none"
    priorities: Mapping[int, int] = field(default_factory=_no_priorities)  # by DSCP
    doubled: tuple[int, ...] = ()  # DSCPs that the table sends to several priorities
    listed: bool | None = None
    pfc: tuple[bool, ...] | None = None  # for each of the eight priorities


@dataclass(frozen=True)
class PauseFrames:
    """Global pause of the whole link, ``ethtool -a``; PFC and it exclude each other."""

    IDENTITY: ClassVar = (("netdev",),)

    netdev: str
    receive: bool | None = None
    send: bool | None = None


@dataclass(frozen=True)
class PortCounters:
    """``ethtool -S``: counters since the driver was loaded, by the driver's names."""

    IDENTITY: ClassVar = ()

    netdev: str
    values: Mapping[str, int] = field(default_factory=_nothing)


@dataclass(frozen=True)
class EcnPort:
    """
    Congestion control (DCQCN) of one interface, by priority.

    ``notification`` is the NP, which answers marked packets; ``reaction`` the RP, which slows down.
    ``present`` is False where the driver has no such files.
    """

    IDENTITY: ClassVar = (("netdev",),)

    netdev: str
    notification: Mapping[int, bool] = field(default_factory=_no_flags)
    reaction: Mapping[int, bool] = field(default_factory=_no_flags)
    present: bool | None = None
    cnp_dscp: int | None = None


@dataclass(frozen=True)
class CmaDefault:
    """What connections made by RDMA-CM get on one port: ToS byte and RoCE version."""

    IDENTITY: ClassVar = (("device", "port"),)

    device: str
    port: int
    tos: int | None = None
    mode: str | None = None  # "v1", "v2"


@dataclass(frozen=True)
class CmaRefusal:
    """Reading or setting such a default was refused."""

    IDENTITY: ClassVar = (("device", "reason"),)

    device: str
    reason: str  # "no-module", "no-device", or what the tool said
    said: str = ""


@dataclass(frozen=True)
class MarkedFlow:
    """RoCE v2 packets (UDP port 4791) of one direction that carry one ToS byte, in a capture."""

    IDENTITY: ClassVar = (("source", "target", "tos"),)

    source: str
    target: str
    tos: int
