"""The table that ends a run: worst first, nodes with equal findings folded into one row."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator, Sequence
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
    """
    A table, worst first, then what there is to know of each of its rows, and a closing line.

    The table is short and the lines below it are whole, so that commands can be copied from them.
    """
    groups: dict[Hashable, list[NodeReport]] = {}
    for node in ordered(report.nodes):
        groups.setdefault(_likeness(node), []).append(node)
    if groups:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
        for title in ("node", "product", "verdict", "in short"):
            table.add_column(title, overflow="fold")
        for group in groups.values():
            first = group[0]
            colour = "red" if not first.reached_goal else _COLOURS[first.verdict]
            table.add_row(
                escape(printable(fold(node.name for node in group))),
                escape(first.product),
                f"[{colour}]{first.verdict.value}{'' if first.reached_goal else ' !'}[/]",
                _in_short(first),
            )
        if console.is_terminal:
            console.print(table)
        else:  # without the blanks that fill each line up
            with console.capture() as drawn:
                console.print(table)
            _print(console, "\n".join(line.rstrip() for line in drawn.get().splitlines()))
    for group in groups.values():
        if lines := details(group[0]):
            told = [fold(node.name for node in group), *(f"  {line}" for line in lines), ""]
            _print(console, "\n".join(told))
    for finding in report.rack:
        if finding.verdict in _SHOWN:
            state = "waived" if finding.waived else finding.verdict.value
            _print(console, f"rack: {state}: {finding.check}: {finding.message}")
    state = _closing(report)
    _print(console, f"{report.problem}; {state}" if report.problem else state)


def _print(console: Console, text: str) -> None:
    console.print(printable(text), markup=False, soft_wrap=True)


def _closing(report: Report) -> str:
    reached, all_of_them = sum(node.reached_goal for node in report.nodes), len(report.nodes)
    if any(node.taking_back for node in report.nodes):
        done = "would be done" if report.dry else "done"
        return f"{report.deploy}: {done} on {reached} of {all_of_them} nodes"
    closing = f"{reached} of {all_of_them} nodes at the goal ({report.goal})"
    if report.dry:
        pending = sum(bool(node.open) for node in report.nodes)
        closing += f"; a run would change {pending}, then look again and decide what follows"
    return closing


def _in_short(node: NodeReport) -> str:
    """``1 fail, 2 warn, 3 waived, 6 changed``."""
    if node.error:
        return "error"
    standing = [finding for finding in node.findings_after if not finding.waived]
    counts = {
        verdict.value: sum(finding.verdict is verdict for finding in standing) for verdict in _SHOWN
    }
    counts["waived"] = len(node.findings_after) - len(standing)
    counts["changed"] = len(node.changed)
    counts["open"] = len(node.open)
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "all is well"


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
    refused = [finding for finding in node.findings_after if finding.case == "refused"]
    for findings in grouped(refused if node.taking_back else node.findings_after):
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
            lines += advice(findings)
    values = [change for change in node.changed if change.before]
    lines += [f"changed: {change}" for change in values]
    if len(node.changed) > len(values):
        own = len(node.changed) - len(values)
        lines.append(f"changed: {own} files and links of rackready's own")
    lines += [f"open: {line}" for line in node.open]
    return lines


_ADVICE = (("why", "cause"), ("fix", "fix"), ("for good", "persistent_fix"))
_ADVISED = 16  # different fixes of findings of one kind; there are not many more ports in a node


def advice(findings: Sequence[Finding]) -> Iterator[str]:
    """Cause and fix of findings of one kind, each text once: another port may need another fix."""
    for label, part in _ADVICE:
        texts = [text for f in findings if (text := getattr(f, part))]
        different = list(dict.fromkeys(texts))
        yield from (f"  {label}: {text}" for text in different[:_ADVISED])
        if len(different) > _ADVISED:
            yield f"  {label}: and {len(different) - _ADVISED} more, in the JSON of this report"


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
