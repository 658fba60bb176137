"""From a capture to a verdict: the one path that live probes, old captures and pastes all take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date

from rackready.check import Rack, View
from rackready.checks import check_node, check_rack
from rackready.facts.capture import Capture, ProbeWishes
from rackready.facts.parts.store import Facts
from rackready.facts.readers.node import read_node
from rackready.finding import Finding, NodeVerdict, Verdict, node_verdict
from rackready.policy import Policy
from rackready.profile import Profile, detect
from rackready.wiring import wire
from rackready.wishes import wishes_of

_WAIVABLE = (Verdict.WARN, Verdict.ERROR, Verdict.FAIL)


def probe_wishes(profiles: Iterable[Profile]) -> ProbeWishes:
    """What the probe is to look at on a node that may be any of these products."""
    profiles = tuple(profiles)

    def each(lists: Iterable[Iterable[str]]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(item for items in lists for item in items))

    return ProbeWishes(
        tools=each(profile.probe.tools for profile in profiles),
        modules=each(profile.probe.modules for profile in profiles),
        log="|".join(each(profile.probe.log for profile in profiles)),
        nodes=each(p.device_nodes.value for p in profiles if p.device_nodes),
        vendors=tuple(sorted({profile.detection.vendor.value for profile in profiles})),
    )


@dataclass(frozen=True)
class Judgement:
    """What one look at a node says of it."""

    view: View
    policy: Policy
    findings: tuple[Finding, ...]
    today: date

    @property
    def verdict(self) -> NodeVerdict:
        return node_verdict(self.findings)


def judge(
    name: str,
    capture: Capture,
    profiles: Sequence[Profile],
    policy: Policy,
    today: date,
    probed: bool = True,
    job: Facts | None = None,
) -> Judgement:
    """
    Read, wire and check one node. Raises nothing, whatever the capture holds.

    ``probed``: the capture is the probe's; else it holds what somebody pasted, and ``job`` what he
    pasted beside the hosts. Without a job, what may be a node's or a job's is the node's.
    """
    node = read_node(name, capture.evidence, capture.gaps, probed)
    detected = detect(node, profiles)
    node = replace(node, gaps=node.gaps + detected.gaps)
    wishes = wishes_of(policy, detected.profile)
    wiring = wire(node, detected.profile, wishes)
    view = View(node, wiring, detected.profile, wishes, job or Facts())
    findings = tuple(waived(finding, policy, today) for finding in check_node(view, job is None))
    return Judgement(view, policy, findings, today)


def judge_rack(
    judgements: Iterable[Judgement], expected: int, job: Facts | None = None, host: str = "rack"
) -> list[Finding]:
    """
    What is judged of all nodes together; ``expected`` counts those that could not be seen too.

    ``job`` holds the facts that belong to no single node, ``host`` is what the findings stand
    under. A difference is waived when the policy of every node waives it.
    """
    judgements = tuple(judgements)
    seen = Rack(tuple(item.view for item in judgements), expected, job or Facts())
    named = {item.view.node.name: item for item in judgements}
    return [
        # One that stands under a node is that node's, any other one all of them have to waive.
        _waived_by_all(finding, (named[finding.host],) if finding.host in named else judgements)
        for finding in check_rack(seen, host, live=job is None)
    ]


def _waived_by_all(finding: Finding, judgements: Sequence[Judgement]) -> Finding:
    if finding.verdict not in _WAIVABLE:
        return finding
    reason = ""
    for item in judgements:
        own = waived(replace(finding, host=item.view.node.name), item.policy, item.today).waived
        if not own:
            return finding
        reason = reason or own
    return replace(finding, waived=reason)


def waived(finding: Finding, policy: Policy, today: date) -> Finding:
    """The finding with the site's reason for living with it, when there is one that holds."""
    if finding.verdict not in _WAIVABLE:
        return finding
    waiver = policy.waiver_for(finding.check, finding.host, today)
    if waiver is None:
        expired = policy.expired_waiver_for(finding.check, finding.host, today)
        if expired is None:
            return finding
        ended = f"the site's waiver ended on {expired.until}"
        return replace(finding, cause=f"{finding.cause}; {ended}" if finding.cause else ended)
    return replace(finding, waived=f"{waiver.reason} (until {waiver.until})")
