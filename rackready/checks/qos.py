"""Lossless queue of RoCE: DSCP table, trust, PFC, ECN and who may change them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rackready.check import Cases, Rack, View, case, check, rack_check
from rackready.checks.roce import compute_ports
from rackready.facts.parts.host import Environment, Service
from rackready.facts.parts.qos import DcbPort, EcnPort, PauseFrames, PortCounters
from rackready.facts.parts.store import Facts
from rackready.finding import Verdict
from rackready.wiring import NicPort, Role

_CLASS_VARIABLE = re.compile(
    r"(?:[NMP]CCL_IB_TC|(?:NV|MX)SHMEM_IB_TRAFFIC_CLASS|UCX_IB_TRAFFIC_CLASS)$"
)


@dataclass(frozen=True)
class Lane:
    """One port with DCB, and the DSCP that its RoCE packets carry, as far as that is known."""

    name: str  # of the interface, for people
    dcb: DcbPort
    dscp: int | None
    why: str  # "traffic class 160 of mlx5_1", "DSCP 26 (site policy)"; "" = the DSCP is unknown
    wished: bool  # by the site

    @property
    def priority(self) -> int | None:
        """Where the table puts the DSCP; None where that is unknown."""
        if self.dscp is None or self.dcb.trust in ("pcp", "none"):
            return None
        found = self.dcb.priorities.get(self.dscp)
        return 0 if found is None and self.dcb.listed else found


def class_variables(facts: Facts) -> dict[str, int]:
    """Variables by which libraries set the traffic class, with their values."""
    return {
        name: int(value)
        for item in facts.each(Environment)
        for name, value in item.values.items()
        if _CLASS_VARIABLE.match(name) and value.isdecimal() and len(value) < 4
    }


def lanes(view: View) -> Iterator[Lane]:
    """The compute ports with DCB; those that are known to be something else are left out."""
    ports = view.node.facts.each(DcbPort)
    for dcb in ports:
        nic = nic_of(view, dcb.netdev, alone=len(ports) == 1)
        if nic is not None and nic.rdma and nic.role is not Role.COMPUTE:
            continue
        dscp, why, wished = _roce_class(view, nic)
        yield Lane(_name(view, dcb.netdev, nic), dcb, dscp, why, wished)


def nic_of(view: View, netdev: str, alone: bool) -> NicPort | None:
    """The port of an interface; where neither says whose it is and there is one of each: that."""
    found = next((port for port in view.wiring.ports if netdev and port.netdev == netdev), None)
    compute = view.wiring.compute
    if found is None and alone and len(compute) == 1 and not (netdev and compute[0].netdev):
        return compute[0]
    return found


def _name(view: View, netdev: str, nic: NicPort | None) -> str:
    if netdev:
        return netdev
    others = {item.netdev for item in view.node.facts.each(PortCounters) if item.netdev}
    if len(others) == 1:
        return others.pop()
    return (nic and (nic.netdev or nic.rdma)) or "NIC"


def _roce_class(view: View, nic: NicPort | None) -> tuple[int | None, str, bool]:
    """DSCP, where it is from, and whether the site wishes it; what is set comes after wishes."""
    wishes = view.wishes
    if wishes.traffic_class is not None and wishes.traffic_class.site:
        value = wishes.traffic_class.value
        return value >> 2, f"traffic class {value} = DSCP {value >> 2}, site policy", True
    if wishes.dscp is not None and wishes.dscp.site:
        return wishes.dscp.value, f"DSCP {wishes.dscp.value}, site policy", True
    set_ = {
        (device.name, port.number): port.traffic_class
        for device in view.node.rdma or ()
        for port in device.ports
        if port.traffic_class is not None and port.traffic_class >= 0
    }
    key = (nic.rdma or "", nic.port or 1) if nic is not None and nic.rdma else None
    if key is None and len(set(set_.values())) == 1:
        key = next(iter(set_))  # whosever it is, all have the same
    if key in set_:
        value = set_[key]
        return value >> 2, f"traffic class {value} of {key[0]} = DSCP {value >> 2}", False
    variables = {**class_variables(view.job), **class_variables(view.node.facts)}
    if len(set(variables.values())) == 1:
        name, value = next(iter(variables.items()))
        return value >> 2, f"{name}={value} = DSCP {value >> 2}", False
    return None, "", False


def wished_priority(view: View) -> int | None:
    wish = view.wishes.roce_priority
    return None if wish is None else wish.value


# --- From DSCP to priority ----------------------------------------------------------------------


@check("qos.trust", ok=Verdict.OK, wrong=Verdict.FAIL, untagged=Verdict.WARN, probably=Verdict.WARN)
def trust(view: View) -> Cases:
    priority = wished_priority(view)
    for lane in lanes(view):
        observed = lane.dcb.trust
        if observed is None or (lane.dscp is None and not priority):
            continue
        values: dict[str, Any] = {
            "observed": observed,
            "expected": "dscp",
            "why": lane.why,
            "wished": priority,
        }
        if observed == "dscp":
            yield case("ok", lane.name, **values)
        elif lane.dscp is None:
            yield case("untagged", lane.name, **values)
        elif lane.dscp:
            lossless = lane.wished or any((lane.dcb.pfc or ())[1:])
            yield case("wrong" if lossless else "probably", lane.name, **values)


@check("qos.mapping", ok=Verdict.OK, wrong=Verdict.FAIL, doubled=Verdict.WARN)
def mapping(view: View) -> Cases:
    """The DSCP of RoCE has to lead to the priority that the site gives it."""
    wanted = wished_priority(view)
    if wanted is None:
        return
    for lane in lanes(view):
        if lane.priority is None:
            continue
        values: dict[str, Any] = {
            "observed": lane.priority,
            "expected": wanted,
            "dscp": lane.dscp,
            "why": lane.why,
        }
        if lane.dscp in lane.dcb.doubled:
            yield case("doubled", lane.name, **values)
        else:
            yield case("ok" if lane.priority == wanted else "wrong", lane.name, **values)


# --- PFC ----------------------------------------------------------------------------------------


def discards(view: View, lane: str, priority: int) -> tuple[int, bool]:
    """Packets of a priority that a port threw away, and whether they grew between two looks."""
    pattern = re.compile(rf"rx_prio{priority}_(?:buf_|cong_)?discards?$")
    seen = [
        sum(value for name, value in item.values.items() if pattern.match(name))
        for item in view.node.facts.each(PortCounters)
        if item.netdev in ("", lane)
    ]
    return max(seen, default=0), len(seen) > 1 and max(seen) > min(seen) > -1


def flags(priorities: Collection[int]) -> str:
    """Priorities 3 and 5 -> "0,0,0,1,0,1,0,0", as mlnx_qos takes it."""
    return ",".join("1" if item in priorities else "0" for item in range(8))


@check(
    "qos.pfc",
    ok=Verdict.OK,
    wrong=Verdict.FAIL,
    off=Verdict.FAIL,
    lossy=Verdict.WARN,
    discards=Verdict.WARN,
    unknown=Verdict.SKIP,
    unseen=Verdict.SKIP,
    unjudged=Verdict.SKIP,
)
def pfc(view: View) -> Cases:
    """
    PFC has to be on where RoCE is.

    PFC on another priority alone is a mistake, whoever wished it. PFC nowhere is one where the site
    names the priority or class; else it may be meant so.
    """
    wish = wished_priority(view)
    seen = False
    unjudged: dict[str, None] = {}
    for lane in lanes(view):
        seen = True
        if lane.dcb.pfc is None:
            continue
        priority = lane.priority if wish is None else wish
        why = lane.why if wish is None else "site policy"
        if priority is None:
            if lane.wished and lane.dcb.trust not in ("pcp", "none"):
                yield case("unknown", lane.name, why=why)
            elif not lane.why:
                unjudged[lane.name] = None
            continue
        numbers = [number for number, flag in enumerate(lane.dcb.pfc) if flag]
        on = list(map(str, numbers))
        lost, grew = discards(view, lane.name, priority)
        pause = view.node.facts.first(PauseFrames, netdev=lane.name)
        values: dict[str, Any] = {
            "observed": ", ".join(on) or "none",
            "expected": priority,
            "why": why,
            "flags": flags({*numbers, priority}),
            "lost": f"; {lost} discards on priority {priority} since the driver was loaded"
            if lost
            else "",
            "pause": "; global pause of the link is on"
            if pause is not None and pause.receive
            else "",
        }
        if lane.dcb.pfc[priority]:
            yield case("discards" if grew else "ok", lane.name, **values)
        elif on:
            yield case("wrong", lane.name, **values)
        else:
            yield case("off" if wish is not None or lane.wished else "lossy", lane.name, **values)
    if unjudged:
        yield case("unjudged", "roce_priority", observed=", ".join(unjudged))
    if not seen and wish is not None and view.node.probed:
        yield case("unseen", "roce_priority", expected=wish)


@rack_check("qos.equal", ok=Verdict.OK, different=Verdict.WARN, classes=Verdict.WARN)
def equal(rack: Rack) -> Cases:
    """
    PFC and traffic class are the same on all hosts.

    Where the site names the priority or the class, each is judged by itself.
    """
    yield from _equal_classes(rack)
    found: dict[tuple[int, ...], list[str]] = {}
    for view in rack.views:
        if wished_priority(view) is not None:
            return
        for lane in lanes(view):
            if lane.dcb.pfc is not None:
                on = tuple(number for number, flag in enumerate(lane.dcb.pfc) if flag)
                found.setdefault(on, []).append(view.node.name)
    if len(_hosts(found)) < 2 or (len(found) == 1 and not rack.whole):
        return
    shown = _shown({", ".join(map(str, on)) or "none": names for on, names in found.items()})
    yield case("ok" if len(found) == 1 else "different", "PFC", observed=shown)


def _equal_classes(rack: Rack) -> Cases:
    """A packet and its answer carry the class of their own senders."""
    found: dict[str, list[str]] = {}
    for view in rack.views:
        if any(wish is not None for wish in (view.wishes.traffic_class, view.wishes.dscp)):
            return
        known = {
            port.traffic_class
            for _, port in compute_ports(view)
            if port is not None and port.traffic_class is not None
        }
        if known:
            value = ", ".join("not set" if one < 0 else str(one) for one in sorted(known))
            found.setdefault(value, []).append(view.node.name)
    if len(_hosts(found)) > 1 and len(found) > 1:
        yield case("classes", "traffic class", observed=_shown(found))


def _hosts(found: Mapping[Any, list[str]]) -> set[str]:
    return {host for names in found.values() for host in names}


def _shown(found: Mapping[str, list[str]]) -> str:
    return "; ".join(
        f"{value} on {', '.join(dict.fromkeys(names))}" for value, names in found.items()
    )


# --- Who else may change it ---------------------------------------------------------------------


@check("qos.dcbx", ok=Verdict.OK, lldpad=Verdict.WARN, firmware=Verdict.WARN)
def dcbx(view: View) -> Cases:
    """The host's tools, a daemon and the firmware all may set PFC and trust: one of them should."""
    ports = list(lanes(view))
    if not ports:
        return
    daemon = view.node.facts.first(Service, name="lldpad")
    running = daemon is not None and daemon.active in ("active", "activating")
    if running:
        yield case("lldpad", "lldpad", observed="active")
    for lane in ports:
        if lane.dcb.dcbx == "firmware":
            yield case("firmware", lane.name, observed="firmware", expected="os")
        elif lane.dcb.dcbx == "os" and not running:
            yield case("ok", lane.name, observed="os")


