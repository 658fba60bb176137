"""Converge scripts killed at every point: nothing is half written, and the next run ends it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest
from small_node import (
    CARD,
    CHECK,
    CONF,
    NIC,
    SCRIPT,
    STATE,
    UNIT,
    WANTS,
    SmallNode,
    journal,
    remove_steps,
    template,
    undo_steps,
)

from rackready.change import File, Link, Outcome, Setting, Step
from rackready.operations.converge import render

WISH: list[tuple[str, Step]] = [
    (CHECK, File(CONF, f"{NIC} 15b3:1021 256\n")),  # was ours, and a person changed it
    (CHECK, template(UNIT)),  # in a folder that is not there yet
    (CHECK, Link(WANTS, "../rackready-max-read-request.service")),
    (CHECK, Setting(SCRIPT, NIC, "256", CARD)),
]
HAND = f"{NIC} 15b3:1021 512\n"

# "?": where the architecture has it.
CALLS = ",?".join(
    (
        "openat,write,fsync",
        "open,creat,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,symlink",
        "symlinkat,chmod,fchmod,fchmodat,pwrite64,ftruncate,utimensat,copy_file_range",
    )
).replace(",open,", ",open,?")

strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
tracer = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="kill_at.py knows no such processor"
)


@pytest.fixture
def start(node: SmallNode) -> SmallNode:
    """A node that rackready changed before."""
    node.add_function()
    node.converge([(CHECK, template(SCRIPT, 0o755)), (CHECK, File(CONF, "# old\n"))], run="r0")
    node.path(CONF).write_text(HAND)
    return node


def copies(node: SmallNode) -> Iterator[SmallNode]:
    """As many nodes in the same state as it takes."""
    for number in count(1):
        copy = node.root.with_name(f"{node.root.name}-{number}")
        shutil.copytree(node.root, copy, symlinks=True)
        yield SmallNode(copy)


def for_each_kill(start: SmallNode, probe: Callable[[int, SmallNode], bool]) -> int:
    """Calls probe(1, copy), probe(2, copy), ... until one says that nothing was killed."""
    nodes = enumerate(copies(start), 1)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        while True:
            batch = [next(nodes) for _ in range(16)]
            killed = list(pool.map(lambda pair: probe(*pair), batch))
            for _, node in batch:
                shutil.rmtree(node.root)
            if not all(killed):
                return batch[0][0] + killed.index(False) - 1


def kill_one_process(number: int, node: SmallNode, script: str, shell: Iterable[str]) -> bool:
    """Each process is killed as it enters its own ``number``-th system call of CALLS."""
    log = node.root.with_suffix(".strace")
    watch = ["-e", f"trace={CALLS}", "-e", f"inject={CALLS}:signal=KILL:when={number}"]
    subprocess.run(
        ["strace", "-f", "-o", str(log), *watch, *shell, "-s"],
        input=script.encode(),
        env=node.environment(),
        capture_output=True,
    )
    return "+++ killed by SIGKILL +++" in log.read_text()


def kill_all_processes(number: int, node: SmallNode, script: str, shell: Iterable[str]) -> bool:
    """The whole script is killed before its ``number``-th change of the tree."""
    kill_at = [sys.executable, "-ES", str(Path(__file__).with_name("kill_at.py"))]
    done = subprocess.run(
        [*kill_at, str(number), f"{node.root}/", *shell, "-s"],
        input=script.encode(),
        env=node.environment(),
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.endswith(b"killed\n")


WAYS = [
    pytest.param(kill_one_process, marks=strace, id="one process"),
    pytest.param(kill_all_processes, marks=tracer, id="all processes"),
]
Kill = Callable[[int, SmallNode, str, Iterable[str]], bool]


def assert_nothing_half_written(node: SmallNode, *whole: SmallNode) -> None:
    states = [other.snapshot() for other in whole]
    for name, value in node.snapshot().items():
        if not name.endswith(".rackready-new"):
            assert value in [state.get(name) for state in states], name


@pytest.mark.parametrize("kill", WAYS)
def test_converge(start: SmallNode, kill: Kill, tmp_path: Path) -> None:
    fresh = start.snapshot()
    goal = SmallNode(shutil.copytree(start.root, tmp_path / "goal", symlinks=True))
    goal.converge(WISH)
    script = render(WISH, run="r1", owner="ann", emulated=True)

    def probe(number: int, node: SmallNode) -> bool:
        killed = kill(number, node, script, ["sh"])
        assert_nothing_half_written(node, start, goal)
        answers = node.converge(WISH, run="r2")
        assert Outcome.REFUSED not in {answer.outcome for answer in answers}
        assert node.snapshot() == goal.snapshot()

        identities = [entry["id"] for entry in journal(node)]
        assert len(identities) == len(set(identities))
        answers = node.converge(undo_steps(node, "r1", "r2"), run="r3")
        assert Outcome.REFUSED not in {answer.outcome for answer in answers}
        assert node.snapshot() == fresh
        return killed

    assert for_each_kill(start, probe) > 10


@pytest.mark.parametrize("kill", WAYS[1:])
def test_undo(start: SmallNode, kill: Kill, tmp_path: Path) -> None:
    fresh = SmallNode(shutil.copytree(start.root, tmp_path / "fresh", symlinks=True))
    start.converge(WISH)
    script = render(undo_steps(start, "r1"), run="r2", owner="ann", emulated=True)

    def probe(number: int, node: SmallNode) -> bool:
        killed = kill(number, node, script, ["sh"])
        assert_nothing_half_written(node, start, fresh)
        answers = node.converge(undo_steps(node, "r1"), run="r3")
        assert Outcome.REFUSED not in {answer.outcome for answer in answers}
        assert node.snapshot() == fresh.snapshot()
        return killed

    assert for_each_kill(start, probe) > 10


@pytest.mark.parametrize("kill", WAYS[1:])
def test_remove(start: SmallNode, kill: Kill) -> None:
    start.converge(WISH)
    script = render(remove_steps(start), run="r2", owner="ann", emulated=True, everything=True)

    def probe(number: int, node: SmallNode) -> bool:
        killed = kill(number, node, script, ["sh"])
        steps = remove_steps(node) if node.path(f"{STATE}/manifest").exists() else []
        answers = node.converge(steps, run="r3", everything=True)
        assert Outcome.REFUSED not in {answer.outcome for answer in answers}
        left = [path for path in node.root.rglob("*") if "rackready" in path.name]
        assert left == [node.path("/.rackready-emulated")]
        return killed

    assert for_each_kill(start, probe) > 10
