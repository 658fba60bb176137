"""The node itself: could it be read, which kernel runs, which NICs are meant."""

from __future__ import annotations

from rackready.check import Cases, View, case, check
from rackready.facts.readers.node import DISAGREEMENT
from rackready.facts.readers.sysfs import bdf
from rackready.finding import Verdict
from rackready.wiring import Role, card


@check(
    "node.probe",
    ok=Verdict.OK,
    late=Verdict.ERROR,
    cut=Verdict.ERROR,
    not_read=Verdict.WARN,
    pasted=Verdict.SKIP,
    disagree=Verdict.WARN,
)
def probe(view: View) -> Cases:
    gaps = view.node.gaps
    for gap in gaps:
        subject = gap.command or "capture"
        if gap.command == DISAGREEMENT:
            yield case("disagree", gap.reason.partition(":")[0], reason=gap.reason)
            continue
        if not view.node.probed:
            yield case("pasted", subject, reason=gap.reason)
            continue
        if gap.reason.startswith("late "):
            yield case("late", subject, pid=gap.reason.removeprefix("late "))
        elif gap.reason.startswith(("skipped", "cut")) or not gap.command:
            yield case("cut", subject, reason=gap.reason)
        else:
            yield case("not-read", subject, reason=gap.reason)
    if not gaps and view.node.probed:
        yield case("ok", "probe")


@check("node.facts", ok=Verdict.OK, unknown=Verdict.ERROR, no_profile=Verdict.ERROR)
def facts(view: View) -> Cases:
    if not view.node.probed:
        return
    if view.profile is None:
        yield case("no-profile", "product")
        return
    missing = view.profile.missing_facts(view.node)
    for fact in missing:
        yield case("unknown", fact, profile=view.profile.name)
    if not missing:
        yield case("ok", "facts", profile=view.profile.name)


@check(
    "node.kernel",
    ok=Verdict.OK,
    known_problem=Verdict.WARN,
    not_listed=Verdict.SKIP,
)
def kernel(view: View) -> Cases:
    release, profile = view.node.system.kernel, view.profile
    if release is None or profile is None:
        return
    peer = profile.peer_memory
    rows = profile.kernel(release, view.node.system.machine)
    if peer is not None and peer.refuses(release):
        better = ", ".join(peer.works.value)
        yield case("known-problem", release, source=peer.refused.source, better=better)
    elif rows:
        yield case("ok", release, os=rows[0].os, support=rows[0].support, source=rows[0].source)
    else:
        yield case("not-listed", release)


@check(
    "node.compute-nics",
    ok=Verdict.OK,
    none=Verdict.WARN,
    not_needed=Verdict.SKIP,
    not_named=Verdict.ERROR,
    missing=Verdict.FAIL,
    without_rdma=Verdict.FAIL,
    unknown=Verdict.ERROR,
)
def compute_nics(view: View) -> Cases:
    wiring = view.wiring
    if not view.node.probed:
        return
    if view.node.rdma is None or view.node.pci is None:
        yield case("unknown", "NICs")
        return
    plain = {name for port in wiring.ports if not port.rdma for name in (port.netdev, port.bdf)}
    here = ", ".join(port.name for port in wiring.ports if port.rdma) or "none"
    for name in wiring.missing:
        yield case("without-rdma" if (bdf(name) or name) in plain else "missing", name, here=here)
    compute = [port.name for port in wiring.compute if not port.virtual]
    cards = {card(port.bdf) for port in wiring.compute if port.bdf}
    rest = [port for port in wiring.ports if port.role is Role.OTHER and not port.virtual]
    same = [port.name for port in rest if port.bdf and card(port.bdf) in cards]
    others = ", ".join(port.name for port in rest if port.name not in same) or "none"
    if compute:
        yield case(
            "ok",
            "NICs",
            observed=", ".join(compute),
            same_card=", ".join(same) or "none",
            others=others,
        )
    elif not wiring.missing:
        needed = view.profile is None or "rdma" in view.profile.requires
        name = "not-named" if rest else "none" if needed else "not-needed"
        yield case(name, "NICs", others=others)


@check("node.policy", no_evidence=Verdict.SKIP)
def policy(view: View) -> Cases:
    """What a diagnosis tells of wishes on which nothing was given: see diagnose.py."""
    yield from ()
