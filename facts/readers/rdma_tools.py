"""What the tools of rdma-core, iproute2 and OFED print of RDMA devices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from rackready.facts.model import Gid, NetDevice, RdmaDevice, RdmaPort
from rackready.facts.parts.rdma import DeviceList, VerbsLibrary
from rackready.facts.readers.gids import full, is_zero, version_of
from rackready.facts.readers.json_output import number_of, objects, text_of
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.sysfs import number

_FIELD = re.compile(r"([A-Za-z][\w ]{1,40}?)\s*:\s*(.*)$")
_PORT_STATE = re.compile(r"(?:PORT_)?(ACTIVE|DOWN|INIT|ARMED|NOP|ACTIVE_DEFER)\b")
_PHYSICAL = {
    "linkup": "LinkUp",
    "link_up": "LinkUp",
    "disabled": "Disabled",
    "polling": "Polling",
    "sleep": "Sleep",
    "linkerrorrecovery": "LinkErrorRecovery",
    "link_error_recovery": "LinkErrorRecovery",
    "phytest": "Phy Test",
    "phy_test": "Phy Test",
    "portconfigurationtraining": "PortConfigurationTraining",
    "port_configuration_training": "PortConfigurationTraining",
}
_STATES = {
    "active": "ACTIVE",
    "down": "DOWN",
    "initializing": "INIT",
    "initialize": "INIT",
    "armed": "ARMED",
}
_MTUS = (256, 512, 1024, 2048, 4096)
_GID = re.compile(r"GID\[\s{0,3}(\d{1,4})\]\s*:\s*([0-9a-fA-F:.]{2,60})(?:,\s*(.*))?$")
_DEVICE_ROW = re.compile(r"([A-Za-z]\w{1,63})\s+([0-9a-f]{16}|[0-9a-f]{4}(?::[0-9a-f]{4}){3})$")
_IBDEV = re.compile(
    r"(?:([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) )?([A-Za-z][\w.-]{1,63})(?: .{0,200}?)? "
    r"(?:port )?(\d{1,3}) (?:\([A-Z]{4,8}\s{0,4}\) )?.{0,200}?==> (\S{1,32}) \((\w{2,10})\)"
)
_LINK = re.compile(r"(?:link |\d{1,4}(?:/\d{1,3})?: )([A-Za-z][\w.-]{1,63})/(\d{1,3})[: ]\s*(.*)$")
_NO_DRIVER = re.compile(r"no userspace device-specific driver found for \S{0,80}?(uverbs\d{1,4})")
_NOT_LOADED = re.compile(
    r"couldn't load driver '?(?:\S{0,160}/)?lib(\w{2,40}?)(?:-rdmav\d{1,3})?(?:\.so)?'?[:\s]"
)
_PRIVATE = re.compile(r"(IBVERBS_PRIVATE_\d{1,3})\b")


def guid(text: str) -> str | None:
    """``0xa088c20300110a10`` and its other forms -> four groups of four hex digits."""
    digits = text.strip().lower().removeprefix("0x").replace(":", "").replace(" ", "")
    if not re.fullmatch(r"[0-9a-f]{16}", digits):
        return None
    return ":".join(digits[at : at + 4] for at in range(0, 16, 4))


def state_of(text: str) -> str | None:
    """``PORT_ACTIVE (4)``, ``Active``, ``4: ACTIVE``, ``ACTIVE`` -> "ACTIVE"."""
    if match := _PORT_STATE.search(text):
        return match[1]
    return _STATES.get(text.strip().lower())


def physical_state_of(text: str) -> str | None:
    """``LINK_UP``, ``5: LinkUp``, ``LINK_UP (5)`` -> "LinkUp", as sysfs writes it."""
    words = re.findall(r"[A-Za-z_]+", text)
    return _PHYSICAL.get(words[0].lower()) if words else None


def _bytes(text: str) -> int | None:
    """``1024 (3)`` -> 1024; None where a part of it is missing."""
    value = number(text.partition(" ")[0])
    return value if value in _MTUS else None


def read_devinfo(output: Output) -> Iterator[RdmaDevice | VerbsLibrary]:
    """``ibv_devinfo`` with or without ``-v``, and the complaints of libibverbs above it."""
    yield from _library(output)
    device: RdmaDevice | None = None
    for line in output.lines():
        match = _FIELD.match(line)
        if gid := _GID.match(line):
            device = _with_gid(device, gid)
        elif match is None:
            continue
        elif match[1] == "hca_id":
            if device is not None:
                yield device
            device = RdmaDevice(match[2].strip())
        elif device is not None:
            device = _with_field(device, match[1], match[2].strip())
    if device is not None:
        yield device


def _with_field(device: RdmaDevice, name: str, value: str) -> RdmaDevice:
    if name == "fw_ver":
        return replace(device, firmware=value)
    if name == "node_guid":
        return replace(device, node_guid=guid(value))
    if name == "board_id":
        return replace(device, board_id=value.split(" ")[0])
    if name == "port" and (at := number(value)) is not None and 0 < at < 1000:
        return replace(device, ports=(*device.ports, RdmaPort(at)))
    if not device.ports:
        return device
    *others, port = device.ports
    if name == "state":
        port = replace(port, state=state_of(value))
    elif name == "phys_state":
        port = replace(port, physical_state=physical_state_of(value))
    elif name == "active_mtu":
        port = replace(port, active_mtu=_bytes(value))
    elif name == "link_layer" and value in ("Ethernet", "InfiniBand"):
        port = replace(port, link_layer=value)
    return replace(device, ports=(*others, port))


def _with_gid(device: RdmaDevice | None, match: re.Match[str]) -> RdmaDevice | None:
    gid = full(match[2])
    if device is None or not device.ports or gid is None or is_zero(gid):
        return device
    *others, port = device.ports
    version = version_of(match[3]) if match[3] else None
    entry = Gid(int(match[1]), gid, version)
    return replace(device, ports=(*others, replace(port, gids=(*(port.gids or ()), entry))))


def _library(output: Output) -> Iterator[VerbsLibrary]:
    without = tuple(sorted(set(_NO_DRIVER.findall(output.text))))
    private = _PRIVATE.search(output.text)
    failed = tuple(dict.fromkeys(_NOT_LOADED.findall(output.text)))
    none = "No IB devices found" in output.text
    if without or private or failed or none:
        yield VerbsLibrary(without, failed, private[1] if private else "", none)


def read_devices(output: Output) -> Iterator[RdmaDevice | VerbsLibrary | DeviceList]:
    """``ibv_devices``: names and GUIDs; none below its heading is "No IB devices found"."""
    found = list(_library(output))
    names = []
    heading = False
    for line in output.lines():
        heading = heading or line.split() == ["device", "node", "GUID"]
        if match := _DEVICE_ROW.match(line):
            names.append(match[1])
            yield RdmaDevice(match[1], node_guid=guid(match[2]))
    if names and not output.filters:
        yield DeviceList("ibv_devices", tuple(names))
    none = heading and not names and not output.filters
    yield from (replace(item, no_devices=item.no_devices or none) for item in found)


def read_ibdev2netdev(output: Output) -> Iterator[RdmaDevice | NetDevice | DeviceList]:
    """``mlx5_0 port 1 ==> ens21f0np0 (Up)``; with ``-v`` address, model and firmware before it."""
    names = []
    for line in output.lines():
        match = _IBDEV.match(line)
        if match is None:
            continue
        names.append(match[2])
        state = {"up": "ACTIVE", "down": "DOWN"}.get(match[5].lower())
        port = RdmaPort(int(match[3]), state=state, netdev=match[4])
        yield RdmaDevice(match[2], bdf=match[1], ports=(port,))
    if names and not output.filters:
        yield DeviceList("ibdev2netdev", tuple(dict.fromkeys(names)))


def read_links(output: Output) -> Iterator[RdmaDevice | DeviceList]:
    """``rdma link``, also with ``-j``; the older form is ``1/1: mlx5_0/1: state ACTIVE ...``."""
    names = []
    for name, at, fields in _links(output):
        names.append(name)
        yield RdmaDevice(
            name,
            ports=(
                RdmaPort(
                    at,
                    link_layer="InfiniBand" if "subnet_prefix" in fields else None,
                    state=state_of(fields.get("state", "")),
                    physical_state=physical_state_of(fields.get("physical_state", "")),
                    netdev=fields.get("netdev"),
                ),
            ),
        )
    if names and not output.filters:
        yield DeviceList("rdma link", tuple(dict.fromkeys(names)))


def _links(output: Output) -> Iterator[tuple[str, int, dict[str, str]]]:
    """Device, port and words of each link."""
    items = objects(output)
    for line in output.lines() if items is None else ():
        if match := _LINK.match(line):
            words = match[3].split()
            yield match[1], int(match[2]), dict(zip(words[::2], words[1::2], strict=False))
    for item in items or ():
        # Old iproute2 has the port in the name too: "mlx5_0/1".
        name, port = (text_of(item, "ifname") or "").partition("/")[0], number_of(item, "port")
        if name and port is not None:
            yield name, port, {key: value for key, value in item.items() if isinstance(value, str)}


def read_ibstat(output: Output) -> Iterator[RdmaDevice]:
    """``ibstat``: blocks of a device, with blocks of its ports."""
    device: RdmaDevice | None = None
    for line in output.lines():
        if match := re.match(r"CA (?:'([\w.-]{1,64})'|([\w.-]{1,64})$)", line):
            if device is not None:
                yield device
            device = RdmaDevice(match[1] or match[2])
        elif device is None:
            continue
        elif match := re.match(r"Port (\d{1,3}):", line):
            device = replace(device, ports=(*device.ports, RdmaPort(int(match[1]))))
        elif match := _FIELD.match(line):
            device = _with_ibstat(device, match[1], match[2].strip())
    if device is not None:
        yield device


def _with_ibstat(device: RdmaDevice, name: str, value: str) -> RdmaDevice:
    if name == "Firmware version":
        return replace(device, firmware=value)
    if name == "Node GUID":
        return replace(device, node_guid=guid(value))
    if not device.ports:
        return device
    *others, port = device.ports
    if name == "State":
        port = replace(port, state=state_of(value))
    elif name == "Physical state":
        port = replace(port, physical_state=physical_state_of(value))
    elif name == "Link layer" and value in ("Ethernet", "InfiniBand"):
        port = replace(port, link_layer=value)
    elif name == "Rate" and number(value) is not None:
        port = replace(port, rate=f"{value} Gb/sec")
    return replace(device, ports=(*others, port))


def read_ibstatus(output: Output) -> Iterator[RdmaDevice]:
    """``ibstatus``: a block for each port."""
    name, port = "", RdmaPort(0)
    for line in [*output.lines(), "Infiniband device 'end' port 1 status:"]:
        if match := re.match(r"Infiniband device '([\w.-]{1,64})' port (\d{1,3}) status", line):
            if name:
                yield RdmaDevice(name, ports=(port,))
            name, port = match[1], RdmaPort(int(match[2]))
        elif match := _FIELD.match(line):
            value = match[2].strip().strip('"')
            if match[1] == "state":
                port = replace(port, state=state_of(value))
            elif match[1] == "phys state":
                port = replace(port, physical_state=physical_state_of(value))
            elif match[1] == "rate":
                port = replace(port, rate=value.partition(" (")[0])
            elif match[1] == "link_layer" and value in ("Ethernet", "InfiniBand"):
                port = replace(port, link_layer=value)


def read_dev(output: Output) -> Iterator[RdmaDevice]:
    """``rdma dev``, also with ``-j``: ``0: mlx5_0: node_type ca fw 28.39 node_guid a088:...``."""
    items = objects(output)
    for item in items or ():
        if (name := text_of(item, "ifname")) and "node_type" in item:
            made = guid(text_of(item, "node_guid") or "")
            yield RdmaDevice(name, firmware=text_of(item, "fw"), node_guid=made)
    for line in output.lines() if items is None else ():
        match = re.match(r"\d{1,4}: ([A-Za-z][\w.-]{1,63}): node_type \w+ (.*)$", line)
        if match:
            words = match[2].split()
            fields = dict(zip(words[::2], words[1::2], strict=False))
            yield RdmaDevice(
                match[1],
                firmware=fields.get("fw"),
                node_guid=guid(fields.get("node_guid", "")),
            )


READERS = (
    reader(
        "ibv_devinfo",
        read_devinfo,
        command=r"ibv_devinfo\b",
        shape=r"^hca_id:\s|^libibverbs: Warning: (?:no userspace|couldn't load)"
        r"|^No IB devices found|IBVERBS_PRIVATE_\d",
    ),
    reader(
        "ibv_devices",
        read_devices,
        command=r"ibv_devices\b",
        shape=r"^ {4}device {1,24}\t {3}node GUID$|^[ \t]*device[ \t]+node GUID[ \t]*$",
    ),
    reader(
        "ibdev2netdev",
        read_ibdev2netdev,
        command=r"ibdev2netdev\b",
        shape=r" ==> \S+ \((?:Up|Down)\)",
    ),
    reader(
        "rdma link",
        read_links,
        command=r"rdma\s+(?:-\S+\s+)*link?\b",
        shape=r"^(?:link |\d+/\d+: )\w[\w.-]*/\d+:? .{0,200}?\bstate [A-Z]+ "
        r"|^\[ ?\{\s*\"ifindex\": ?\d+,\s*(?:\"ifname\": ?\"[\w.-]{1,64}\",\s*)?\"port\":",
    ),
    reader(
        "rdma dev",
        read_dev,
        command=r"rdma\s+(?:-\S+\s+)*dev\b",
        shape=r"^\d+: \w[\w.-]*: node_type \w+ "
        r"|^\[ ?\{\s*\"ifindex\": ?\d+,\s*\"ifname\": ?\"[\w.-]{1,64}\",\s*\"node_type\":",
    ),
    reader("ibstatus", read_ibstatus, command=r"ibstatus\b", shape=r"^Infiniband device '"),
    reader(
        "ibstat",
        read_ibstat,
        command=r"ibstat\b",
        shape=r"^CA (?:'[\w.-]+'|[\w.-]+[ \t]*\n[ \t]*CA type:.*)$",
    ),
)
