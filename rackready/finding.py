"""Findings and the verdicts that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum


class Verdict(str, Enum):
    """Verdict of one finding, mildest first."""

    SKIP = "skip"  # does not apply, or a wish for which there is no evidence
    OK = "ok"  # checked and right
    WARN = "warn"  # suspicious, or only partly wrong
    ERROR = "error"  # could not be determined, or a change was refused
    FAIL = "fail"  # wrong

    @property
    def severity(self) -> int:
        return _SEVERITY[self]


_SEVERITY = {verdict: position for position, verdict in enumerate(Verdict)}


class NodeVerdict(str, Enum):
    """Verdict of one node, worst first."""

    NOT_READY = "NOT READY"
    INCONCLUSIVE = "INCONCLUSIVE"
    CONFIGURED = "CONFIGURED"
    READY = "READY"

    def reaches(self, goal: str) -> bool:
        """``goal`` as in a policy: ``configured`` or ``ready``."""
        return self.value.casefold() in (goal, "ready")


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check says of one subject.

    ``observed`` and ``expected`` are for reading; ``fix`` puts it right now, ``persistent_fix`` so
    that it stays right. ``waived`` is the site's reason for living with it: such a finding is shown
    and does not count. ``data`` is what a change needs to know, in the check's own terms.
    """

    check: str
    verdict: Verdict
    host: str
    subject: str
    message: str
    case: str = ""
    observed: str = ""
    expected: str = ""
    cause: str = ""
    fix: str = ""
    persistent_fix: str = ""
    sources: tuple[str, ...] = ()
    waived: str = ""
    data: Mapping[str, object] | None = None

    @property
    def counts(self) -> bool:
        """True when it keeps a node from its goal."""
        return not self.waived and self.verdict in (Verdict.FAIL, Verdict.ERROR)

    def as_dict(self) -> dict[str, object]:
        """For JSON: no empty fields, in the order in which a person reads them."""
        fields: dict[str, object] = {
            "check": self.check,
            "case": self.case,
            "verdict": self.verdict.value,
            "host": self.host,
            "subject": self.subject,
            "message": self.message,
            "observed": self.observed,
            "expected": self.expected,
            "cause": self.cause,
            "fix": self.fix,
            "persistent_fix": self.persistent_fix,
            "sources": list(self.sources),
            "waived": self.waived,
        }
        return {key: value for key, value in fields.items() if value not in ("", [])}


def worst(findings: Iterable[Finding]) -> Verdict:
    """The worst verdict of those that no waiver covers; ``skip`` when there is none."""
    return max(
        (f.verdict for f in findings if not f.waived),
        key=lambda v: v.severity,
        default=Verdict.SKIP,
    )


def node_verdict(findings: Iterable[Finding]) -> NodeVerdict:
    """The verdict of a node. READY is not reached here: it takes a passed smoke set."""
    counted = {finding.verdict for finding in findings if finding.counts}
    if Verdict.FAIL in counted:
        return NodeVerdict.NOT_READY
    return NodeVerdict.INCONCLUSIVE if counted else NodeVerdict.CONFIGURED
