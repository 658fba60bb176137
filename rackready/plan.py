"""The plan: findings to ordered changes, and which of them the site consents to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rackready.change import Risk, Stage
from rackready.check import View
from rackready.facts.model import Node
from rackready.finding import Finding
from rackready.policy import Policy

Remedy = Callable[[View, Sequence[Finding]], Stage | None]
"""What puts the findings of one check right; None when there is nothing to do."""


@dataclass(frozen=True)
class Held:
    """A stage that is needed and not allowed: shown, counted as open, not made."""

    stage: Stage
    reason: str


@dataclass(frozen=True)
class Plan:
    """Stages to make, mildest first, and those that are held back."""

    stages: tuple[Stage, ...] = ()
    held: tuple[Held, ...] = ()


def idle(node: Node) -> bool | None:
    """True when nobody uses accelerators or RDMA ports; None when that can't be told."""
    if node.users is None or node.rdma is None:
        return None
    octets = [port.octets for device in node.rdma for port in device.ports]
    if node.users or any(pair and pair[0] != pair[1] for pair in octets):
        return False
    return None if None in octets else True


def make_plan(
    view: View,
    findings: Iterable[Finding],
    policy: Policy,
    remedies: Mapping[str, Remedy],
) -> Plan:
    """What to do about the findings; a check that the site waives on it is left alone."""
    stages: list[Stage] = []
    held: list[Held] = []
    undisturbed = idle(view.node)
    by_check: dict[str, list[Finding]] = {}
    for finding in findings:
        by_check.setdefault(finding.check, []).append(finding)
    for check, remedy in remedies.items():
        found = by_check.get(check, [])
        stage = None if any(item.waived for item in found) else remedy(view, found)
        if stage is None:
            continue
        if policy.allows(stage.risk, undisturbed is True):
            stages.append(stage)
        else:
            held.append(Held(stage, _why_held(stage.risk, policy, undisturbed)))
    order = list(Risk)
    stages.sort(key=lambda stage: order.index(stage.risk))
    return Plan(tuple(stages), tuple(held))


def _why_held(risk: Risk, policy: Policy, undisturbed: bool | None) -> str:
    """What it can disturb, and the flag that allows it."""
    why = "it disturbs nothing, but the policy's allow leaves that out"
    if risk is not Risk.NONE:
        why = f"it can disturb: {risk.value}"
    if risk is Risk.TRAFFIC and policy.allow is None:
        why += ", and the node is " + ("not known to be idle" if undisturbed is None else "in use")
    allowed = {Risk.NONE, risk, *(policy.allow or ())}
    return f"{why}; --data allow={','.join(one.value for one in Risk if one in allowed)} allows it"
