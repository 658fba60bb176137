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
class ManagedDevice:
    """An interface as NetworkManager shows it."""

    IDENTITY: ClassVar = (("name",),)

    name: str
    state: str | None = None  # "connected", "connected (externally)", "unmanaged", ...
    profile: str | None = None  # in use; "" = none


@dataclass(frozen=True)
class DevicesListed:
    """NetworkManager showed all interfaces."""

    IDENTITY: ClassVar = ((),)

    complete: bool = True


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
    found_by_name: bool | None = None  # False: by its match, or it is made here, as a bond is
