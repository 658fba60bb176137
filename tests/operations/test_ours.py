"""Only what is rackready's is written, shown or taken away, whatever manifest and journal say."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_node import CARD, CHECK, STATE, SmallNode, journal, max_read_request_steps

from rackready.change import File, Link, Outcome, Refused, Remove, Step, Undo, is_ours
from rackready.operations.converge import read_answers, render

PATHS: dict[str, dict[str, list[str]]] = yaml.safe_load(
    Path(__file__).with_name("ours.yaml").read_text()
)
CASES = [
    (kind, path, ours == "ours")
    for kind, lists in PATHS.items()
    for ours, paths in lists.items()
    for path in paths
]
PROBE = Path(__file__).parents[2] / "facts/probe.sh"
FOREIGN = "not a path of rackready's"
PASSWD = "root:x:0:0:root:/root:/bin/sh\n"
DIGEST = hashlib.sha256(PASSWD.encode()).hexdigest()


@pytest.fixture
def victim(node: SmallNode) -> SmallNode:
    node.path("/etc/passwd").write_text(PASSWD)
    return node


def answers(node: SmallNode, script: str, shell: list[str]) -> list[tuple[Outcome, str]]:
    done = node.sh(script, shell)
    said, reason = read_answers(done.stdout.splitlines())
    assert (done.returncode, reason, done.stderr) == (0, "", "")
    return [(answer.outcome, answer.reason) for answer in said]


@pytest.mark.parametrize(("kind", "path", "ours"), CASES)
def test_rule(kind: str, path: str, ours: bool) -> None:
    assert is_ours(kind, path) is ours
    assert is_ours(kind, f"{path}\n") is False


def test_the_scripts_have_the_same_rule(node: SmallNode, shell: list[str]) -> None:
    converge = render([], run="r1", owner="ann", emulated=True, everything=True)
    converge = converge[: converge.index("converge() {")]
    probe = PROBE.read_text().replace("main </dev/null 2>/dev/null\n", "R= top=\n")
    for kind, path, ours in CASES:
        if not path.isprintable():
            continue  # no line of a manifest
        words = shlex.join(["check", kind, path])
        asked = subprocess.run(
            [*shell, "-c", f"{converge}\nif start_path {words}; then echo yes; fi"],
            env=node.environment(),
            capture_output=True,
            text=True,
        )
        assert (asked.stdout == "yes\n") is ours, (path, asked)
        asked = subprocess.run(
            [*shell, "-c", f"{probe}\nkind={kind} path={shlex.quote(path)}; is_ours && echo yes"],
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            capture_output=True,
            text=True,
        )
        assert (asked.stdout == "yes\n") is ours, (path, asked)


@pytest.mark.parametrize(
    "step", [File("/etc/passwd", "x\n"), Link("/etc/passwd", "x"), File(f"{STATE}/manifest", "x\n")]
)
def test_a_plan_holds_nothing_else(step: Step) -> None:
    with pytest.raises(ValueError, match=FOREIGN):
        render([(CHECK, step)], run="r1", owner="ann", emulated=True)


def entry(**fields: Any) -> Undo:
    return Undo({"id": "r1:1", "run": "r1", "check": CHECK, **fields})


BACKUP = f"{STATE}/backup/r1/1/etc/passwd"
FORGED = [
    Remove("/etc/passwd", "file", DIGEST),
    Remove("/etc/passwd", "link", "x"),
    Remove("/home", "dir", ""),
    entry(kind="file", subject="/etc/passwd", before="absent", after=DIGEST),
    entry(kind="file", subject="/etc/passwd", before="0" * 64, backup=BACKUP, after=DIGEST),
    entry(kind="link", subject="/etc/passwd", before="absent", after="x"),
    entry(kind="dir", subject="/home"),
]


@pytest.mark.parametrize("step", FORGED)
def test_forged_lines_are_refused(victim: SmallNode, step: Step) -> None:
    victim.path("/home").mkdir()
    before = victim.snapshot()
    (answer,) = victim.converge([(CHECK, step)], everything=False)
    assert answer.outcome is Outcome.REFUSED and FOREIGN in answer.reason
    assert victim.snapshot() == before


@pytest.mark.parametrize("step", FORGED)
def test_the_script_itself_refuses_them(victim: SmallNode, shell: list[str], step: Step) -> None:
    """As if what renders it had let them through."""
    victim.path("/home").mkdir()
    victim.path(BACKUP).parent.mkdir(parents=True)
    victim.path(BACKUP).write_text("forged\n")
    before = victim.snapshot()
    ours = "/etc/rackready/passwd"
    if isinstance(step, Remove):
        given: Step = Remove(ours, step.kind, step.written)
        foreign = step.path
    else:
        assert isinstance(step, Undo)
        backup = BACKUP.replace("/etc/passwd", ours) if step.entry.get("backup") else ""
        given = Undo({**step.entry, "subject": ours, "backup": backup})
        foreign = str(step.entry["subject"])
    script = render([(CHECK, given)], run="r2", owner="ann", emulated=True)
    head, calls = script.split("converge() {")
    script = f"{head}converge() {{{calls.replace(ours, foreign)}"
    assert answers(victim, script, shell) == [(Outcome.REFUSED, FOREIGN)]
    assert victim.snapshot() == before


def test_a_backup_lies_where_backups_lie(node: SmallNode) -> None:
    """Else a forged line of the journal makes any file of the node the content of ours."""
    path = "/etc/rackready/a"
    for backup in ("/etc/shadow", f"{STATE}/backup/r1/1/etc/rackready/b", f"{STATE}/backup/../x"):
        step = entry(kind="file", subject=path, before="0" * 64, backup=backup, after="1" * 64)
        (answer,) = node.converge([(CHECK, step)])
        assert answer.outcome is Outcome.REFUSED
        assert answer.reason.startswith("its line of the journal: ")


@pytest.mark.parametrize("leads", ["/etc/theirs", "theirs", "../outside", "missing"])
def test_no_link_leads_elsewhere(node: SmallNode, shell: list[str], leads: str) -> None:
    for folder in ("etc/theirs", "outside"):
        node.path(folder).mkdir()
        node.path(f"{folder}/a").write_text(PASSWD)
    node.path("/etc/rackready").symlink_to(leads)
    before = node.snapshot()
    path = "/etc/rackready/a"
    steps: list[Step] = [
        File(path, "ours\n"),
        Link("/etc/rackready/b/c", "x"),
        Remove(path, "file", DIGEST),
        entry(kind="file", subject=path, before="absent", after=DIGEST),
    ]
    said = node.converge([(CHECK, step) for step in steps], shell=shell)
    assert [(answer.outcome, answer.reason) for answer in said] == [(Outcome.REFUSED, FOREIGN)] * 4
    assert node.snapshot() == before


def test_the_records_are_not_led_elsewhere(node: SmallNode, shell: list[str]) -> None:
    node.path("/elsewhere").mkdir()
    node.path(STATE).symlink_to(node.path("/elsewhere"))
    wish: list[tuple[str, Step]] = [(CHECK, File("/etc/rackready/a", "a\n"))]
    (answer, _) = node.converge(wish, shell=shell, everything=True)
    assert answer.reason == f"a link leads from {STATE} to elsewhere"
    assert not node.path("/etc/rackready").exists()
    assert list(node.path("/elsewhere").iterdir()) == []


def test_a_root_that_a_link_leads_to(node: SmallNode, shell: list[str]) -> None:
    link = node.root.with_name("link")
    link.symlink_to(node.root.name)
    (answer,) = SmallNode(link).converge([(CHECK, File("/etc/rackready/a", "a\n"))], shell=shell)
    assert answer.outcome is Outcome.DONE


@pytest.mark.parametrize("folder", ["opt/maca/bin", "opt/mxdriver/bin"])
def test_no_program_of_a_vendor_is_run(node: SmallNode, shell: list[str], folder: str) -> None:
    node.add_function()
    node.path(folder).mkdir(parents=True)
    for name in ("od", "sha256sum", "stat", "grep", "flock", "setpci", "mv"):
        program = node.path(f"{folder}/{name}")
        program.write_text('#!/bin/sh\necho "$0" >>"$RACKREADY_ROOT/vendor"\nexit 1\n')
        program.chmod(0o755)
    said = node.converge(max_read_request_steps(), shell=shell)
    assert {answer.outcome for answer in said} == {Outcome.DONE}
    assert not node.path("/vendor").exists()


def test_another_card_at_the_same_place(node: SmallNode, shell: list[str]) -> None:
    config = node.add_function()
    node.converge(max_read_request_steps())
    setting = journal(node)[-1]
    assert setting["card"] == CARD
    space = bytearray(config.read_bytes())
    space[0:4] = bytes.fromhex("86807215")
    config.write_bytes(bytes(space))
    (answer,) = node.converge([(CHECK, Undo(setting))], "r2", shell)
    assert (answer.outcome, node.control()) == (Outcome.REFUSED, 0x1937)
    assert answer.reason == f"8086:1572 sits there, not {CARD}; it reads 256, not 4096"

    del setting["card"]
    (answer,) = node.converge([(CHECK, Undo(setting))], "r3", shell)
    assert (answer.outcome, node.control()) == (Outcome.REFUSED, 0x1937)
    assert answer.reason == "its line of the journal: it does not say which card was set"


def test_a_refusal_is_an_answer(node: SmallNode, shell: list[str]) -> None:
    refusal = Refused("/etc/rackready/a", "changed again by run r2: undo that first")
    (answer,) = node.converge([(CHECK, refusal)], shell=shell)
    assert (answer.check, answer.subject, answer.reason) == (
        CHECK,
        refusal.subject,
        refusal.reason,
    )
    assert answer.outcome is Outcome.REFUSED