# --- ECN ----------------------------------------------------------------------------------------

_SIDES = {"roce_np": "notification point", "roce_rp": "reaction point"}


@check(
    "qos.ecn",
    ok=Verdict.OK,
    off=Verdict.FAIL,
    perhaps_off=Verdict.WARN,
    unsupported=Verdict.SKIP,
)
def ecn(view: View) -> Cases:
    ports = view.node.facts.each(EcnPort)
    by_name = {lane.name: lane for lane in lanes(view)}
    wish = wished_priority(view)
    for port in ports:
        name = port.netdev or "NIC"
        nic = nic_of(view, port.netdev, alone=len(ports) == 1)
        if nic is not None and nic.rdma and nic.role is not Role.COMPUTE:
            continue
        lane = by_name.get(name)
        priority = wish if wish is not None else lane.priority if lane else None
        if port.present is False and not port.notification and not port.reaction:
            yield case("unsupported", name)
        if priority is None:
            continue
        for side, switches in (("roce_np", port.notification), ("roce_rp", port.reaction)):
            yield from _side(name, side, switches, priority, wish is not None)


def _side(name: str, side: str, switches: Mapping[int, bool], priority: int, wished: bool) -> Cases:
    if priority not in switches:
        return
    values: dict[str, Any] = {"side": side, "what": _SIDES[side], "priority": priority}
    if switches[priority]:
        yield case("ok", name, observed="on", **values)
    else:
        which = "off" if wished else "perhaps-off"
        yield case(which, name, observed="off", expected="on", **values)
