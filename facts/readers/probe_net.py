"""Network interfaces and their addresses, from the listings of the probe."""

from __future__ import annotations

from rackready.facts.model import NetDevice
from rackready.facts.readers.pci import function_of
from rackready.facts.readers.sysfs import Note, attributes, lines, links, number


def read_addresses(text: str, note: Note) -> dict[str, tuple[str, ...]]:
    """``ip -o addr show`` -> {"eth0": ("10.2.1.5/24", "fe80::1/64")}."""
    found: dict[str, list[str]] = {}
    for line_number, line in lines(text):
        words = line.split()
        if len(words) < 4 or number(words[0].rstrip(":")) is None:
            note(f"line {line_number} is no address: {line[:60]!r}")
        elif words[2] in ("inet", "inet6"):
            found.setdefault(words[1].partition("@")[0], []).append(words[3])
    return {name: tuple(addresses) for name, addresses in found.items()}


def net_devices(
    listing: str, attribute_listing: str, address_listing: str | None, note: Note
) -> tuple[NetDevice, ...]:
    """All network interfaces; ``address_listing`` None = unknown addresses."""
    values = attributes(attribute_listing, note)
    addresses = None if address_listing is None else read_addresses(address_listing, note)
    devices = []
    for name, target in links(listing, note):
        fields = values.get(name, {})
        speed = number(fields.get("speed"))
        devices.append(
            NetDevice(
                name=name,
                bdf=function_of(target) or "",
                mac=fields.get("address"),
                mtu=number(fields.get("mtu")),
                state=fields.get("operstate"),
                speed=speed if speed is None or speed > 0 else None,  # -1: not known
                port=number(fields.get("dev_port")),
                addresses=None if addresses is None else addresses.get(name, ()),
            )
        )
    return tuple(devices)
