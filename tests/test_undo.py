"""Taking back: which steps, in which order, out of journals of any kind."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rackready.change import Remove, Undo
from rackready.facts.model import ManagedFile, Node
from rackready.facts.readers.managed import read_journal
from rackready.operations.converge import render
from rackready.undo import changes, remove_steps, runs, undo_steps


def entry(identity: str, check: str = "a.b", **fields: Any) -> dict[str, Any]:
    run, _, _ = identity.partition(":")
    return {"id": identity, "run": run, "check": check, "kind": "file", "subject": "/x", **fields}


JOURNAL = (
    entry("r1:1"),
    entry("r1:2", check="c.d"),
    entry("r2:1"),
    entry("r2:2"),
    {"id": "r3:1", "kind": "undo", "undoes": "r2:2"},
)
NODE = Node("n", journal=JOURNAL)


def undone(node: Node, **which: str) -> list[str]:
    steps = [step for _, step in undo_steps(node, **which)]
    return [str(step.entry["id"]) for step in steps if isinstance(step, Undo)]


def test_newest_run_newest_first() -> None:
    assert undone(NODE) == ["r2:1"]
    assert undone(NODE, run="r1") == ["r1:2", "r1:1"]
    assert runs(NODE) == ("r1", "r2")


def test_by_check() -> None:
    assert undone(NODE, check="a.b") == ["r2:1", "r1:1"]
    assert undone(NODE, check="c.d", run="r1") == ["r1:2"]
    assert undone(NODE, check="c.d", run="r2") == []


def test_what_was_taken_back_is_not_taken_back_again() -> None:
    assert undone(NODE, run="r2") == ["r2:1"]
    assert undone(NODE, run="r3") == []
    all_back = tuple(
        {"id": f"r4:{n}", "kind": "undo", "undoes": e["id"]} for n, e in enumerate(JOURNAL)
    )
    assert undone(Node("n", journal=JOURNAL + all_back)) == []


def test_nothing_known_nothing_to_take_back() -> None:
    assert undone(Node("n")) == undone(Node("n", journal=())) == []
    assert remove_steps(Node("n")) == []


def test_cut_lines_are_passed_over() -> None:
    notes: list[str] = []
    journal = read_journal('{"id":"r1:1","run":"r1","kind":"file"}\n{"id":"r1:2","ru', notes.append)
    assert undone(Node("n", journal=journal)) == ["r1:1"]
    assert notes == ['line 2 of the journal is cut: \'{"id":"r1:2","ru\'']


def test_changes_for_a_person() -> None:
    journal = (
        entry("r1:1", before="absent", after="a" * 64),
        entry("r1:2", kind="setting", subject="0000:33:00.0", before="4096", after="256"),
    )
    told = [str(change) for change in changes(undo_steps(Node("n", journal=journal)))]
    assert told == ["a.b: 0000:33:00.0: 256 -> 4096", "a.b: /x: content aaaaaaaaaaaa -> absent"]


def test_removal_takes_triggers_first_and_folders_last() -> None:
    managed = (
        ManagedFile("/usr/local/lib/rackready", "dir", "", "there"),
        ManagedFile("/usr/local/lib/rackready/max-read-request", "file", "a", "a"),
        ManagedFile("/etc/rackready", "dir", "", "there"),
        ManagedFile("/etc/rackready/x.d", "dir", "", "there"),
        ManagedFile("/etc/udev/rules.d/90-rackready.rules", "file", "b", ""),
        ManagedFile("/etc/systemd/system/multi-user.target.wants/x.service", "link", "../x", None),
    )
    steps = remove_steps(Node("n", managed=managed))
    assert [step.path for _, step in steps if isinstance(step, Remove)] == [
        "/etc/systemd/system/multi-user.target.wants/x.service",
        "/etc/udev/rules.d/90-rackready.rules",
        "/usr/local/lib/rackready/max-read-request",
        "/usr/local/lib/rackready",
        "/etc/rackready/x.d",
        "/etc/rackready",
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
ENTRIES = st.fixed_dictionaries(
    {"id": st.text(max_size=10)},
    optional={
        key: JSON | st.sampled_from(["undo", "file", "link", "setting", "/etc/x", "a" * 64])
        for key in ("run", "kind", "check", "subject", "before", "after", "undoes", "script")
    },
)


@given(st.lists(ENTRIES, max_size=4))
def test_any_journal(journal: list[dict[str, Any]]) -> None:
    """It lies on the node, where anybody may have written into it."""
    node = Node("n", journal=tuple(journal))
    steps = undo_steps(node)
    changes(steps)
    for run in runs(node):
        undo_steps(node, run=run)
    assert render(steps, run="r9", owner="me", emulated=True).isascii()


@given(st.text(max_size=40), st.sampled_from(["file", "link", "dir"]), st.text(max_size=10))
def test_any_manifest(path: str, kind: str, written: str) -> None:
    steps = remove_steps(Node("n", managed=(ManagedFile(path, kind, written, None),)))
    changes(steps)
    assert render(steps, run="r9", owner="me", emulated=True, everything=True).isascii()
