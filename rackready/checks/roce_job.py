"""What jobs are told of RoCE, and what they find: GID index, traffic class, empty GID tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv6Address
from typing import Any

from rackready.check import Case, Cases, Rack, View, case, rack_check
from rackready.checks.roce import compute_ports, speaks_infiniband
from rackready.facts.model import Gid, RdmaPort
from rackready.facts.parts.bandwidth import RdmaTest
from rackready.facts.parts.host import Environment
from rackready.facts.parts.rdma import EmptyGids
from rackready.facts.readers.gids import is_zero
from rackready.finding import Verdict
from rackready.wiring import gid_address, is_ipv4, wanted_gid

_INDEX = re.compile(r"[A-Z]\w{1,20}_IB_GID_INDEX$")
_CLASS = re.compile(r"[A-Z]\w{1,20}_IB_TRAFFIC_CLASS$")


def _views(rack: Rack, host: str) -> list[View]:
    """Whom a fact is about: one host, or all of them where it belongs to the job."""
    return [view for view in rack.views if not host or view.node.name == host]


def _at(host: str) -> dict[str, Any]:
    return {"host": host} if host else {}


@rack_check(
    "roce.environment",
    ok=Verdict.OK,
    infiniband=Verdict.FAIL,
    infiniband_class=Verdict.FAIL,
    empty_entry=Verdict.FAIL,
    wrong_gid=Verdict.FAIL,
    link_local=Verdict.WARN,
)
def environment(rack: Rack) -> Cases:
    """Variables that name a GID index or a RoCE traffic class, against the ports they meet."""
    for host, facts in rack.sources():
        views = _views(rack, host)
        links = [port for view in views for _, port in compute_ports(view) if port]
        known = [port for port in links if port.link_layer or speaks_infiniband(port)]
        infiniband = bool(known) and all(map(speaks_infiniband, known))
        variables = {
            name: value for item in facts.each(Environment) for name, value in item.values.items()
        }
        for name, value in variables.items():
            if _CLASS.match(name) and infiniband:
                yield case("infiniband-class", name, observed=value, **_at(host))
            elif _INDEX.match(name) and re.fullmatch(r"\d{1,4}", value):
                if infiniband:
                    yield from _on_infiniband(name, int(value), known, host)
                else:
                    yield from _on_ethernet(name, int(value), views)


def _on_infiniband(name: str, index: int, ports: list[RdmaPort], host: str) -> Iterator[Case]:
    if index and not any(gid.index == index for port in ports for gid in port.gids or ()):
        yield case("infiniband", name, observed=index, **_at(host))


def _on_ethernet(name: str, index: int, views: list[View]) -> Iterator[Case]:
    for view in views:
        good = []
        for nic, port in compute_ports(view):
            if port is None or not port.gids or speaks_infiniband(port):
                continue
            if not all(gid.version for gid in port.gids):
                continue
            found = next((gid for gid in port.gids if gid.index == index), None)
            values: dict[str, Any] = {"observed": index, "rdma": nic.name, **_at(view.node.name)}
            if nic.gid is not None:
                values["right"] = f"; RoCE {nic.gid.version} {gid_address(nic.gid.gid)} is index "
                values["right"] += str(nic.gid.index)
            else:
                values["right"] = ""
            if found is None:
                if not port.gids_cut:
                    yield case("empty-entry", name, **values)
                continue
            problem = _problem(view, found)
            if problem is None:
                good.append(nic.name)
                continue
            values["what"] = f"RoCE {found.version} {gid_address(found.gid)}"
            yield case(problem, name, **values)
        if good:
            yield case("ok", name, observed=index, rdma=", ".join(good), **_at(view.node.name))


def _problem(view: View, gid: Gid) -> str | None:
    """Why a GID is not the one that connections should use."""
    wishes = view.wishes
    subnet = wishes.rdma_subnet.value if wishes.rdma_subnet else None
    version, family = wishes.gid_version.value, wishes.gid_family.value
    if wanted_gid([gid], version, family, subnet):
        return None
    local = not is_ipv4(gid.gid) and IPv6Address(gid.gid).is_link_local
    # Index 1 on purpose: within one network segment, a link-local GID does.
    if gid.version == version and local and not wishes.gid_family.site and gid.index < 2:
        return "link-local"
    return "wrong-gid"


@rack_check("roce.gid-empty", empty=Verdict.FAIL, empty_index=Verdict.FAIL)
def gid_empty(rack: Rack) -> Cases:
    """A GID of zeros: a device is seen, but its interface is in another network namespace."""
    for host, facts in rack.sources():
        views = _views(rack, host)
        tables = {
            device.name: port
            for view in views
            for device in view.node.rdma or ()
            for port in device.ports
            if port.gids
        }
        others = {
            device.name
            for view in views
            for device in view.node.rdma or ()
            if any(speaks_infiniband(port) or port.state == "DOWN" for port in device.ports)
        }
        told = set()
        for test in facts.each(RdmaTest):
            name = test.device or "the device of the test"
            zero = bool(test.gids) and is_zero(test.gids[0]) and test.link != "IB"
            if not zero or name in others or name in told:
                continue
            told.add(name)
            index = 0 if test.gid_index is None else test.gid_index
            kind = "empty-index" if name in tables else "empty"
            yield case(kind, name, observed=index, where=_where(views), **_at(host))
        for item in facts.each(EmptyGids):
            name = item.device or "RDMA devices"
            if name not in told | others | tables.keys() and (item.device or not tables):
                yield case("empty", name, observed=0, where=_where(views), **_at(host))


def _where(views: list[View]) -> str:
    """The interfaces here whose other end is in another namespace."""
    ends = [item.name for view in views for item in view.node.net or () if item.kind == "veth"]
    return f"; here is only {', '.join(ends)}" if ends else ""


@rack_check("roce.mtu-equal", ok=Verdict.OK, rdma=Verdict.FAIL, interface=Verdict.WARN)
def mtu_equal(rack: Rack) -> Cases:
    """
    Both ends of a connection have to take the same packets.

    Where the site names the MTU, each interface is judged by itself. Ports are compared by their
    names; where hosts name them differently, only if all ports of a host are alike.
    """
    if any(view.wishes.mtu is not None for view in rack.views):
        return
    active: dict[str, dict[str, int]] = {}
    frames: dict[str, dict[str, int]] = {}
    others: dict[str, dict[str, int]] = {}
    for view in rack.views:
        interfaces = {item.name: item for item in view.node.net or ()}
        known = {nic.netdev for nic in view.wiring.ports}
        for nic, port in compute_ports(view):
            if speaks_infiniband(port):
                continue
            if port is not None and port.active_mtu and port.state in (None, "ACTIVE"):
                active.setdefault(view.node.name, {})[nic.name] = port.active_mtu
            interface = interfaces.get(nic.netdev or "")
            if interface is not None and interface.mtu:
                frames.setdefault(view.node.name, {})[interface.name] = interface.mtu
        for item in interfaces.values():
            if item.mtu and item.name not in known and item.kind is None and item.name != "lo":
                others.setdefault(view.node.name, {})[item.name] = item.mtu
    judged = False
    for kind, found in (("rdma", active), ("rdma", frames), ("interface", others)):
        for subject, told in _unequal(found) if not judged else ():
            judged = True
            yield case(kind, subject, observed=told)
    hosts = {host for found in (active, frames) for host in found}
    if not judged and rack.whole and len(hosts) > 1:
        values = sorted({mtu for mtus in (active or frames).values() for mtu in mtus.values()})
        yield case("ok", "MTU", observed=", ".join(map(str, values)))


def _unequal(found: dict[str, dict[str, int]]) -> Iterator[tuple[str, str]]:
    """Names whose MTU is not the same on all hosts, and what it is."""
    names = dict.fromkeys(name for mtus in found.values() for name in mtus)
    shared = [name for name in names if sum(name in mtus for mtus in found.values()) > 1]
    for name in shared:
        values = {host: mtus[name] for host, mtus in found.items() if name in mtus}
        if len(set(values.values())) > 1:
            yield name, "; ".join(f"{mtu} on {host}" for host, mtu in values.items())
    alone = {host: set(mtus.values()) for host, mtus in found.items()}
    if not shared and all(len(mtus) == 1 for mtus in alone.values()):
        values = {host: min(mtus) for host, mtus in alone.items()}
        if len(set(values.values())) > 1:
            yield "MTU", "; ".join(f"{mtu} on {host}" for host, mtu in values.items())
