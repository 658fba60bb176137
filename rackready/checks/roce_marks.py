"""What marks RoCE packets beside the default of the NIC: RDMA-CM, libraries, and what arrives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rackready.check import Cases, Rack, View, case, check, rack_check
from rackready.checks.qos import class_variables
from rackready.checks.roce import compute_ports, speaks_infiniband
from rackready.facts.parts.qos import CmaDefault, CmaRefusal, EcnPort, MarkedFlow
from rackready.finding import Verdict


@check(
    "qos.cma",
    ok=Verdict.OK,
    tos=Verdict.FAIL,
    mode=Verdict.FAIL,
    no_device=Verdict.ERROR,
    no_module=Verdict.ERROR,
    refused=Verdict.ERROR,
    infiniband=Verdict.SKIP,
)
def cma(view: View) -> Cases:
    """Defaults of connections that RDMA-CM makes; QPs of NCCL and its kin do not take them."""
    wish, dscp = view.wishes.traffic_class, view.wishes.dscp
    wanted = wish.value if wish is not None and wish.site else None
    if wanted is None and dscp is not None and dscp.site:
        wanted = dscp.value << 2
    mode = view.wishes.gid_version.value
    for item in view.node.facts.each(CmaDefault):
        subject = item.device if item.port == 1 else f"{item.device}/{item.port}"
        values: dict[str, Any] = {"device": item.device, "port": item.port}
        if _is_infiniband(view, item):
            yield case("infiniband", subject)
            continue
        wrong = False
        if item.tos is not None and wanted is not None and not _same(item.tos, wanted, view):
            wrong = True
            yield case("tos", subject, observed=item.tos, expected=wanted, **values)
        if item.mode is not None and item.mode != mode:
            wrong = True
            yield case(
                "mode",
                subject,
                observed=item.mode,
                expected=mode,
                number=mode[1:],
                word=_WORDS.get(mode, mode),
                **values,
            )
        if not wrong:
            known = [
                *([f"ToS {item.tos}"] if item.tos is not None else []),
                *([f"RoCE {item.mode}"] if item.mode else []),
            ]
            yield case("ok", subject, observed=", ".join(known))
    for refusal in view.node.facts.each(CmaRefusal):
        name = refusal.reason
        subject = "rdma_cm" if name == "no-module" else refusal.device
        yield case(name, subject, device=refusal.device, said=refusal.said)


def _same(observed: int, wanted: int, view: View) -> bool:
    """With a wish for the DSCP alone, either ECN value is right."""
    wish = view.wishes.traffic_class
    if wish is not None and wish.site:
        return observed == wanted
    return observed >> 2 == wanted >> 2


def _is_infiniband(view: View, item: CmaDefault) -> bool:
    return any(
        port.link_layer == "InfiniBand"
        for device in view.node.rdma or ()
        if device.name == item.device
        for port in device.ports
        if port.number == item.port
    )


_WORDS = {"v1": "IB/RoCE v1", "v2": "RoCE v2"}  # as the kernel wants them in default_roce_mode
_CNP_DSCP = 48  # of congestion notifications, unless the NIC says another: they are no data
_MOST = 16  # sources that are told of


@rack_check("qos.variables", ok=Verdict.OK, wrong=Verdict.FAIL, other=Verdict.WARN)
def variables(rack: Rack) -> Cases:
    """
    Traffic classes that libraries are told, against the site's wish, else against the NICs.

    0 is the default of the libraries: the NIC's own class holds then.
    """
    for host, facts in rack.sources():
        views = [view for view in rack.views if host in ("", view.node.name)]
        for name, value in class_variables(facts).items():
            yield from _variable(name, value, views, host)


def _variable(name: str, value: int, views: list[View], host: str) -> Cases:
    ports = [(view, nic, port) for view in views for nic, port in compute_ports(view)]
    if any(speaks_infiniband(port) for _, _, port in ports):
        return
    values: dict[str, Any] = {"observed": value, "dscp": value >> 2}
    wishes = [view.wishes for view in views]
    wanted = {w.traffic_class.value for w in wishes if w.traffic_class and w.traffic_class.site}
    dscps = {wish.dscp.value for wish in wishes if wish.dscp and wish.dscp.site}
    if wanted or dscps:
        right = value in wanted if wanted else value >> 2 in dscps
        told = ", ".join(map(str, sorted(wanted or {dscp << 2 for dscp in dscps})))
        at = {"host": host} if host else {}
        yield case("ok" if right else "wrong", name, expected=told, **values, **at)
        return
    for view in views if value else ():
        own = {
            nic.name: port.traffic_class
            for each, nic, port in ports
            if each is view and port is not None and (port.traffic_class or -1) >= 0
        }
        told = ", ".join(f"{set_} of {nic}" for nic, set_ in own.items() if set_ != value)
        if own:
            at = {"host": view.node.name} if view.node.name else {}
            yield case("other" if told else "ok", name, expected=told, **values, **at)


@rack_check(
    "qos.marking",
    ok=Verdict.OK,
    unmarked=Verdict.FAIL,
    wrong=Verdict.FAIL,
    one_way=Verdict.WARN,
    ignored=Verdict.WARN,
)
def marking(rack: Rack) -> Cases:
    """What RoCE packets on the wire carry, in both directions of each pair."""
    wished = _wished_class(rack)
    variables = {
        name: value for _, facts in rack.sources() for name, value in class_variables(facts).items()
    }
    for host, flows in _flows(rack):
        told = set[str]()
        for (source, target), seen in flows.items():
            if source in told or len(told) >= _MOST:
                continue
            told.add(source)
            back = max(flows.get((target, source), (0,)))
            wanted = wished
            if wanted is None:
                # what either direction carries, else what somebody asked for
                wanted = max(back, *seen)
                wanted = wanted if wanted >> 2 else max(variables.values(), default=0)
            if not wanted >> 2 and wished is None:
                continue  # nobody marks anything, and nobody asked for it
            wrong = [tos for tos in seen if tos >> 2 != wanted >> 2]
            values: dict[str, Any] = {
                "target": target,
                "observed": ", ".join(f"{tos:#x}" for tos in wrong or seen),
                "dscp": ", ".join(str(tos >> 2) for tos in wrong or seen),
                "expected": f"{wanted:#x}",
                # as a sender sets it: congestion experienced (3) is what a switch makes of it
                "value": wanted & ~1 if wanted & 3 == 3 else wanted,
                "variables": ", ".join(f"{name}={value}" for name, value in variables.items()),
                **({"host": host} if host else {}),
            }
            unmarked = any(not tos >> 2 for tos in wrong)
            if not wrong:
                yield case("ok", source, **values)
            elif wished is not None:
                yield case("unmarked" if unmarked else "wrong", source, **values)
            elif unmarked and back >> 2:
                yield case("one-way", source, **values)
            elif unmarked:
                yield case("ignored", source, **values)


def _wished_class(rack: Rack) -> int | None:
    for view in rack.views:
        wish, dscp = view.wishes.traffic_class, view.wishes.dscp
        if wish is not None and wish.site:
            return wish.value
        if dscp is not None and dscp.site:
            return dscp.value << 2
    return None


def _flows(rack: Rack) -> Iterator[tuple[str, dict[tuple[str, str], list[int]]]]:
    """For each host that captured packets: ToS bytes of data by source and target."""
    for host, facts in rack.sources():
        notices = {_CNP_DSCP, *(port.cnp_dscp for port in facts.each(EcnPort))}
        flows: dict[tuple[str, str], list[int]] = {}
        for flow in facts.each(MarkedFlow):
            if flow.tos >> 2 not in notices:
                flows.setdefault((flow.source, flow.target), []).append(flow.tos)
        if flows:
            yield host, flows
