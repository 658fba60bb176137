"""Taking back what rackready changed: steps from a node's own journal and manifest."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rackready.change import Change, Refused, Remove, Step, Undo
from rackready.facts.model import ManagedFile, Node

Steps = list[tuple[str, Step]]

REMOVAL = "rackready.removal"
_RECORDS = "rackready.journal"  # stands for the check where a record itself is the trouble
_JOURNAL = "/var/lib/rackready/journal.jsonl"
_MANIFEST = "/var/lib/rackready/manifest"
_CHECK = re.compile(r"[a-z0-9][a-z0-9.-]*")


def journal_cut(node: Node) -> bool:
    """Was only the end of its journal read, so that older runs are unknown?"""
    return node.records is not None and node.records.journal_cut


def anything_left(node: Node) -> bool:
    """Are there records of rackready's, be it that nothing else of it is left?"""
    return node.records is not None and bool(node.records.there)


def _standing(node: Node) -> list[Mapping[str, object]]:
    """Journal lines of changes that were not taken back since."""
    journal = node.journal or ()
    undone = {str(entry.get("undoes")) for entry in journal if entry.get("kind") == "undo"}
    return [entry for entry in journal if entry.get("kind") != "undo" and entry["id"] not in undone]


def undo_steps(node: Node, run: str = "", check: str = "") -> Steps:
    """
    Steps that take back one run, or all changes for one check, newest first.

    What a newer run has changed again is refused: the prior value would end up below the newer
    one, and that run could never be taken back. The files of a check are one with what they set.
    """
    steps: Steps = [(_RECORDS, Refused(_JOURNAL, reason)) for reason in _unread(node, run)]
    newer: list[Mapping[str, object]] = []
    for entry in reversed(_standing(node)):
        if (run and entry.get("run") != run) or (check and entry.get("check") != check):
            newer.append(entry)
            continue
        over = next((other for other in newer if _share(entry, other)), None)
        if over is None:
            steps.append((_check(entry), Undo(entry)))
        else:
            reason = f"changed again by run {over.get('run')}: undo that first"
            steps.append((_check(entry), Refused(str(entry.get("subject", "")), reason)))
    return steps


def _share(entry: Mapping[str, object], other: Mapping[str, object]) -> bool:
    return any(entry.get(key) == other.get(key) for key in ("subject", "check"))


def _unread(node: Node, run: str) -> list[str]:
    """Why what there is to take back of a run, or of all of them, may not be all."""
    if node.journal is None or node.records is None:
        return ["could not be read"]
    reasons = [_mend(node.records.journal_damage)] if node.records.journal_damage else []
    if node.records.journal_cut:
        # Of the oldest run that is seen, some lines may not be.
        oldest, *whole = dict.fromkeys(str(entry.get("run", "")) for entry in node.journal) or [""]
        if run not in whole:
            reasons.append(f"only its end was read: lines of run {run or oldest} may be missing")
    return reasons


def _mend(damage: str) -> str:
    return f"{damage}: mend or delete that line"


def _check(entry: Mapping[str, object]) -> str:
    """Its check id; a journal lies on the node, and may hold anything."""
    check = str(entry.get("check", ""))
    return check if _CHECK.fullmatch(check) else _RECORDS


def remove_steps(node: Node) -> Steps:
    """Steps that take everything of rackready's away: triggers first, folders last."""

    def order(item: ManagedFile) -> tuple[int, int]:
        if item.kind == "dir":  # it is empty after what is in it
            return 3, -item.path.count("/")
        if item.kind == "link":
            return 0, 0
        # A trigger must not outlive what it starts.
        return (2 if "/rackready/" in item.path else 1), 0

    if node.managed is None or node.records is None:
        return [(REMOVAL, Refused(_MANIFEST, "could not be read"))]
    things = sorted(node.managed, key=order)
    steps: Steps = [(REMOVAL, Remove(item.path, item.kind, item.written)) for item in things]
    if damage := node.records.manifest_damage:
        # The records stay then: what is on that line may be there still.
        steps.append((REMOVAL, Refused(_MANIFEST, _mend(damage))))
    return steps


def standing_settings(node: Node) -> list[str]:
    """Values that rackready set and nobody took back: ``0000:33:00.0: 256 (was 4096)``."""
    return [
        f"{entry.get('subject')}: {entry.get('after')} (was {entry.get('before')})"
        for entry in _standing(node)
        if entry.get("kind") == "setting"
    ]


def changes(steps: Steps) -> list[Change]:
    """The same for a person."""
    told = []
    for check, step in steps:
        if isinstance(step, Undo):
            entry = step.entry
            before, after = str(entry.get("before", "")), str(entry.get("after", ""))
            told.append(Change(check, str(entry.get("subject", "")), _short(after), _short(before)))
        elif isinstance(step, Remove):
            told.append(Change(check, step.path, step.kind, "gone"))
    return told


def _short(state: str) -> str:
    """A checksum by its beginning."""
    return f"content {state[:12]}" if len(state) == 64 else state or "there"
