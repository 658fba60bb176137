"""One host on its way through the passes of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyinfra.api.host import Host

from rackready.change import Answer, Change, Stage, Step
from rackready.finding import Finding, NodeVerdict, Verdict
from rackready.judge import Judgement
from rackready.plan import Plan
from rackready.policy import Policy
from rackready.report import NodeReport


@dataclass(frozen=True)
class Batch:
    """What one converge script is to do; ``everything``: rackready's own records go as well."""

    name: str
    steps: Sequence[tuple[str, Step]]
    changes: tuple[Change, ...]
    everything: bool = False

    @classmethod
    def of(cls, stage: Stage) -> Batch:
        steps = [(stage.check, step) for step in stage.steps]
        return cls(f"{stage.name}: {stage.check}", steps, stage.changes)


@dataclass
class NodeRun:
    """One host on its way through the passes."""

    host: Host
    policy: Policy | None = None
    before: Judgement | None = None
    now: Judgement | None = None
    plan: Plan = field(default_factory=Plan)
    made: list[Change] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)  # of the next pass
    refusals: list[Answer] = field(default_factory=list)
    error: str = ""
    unread: bool = False  # changes were registered and not read back yet
    passes: int = 0
    seconds: float = 0.0
    taken_back: bool | None = None  # undo and remove: whether all of it was

    @property
    def verdict(self) -> NodeVerdict:
        return self.now.verdict if self.now and not self.error else NodeVerdict.INCONCLUSIVE

    @property
    def reached_goal(self) -> bool:
        if self.error or self.now is None or self.refusals:
            return False
        if self.taken_back is not None:
            return self.taken_back
        return self.verdict.reaches(self.now.policy.goal)

    def findings(self) -> tuple[Finding, ...]:
        """Of the newest look, with what a script refused to do."""
        refusals = tuple(
            Finding(
                check=answer.check,
                verdict=Verdict.ERROR,
                host=self.host.name,
                subject=answer.subject,
                case="refused",
                message=f"the change was refused: {answer.reason or 'no reason given'}",
                fix="take the reason away, then run again",
            )
            for answer in self.refusals
        )
        return refusals + (self.now.findings if self.now else ())

    def report(self) -> NodeReport:
        opened = [str(change) for stage in self.plan.stages for change in stage.changes]
        opened += [
            f"{change} ({held.reason})" for held in self.plan.held for change in held.stage.changes
        ]
        if self.now and self.now.policy.goal == "ready" and self.taken_back is None:
            opened.append("goal ready: it takes smoke tests, which this version does not have")
        return NodeReport(
            name=self.host.name,
            product=self.now.view.product if self.now else "",
            verdict=self.verdict,
            reached_goal=self.reached_goal,
            changed=self.made,
            open=opened,
            findings_before=self.before.findings if self.before else (),
            findings_after=self.findings(),
            error=self.error,
            seconds=self.seconds,
            passes=self.passes,
            taking_back=self.taken_back is not None,
        )
