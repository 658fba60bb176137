"""RoCE: GID table and traffic class of the compute ports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv6Address
from typing import Any

from rackready.check import Cases, View, case, check
from rackready.facts.model import Gid, RdmaPort
from rackready.finding import Verdict
from rackready.wiring import NicPort, gid_address


def compute_ports(view: View) -> Iterator[tuple[NicPort, RdmaPort | None]]:
    """Compute ports and what their RDMA device says of them; None where it says nothing."""
    devices = {device.name: device for device in view.node.rdma or ()}
    for nic in view.wiring.compute:
        device = devices.get(nic.rdma or "")
        if device is None or nic.virtual:
            continue
        yield nic, next((port for port in device.ports if port.number == nic.port), None)


def stray_entries(gids: tuple[Gid, ...]) -> list[Gid]:
    """Entries behind the default pair that are no IPv4 address: they push the IPv4 pair upwards."""
    return [gid for gid in gids if gid.index >= 2 and IPv6Address(gid.gid).ipv4_mapped is None]


@check(
    "roce.gid-index",
    ok=Verdict.OK,
    wrong_index=Verdict.FAIL,
    other_index=Verdict.WARN,
    drifted=Verdict.FAIL,
    other_drifted=Verdict.WARN,
    missing=Verdict.FAIL,
    unknown=Verdict.ERROR,
    infiniband=Verdict.SKIP,
)
def gid_index(view: View) -> Cases:
    wish = view.wishes.gid_index
    version, family = view.wishes.gid_version.value, view.wishes.gid_family.value
    kind = f"RoCE {version} / {'IPv4' if family == 'ipv4' else 'IPv6'}"
    for nic, port in compute_ports(view):
        subject = nic.name
        if port is not None and port.link_layer == "InfiniBand":
            yield case("infiniband", subject)
            continue
        if port is None or port.gids is None or any(gid.version is None for gid in port.gids):
            yield case("unknown", subject, kind=kind, rdma=nic.rdma, port=nic.port or 1)
            continue
        if nic.gid is None:
            addresses = ", ".join(nic.addresses or ()) or "no address"
            yield case("missing", subject, kind=kind, netdev=nic.netdev or "?", addresses=addresses)
            continue
        values: dict[str, Any] = {
            "observed": nic.gid.index,
            "kind": kind,
            "address": gid_address(nic.gid.gid),
        }
        if wish is None or nic.gid.index == wish.value:
            yield case("ok", subject, **values)
            continue
        stray = stray_entries(port.gids)
        yield case(
            _DISPLACED[bool(stray), wish.site],
            subject,
            **values,
            expected=wish.value,
            netdev=nic.netdev or "the interface",
            stray=", ".join(str(gid.index) for gid in stray),
            holders=", ".join(sorted({gid_address(gid.gid) for gid in stray})),
            wished_by=wish.origin,
        )


# By what stands before it, and by who wants another index: the site, or a profile.
_DISPLACED = {
    (True, True): "wrong-index",
    (True, False): "other-index",
    (False, True): "drifted",
    (False, False): "other-drifted",
}


@check(
    "roce.traffic-class",
    ok=Verdict.OK,
    missing=Verdict.FAIL,
    wrong=Verdict.FAIL,
    not_set=Verdict.WARN,
    other=Verdict.WARN,
    no_file=Verdict.ERROR,
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
        if port and port.link_layer == "InfiniBand":
            yield case("infiniband", subject)
        elif port and port.traffic_class_file is False:
            yield case("no-file" if wish.site else "unsupported", subject, **values)
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


@check("roce.mtu", ok=Verdict.OK, wrong=Verdict.FAIL, unknown=Verdict.ERROR)
def mtu(view: View) -> Cases:
    wish = view.wishes.mtu
    if wish is None:
        return
    interfaces = {item.name: item for item in view.node.net or ()}
    for nic, _ in compute_ports(view):
        interface = interfaces.get(nic.netdev or "")
        subject = nic.netdev or nic.name
        if interface is None or interface.mtu is None:
            yield case("unknown", subject, expected=wish.value)
        elif interface.mtu == wish.value:
            yield case("ok", subject, observed=interface.mtu)
        else:
            yield case("wrong", subject, observed=interface.mtu, expected=wish.value)
