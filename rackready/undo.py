"""Taking back what rackready changed: steps from a node's own journal and manifest."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rackready.change import Change, Remove, Step, Undo
from rackready.facts.model import ManagedFile, Node

Steps = list[tuple[str, Step]]

REMOVAL = "rackready.removal"
_CHECK = re.compile(r"[a-z0-9][a-z0-9.-]*")


def runs(node: Node) -> tuple[str, ...]:
    """Runs with something that could be taken back, oldest first."""
    return tuple(dict.fromkeys(str(entry.get("run", "")) for entry in _standing(node)))


def _standing(node: Node) -> list[Mapping[str, object]]:
    """Journal lines of changes that were not taken back since."""
    journal = node.journal or ()
    undone = {str(entry.get("undoes")) for entry in journal if entry.get("kind") == "undo"}
    return [entry for entry in journal if entry.get("kind") != "undo" and entry["id"] not in undone]


def undo_steps(node: Node, run: str = "", check: str = "") -> Steps:
    """Steps that take back one run, or all changes for one check, newest first."""
    return [
        (_check(entry), Undo(entry))
        for entry in reversed(_standing(node))
        if (not run or entry.get("run") == run) and (not check or entry.get("check") == check)
    ]


def _check(entry: Mapping[str, object]) -> str:
    """Its check id; a journal lies on the node, and may hold anything."""
    check = str(entry.get("check", ""))
    return check if _CHECK.fullmatch(check) else "rackready.journal"


def remove_steps(node: Node) -> Steps:
    """Steps that take everything of rackready's away: triggers first, folders last."""

    def order(item: ManagedFile) -> tuple[int, int]:
        if item.kind == "dir":  # it is empty after what is in it
            return 3, -item.path.count("/")
        if item.kind == "link":
            return 0, 0
        # A trigger must not outlive what it starts.
        return (2 if "/rackready/" in item.path else 1), 0

    things = sorted(node.managed or (), key=order)
    return [(REMOVAL, Remove(item.path, item.kind, item.written)) for item in things]


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
