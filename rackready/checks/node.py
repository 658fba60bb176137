"""The node itself: could it be read, which kernel runs, which NICs are meant."""

from __future__ import annotations

from rackready.check import Cases, View, case, check
from rackready.facts.readers.sysfs import bdf
from rackready.finding import Verdict
from rackready.wiring import Role


@check(
    "node.probe",
    ok=Verdict.OK,
    late=Verdict.ERROR,
    cut=Verdict.ERROR,
    not_read=Verdict.WARN,
)
def probe(view: View) -> Cases:
    gaps = [gap for gap in view.node.gaps if gap.reason != "absent"]
    for gap in gaps:
        subject = gap.command or "capture"
        if gap.reason.startswith("late "):
            yield case("late", subject, pid=gap.reason.removeprefix("late "))
        elif gap.reason.startswith(("skipped", "cut")) or not gap.command:
            yield case("cut", subject, reason=gap.reason)
        else:
            yield case("not-read", subject, reason=gap.reason)
    if not gaps:
        yield case("ok", "probe")


@check("node.facts", ok=Verdict.OK, unknown=Verdict.ERROR, no_profile=Verdict.ERROR)
def facts(view: View) -> Cases:
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
    refused = profile.peer_memory.refused if profile.peer_memory else None
    rows = profile.kernel(release)
    if refused is not None and release in refused.value:
        better = profile.peer_memory.works.value if profile.peer_memory else ()
        yield case("known-problem", release, source=refused.source, better=", ".join(better))
    elif rows:
        row = rows[0]
        yield case("ok", release, os=row.os, support=row.support, source=row.source)
    else:
        yield case("not-listed", release)


@check(
    "node.compute-nics",
    ok=Verdict.OK,
    none=Verdict.WARN,
    missing=Verdict.FAIL,
    without_rdma=Verdict.FAIL,
    unknown=Verdict.ERROR,
)
def compute_nics(view: View) -> Cases:
    wiring = view.wiring
    if view.node.rdma is None or view.node.pci is None:
        yield case("unknown", "NICs")
        return
    plain = {name for port in wiring.ports if not port.rdma for name in (port.netdev, port.bdf)}
    here = ", ".join(port.name for port in wiring.ports if port.rdma) or "none"
    for name in wiring.missing:
        yield case("without-rdma" if (bdf(name) or name) in plain else "missing", name, here=here)
    compute = [port.name for port in wiring.compute if not port.virtual]
    others = [port.name for port in wiring.ports if port.role is Role.OTHER]
    if compute:
        yield case(
            "ok",
            "NICs",
            observed=", ".join(compute),
            others=f"; left alone: {', '.join(others)}" if others else "",
        )
    elif not wiring.missing:
        yield case("none", "NICs", others=", ".join(others) or "none")
