"""Converge scripts on a small emulated node: they are rendered, run by real shells, and undone."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import pytest
from small_node import (
    CARD,
    CHECK,
    CONF,
    NIC,
    RULES,
    SCRIPT,
    STATE,
    UNIT,
    WANTS,
    SmallNode,
    journal,
    max_read_request_steps,
    outcomes,
    remove_steps,
    undo_steps,
)

from rackready.change import File, Link, Outcome, Remove, Undo

DONE, SAME, REFUSED = Outcome.DONE, Outcome.SAME, Outcome.REFUSED


def test_once_twice_undone_removed(node: SmallNode, shell: list[str]) -> None:
    node.add_function()
    fresh = node.snapshot()

    answers = node.converge(max_read_request_steps(), shell=shell)
    assert [(a.check, a.subject, a.outcome) for a in answers] == [
        (CHECK, subject, DONE) for subject in (SCRIPT, CONF, RULES, UNIT, WANTS, NIC)
    ]
    assert node.control() == 0x1937
    assert node.path(SCRIPT).stat().st_mode & 0o777 == 0o755
    assert os.readlink(node.path(WANTS)) == "../rackready-max-read-request.service"

    before = node.snapshot(times=True)
    lines = len(journal(node))
    assert outcomes(node, max_read_request_steps()) == {SAME}
    assert (node.snapshot(times=True), len(journal(node))) == (before, lines)

    undo = undo_steps(node)
    setting = undo[0]
    assert {a.outcome for a in node.converge(undo, run="r2", shell=shell)} == {DONE}
    assert node.snapshot() == fresh
    assert undo_steps(node) == []
    # The same lines once more: all is as it was already (and no script is left to ask).
    assert outcomes(node, [step for step in undo if step != setting], run="r3") == {SAME}
    assert node.snapshot() == fresh

    node.converge(max_read_request_steps(), run="r4", shell=shell)
    removed = node.converge(remove_steps(node), run="r5", shell=shell, everything=True)
    assert {a.outcome for a in removed} == {DONE}
    assert (removed[-1].check, removed[-1].subject) == ("remove", STATE)
    left = [path for path in node.root.rglob("*") if "rackready" in path.name]
    assert left == [node.path("/.rackready-emulated")]


def test_journal_and_manifest(node: SmallNode) -> None:
    node.add_function()
    node.converge(max_read_request_steps())
    entries = journal(node)
    assert [entry["id"] for entry in entries] == [f"r1:{n + 1}" for n in range(len(entries))]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", e["time"]) for e in entries)
    assert {key: entries[-1][key] for key in entries[-1] if key != "time"} == {
        "id": f"r1:{len(entries)}",
        "run": "r1",
        "check": CHECK,
        "kind": "setting",
        "subject": NIC,
        "script": SCRIPT,
        "card": CARD,
        "before": "4096",
        "after": "256",
    }
    conf = next(entry for entry in entries if entry["subject"] == CONF)
    assert (conf["before"], conf["backup"], conf["mode"]) == ("absent", "", "0644")
    manifest = node.path(f"{STATE}/manifest").read_text().splitlines()
    assert f"file {CONF} {conf['after']} 0644" in manifest
    assert f"link {WANTS} ../rackready-max-read-request.service" in manifest
    assert "dir /etc/rackready" in manifest

    # The same run writes again, in another pass: no number is used twice.
    node.converge([(CHECK, File(CONF, "# nothing\n"))])
    assert journal(node)[-1]["id"] == f"r1:{len(entries) + 1}"


def test_a_file_changed_by_hand_is_kept_and_comes_back(node: SmallNode, shell: list[str]) -> None:
    wish = [(CHECK, File("/etc/rackready/a.conf", "a\n"))]
    node.converge(wish)
    path = node.path("/etc/rackready/a.conf")
    path.write_text("secret\n")
    path.chmod(0o600)

    assert {a.outcome for a in node.converge(wish, run="r2", shell=shell)} == {DONE}
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("a\n", 0o644)
    backup = node.path(journal(node)[-1]["backup"])
    assert backup.read_text() == "secret\n"
    assert node.path(f"{STATE}/backup").stat().st_mode & 0o777 == 0o700

    assert outcomes(node, undo_steps(node, "r2"), run="r3") == {DONE}
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("secret\n", 0o600)


def test_a_mode_changed_by_hand_is_put_right(node: SmallNode) -> None:
    wish = [(CHECK, File("/etc/rackready/a.conf", "a\n"))]
    node.converge(wish)
    node.path("/etc/rackready/a.conf").chmod(0o666)
    assert outcomes(node, wish, run="r2") == {DONE}
    assert node.path("/etc/rackready/a.conf").stat().st_mode & 0o777 == 0o644


def test_what_is_not_ours_is_refused(node: SmallNode, shell: list[str]) -> None:
    node.path("/etc/rackready").mkdir()
    node.path("/etc/rackready/theirs").write_text("theirs\n")
    node.path("/etc/rackready/equal").write_text("equal\n")
    node.path("/etc/rackready/folder").mkdir()
    node.path("/etc/rackready/link").symlink_to("theirs")
    before = node.snapshot()
    answers = node.converge(
        [
            (CHECK, File("/etc/rackready/theirs", "ours\n")),
            (CHECK, File("/etc/rackready/equal", "equal\n")),
            (CHECK, File("/etc/rackready/folder", "ours\n")),
            (CHECK, File("/etc/rackready/link", "ours\n")),
            (CHECK, Link("/etc/rackready/theirs", "equal")),
            (CHECK, Link("/etc/rackready/link", "equal")),
        ],
        shell=shell,
    )
    foreign = (REFUSED, "exists and was not written by rackready")
    other = (REFUSED, "exists and is not a regular file")
    assert [(a.outcome, a.reason) for a in answers] == [
        foreign,
        (SAME, ""),
        other,
        other,
        foreign,
        foreign,
    ]
    assert node.snapshot() == before
    assert not node.path(STATE).exists()


def test_undo_refuses_what_is_no_longer_ours(node: SmallNode, shell: list[str]) -> None:
    node.add_function()
    node.converge(max_read_request_steps())
    node.path(CONF).write_text("# mine now\n")
    node.path(WANTS).unlink()
    node.path(WANTS).symlink_to("/dev/null")
    config = node.path(f"/sys/bus/pci/devices/{NIC}/config")
    space = bytearray(config.read_bytes())
    space[0x69] = 0x39  # 1024 B
    config.write_bytes(bytes(space))

    answers = {a.subject: a for a in node.converge(undo_steps(node), run="r2", shell=shell)}

    changed = "is no longer what rackready wrote"
    assert (answers[CONF].outcome, answers[CONF].reason) == (REFUSED, changed)
    assert (answers[WANTS].outcome, answers[WANTS].reason) == (REFUSED, changed)
    assert answers[NIC].outcome is REFUSED
    assert answers[NIC].reason == "reads 1024, which is no longer what rackready set (256)"
    assert answers["/etc/rackready"].outcome is REFUSED  # it is not empty
    assert answers[RULES].outcome is DONE
    assert node.path(CONF).read_text() == "# mine now\n"


def test_undo_refuses_a_damaged_backup(node: SmallNode) -> None:
    node.converge([(CHECK, File("/etc/rackready/a", "1\n"))])
    node.converge([(CHECK, File("/etc/rackready/a", "2\n"))], run="r2")
    node.path(journal(node)[-1]["backup"]).write_text("3\n")
    (answer,) = node.converge(undo_steps(node, "r2"), run="r3")
    assert (answer.outcome, node.path("/etc/rackready/a").read_text()) == (REFUSED, "2\n")
    assert "missing or damaged" in answer.reason


def test_a_replaced_link_is_undone(node: SmallNode, shell: list[str]) -> None:
    node.converge([(CHECK, Link("/etc/rackready/a", "1"))])
    node.converge([(CHECK, Link("/etc/rackready/a", "2"))], run="r2", shell=shell)
    assert os.readlink(node.path("/etc/rackready/a")) == "2"
    assert {a.outcome for a in node.converge(undo_steps(node, "r2"), "r3", shell)} == {DONE}
    assert os.readlink(node.path("/etc/rackready/a")) == "1"
    assert {a.outcome for a in node.converge(undo_steps(node), "r4", shell)} == {DONE}
    assert not os.path.lexists(node.path("/etc/rackready/a"))


def test_removal_after_undo_takes_the_records(node: SmallNode, shell: list[str]) -> None:
    node.converge([(CHECK, File("/etc/rackready/a", "a\n"))])
    node.converge(undo_steps(node), run="r2")
    assert remove_steps(node) == []
    assert node.path(f"{STATE}/manifest").exists()
    (answer,) = node.converge([], "r3", shell, everything=True)
    assert (answer.subject, answer.outcome) == (STATE, DONE)
    assert not node.path(STATE).exists() and not node.path("/run/rackready.lock").exists()


def test_remove_keeps_what_a_person_changed(node: SmallNode, shell: list[str]) -> None:
    node.add_function()
    node.converge(max_read_request_steps())
    node.path(CONF).write_text("# mine now\n")
    steps = remove_steps(node)
    answers = {a.subject: a for a in node.converge(steps, "r2", shell, everything=True)}
    assert answers[CONF].reason == "is no longer what rackready wrote: kept"
    assert answers[STATE].outcome is REFUSED
    assert node.path(f"{STATE}/manifest").exists()
    assert not node.path(SCRIPT).exists()

    node.path(CONF).unlink()
    again = node.converge(remove_steps(node), "r3", shell, everything=True)
    assert REFUSED not in {a.outcome for a in again}
    assert not node.path(STATE).exists()


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"kind": "undo", "id": "r1:1", "subject": "x", "undoes": "r1:0"},
        {"kind": "file", "id": "r1:1", "subject": "/etc/../a", "before": "absent", "after": "0"},
        {"kind": "dir", "id": "r1:1", "subject": "/etc/$(touch x)"},
        {
            "kind": "link",
            "id": "r1:1",
            "subject": "/etc/rackready/a",
            "before": "absent",
            "after": "a\nb",
        },
        {"kind": "setting", "id": "r1:1", "subject": "x", "script": "/bin/sh", "before": "1"},
    ],
)
def test_a_journal_line_that_makes_no_sense_is_refused(
    node: SmallNode, entry: Mapping[str, object]
) -> None:
    (answer,) = node.converge([("undo", Undo(entry))])
    assert answer.outcome is REFUSED
    assert answer.reason.startswith("its line of the journal: ")


def test_a_manifest_line_that_makes_no_sense_is_refused(node: SmallNode) -> None:
    answers = node.converge(
        [("remove", Remove("etc", "file", "x")), ("remove", Remove("/etc", "tree", ""))]
    )
    assert [a.outcome for a in answers] == [REFUSED, REFUSED]
    assert all(a.reason.startswith("its line of the manifest: ") for a in answers)


def test_reload_only_where_it_runs_and_something_changed(node: SmallNode) -> None:
    node.add_function()
    for name in ("systemctl", "udevadm"):
        node.stand_in(name, f'echo "{name} $*" >>"$RACKREADY_ROOT/reloads"')
    node.converge(max_read_request_steps())
    assert not node.path("/reloads").exists()  # neither of them runs here
    node.converge(undo_steps(node), run="r2")

    node.path("/run/systemd/system").mkdir(parents=True)
    node.path("/run/udev").mkdir()
    node.path("/run/udev/control").touch()
    node.converge(max_read_request_steps(), run="r3")
    both = ["systemctl daemon-reload", "udevadm control --reload"]
    assert node.path("/reloads").read_text().splitlines() == both
    node.converge(max_read_request_steps(), run="r4")
    assert node.path("/reloads").read_text().splitlines() == both

    # A run that was killed left its name in the lock: it may not have come to the reload.
    node.path("/run/rackready.lock").write_text("ann@desk run r4 pid 1 since then\n")
    node.converge(max_read_request_steps(), run="r5")
    assert node.path("/reloads").read_text().splitlines() == both * 2
    assert node.path("/run/rackready.lock").read_text() == ""


def test_a_reload_that_fails_is_an_answer(node: SmallNode) -> None:
    node.path("/run/systemd/system").mkdir(parents=True)
    node.stand_in("systemctl", "echo 'Failed to connect to bus' >&2; exit 1")
    answers = node.converge([(CHECK, File("/etc/systemd/system/rackready-a.service", "[Unit]\n"))])
    assert [(a.subject, a.outcome) for a in answers] == [
        ("/etc/systemd/system/rackready-a.service", DONE),
        ("systemctl", REFUSED),
    ]
    assert answers[1].reason == "systemctl daemon-reload failed: Failed to connect to bus"
