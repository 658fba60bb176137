"""Where a converge script can do nothing, it says why and leaves nothing half done."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import pytest
from small_node import (
    CARD,
    CHECK,
    CONF,
    NIC,
    SCRIPT,
    STATE,
    SmallNode,
    journal,
    max_read_request_steps,
    outcomes,
    undo_steps,
)

from rackready.change import File, Outcome, Setting
from rackready.operations.converge import read_answers, render

LOST = "/etc/rackready/test-of-a-lost-variable"
DONE, SAME, REFUSED = Outcome.DONE, Outcome.SAME, Outcome.REFUSED


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """A tmpfs over ``folder``; skips where this user may not mount."""
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a tmpfs takes a privilege that is not here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill_up(path: Path) -> None:
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_planned_for_another_kind_of_node(node: SmallNode) -> None:
    before = node.snapshot(times=True)
    script = render(max_read_request_steps(), run="r1", owner="ann", emulated=False)
    answers, reason = read_answers(node.sh(script).stdout.splitlines())
    assert (len(answers), reason) == (6, "")
    assert {(a.outcome, a.reason) for a in answers} == {
        (REFUSED, "planned for a node that is real, and this one is emulated")
    }
    assert node.snapshot(times=True) == before


def test_no_marker_stops_before_any_write(node: SmallNode, shell: list[str]) -> None:
    node.path("/.rackready-emulated").unlink()
    before = node.snapshot(times=True)
    script = render(max_read_request_steps(), run="r1", owner="ann", emulated=True)
    done = node.sh(script, shell)
    assert (done.returncode, done.stdout) == (97, "")
    assert node.snapshot(times=True) == before


@pytest.mark.skipif(Path("/.rackready-emulated").exists(), reason="this is an emulated root")
def test_lost_variable_refuses_on_the_machine(node: SmallNode) -> None:
    """A script planned for an emulated node, run on a real one without the variables."""
    script = render([(CHECK, File(LOST, "x\n"))], run="r", owner="a", emulated=True)
    done = node.sh(script, RACKREADY_ROOT="", RACKREADY_EMULATED="")
    (answer,), _ = read_answers(done.stdout.splitlines())
    assert answer.reason == "planned for a node that is emulated, and this one is real"
    assert not Path(LOST).exists()


@pytest.mark.skipif(Path("/.rackready-emulated").exists(), reason="this is an emulated root")
def test_not_root(node: SmallNode) -> None:
    script = render([(CHECK, File(LOST, "x\n"))], run="r", owner="a", emulated=False)
    user = [] if os.getuid() else ["setpriv", "--reuid=65534", "--clear-groups"]
    done = node.sh(script, [*user, "sh"], RACKREADY_ROOT="", RACKREADY_EMULATED="")
    (answer,), _ = read_answers(done.stdout.splitlines())
    assert (answer.outcome, answer.reason) == (REFUSED, "not root")


def test_a_script_that_is_cut_off_does_nothing(node: SmallNode, shell: list[str]) -> None:
    node.add_function()
    before = node.snapshot(times=True)
    script = render(max_read_request_steps(), run="r1", owner="ann", emulated=True)
    body = script[: script.rindex("converge </dev/null")]
    lines = body.splitlines(keepends=True)
    for count in range(0, len(lines), 23):
        node.sh("".join(lines[:count]), shell)
        node.sh("".join(lines[:count]) + lines[count][: len(lines[count]) // 2], shell)
    node.sh(body, shell)
    assert node.snapshot(times=True) == before
    assert not node.path("/run/rackready.lock").exists()


def test_held_lock_says_who_holds_it(node: SmallNode, shell: list[str]) -> None:
    node.stand_in("sleep", 'echo "$*" >>"$RACKREADY_ROOT/slept"')
    lock = node.path("/run/rackready.lock")
    before = node.snapshot()
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write("bob@desk run r0 pid 7 since 2026-11-30T21:00:00Z\n")
        file.flush()
        answers = node.converge(max_read_request_steps(), shell=shell)
    assert {(a.outcome, a.reason) for a in answers} == {
        (REFUSED, "locked by bob@desk run r0 pid 7 since 2026-11-30T21:00:00Z")
    }
    assert lock.read_text().startswith("bob@desk")
    assert node.path("/slept").read_text() == "1\n" * 10
    node.path("/slept").unlink()
    assert node.snapshot() == before


def test_a_lock_that_is_given_back_is_waited_for(node: SmallNode) -> None:
    with node.path("/run/rackready.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        held = file.fileno()
        # The script inherits the holder's lock: its first sleep gives it back.
        node.stand_in("sleep", f"exec flock -u {held}")
        script = render(
            [(CHECK, File("/etc/rackready/a", "a\n"))], run="r1", owner="ann", emulated=True
        )
        done = node.sh(script, keep=[held])
    (answer,), _ = read_answers(done.stdout.splitlines())
    assert answer.outcome is DONE


def test_a_lock_that_was_removed_while_waiting_is_no_lock(node: SmallNode) -> None:
    """Removing rackready takes the lock file away: its old inode guards nothing."""
    lock = node.path("/run/rackready.lock")
    node.stand_in("sleep", "exit 0")
    node.stand_in("flock", 'rm "$RACKREADY_ROOT/run/rackready.lock"; exec /usr/bin/flock "$@"')
    (answer,) = node.converge([(CHECK, File("/etc/rackready/a", "a\n"))])
    assert answer.outcome is REFUSED
    node.path("/sbin/flock").unlink()
    assert outcomes(node, [(CHECK, File("/etc/rackready/a", "a\n"))]) == {DONE}
    assert lock.read_text() == ""


def test_two_runs_at_once_write_one_after_the_other(node: SmallNode, tmp_path: Path) -> None:
    node.add_function()
    node.stand_in("sleep", "exec /bin/sleep 0.1")
    runs = []
    for run in ("r1", "r2"):
        script = tmp_path / run
        script.write_text(render(max_read_request_steps(), run=run, owner="ann", emulated=True))
        with script.open() as file:
            runs.append(
                subprocess.Popen(
                    ["sh", "-s"], stdin=file, stdout=subprocess.PIPE, env=node.environment()
                )
            )
    said = [read_answers(run.communicate()[0].decode().splitlines())[0] for run in runs]
    # One does it all; the other finds it done, or has waited in vain and says so.
    outcomes = [{a.outcome for a in answers} for answers in said]
    outcomes.remove({DONE})
    assert outcomes in ([{SAME}], [{REFUSED}])
    assert len({entry["run"] for entry in journal(node)}) == 1


def test_read_only_folder(node: SmallNode, shell: list[str]) -> None:
    folder = node.path("/etc/rackready")
    folder.mkdir(mode=0o555)  # which does not hold root up
    with mounted(folder, "ro") if os.getuid() == 0 else nullcontext():
        before = node.snapshot()
        (answer,) = node.converge([(CHECK, File("/etc/rackready/a", "a\n"))], shell=shell)
        assert answer.outcome is REFUSED
        assert "Read-only file system" in answer.reason or "Permission denied" in answer.reason
        assert node.snapshot() == before
    folder.chmod(0o755)
    # Nothing there is claimed to be ours.
    assert node.path(f"{STATE}/manifest").read_text().splitlines()[-1] == "gone /etc/rackready/a"


def test_full_disk(node: SmallNode, shell: list[str]) -> None:
    with mounted(node.path("/etc"), "size=64k"):
        wish = [(CHECK, File("/etc/rackready/a", "old\n" * 10))]
        assert outcomes(node, wish) == {DONE}
        fill_up(node.path("/etc/full"))
        before = node.snapshot()
        answers = node.converge(
            [
                (CHECK, File("/etc/rackready/a", "new\n" * 3000)),
                (CHECK, File("/etc/rackready/b", "new\n" * 3000)),
            ],
            run="r2",
            shell=shell,
        )
        assert [a.outcome for a in answers] == [REFUSED, REFUSED]
        assert all("No space left on device" in a.reason for a in answers)
        assert node.snapshot() == before
        node.path("/etc/full").unlink()
        assert outcomes(node, [(CHECK, File("/etc/rackready/a", "new\n" * 3000))], run="r3") == {
            DONE
        }


def test_nothing_is_written_that_cannot_be_journaled(node: SmallNode, shell: list[str]) -> None:
    with mounted(node.path("/var/lib"), "size=64k"):
        node.converge([(CHECK, File("/etc/rackready/a", "a\n"))])
        fill_up(node.path("/var/lib/full"))
        with suppress(OSError), node.path(f"{STATE}/journal.jsonl").open("ab", 0) as file:
            file.write(b" " * 4096)
        before = node.snapshot()
        answers = node.converge(
            [(CHECK, File("/etc/rackready/b", "b\n")), (CHECK, File("/etc/rackready/c", "c\n"))],
            "r2",
            shell,
        )
        assert [a.outcome for a in answers] == [REFUSED, REFUSED]
        assert all("No space left on device" in a.reason for a in answers)
        assert node.snapshot() == before


@pytest.mark.parametrize(
    "torn", [b'{"id":"r1:2","time":"20', b'{"id":"r1:2"' + bytes(100)], ids=["half", "zeros"]
)
@pytest.mark.parametrize("record", ["journal.jsonl", "manifest"])
def test_half_a_line_does_not_spoil_the_next(
    node: SmallNode, shell: list[str], torn: bytes, record: str
) -> None:
    """Half of it came on disk, or its length alone: then it is zeros that power loss left."""
    node.path("/etc/rackready").mkdir()
    node.converge([(CHECK, File("/etc/rackready/a", "a\n"))])
    path = node.path(f"{STATE}/{record}")
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    node.converge([(CHECK, File("/etc/rackready/b", "b\n"))], shell=shell)
    lines = path.read_bytes().splitlines()
    assert lines[:-1] == [*whole.splitlines(), torn]
    assert b" /etc/rackready/b " in lines[-1] or json.loads(lines[-1])["id"] in ("r1:2", "r1:3")
    assert [entry["subject"] for entry in journal(node)] == ["/etc/rackready/a", "/etc/rackready/b"]
    # What is ours is still known to be.
    assert outcomes(node, [(CHECK, File("/etc/rackready/a", "c\n"))], run="r2") == {DONE}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("echo 'x: no such card' >&2; exit 1", "x: no such card"),
        ("echo 'two words'", f"{SCRIPT} read x printed no value"),
        ("exit 0", f"{SCRIPT} read x printed no value"),
        ('[ "$1" = apply ] || echo 1', "it reads 1, not 2"),
        ('[ "$1" = apply ] && echo "s: x: refused: hot" >&2 || echo 1', "hot; it reads 1, not 2"),
    ],
)
def test_only_the_read_back_counts(node: SmallNode, body: str, reason: str) -> None:
    script = node.path(SCRIPT)
    script.parent.mkdir()
    script.write_text(f"{body}\n")
    (answer,) = node.converge([(CHECK, Setting(SCRIPT, "x", "2", CARD))])
    assert (answer.outcome, answer.reason) == (REFUSED, reason)


def test_lockdown(node: SmallNode, shell: list[str]) -> None:
    node.add_function()
    node.stand_in("setpci", "echo 'pcilib: sysfs_write: write failed' >&2")  # and exit status 0
    node.path("/sys/kernel/security").mkdir(parents=True)
    node.path("/sys/kernel/security/lockdown").write_text("none [integrity] confidentiality\n")
    answer = node.converge(max_read_request_steps(), shell=shell)[-1]
    assert (answer.outcome, node.control()) == (REFUSED, 0x5937)
    assert answer.reason == (
        "still 4096 B, not 256 B: kernel lockdown (integrity) forbids the write: "
        "pcilib: sysfs_write: write failed; it reads 4096, not 256"
    )
    assert node.converge(undo_steps(node), "r2", shell)[0].outcome is SAME


def test_a_setting_whose_file_was_refused_is_left_alone(node: SmallNode) -> None:
    """Its script sets what the configuration says, which may be something else."""
    node.add_function()
    node.path(CONF).parent.mkdir()
    node.path(CONF).write_text(f"{NIC} 15b3:1021 512\n")
    answers = {a.subject: a for a in node.converge(max_read_request_steps())}
    assert answers[CONF].outcome is REFUSED
    assert answers[NIC].reason == "still 4096: a file that sets it was refused"
    assert node.control() == 0x5937


def test_a_setting_whose_script_is_not_there(node: SmallNode) -> None:
    (answer,) = node.converge([(CHECK, Setting(SCRIPT, NIC, "256", CARD))])
    assert (answer.outcome, answer.reason) == (REFUSED, f"{SCRIPT} is not installed")
