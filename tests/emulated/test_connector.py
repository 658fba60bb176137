"""The connector: that a command runs in the tree, and nowhere else."""

from __future__ import annotations

import io
import os
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyinfra.api.command import StringCommand
from pyinfra.api.exceptions import ConnectError

from rackready.emulator.connector import NO_TREE, EmulatedConnector

ALL_BYTES = "".join(f"\\{byte:03o}" for byte in range(256))


def connector(name: str = "node", **data: Any) -> EmulatedConnector:
    host: Any = SimpleNamespace(name=name, data=data, print_prefix="")
    state: Any = None
    return EmulatedConnector(state, host)


def connected(name: str = "c500x8-4nic", **data: Any) -> EmulatedConnector:
    node = connector(name, **data)
    node.connect()
    return node


def run(node: EmulatedConnector, command: str, **arguments: Any) -> tuple[bool, list[str]]:
    status, output = node.run_shell_command(StringCommand(command), **arguments)
    return status, output.stdout_lines


def test_names() -> None:
    assert list(EmulatedConnector.make_names_data("healthy")) == [
        ("healthy", {}, ["@emulated", "@emulated/healthy"])
    ]


def test_runs_in_the_tree(work_folder: Path) -> None:
    node = connected("a-node", emulated="c500x8-2dual")
    tree = str(work_folder / "a-node")
    assert run(node, 'echo "$RACKREADY_ROOT" $RACKREADY_EMULATED "$HOME"; pwd') == (
        True,
        [f"{tree} 1 {tree}/root", tree],
    )
    assert run(node, "cat proc/sys/kernel/hostname") == (True, ["a-node"])
    assert len(node.executed) == 2


def test_arguments() -> None:
    node = connected()
    assert run(node, "cat", _stdin="one\ntwo")[1] == ["one", "two"]
    assert run(node, "cat", _stdin=["one", "two"])[1] == ["one", "two"]
    assert run(node, "cat", _stdin=io.StringIO("one\ntwo"))[1] == ["one", "two"]
    assert run(node, "cat")[1] == []
    assert run(node, "exit 3") == (False, [])
    assert run(node, "exit 3", _success_exit_codes=[3]) == (True, [])
    assert run(node, "echo $WORD; pwd", _env={"WORD": "a 'b"}, _chdir="/") == (True, ["a 'b", "/"])
    assert run(node, "echo fine", _sudo=True, _sudo_user="nobody", _su_user="x")[1] == ["fine"]


def test_much_input_that_nobody_reads() -> None:
    assert run(connected(), "echo fine", _stdin="x" * 1_000_000) == (True, ["fine"])


def test_much_input_and_output_at_once() -> None:
    text = "0123456789" * 20_000
    assert run(connected(), "cat", _stdin=[text] * 5)[1] == [text] * 5


@pytest.mark.parametrize("gone", ["marker", "tree"])
def test_without_its_mark_nothing_runs(gone: str, tmp_path: Path) -> None:
    node = connected()
    assert node.tree is not None
    witness = tmp_path / "witness"
    if gone == "marker":
        (node.tree / ".rackready-emulated").unlink()
    else:
        node.tree.rename(tmp_path / "moved")
    status, output = node.run_shell_command(
        StringCommand(f"echo written >{witness}"), _success_exit_codes=[NO_TREE]
    )
    assert status
    assert "there is no emulated node in" in output.stderr
    assert not witness.exists()


def test_not_connected() -> None:
    with pytest.raises(ConnectError):
        run(connector(), "true")


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ({"emulated": "c500x8-4nic", "faults": {"unreachable": True}}, "no route to host"),
        ({"emulated": "c500x8-4nics"}, "did you mean 'c500x8-4nic'"),
        ({}, "no description of a node 'node'"),
        ({"emulated": "c500x8-4nic", "faults": {"garbige": True}}, "did you mean 'garbage'"),
    ],
)
def test_connect_errors(data: dict[str, Any], error: str) -> None:
    with pytest.raises(ConnectError, match=error):
        connector(**data).connect()


def test_unwritable_work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RACKREADY_EMULATOR_DIR", str(tmp_path / "file" / "below"))
    with pytest.raises(ConnectError, match="Not a directory"):
        connector("c500x8-4nic").connect()


def test_bytes_that_are_not_text() -> None:
    status, lines = run(connected(), f"printf '{ALL_BYTES}'; echo; echo fine")
    assert status
    assert lines[-1] == "fine"


def test_garbage() -> None:
    node = connected("node", emulated="c500x8-4nic", faults={"garbage": True})
    status, output = node.run_shell_command(StringCommand("echo fine"), _stdin="a script")
    assert status
    assert "fine" not in output.stdout
    assert len(output.stdout) > 64 * 1024  # more than a pipe holds


def test_noise_comes_first() -> None:
    node = connected("node", emulated="c500x8-4nic", faults={"noise": True})
    lines = run(node, "cat", _stdin="the script")[1]
    assert lines[0] == "Welcome to an emulated node"
    assert lines[-1].endswith("the script")


def test_hung_tool_and_timeout() -> None:
    node = connected("node", emulated="c500x8-4nic", faults={"hung_tool": "mx-smi"})
    assert node.tree is not None
    pid_file = node.tree / "tmp/pid"
    with pytest.raises(TimeoutError):
        run(node, 'echo $$ >tmp/pid; "$RACKREADY_ROOT"/opt/mxdriver/bin/mx-smi', _timeout=1)
    _wait_until_gone(int(pid_file.read_text()))


def _wait_until_gone(pid: int) -> None:
    """The processes of a session that was killed go away by and by."""
    for _ in range(1000):
        if not _alive_in_session(pid):
            return
        time.sleep(0.01)
    raise AssertionError(f"processes of session {pid} are still there")


def _alive_in_session(session: int) -> list[int]:
    alive = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, its = entry.joinpath("stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if int(its) == session and state != "Z":
                alive.append(int(entry.name))
    return alive


def test_any_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole of it works without privileges: in a child that gives them up."""
    connected()  # reads what it needs of the package, which may lie where only root can read
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        monkeypatch.setenv("RACKREADY_EMULATOR_DIR", f"{folder}/nodes")
        assert _in_child_without_privileges() == 0
        assert Path(folder, "nodes/c500x8-4nic/.rackready-emulated").exists()


def _in_child_without_privileges() -> int:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            good, lines = run(connected(), "id -u; cat sys/bus/pci/devices/0000:1b:00.0/vendor")
            status = 0 if good and lines[1] == "0x15b3" else 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_files_are_not_copied() -> None:
    node = connected()
    for method in (node.put_file, node.get_file):
        with pytest.raises(NotImplementedError, match="emulated nodes"):
            method("from", "to")
