"""RoCE: GID table and traffic class of the compute ports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv6Address
from typing import Any

from rackready.check import Case, Cases, View, case, check
from rackready.facts.model import Gid, NetDevice, RdmaPort
from rackready.facts.parts.connection import Connection
from rackready.finding import Verdict
from rackready.wiring import NicPort, gid_address, is_ipv4, wanted_gid


def compute_ports(view: View) -> Iterator[tuple[NicPort, RdmaPort | None]]:
    """Compute ports and what their RDMA device says of them; None where it says nothing."""
    devices = {device.name: device for device in view.node.rdma or ()}
    for nic in view.wiring.compute:
        device = devices.get(nic.rdma or "")
        if device is None or nic.virtual:
            continue
        yield nic, next((port for port in device.ports if port.number == nic.port), None)


def speaks_infiniband(port: RdmaPort | None) -> bool:
    """
    By its link layer; where no tool shows that, by its only GID, which is a port's GUID.

    The GID of an Ethernet port is made of a MAC address and has fffe in its middle.
    """
    if port is None or port.link_layer is not None:
        return port is not None and port.link_layer == "InfiniBand"
    gids = port.gids or ()
    return (
        len(gids) == 1
        and gids[0].index == 0
        and not gids[0].version
        and not gids[0].netdev
        and port.netdev is None
        and not gids[0].gid.startswith("0000:")
        and IPv6Address(gids[0].gid).packed[11:13] != b"\xff\xfe"
    ) or any(gid.version == "ib" for gid in gids)


def stray_entries(gids: tuple[Gid, ...], below: int) -> list[Gid]:
    """Entries behind the default pair that are no IPv4 address: they push the IPv4 pair upwards."""
    return [gid for gid in gids if 2 <= gid.index < below and not is_ipv4(gid.gid)]


@check(
    "roce.gid-index",
    ok=Verdict.OK,
    wrong_index=Verdict.FAIL,
    other_index=Verdict.WARN,
    wrong_profile=Verdict.FAIL,
    drifted=Verdict.FAIL,
    other_drifted=Verdict.WARN,
    another_first=Verdict.WARN,
    missing=Verdict.FAIL,
    outside=Verdict.FAIL,
    other_family=Verdict.WARN,
    untyped=Verdict.WARN,
    unknown=Verdict.ERROR,
    infiniband=Verdict.SKIP,
)
def gid_index(view: View) -> Cases:
    wishes = view.wishes
    version, family = wishes.gid_version.value, wishes.gid_family.value
    subnet = wishes.rdma_subnet.value if wishes.rdma_subnet else None
    kind = f"RoCE {version} / {'IPv4' if family == 'ipv4' else 'IPv6'}"
    wanted = f"{kind} in {subnet}" if subnet else kind
    for nic, port in compute_ports(view):
        subject = nic.name
        if speaks_infiniband(port):
            yield case("infiniband", subject)
        elif port is None or not port.gids or any(gid.version is None for gid in port.gids):
            # What nobody pasted is no error. A table without entries is told by roce.gid-empty.
            if view.node.probed and (port is None or port.gids is None or port.gids):
                yield case("unknown", subject, kind=kind, rdma=nic.rdma, port=nic.port or 1)
            elif view.node.probed:
                yield _missing(nic, wanted)
        elif any(gid.version == "" for gid in port.gids):
            rows = (f"{gid_address(gid.gid)} at index {gid.index}" for gid in port.gids)
            yield case("untyped", subject, observed=", ".join(rows), kind=kind)
        elif nic.gid is not None:
            yield _placed(view, nic, nic.gid, port.gids, kind, subnet)
        elif not port.gids_cut:
            other = wanted_gid(port.gids, version, "ipv6") if family == "ipv4" else None
            own = wanted_gid(port.gids, version, family, None, nic.netdev) if subnet else None
            if own is not None:
                address, netdev = gid_address(own.gid), nic.netdev or "its interface"
                yield case("outside", subject, observed=address, expected=subnet, netdev=netdev)
            elif other is None or wishes.gid_family.site or subnet:
                yield _missing(nic, wanted)
            else:
                yield case(
                    "other-family",
                    subject,
                    kind=kind,
                    address=gid_address(other.gid),
                    observed=other.index,
                )


def _missing(nic: NicPort, wanted: str) -> Case:
    addresses = ", ".join(nic.addresses or ()) or "no address that is known"
    return case(
        "missing",
        nic.name,
        kind=wanted,
        netdev=nic.netdev or "its interface",
        link=nic.netdev or "NETDEV",
        addresses=addresses,
    )


def _placed(
    view: View, nic: NicPort, gid: Gid, gids: tuple[Gid, ...], kind: str, subnet: str | None
) -> Case:
    """Where the wanted GID stands, against where it should."""
    wish, address = view.wishes.gid_index, gid_address(gid.gid)
    netdev = nic.netdev or "the interface"
    values: dict[str, Any] = {
        "observed": gid.index,
        "kind": kind,
        "address": address,
        "netdev": netdev,
    }
    if wish is None or gid.index == wish.value:
        first = next(
            item
            for item in gids
            if item.version == gid.version and is_ipv4(item.gid) == is_ipv4(gid.gid)
            if not IPv6Address(item.gid).is_link_local
        )
        if subnet and first.index < gid.index:
            stray = gid_address(first.gid)
            return case(
                "another-first", nic.name, **values, stray=stray, at=first.index, subnet=subnet
            )
        return case("ok", nic.name, **values)
    stray_gids = stray_entries(gids, gid.index)
    profile = _profile_of(view, nic, address) if stray_gids and wish.site else None
    name = _DISPLACED["profile" if profile else "stray" if stray_gids else "drift", wish.site]
    prefix = next((a for a in nic.addresses or () if a.startswith(f"{address}/")), None)
    return case(
        name,
        nic.name,
        **values,
        expected=wish.value,
        stray=", ".join(str(item.index) for item in stray_gids),
        holders=", ".join(sorted({gid_address(item.gid) for item in stray_gids})),
        wished_by=wish.origin,
        profile=profile.name if profile else "",
        method=(profile.ipv6_method or "auto") if profile else "",
        mode=(profile.address_mode or "its default") if profile else "",
        why=_flap(view, nic),
        prefixed=prefix or f"{address}/PREFIX",
    )


def _profile_of(view: View, nic: NicPort, address: str) -> Connection | None:
    """The profile of NetworkManager that gives the interface more addresses than it should."""
    for item in view.node.facts.each(Connection):
        mine = (
            item.interface == nic.netdev
            if item.interface and nic.netdev
            else not item.addresses
            or any(own.partition("/")[0] == address for own in item.addresses)
        )
        if mine and item.ipv6_method not in ("ignore", "disabled"):
            return item
    return None


_LINK_DOWN = re.compile(r"\blink (?:is )?down\b|\blink becomes? down|carrier lost", re.IGNORECASE)


def _flap(view: View, nic: NicPort) -> str:
    """What the kernel log says of a link that went down."""
    names = [name for name in (nic.netdev, nic.bdf) if name]
    for line in view.node.kernel_log or ():
        if _LINK_DOWN.search(line) and any(re.search(rf"\b{re.escape(n)}\b", line) for n in names):
            return f"kernel log: {line[:120]!r}"
    return "as after a link flap"


# By what stands before it, and by who wants another index: the site, or a profile.
_DISPLACED = {
    ("profile", True): "wrong-profile",
    ("stray", True): "wrong-index",
    ("stray", False): "other-index",
    ("drift", True): "drifted",
    ("drift", False): "other-drifted",
}


@check(
    "roce.traffic-class",
    ok=Verdict.OK,
    missing=Verdict.FAIL,
    wrong=Verdict.FAIL,
    not_set=Verdict.WARN,
    other=Verdict.WARN,
    no_file=Verdict.ERROR,
    inbox=Verdict.WARN,
    unsupported=Verdict.SKIP,
    unknown=Verdict.ERROR,
    infiniband=Verdict.SKIP,
)
def traffic_class(view: View) -> Cases:
    """A site may want the whole byte, or its DSCP with either value of the two ECN bits."""
    wish, dscp = view.wishes.traffic_class, view.wishes.dscp
    if wish is None:
        if dscp is None:
            return
        wish = replace(dscp, value=dscp.value << 2)
    for nic, port in compute_ports(view):
        subject, observed = nic.name, port.traffic_class if port else None
        values: dict[str, Any] = {
            "expected": wish.value,
            "dscp": wish.value >> 2,
            "rdma": nic.rdma,
            "port": nic.port or 1,
            "wished_by": wish.origin,
        }
        right = observed is not None and (
            observed == wish.value or (wish.value >> 2 == observed >> 2 and dscp is not None)
        )
        if speaks_infiniband(port):
            yield case("infiniband", subject)
        elif port and port.traffic_class_file is False:
            # A path that was typed may be wrong; a node that was looked at has no such file.
            name = "inbox" if view.node.probed else "no-file"
            yield case(name if wish.site else "unsupported", subject, **values)
        elif observed is None:
            # What nobody pasted is no error; the diagnosis tells of a wish without evidence.
            if view.node.probed or (port and port.traffic_class_file):
                yield case("unknown", subject, **values)
        elif observed == -1:
            yield case("missing" if wish.site else "not-set", subject, observed="not set", **values)
        elif right:
            yield case("ok", subject, observed=observed, **values)
        else:
            yield case("wrong" if wish.site else "other", subject, observed=observed, **values)


@check("roce.mtu", ok=Verdict.OK, wrong=Verdict.FAIL, small=Verdict.FAIL, unknown=Verdict.ERROR)
def mtu(view: View) -> Cases:
    wish = view.wishes.mtu
    if wish is None:
        return
    needed = rdma_mtu(wish.value)
    for nic, port, interface in _interfaces(view):
        if speaks_infiniband(port):
            continue
        rdma = nic.name if nic else "RDMA"
        subject = interface.name if interface else (nic and nic.netdev) or rdma
        active = port.active_mtu if port else None
        values: dict[str, Any] = {"expected": wish.value, "rdma": rdma}
        if interface is not None and interface.mtu is not None:
            fits = rdma_mtu(interface.mtu)
            if interface.mtu != wish.value:
                shown = f"RDMA MTU {active or fits}"
                yield case(
                    "wrong", subject, observed=interface.mtu, shown=shown, needed=needed, **values
                )
            elif active is not None and active < fits:
                yield case("small", subject, observed=active, needed=needed, **values)
            else:
                yield case("ok", subject, observed=interface.mtu)
        elif active is not None and active < needed:
            yield case("small", subject, observed=active, needed=needed, **values)
        elif view.node.probed:
            yield case("unknown", subject, expected=wish.value)


def rdma_mtu(mtu: int) -> int:
    """
    The largest RDMA MTU that fits into an interface's.

    The kernel keeps 96 bytes for all headers that may come (iboe_get_mtu).
    """
    return max((size for size in (256, 512, 1024, 2048, 4096) if size + 96 <= mtu), default=0)


def _interfaces(view: View) -> Iterator[tuple[NicPort | None, RdmaPort | None, NetDevice | None]]:
    """
    Compute ports with their interfaces.

    In a paste, nothing may tell which interface is whose; where one port and one interface are
    left, they belong together.
    """
    interfaces = {item.name: item for item in view.node.net or ()}
    ports = list(compute_ports(view))
    known = {nic.netdev for nic in view.wiring.ports}
    left = [
        item
        for item in interfaces.values()
        if item.kind is None and item.mtu and item.name not in known and item.name != "lo"
    ]
    alone = left[0] if len(left) == 1 and not view.node.probed else None
    without = [nic for nic, _ in ports if nic.netdev is None]
    for nic, port in ports:
        interface = interfaces.get(nic.netdev or "")
        if nic.netdev is None and len(without) == 1:
            interface = alone
        yield nic, port, interface
    if not ports and not view.node.rdma and alone is not None:
        yield None, None, alone
