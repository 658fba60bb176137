"""How network configuration wants an interface to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Connection:
    """A profile of NetworkManager: from ``nmcli`` or its keyfile."""

    IDENTITY: ClassVar = (("name",),)

    name: str
    interface: str | None = None
    ipv4_method: str | None = None  # "manual", "auto", ...
    ipv6_method: str | None = None  # "auto", "ignore", "disabled", "link-local", ...
    address_mode: str | None = None  # ipv6.addr-gen-mode: "stable-privacy", "eui64", ...
    addresses: tuple[str, ...] = ()
    mtu: str | None = None


@dataclass(frozen=True)
class NetplanInterface:
    """An interface of a netplan file."""

    IDENTITY: ClassVar = (("name",),)

    name: str
    renderer: str | None = None  # "networkd", "NetworkManager"
    link_local: tuple[str, ...] | None = None
    accept_ra: bool | None = None
    mtu: int | None = None
    addresses: tuple[str, ...] = ()
