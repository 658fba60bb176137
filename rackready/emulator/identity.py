"""Names and numbers that tell one node from the others, derived from its name: always the same."""

from __future__ import annotations

import hashlib
from ipaddress import IPv4Interface, IPv4Network, IPv6Address
from uuid import UUID


def number(bits: int, *of: str) -> int:
    """A number of so many bits."""
    digest = hashlib.sha256("/".join(of).encode()).digest()
    return int.from_bytes(digest, "big") >> (256 - bits)


def uuid(*of: str) -> str:
    return str(UUID(int=number(128, *of), version=4))


def mac(*of: str) -> bytes:
    """A locally administered address: it belongs to no maker."""
    return b"\x02" + number(40, *of).to_bytes(5, "big")


def guid(address: bytes) -> bytes:
    """The GUID that a ConnectX makes out of its MAC address."""
    return address[:3] + b"\x03\x00" + address[3:]


def interface(network: str, host: str) -> IPv4Interface:
    """The address of a host in a network."""
    net = IPv4Network(network)
    position = 1 + number(64, host) % (net.num_addresses - 2)
    return IPv4Interface((net[position], net.prefixlen))


def link_local(address: bytes) -> bytes:
    """The IPv6 address that the kernel makes out of a MAC address (EUI-64)."""
    suffix = bytes([address[0] ^ 2]) + address[1:3] + b"\xff\xfe" + address[3:]
    return b"\xfe\x80" + bytes(6) + suffix


def private_link_local(*of: str) -> bytes:
    """A link-local address as NetworkManager makes it (stable-privacy)."""
    return b"\xfe\x80" + bytes(6) + number(64, *of).to_bytes(8, "big")


def grouped(value: bytes) -> str:
    """GUIDs and GIDs as sysfs shows them: groups of four hex digits."""
    text = value.hex()
    return ":".join(text[i : i + 4] for i in range(0, len(text), 4))


def address_text(value: bytes) -> str:
    """An IPv6 address as people write it."""
    return str(IPv6Address(value))
