"""Routing, neighbours and network configuration of a host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar


def _nothing() -> Mapping[str, tuple[str, ...]]:
    return MappingProxyType({})


@dataclass(frozen=True)
class InterfacesListed:
    """
    What a list of interfaces says about one that is not in it.

    ``complete``: it does not exist. Else the list may lack some: ``ifconfig`` shows those alone
    that are up.
    """

    IDENTITY: ClassVar = ()

    complete: bool = True


@dataclass(frozen=True)
class Route:
    """One row of ``ip route``. ``target`` in CIDR, or "default"."""

    IDENTITY: ClassVar = (("table", "target", "netdev"),)

    table: str
    target: str
    netdev: str
    source: str | None = None
    gateway: str | None = None
    scope: str | None = None  # "link": no gateway on the way


@dataclass(frozen=True)
class RoutingRule:
    """One row of ``ip rule``; ``source`` is "all" or an address or a subnet."""

    IDENTITY: ClassVar = (("priority", "source", "table", "interface"),)

    priority: int
    source: str
    table: str
    interface: str = ""  # of "iif" or "oif"


@dataclass(frozen=True)
class RulesListed:
    """All routing rules were shown: one that is not among them does not exist."""

    IDENTITY: ClassVar = ((),)

    complete: bool = True


@dataclass(frozen=True)
class Neighbour:
    """One row of ``ip neigh``: whose MAC address answers for an IP address."""

    IDENTITY: ClassVar = (("address", "netdev"),)

    address: str
    netdev: str
    mac: str | None = None
    state: str | None = None  # "REACHABLE", "STALE", "FAILED", ...


@dataclass(frozen=True)
class NetworkLink:
    """An interface as ``networkctl`` shows it."""

    IDENTITY: ClassVar = (("name",),)

    name: str
    kind: str | None = None  # "ether", "loopback", "bond", ...
    operational: str | None = None  # "routable", "degraded", "carrier", ...
    setup: str | None = None  # "configured", "unmanaged", "failed", ...
    file: str | None = None  # the .network file in use; "" = none


@dataclass(frozen=True)
class LinksListed:
    """``networkctl`` showed all links."""

    IDENTITY: ClassVar = ((),)

    complete: bool = True


@dataclass(frozen=True)
class NetworkFile:
    """
    A .network file of systemd-networkd; ``path`` is "" where the output does not name it.

    ``match`` holds the words of its [Match] section by key, ``settings`` those of all other
    sections as ``Section.Key``.
    """

    IDENTITY: ClassVar = ()

    path: str
    match: Mapping[str, tuple[str, ...]] = field(default_factory=_nothing)
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=_nothing)
