"""Interfaces: ``ip addr``, ``ip link``, ``ifconfig``, ``ethtool``, bonds, and files in sysfs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from ipaddress import ip_network
from itertools import pairwise
from typing import Any

from rackready.facts.model import NetDevice
from rackready.facts.parts.network import InterfacesListed
from rackready.facts.readers.filters import lets_through, throws_out
from rackready.facts.readers.json_output import items_of, number_of, objects, part_of, text_of
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.sysfs import bdf, number

_NAME = r"[A-Za-z][\w.-]{0,31}"
_HEAD = re.compile(rf"\d{{1,6}}: ({_NAME})(?:@([\w.-]{{1,32}}))?: <([A-Z0-9_,-]{{0,300}})>(.*)$")
_ONE_LINE = re.compile(rf"\d{{1,6}}: ({_NAME})(?:@[\w.-]{{1,32}})?\s+inet6? (.*)$")
_ADDRESS = re.compile(r"inet6? ([0-9a-fA-F:.]{2,45})(?: peer \S{1,50})?(/\d{1,3})?")
_MAC = re.compile(r"link/(\w{1,20}) ([0-9a-f]{2}(?::[0-9a-f]{2}){5,19})\b")
_PARENT = re.compile(r"\bparentbus pci parentdev (\S{7,16})")
_DETAIL = re.compile(r"(bond|vlan|veth|bridge|macvlan|ipvlan|vxlan|dummy)(?: |$)")
_BRIEF = re.compile(
    rf"({_NAME})(?:@([\w.-]{{1,32}}))?\s+(UP|DOWN|UNKNOWN|LOWERLAYERDOWN|DORMANT)(?:\s+(.*))?$"
)
_BRIEF_MAC = re.compile(r"([0-9a-f]{2}(?::[0-9a-f]{2}){5,19})\s+<([A-Z0-9_,-]{0,300})>")
_BRIEF_ADDRESS = re.compile(r"[0-9a-fA-F:.]{2,45}(?:/\d{1,3})?$")
# net-tools since 2.0 (RHEL 7, Debian 9) and before it.
_CONFIG = re.compile(
    rf"({_NAME})(?::\w{{1,15}})?: flags=\d{{1,10}}<([A-Z,]{{0,300}})>  mtu (\d{{1,6}})$"
)
_OLD_CONFIG = re.compile(rf"({_NAME})(?::\w{{1,15}})? +Link encap:")
_OLD_MAC = re.compile(r"Ethernet  HWaddr ((?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2})\b")
_CONFIG_V4 = re.compile(
    r"inet (?:addr:)?(\d[\d.]{6,14})\b.{0,60}?(?:netmask |Mask:)([\d.]{7,15})\b"
)
_CONFIG_V6 = re.compile(
    r"inet6 (?:addr: ?([0-9a-f:]{2,45}/\d{1,3})|([0-9a-f:]{2,45})  prefixlen (\d{1,3}))"
)
_CONFIG_MAC = re.compile(r"ether ((?:[0-9a-f]{2}:){5}[0-9a-f]{2})\b")
_OLD_FLAGS = re.compile(r"([A-Z][A-Z ]{1,200}?) {1,4}MTU:(\d{1,6})\b")
_BOND_MODES = {
    "balance-rr": 0,
    "load balancing (round-robin)": 0,
    "active-backup": 1,
    "fault-tolerance (active-backup)": 1,
    "balance-xor": 2,
    "load balancing (xor)": 2,
    "broadcast": 3,
    "fault-tolerance (broadcast)": 3,
    "802.3ad": 4,
    "ieee 802.3ad dynamic link aggregation": 4,
    "balance-tlb": 5,
    "transmit load balancing": 5,
    "balance-alb": 6,
    "adaptive load balancing": 6,
}
# "ip addr show eth0", "ip link show up", "ip -4 addr", "ip -d link show type vlan"
_IP_PART = re.compile(
    r"\s-(?:4|6|f\w*)\s|\s(?:a|ad|addr|address|l|li|link)\s+(?!(?:s|sh|show|l|ls|lst|list)$)"
)
_ROWS = ("7: xyz9: <BROADCAST,MULTICAST> mtu 1500", "xyz9             DOWN           ")
_LOOPBACKS = ("1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536", "lo               UNKNOWN        ")
_FILE = re.compile(rf"/sys/class/net/({_NAME})/(mtu|operstate|speed|address|carrier)\b")


def read_ip(output: Output) -> Iterator[NetDevice | InterfacesListed]:
    """``ip addr`` and ``ip link``, also with ``-o``, ``-d``, ``-br`` and ``-j``; ``ip -o addr``."""
    if output.command == "ip -o addr show" and not output.line:
        return  # the probe's own: read together with its listing of all interfaces
    devices = list(_interfaces(output))
    yield from devices
    if devices:
        # "ip -o addr" leaves out interfaces that have no address.
        rows = all(device.mtu is not None or device.state for device in devices)
        part = _IP_PART.search(output.command)
        yield InterfacesListed(rows and not part and _is_whole(output, devices))


def _is_whole(output: Output, devices: Iterable[NetDevice]) -> bool:
    """Whether all interfaces that were asked for are there: loopback is not missing, unless cut."""
    if output.filters:
        return lets_through(output, *_ROWS) or any(throws_out(output, row) for row in _LOOPBACKS)
    return any(device.name == "lo" for device in devices)


def _interfaces(output: Output) -> Iterator[NetDevice]:
    if (items := objects(output)) is not None:
        yield from filter(None, map(_from_json, items))
        return
    device: NetDevice | None = None
    addresses: dict[str, list[str]] = {}
    for line in output.lines():
        if head := _HEAD.match(line):
            if device is not None:
                yield _with_addresses(device, addresses)
            device = _device(head)
            # -o puts everything into one line, with backslashes for the breaks
            for part in head[4].split("\\")[1:]:
                device = _with_line(device, part.strip(), addresses)
        elif one := _ONE_LINE.match(line):
            address = _ADDRESS.match(line[line.index("inet") :])
            if address:
                addresses.setdefault(one[1], []).append(address[1] + (address[2] or ""))
        elif brief := _BRIEF.match(line):
            yield _brief(brief)
        elif device is not None:
            device = _with_line(device, line, addresses)
    if device is not None:
        yield _with_addresses(device, addresses)
        addresses.pop(device.name, None)
    for name, found in addresses.items():
        yield NetDevice(name, addresses=tuple(found))


def _device(head: re.Match[str]) -> NetDevice:
    """``6: ens21f0np0: <BROADCAST,UP,LOWER_UP> mtu 4200 qdisc mq master bond0 state UP``."""
    name, parent, flags, rest = head.groups()
    words = rest.partition("\\")[0].split()
    fields = dict(pairwise(words))
    elsewhere = bool(parent) and parent.startswith("if") and parent[2:].isdigit()
    return NetDevice(
        name,
        mtu=number(fields.get("mtu")),
        state=fields.get("state", "").lower() or None,
        kind=_kind(flags.split(","), bool(parent), elsewhere),
        master=fields.get("master"),
        enabled="UP" in flags.split(","),
    )


def _kind(flags: list[str], below: bool, elsewhere: bool) -> str | None:
    """
    ``below``: it is bound to another interface; ``elsewhere``: to one in another network namespace.
    """
    if "LOOPBACK" in flags:
        return "loopback"
    if below or elsewhere:
        return "veth" if elsewhere else "vlan"
    return "bond" if "MASTER" in flags else None


def _from_json(item: Mapping[str, Any]) -> NetDevice | None:
    """An interface of ``ip -j addr`` or ``ip -j link``; None for what is none."""
    name = text_of(item, "ifname")
    if name is None or not re.fullmatch(_NAME, name) or "port" in item or "node_type" in item:
        return None
    flags = [flag for flag in items_of(item, "flags") if isinstance(flag, str)]
    mac = text_of(item, "address") or ""
    mode = text_of(part_of(part_of(item, "linkinfo"), "info_data"), "mode")
    detail = _DETAIL.match(text_of(part_of(item, "linkinfo"), "info_kind") or "")
    parent = text_of(item, "parentdev") if item.get("parentbus") == "pci" else None
    addresses = [
        f"{local}/{length}" if (length := number_of(address, "prefixlen")) is not None else local
        for address in items_of(item, "addr_info")
        if isinstance(address, dict) and (local := text_of(address, "local"))
    ]
    return NetDevice(
        name,
        bdf=bdf(parent) if parent else None,
        mac=mac if _MAC.match(f"link/x {mac}") else None,
        mtu=number_of(item, "mtu"),
        state=(text_of(item, "operstate") or "").lower() or None,
        addresses=tuple(sorted(addresses, key=lambda address: ":" in address)) or None,
        kind=_kind(flags, "link" in item, "link_index" in item) or (detail[1] if detail else None),
        master=text_of(item, "master"),
        bond_mode=_BOND_MODES.get(mode or ""),
        enabled="UP" in flags if "flags" in item else None,
    )


def _with_line(device: NetDevice, line: str, addresses: dict[str, list[str]]) -> NetDevice:
    if match := _ADDRESS.match(line):
        addresses.setdefault(device.name, []).append(match[1] + (match[2] or ""))
    elif match := _MAC.match(line):
        parent = _PARENT.search(line)
        device = replace(device, mac=match[2], bdf=bdf(parent[1]) if parent else device.bdf)
    elif device.kind is None and (match := _DETAIL.match(line)):
        device = replace(device, kind=match[1])
    return device


def _with_addresses(device: NetDevice, addresses: dict[str, list[str]]) -> NetDevice:
    # IPv4 first, as ip lists them: ifconfig has the addresses of aliases behind those of IPv6.
    found = sorted(addresses.get(device.name, ()), key=lambda address: ":" in address)
    return replace(device, addresses=tuple(found)) if found else device


def _brief(match: re.Match[str]) -> NetDevice:
    name, parent, state, rest = match.groups()
    kind = None
    if parent:
        kind = "veth" if parent.startswith("if") and parent[2:].isdigit() else "vlan"
    device = NetDevice(name, state=state.lower(), kind=kind)
    if mac := _BRIEF_MAC.match(rest or ""):
        flags = mac[2].split(",")
        return replace(device, mac=mac[1], enabled="UP" in flags)
    found = tuple(word for word in (rest or "").split() if _BRIEF_ADDRESS.match(word))
    return replace(device, addresses=found or None)


def read_ifconfig(output: Output) -> Iterator[NetDevice | InterfacesListed]:
    """``ifconfig`` of both generations; an alias (``eth0:1``) is one more address of its device."""
    devices = list(_configurations(output))
    yield from devices
    if devices:
        down = any(device.enabled is False for device in devices)
        asked = bool(re.search(r"\s-\w*a", output.command)) and not output.arguments()
        # Without -a it leaves out those that are down.
        yield InterfacesListed((asked or down) and _is_whole(output, devices))


def _configurations(output: Output) -> Iterator[NetDevice]:
    device: NetDevice | None = None
    addresses: dict[str, list[str]] = {}
    for line in output.lines():
        head = _CONFIG.match(line)
        old = None if head else _OLD_CONFIG.match(line)
        named = head or old
        if named and device is not None and named[1] == device.name:
            continue  # an alias
        if head:
            if device is not None:
                yield _with_addresses(device, addresses)
            flags = head[2].split(",")
            device = _configured(NetDevice(head[1]), flags, int(head[3]))
        elif old:
            if device is not None:
                yield _with_addresses(device, addresses)
            mac = _OLD_MAC.match(line, old.end())
            device = NetDevice(old[1], mac=mac[1].lower() if mac else None)
        elif device is None:
            continue
        elif four := _CONFIG_V4.match(line):
            address = f"{four[1]}/{_bits(four[2])}" if _bits(four[2]) is not None else four[1]
            addresses.setdefault(device.name, []).append(address)
        elif six := _CONFIG_V6.match(line):
            addresses.setdefault(device.name, []).append(six[1] or f"{six[2]}/{six[3]}")
        elif mac := _CONFIG_MAC.match(line):
            device = replace(device, mac=mac[1])
        elif state := _OLD_FLAGS.match(line):
            device = _configured(device, state[1].split(), int(state[2]))
    if device is not None:
        yield _with_addresses(device, addresses)


def _configured(device: NetDevice, flags: list[str], mtu: int) -> NetDevice:
    kinds = {"LOOPBACK": "loopback", "MASTER": "bond"}
    kind = next((kind for flag, kind in kinds.items() if flag in flags), None)
    return replace(device, mtu=mtu, kind=kind, enabled="UP" in flags)


def _bits(mask: str) -> int | None:
    """``255.255.255.0`` -> 24."""
    try:
        return ip_network(f"0.0.0.0/{mask}").prefixlen
    except ValueError:
        return None


def read_bonding(output: Output) -> Iterator[NetDevice]:
    """``/proc/net/bonding/bond0``; its name stands in the path alone."""
    path = re.search(rf"/proc/net/bonding/({_NAME})", output.command)
    name, mode = path[1] if path else "", None
    if not _shows_members(output):
        return
    members: dict[str, str | None] = {}
    for line in [*output.lines(), "Ethernet Channel Bonding Driver: end"]:
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "Ethernet Channel Bonding Driver":
            if members:
                yield NetDevice(name, kind="bond", members=tuple(members), bond_mode=mode)
                for member, state in members.items():
                    yield NetDevice(member, master=name or None, state=state)
            members, mode = {}, None
        elif key == "Bonding Mode":
            mode = _BOND_MODES.get(value.lower().partition(" (")[0]) or _BOND_MODES.get(
                value.lower()
            )
        elif key == "Slave Interface" and re.fullmatch(_NAME, value):
            members[value] = None
        elif key == "MII Status" and value == "down" and members:
            members[next(reversed(members))] = "down"


def _shows_members(output: Output) -> bool:
    """Whether all interfaces of a bond are there: a search may have left out other lines only."""
    return output.program not in ("head", "tail") and lets_through(output, "Slave Interface: ")


def read_ethtool(output: Output) -> Iterator[NetDevice]:
    """``ethtool NIC``: its speed in Mb/s."""
    name = ""
    for line in output.lines():
        if match := re.match(rf"Settings for ({_NAME}):", line):
            name = match[1]
        elif name and (match := re.match(r"Speed: (\d{1,7})Mb/s", line)):
            yield NetDevice(name, speed=int(match[1]))


def read_ethtool_driver(output: Output) -> Iterator[NetDevice]:
    """``ethtool -i NIC``: where it sits on the PCI bus."""
    names = output.arguments()
    match = re.search(r"^\s*bus-info: (\S{7,16})$", output.text, re.MULTILINE)
    if match and len(names) == 1 and (address := bdf(match[1])):
        yield NetDevice(names[0], bdf=address)


def read_files(output: Output) -> Iterator[NetDevice]:
    """``cat /sys/class/net/NIC/mtu`` and ``grep . /sys/class/net/*/mtu``."""
    asked = _FILE.search(output.command)
    for line in output.lines():
        named = _FILE.match(line)
        if named and line[named.end() : named.end() + 1] == ":":
            name, key, value = named[1], named[2], line[named.end() + 1 :]
        elif asked and "*" not in output.command:
            name, key, value = asked[1], asked[2], line
        else:
            continue
        if key == "mtu" and (mtu := number(value)) is not None:
            yield NetDevice(name, mtu=mtu)
        elif key == "operstate" and value.isalpha():
            yield NetDevice(name, state=value)


READERS = (
    reader(
        "ip addr",
        read_ip,
        command=r"ip\s+(?:-\S+\s+)*(?:a|ad|addr|address|l|li|link)\b"
        r"(?!\s+(?:set|del|delete|add|flush)\b)",
        shape=r"^\d+: [A-Za-z][\w.@-]*: <[A-Z0-9_,-]*> mtu \d+ |^\d+: [\w.@-]+ +inet6? \S+/\d"
        r"|^[a-z][\w.@-]* +(?:UP|DOWN|UNKNOWN) +"
        r"(?:[0-9a-f.:]{4,40}/\d|[0-9a-f]{2}(?::[0-9a-f]{2}){5} )"
        r"|^\[ ?(?:\{\},){0,99}\{\s*(?:\"ifindex\": ?\d+,\s*)?\"ifname\": ?\"[\w.-]{1,32}\",\s*"
        r"\"(?:link|link_index|flags|operstate)\":",
    ),
    reader(
        "ifconfig",
        read_ifconfig,
        # anything behind the name but -a and the like changes the interface
        command=rf"ifconfig(?:\s+-[asv])*(?:\s+{_NAME})?$",
        shape=r"^[a-zA-Z][\w.:-]*: flags=\d+<[A-Z,]*>  mtu \d+$|^[a-zA-Z][\w.:-]* +Link encap:",
    ),
    reader(
        "cat /proc/net/bonding/bond0",
        read_bonding,
        command=r"(?:cat|head|more|grep|tail)\s[^\n]{0,200}?/proc/net/bonding/",
        shape=r"^Ethernet Channel Bonding Driver: ",
    ),
    reader(
        "ethtool -i",
        read_ethtool_driver,
        command=r"ethtool\s+(?:-i|--driver)\b",
        shape=r"^expansion-rom-version:",
    ),
    reader(
        "ethtool eth0",
        read_ethtool,
        command=rf"ethtool\s+{_NAME}$",
        shape=rf"^Settings for {_NAME}:$",
    ),
    reader(
        "cat /sys/class/net/eth0/mtu",
        read_files,
        command=r"(?:cat|grep|head|more)\s[^\n]{0,300}?/sys/class/net/[^/\s]{1,40}/"
        r"(?:mtu|operstate)\b",
        shape=r"^/sys/class/net/[\w.-]+/(?:mtu|operstate):",
    ),
)
