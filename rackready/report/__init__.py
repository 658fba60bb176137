"""The report of a run: one dictionary, and the table, files and lists that are made of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rackready.change import Change
from rackready.finding import Finding, NodeVerdict


@dataclass
class NodeReport:
    """What a run has to say of one node. ``changed`` was made, ``open`` is needed and was not."""

    name: str
    product: str = ""
    verdict: NodeVerdict = NodeVerdict.INCONCLUSIVE
    reached_goal: bool = False
    changed: list[Change] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    findings_before: Sequence[Finding] = ()
    findings_after: Sequence[Finding] = ()
    error: str = ""
    seconds: float = 0.0
    passes: int = 0
    taking_back: bool = False  # by undo or remove: its findings are not what was asked for

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "product": self.product,
            "verdict": self.verdict.value,
            "reached_goal": self.reached_goal,
            "changed": [change.as_dict() for change in self.changed],
            "open": list(self.open),
            "findings_before": [finding.as_dict() for finding in self.findings_before],
            "findings_after": [finding.as_dict() for finding in self.findings_after],
            "error": self.error or None,
            "seconds": round(self.seconds, 3),
            "passes": self.passes,
        }


@dataclass
class Report:
    """A run. ``goal`` is what its nodes were to reach; ``problem`` is why it ended early."""

    run: str
    deploy: str
    goal: str
    started: str
    seconds: float
    dry: bool
    nodes: Sequence[NodeReport]
    rack: Sequence[Finding] = ()
    problem: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "run": {
                "id": self.run,
                "deploy": self.deploy,
                "started": self.started,
                "seconds": round(self.seconds, 3),
                "dry": self.dry,
                "problem": self.problem or None,
            },
            "goal": self.goal,
            "nodes": [node.as_dict() for node in self.nodes],
            "rack": [finding.as_dict() for finding in self.rack],
        }


def ordered(nodes: Iterable[NodeReport]) -> list[NodeReport]:
    """Worst first: those that missed the goal, by verdict, then by name."""
    verdicts = list(NodeVerdict)
    return sorted(
        nodes, key=lambda node: (node.reached_goal, verdicts.index(node.verdict), node.name)
    )
