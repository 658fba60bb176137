"""Taking back: which steps, in which order, out of journals of any kind."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rackready.change import Refused, Remove, Undo
from rackready.facts.model import ManagedFile, Node, Records
from rackready.facts.readers.managed import read_journal
from rackready.operations.converge import render
from rackready.undo import anything_left, changes, journal_cut, remove_steps, undo_steps


def entry(identity: str, check: str = "a.b", **fields: Any) -> dict[str, Any]:
    run, _, _ = identity.partition(":")
    kind = {"kind": "file", "subject": f"/etc/rackready/{check}"}
    return {"id": identity, "run": run, "check": check, **kind, **fields}


def node_with(*journal: dict[str, Any], **records: Any) -> Node:
    return Node("n", journal=journal, records=Records(**records))


JOURNAL = (
    entry("r1:1"),
    entry("r1:2", check="c.d"),
    entry("r2:1"),
    entry("r2:2"),
    {"id": "r3:1", "run": "r3", "kind": "undo", "undoes": "r2:2"},
)
NODE = node_with(*JOURNAL)


def refused(node: Node, **which: str) -> dict[str, str]:
    steps = [step for _, step in undo_steps(node, **which)]
    return {step.subject: step.reason for step in steps if isinstance(step, Refused)}


def undone(node: Node, **which: str) -> list[str]:
    steps = [step for _, step in undo_steps(node, **which)]
    return [str(step.entry["id"]) for step in steps if isinstance(step, Undo)]


def test_newest_first() -> None:
    assert undone(NODE) == ["r2:1", "r1:2", "r1:1"]
    assert undone(NODE, run="r2") == ["r2:1"]
    assert undone(NODE, run="r0") == []
    assert refused(NODE) == refused(NODE, run="r2") == refused(NODE, run="r0") == {}


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
    assert undone(node_with(*JOURNAL, *all_back)) == []


def test_what_a_newer_run_changed_again_is_refused() -> None:
    assert undone(NODE, run="r1") == ["r1:2"]
    assert refused(NODE, run="r1") == {
        "/etc/rackready/a.b": "changed again by run r2: undo that first"
    }
    # Also where another check did it; and the newest of several is to be undone first.
    again = entry("r5:1", check="e.f", subject="/etc/rackready/a.b")
    assert refused(node_with(*JOURNAL, again), check="a.b") == {
        "/etc/rackready/a.b": "changed again by run r5: undo that first"
    }


def test_files_that_a_newer_setting_needs_are_refused() -> None:
    """Without its script it could never be taken back, and without its configuration not last."""
    script = "/usr/local/lib/rackready/a"
    files = (entry("r1:1", subject=script), entry("r1:2", subject="/etc/rackready/a.conf"))
    setting = entry("r2:1", kind="setting", subject="0000:33:00.0", script=script)
    node = node_with(*files, setting)
    assert undone(node, run="r1") == []
    assert set(refused(node, run="r1")) == {script, "/etc/rackready/a.conf"}
    assert undone(node, run="r2") == ["r2:1"]
    back = {"id": "r3:1", "run": "r3", "kind": "undo", "undoes": "r2:1"}
    assert undone(node_with(*files, setting, back), run="r1") == ["r1:2", "r1:1"]


def test_nothing_known_is_not_nothing_to_take_back() -> None:
    assert undo_steps(node_with()) == remove_steps(Node("n", managed=(), records=Records())) == []
    assert refused(Node("n")) == {"/var/lib/rackready/journal.jsonl": "could not be read"}
    assert remove_steps(Node("n")) == [
        ("rackready.removal", Refused("/var/lib/rackready/manifest", "could not be read"))
    ]


def test_damaged_records_are_said() -> None:
    notes: list[str] = []
    journal = read_journal('{"id":"r1:1","run":"r1","kind":"file"}\n{"id":"r1:2","ru', notes.append)
    assert notes == ['line 2 of the journal is damaged: \'{"id":"r1:2","ru\'']
    node = Node("n", journal=journal, records=Records(journal_damage=notes[0]))
    assert undone(node) == ["r1:1"]
    for which in ({}, {"run": "r1"}, {"run": "r7"}):
        (reason,) = refused(node, **which).values()
        assert reason == f"{notes[0]}: mend or delete that line"
    damaged = Records(manifest_damage="line 3 of the manifest is damaged: 'x'")
    ((_, step),) = remove_steps(Node("n", managed=(), records=damaged))
    assert isinstance(step, Refused) and "line 3 of the manifest" in step.reason
    assert changes(undo_steps(node)[:1]) == []


def test_a_journal_of_which_the_end_was_read() -> None:
    node = node_with(entry("r1:8"), entry("r2:1", check="c.d"), journal_cut=True)
    assert journal_cut(node) and not journal_cut(NODE) and not journal_cut(Node("n"))
    assert refused(node, run="r2") == {}
    for which, run in (({"run": "r1"}, "r1"), ({"run": "r0"}, "r0"), ({"check": "c.d"}, "r1")):
        (reason,) = refused(node, **which).values()
        assert reason == f"only its end was read: lines of run {run} may be missing"
    assert refused(node_with(journal_cut=True), run="r1")


def test_records_are_something_left() -> None:
    assert anything_left(node_with(there=("/run/rackready.lock",)))
    assert not anything_left(node_with())
    assert not anything_left(Node("n"))


def test_changes_for_a_person() -> None:
    journal = (
        entry("r1:1", before="absent", after="a" * 64),
        entry("r1:2", kind="setting", subject="0000:33:00.0", before="4096", after="256"),
    )
    told = [str(change) for change in changes(undo_steps(node_with(*journal)))]
    assert told == [
        "a.b: 0000:33:00.0: 256 -> 4096",
        "a.b: /etc/rackready/a.b: content aaaaaaaaaaaa -> absent",
    ]


def test_removal_takes_triggers_first_and_folders_last() -> None:
    managed = (
        ManagedFile("/usr/local/lib/rackready", "dir", "", "there"),
        ManagedFile("/usr/local/lib/rackready/max-read-request", "file", "a", "a"),
        ManagedFile("/etc/rackready", "dir", "", "there"),
        ManagedFile("/etc/rackready/x.d", "dir", "", "there"),
        ManagedFile("/etc/udev/rules.d/90-rackready.rules", "file", "b", ""),
        ManagedFile("/etc/systemd/system/multi-user.target.wants/x.service", "link", "../x", None),
    )
    steps = remove_steps(Node("n", managed=managed, records=Records()))
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
    node = node_with(*journal)
    steps = undo_steps(node)
    changes(steps)
    for line in journal:
        steps += undo_steps(node, run=str(line.get("run")))
    assert render(steps, run="r9", owner="me", emulated=True).isascii()


@given(st.text(max_size=40), st.sampled_from(["file", "link", "dir"]), st.text(max_size=10))
def test_any_manifest(path: str, kind: str, written: str) -> None:
    managed = (ManagedFile(path, kind, written, None),)
    steps = remove_steps(Node("n", managed=managed, records=Records(manifest_damage=path)))
    changes(steps)
    assert render(steps, run="r9", owner="me", emulated=True, everything=True).isascii()
