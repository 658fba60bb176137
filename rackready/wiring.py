"""Wiring of a node: which NIC port sits where, next to which accelerators, and what it is for.

Derived once from the node and used by everything that follows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from ipaddress import IPv6Address, ip_network

from rackready.facts.model import Gid, NetDevice, Node, PciFunction, RdmaDevice, RdmaPort
from rackready.facts.parts.pci_names import knows_rdma
from rackready.facts.readers.sysfs import bdf as as_bdf
from rackready.profile import Profile
from rackready.wishes import Wishes

_MOST = 256  # accelerators of a node, and NIC ports: beyond, its answer is nonsense, and costs time


class Distance(IntEnum):
    """How far two PCI functions are apart, nearest first, as the topology tools name it."""

    PIX = 1  # at most one PCIe switch between them
    PXB = 2  # several PCIe switches, no host bridge
    PHB = 3  # the same host bridge
    NODE = 4  # another host bridge of the same NUMA node
    SYS = 5  # another NUMA node


class Role(str, Enum):
    COMPUTE = "compute"
    OTHER = "other"  # an RDMA NIC that is left alone
    MANAGEMENT = "management"  # no RDMA device


@dataclass(frozen=True, slots=True)
class NicPort:
    """One port of a NIC: its names, its place, its role."""

    bdf: str | None
    rdma: str | None  # RDMA device: "mlx5_0"
    port: int | None
    netdev: str | None
    numa_node: int | None
    virtual: bool | None  # a virtual function; None = unknown
    accelerator_owned: bool  # part of an accelerator: its driver owns the registers
    nearest: tuple[str, ...]  # BDFs of the nearest accelerators
    distance: Distance | None  # to these; None = unknown
    role: Role
    rail: int | None  # position among the compute ports, in BDF order
    addresses: tuple[str, ...] | None
    gid: Gid | None  # the GID that a connection should use

    @property
    def name(self) -> str:
        """Of the RDMA device, with the port where that is not its first."""
        if self.rdma and self.port not in (None, 1):
            return f"{self.rdma}/{self.port}"
        return self.rdma or self.netdev or self.bdf or "?"


@dataclass(frozen=True)
class Wiring:
    """All NIC ports of a node, compute ports first, and its accelerators, both in BDF order."""

    ports: tuple[NicPort, ...]
    accelerators: tuple[str, ...]
    missing: tuple[str, ...] = ()  # compute NICs that the site names and the node does not have

    @property
    def compute(self) -> tuple[NicPort, ...]:
        return tuple(port for port in self.ports if port.role is Role.COMPUTE)


def card(bdf: str) -> str:
    """Domain, bus and device of a function: what all functions of one card share."""
    return bdf.rpartition(".")[0]


def distance(a: PciFunction, b: PciFunction) -> Distance | None:
    """Distance of two functions by their place in the PCI tree; None where the tree is unknown."""
    if a.bridges is None or b.bridges is None or a.root is None or b.root is None:
        return None
    if a.root == b.root:
        common = 0
        for left, right in zip(a.bridges, b.bridges, strict=False):
            if left != right:
                break
            common += 1
        # Functions of one card share all bridges; behind one switch each has its own port below it.
        apart = max(len(a.bridges), len(b.bridges)) - common
        if common:
            return Distance.PIX if apart <= 1 else Distance.PXB
        return Distance.PHB
    if a.numa_node is None or b.numa_node is None or -1 in (a.numa_node, b.numa_node):
        return None
    return Distance.NODE if a.numa_node == b.numa_node else Distance.SYS


def accelerator_functions(node: Node, profile: Profile | None) -> tuple[str, ...]:
    """BDFs of the accelerators that the profile knows, without their virtual functions."""
    found = sorted(
        function.bdf
        for function in (node.pci or {}).values()
        if profile is not None and profile.is_accelerator(function) and not function.physfn
    )
    return tuple(found[:_MOST])


def is_ipv4(gid: str) -> bool:
    """True for ``0000:0000:0000:0000:0000:ffff:a.b.c.d`` in hex groups."""
    return gid.startswith("0000:0000:0000:0000:0000:ffff:")


def gid_address(gid: str) -> str:
    """The address in a GID as people write it: ``10.2.1.5`` or ``fe80::1``."""
    address = IPv6Address(gid)
    return str(address.ipv4_mapped or address)


def wanted_gid(
    gids: Iterable[Gid],
    version: str,
    family: str,
    subnet: str | None = None,
    netdev: str | None = None,
) -> Gid | None:
    """
    The GID that a connection should use: the first of this RoCE version and address family.

    A link-local address is never an IPv6 wish: it does not leave the wire. ``subnet`` (CIDR)
    narrows the choice where a port has several addresses; else the port's own interface ``netdev``
    does, so that the address of a VLAN on it is not taken.
    """
    for gid in gids:
        ipv4 = is_ipv4(gid.gid)
        if gid.version != version or ipv4 != (family == "ipv4"):
            continue
        address = IPv6Address(gid.gid)
        if not ipv4 and address.is_link_local:
            continue
        if subnet is None and netdev and gid.netdev and gid.netdev != netdev:
            continue
        if subnet is not None:
            network = ip_network(subnet, strict=False)
            plain = address.ipv4_mapped if ipv4 else address
            if plain is None or plain.version != network.version or plain not in network:
                continue
        return gid
    return None


def is_bond(name: str, interface: NetDevice | None = None) -> bool:
    """
    By the kind of the interface; where that is not known, by the name of what there is: the
    interface ``bond0``, the RDMA device ``mlx5_bond_0``.
    """
    if interface is not None and interface.kind is not None:
        return interface.kind == "bond"
    return "bond" in name


def wire(node: Node, profile: Profile | None, wishes: Wishes) -> Wiring:
    """
    Wiring of a node.

    Where the site names its compute NICs (by RDMA device, interface or BDF), these are compute;
    else the NICs that share a PCIe switch with an accelerator. All others are left alone.
    Pastes rarely show where a NIC sits: there, all NICs with RDMA count but bonds, which carry
    management as a rule.
    """
    accelerators = accelerator_functions(node, profile)
    vendor = profile.detection.vendor.value if profile else None
    functions = node.pci or {}
    interfaces = {item.name: item for item in node.net or ()}
    named = () if wishes.compute_nics is None else wishes.compute_nics.value
    # People write addresses in any case, and without a domain for domain 0.
    wished = {as_bdf(name) or name: name for name in named}
    subnet = wishes.rdma_subnet.value if wishes.rdma_subnet else None
    found: set[str] = set()
    ports: list[NicPort] = []
    taken: set[str] = set()

    def nearest(bdf: str | None) -> tuple[tuple[str, ...], Distance | None]:
        function = functions.get(bdf or "")
        if function is None:
            return (), None
        distances = {bdf: distance(function, functions[bdf]) for bdf in accelerators}
        known = [value for value in distances.values() if value is not None]
        if not known:
            return (), None
        closest = min(known)
        return tuple(bdf for bdf, value in distances.items() if value == closest), closest

    def add(
        bdf: str | None, device: RdmaDevice | None, port: RdmaPort | None, net: NetDevice | None
    ) -> None:
        function = functions.get(bdf or "")
        near, apart = nearest(bdf)
        names = {name for name in (bdf, device and device.name, net and net.name) if name}
        role = Role.MANAGEMENT
        if device is not None or (not node.probed and function and _is_rdma_nic(function)):
            if wishes.compute_nics is not None:
                role = Role.COMPUTE if names & wished.keys() else Role.OTHER
                found.update(names & wished.keys())
            elif not node.probed:
                bond = device is not None and is_bond(device.name)
                role = Role.OTHER if bond else Role.COMPUTE
            else:
                close = apart in (Distance.PIX, Distance.PXB)
                role = Role.COMPUTE if close else Role.OTHER
        ports.append(
            NicPort(
                bdf=bdf,
                rdma=device.name if device else None,
                port=port.number if port else None,
                netdev=net.name if net else None,
                numa_node=function.numa_node if function else None,
                virtual=function.is_virtual if function else None,
                accelerator_owned=function is not None and function.vendor == vendor,
                nearest=near,
                distance=apart,
                role=role,
                rail=None,
                addresses=net.addresses if net else None,
                gid=wanted_gid(
                    port.gids,
                    wishes.gid_version.value,
                    wishes.gid_family.value,
                    subnet,
                    net.name if net else None,
                )
                if port is not None and port.gids is not None
                else None,
            )
        )

    for device in (node.rdma or ())[:_MOST]:
        for port in device.ports or (None,):
            netdev = _netdev(device, port, node.net or ())
            # a tool may name an interface of which nothing else is known
            interface = interfaces.get(netdev) or NetDevice(netdev) if netdev else None
            if interface is not None:
                taken.add(interface.name)
            add(device.bdf, device, port, interface)
    for interface in node.net or ():
        if interface.bdf and interface.name not in taken:
            add(interface.bdf, None, None, interface)
    if not node.probed:
        known = {item.bdf for item in ports}
        bonds = {card(item.bdf) for item in ports if item.bdf and is_bond(item.rdma or "")}
        for function in functions.values():
            if function.bdf in known or card(function.bdf) in bonds:
                continue
            if _is_rdma_nic(function):
                add(function.bdf, None, None, None)

    order = {Role.COMPUTE: 0, Role.OTHER: 1, Role.MANAGEMENT: 2}
    ports.sort(key=lambda item: (order[item.role], item.bdf or "~", item.port or 0))
    rail = 0
    for position, item in enumerate(ports):
        if item.role is Role.COMPUTE and not item.virtual:
            ports[position] = replace(item, rail=rail)
            rail += 1
    return Wiring(
        ports=tuple(ports),
        accelerators=accelerators,
        missing=tuple(sorted(wished[name] for name in wished.keys() - found)),
    )


def _is_rdma_nic(function: PciFunction) -> bool:
    """By its maker and name, where no RDMA device names it."""
    return (function.class_code or 0) >> 16 == 0x02 and knows_rdma(
        function.vendor, function.device, function.name
    )


def _netdev(
    device: RdmaDevice, port: RdmaPort | None, interfaces: Iterable[NetDevice]
) -> str | None:
    """
    The interface of an RDMA port: a tool or its GID table names it, else the PCI function does,
    else a MAC address out of which the device's GUID was made.
    """
    if port is not None:
        if port.netdev:
            return port.netdev
        for gid in port.gids or ():
            if gid.netdev:
                return gid.netdev
    interfaces = tuple(interfaces)
    same = [item for item in interfaces if item.bdf and item.bdf == device.bdf]
    if len(same) > 1 and port is not None:
        same = [item for item in same if item.port == port.number - 1]
    if not same and device.node_guid and len(device.ports) < 2:
        made = device.node_guid.replace(":", "")
        same = [item for item in interfaces if item.mac and made in _guids(item.mac)]
    return same[0].name if len(same) == 1 else None


def _guids(mac: str) -> tuple[str, ...]:
    """The GUIDs that drivers make of a MAC: with 0300 in its middle, or as EUI-64."""
    digits = mac.lower().replace(":", "")
    if len(digits) != 12:
        return ()
    flipped = f"{int(digits[:2], 16) ^ 2:02x}"
    return (f"{digits[:6]}0300{digits[6:]}", f"{flipped}{digits[2:6]}fffe{digits[6:]}")
