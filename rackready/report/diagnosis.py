"""A diagnosis for people, worst first, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console

from rackready.diagnose import Diagnosis
from rackready.finding import Finding, Verdict
from rackready.report.table import advice, grouped, printable

_COLOURS = {Verdict.FAIL: "red", Verdict.ERROR: "red", Verdict.WARN: "yellow"}


def as_json(diagnosis: Diagnosis) -> Iterator[str]:
    """The lines of ``diagnose --json``: its verdict, then the findings, worst first."""
    findings = _ordered(diagnosis.findings)
    yield f'{{\n "verdict": "{diagnosis.verdict.value}",\n "findings": ['
    last = len(findings) - 1
    for number, finding in enumerate(findings):
        yield json.dumps(finding.as_dict()) + ("," if number < last else "")
    yield " ]\n}"


def print_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    """Each host's findings, the worst host first; what is right or unknown is only counted."""
    groups: dict[str, list[Finding]] = {}
    for finding in _ordered(diagnosis.findings):
        groups.setdefault(finding.host, []).append(finding)
    named = any(groups)
    for host, findings in groups.items():
        if named:
            _print(console, host or "all hosts", "bold")
        for alike in grouped(findings):
            _print_alike(alike, console)
        _print(console, _rest(findings))
    words = diagnosis.verdict.value
    if diagnosis.verdict is Verdict.SKIP:
        words += ": nothing here could be judged"
    _print(console, words)


def _print_alike(findings: Sequence[Finding], console: Console) -> None:
    """Findings of one kind: what they have in common is said once."""
    first = findings[0]
    state = "waived" if first.waived else first.verdict.value
    style = "" if first.waived else _COLOURS[first.verdict]
    if len({finding.message for finding in findings}) == 1:
        subjects = ", ".join(finding.subject for finding in findings)
        _print(console, f"{state}: {first.check} {subjects}: {first.message}", style)
    else:
        _print(console, f"{state}: {first.check}", style)
        for finding in findings:
            _print(console, f"  {finding.subject}: {finding.message}", style)
    if first.waived:
        _print(console, f"  because: {first.waived}")
        return
    for line in advice(findings):
        _print(console, line)


def _rest(findings: Iterable[Finding]) -> str:
    right = [finding for finding in findings if finding.verdict is Verdict.OK]
    skipped = [finding for finding in findings if finding.verdict is Verdict.SKIP]
    told = [f"{len(right)} ok" + (f" ({_checks(right)})" if right else "")]
    told += [f"{len(skipped)} not judged: {'; '.join(_few(skipped))}"] if skipped else []
    return ", ".join(told)


def _checks(findings: Iterable[Finding]) -> str:
    return ", ".join(dict.fromkeys(finding.check for finding in findings))


def _few(findings: list[Finding]) -> list[str]:
    told = [f"{finding.subject}: {finding.message}" for finding in findings[:3]]
    return [*told, f"{len(findings) - 3} more"] if len(findings) > 3 else told


def _ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Worst first, by host: a host's findings stay together, and the worst host leads."""
    findings = list(findings)
    order = {
        host: position
        for position, host in enumerate(
            dict.fromkeys(f.host for f in sorted(findings, key=lambda f: -f.verdict.severity))
        )
    }
    return sorted(findings, key=lambda f: (order[f.host], bool(f.waived), -f.verdict.severity))


def _print(console: Console, text: str, style: str = "") -> None:
    console.print(printable(text.replace("\n", " ")), style=style, markup=False, soft_wrap=True)
