"""The table that ends a run: worst first, nodes with equal findings folded into one row."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rackready.finding import Finding, NodeVerdict, Verdict
from rackready.fold import fold
from rackready.report import NodeReport, Report, ordered

_COLOURS = {
    NodeVerdict.NOT_READY: "red",
    NodeVerdict.INCONCLUSIVE: "yellow",
    NodeVerdict.CONFIGURED: "green",
    NodeVerdict.READY: "green",
}
_SHOWN = (Verdict.FAIL, Verdict.ERROR, Verdict.WARN)
_NAMED = 3  # subjects of one finding that are named; more are counted


def printable(text: str) -> str:
    """What a node says may hold escape sequences: they must not reach the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


class Terminal(Console):
    """A console whose reader may go away: the work on the nodes goes on without it."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


def console(to_stderr: bool = False) -> Console:
    """As wide as the terminal; where there is none, wide enough for the report."""
    found = Terminal(stderr=to_stderr, highlight=False)
    with suppress(AttributeError, ValueError):
        # A locale that is not UTF-8 has no frames for tables, and names of nodes are what they are.
        found.file.reconfigure(errors="replace")  # type: ignore[attr-defined]
    if not found.is_terminal and "COLUMNS" not in os.environ:
        found.width = 120
    return found


def print_report(report: Report, console: Console) -> None:
    """Table, rack findings and a closing line."""
    groups: dict[Hashable, list[NodeReport]] = {}
    for node in ordered(report.nodes):
        groups.setdefault(_likeness(node), []).append(node)
    if groups:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
        table.add_column("node", overflow="fold", max_width=28)
        table.add_column("product", max_width=16)
        table.add_column("verdict", no_wrap=True)
        table.add_column("what there is to know", overflow="fold")
        *_, last = groups.values()
        for group in groups.values():
            first = group[0]
            verdict = first.verdict.value if first.reached_goal else f"{first.verdict.value} !"
            colour = "red" if not first.reached_goal else _COLOURS[first.verdict]
            table.add_row(
                escape(printable(fold(node.name for node in group))),
                escape(first.product),
                f"[{colour}]{verdict}[/]",
                escape(printable("\n".join(details(first))) or "nothing to do"),
                end_section=group is not last,
            )
        console.print(table)
    for finding in report.rack:
        if finding.verdict in _SHOWN:
            line = f"rack: {finding.verdict.value} {finding.check}: {finding.message}"
            console.print(escape(printable(line)), highlight=False)
    reached = sum(node.reached_goal for node in report.nodes)
    state = f"{reached} of {len(report.nodes)} nodes at the goal ({report.goal})"
    line = f"{report.problem}; {state}" if report.problem else state
    console.print(escape(printable(line)), highlight=False, soft_wrap=True)


def _likeness(node: NodeReport) -> Hashable:
    """Nodes of which this is equal need the same from a person; addresses may differ."""
    return (
        node.verdict,
        node.reached_goal,
        node.product,
        node.error,
        tuple(
            (item.check, item.case, item.waived, item.subject, item.observed)
            for findings in grouped(node.findings_after)
            for item in findings
        ),
        tuple(str(change) for change in node.changed),
        tuple(node.open),
    )


def details(node: NodeReport) -> list[str]:
    """What a person has to know of a node, worst first."""
    lines = [f"error: {node.error}"] if node.error else []
    for findings in grouped(node.findings_after):
        first = findings[0]
        state = "waived" if first.waived else first.verdict.value
        if len({finding.message for finding in findings}) == 1:
            lines.append(f"{state}: {first.check} {_few(findings)}: {first.message}")
        else:
            lines.append(f"{state}: {first.check} {_few(findings)}")
            lines += [f"  {finding.subject}: {finding.message}" for finding in findings[:_NAMED]]
        if first.waived:
            lines.append(f"  because: {first.waived}")
        elif first.counts:
            lines += [f"  why: {first.cause}"] if first.cause else []
            lines += [f"  fix: {first.fix}"] if first.fix else []
            lines += [f"  for good: {first.persistent_fix}"] if first.persistent_fix else []
    values = [change for change in node.changed if change.before]
    lines += [f"changed: {change}" for change in values]
    if len(node.changed) > len(values):
        own = len(node.changed) - len(values)
        lines.append(f"changed: {own} files and links of rackready's own")
    lines += [f"open: {line}" for line in node.open]
    return lines


def grouped(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Findings worth showing, worst first, those that say the same of several subjects together."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in sorted(findings, key=lambda item: (bool(item.waived), -item.verdict.severity)):
        if finding.verdict in _SHOWN:
            key = (finding.check, finding.case, finding.waived)
            groups.setdefault(key, []).append(finding)
    return list(groups.values())


def _few(findings: Sequence[Finding]) -> str:
    shown = ", ".join(finding.subject for finding in findings[:_NAMED])
    more = len(findings) - _NAMED
    return f"{shown} and {more} more" if more > 0 else shown
