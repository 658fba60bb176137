"""The wheel: it holds every file of the packages, and a run from it is a whole one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAPPED = ("deploys", "facts", "operations", "profiles", "templates")


def files() -> list[str]:
    """What belongs to the project here, whether committed yet or not."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: setuptools would put what an earlier build left behind into it."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in files():
        target = folder / "source" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder],
        cwd=folder / "source",
        check=True,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment that holds the wheel and what it says that it needs."""
    venv = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = venv / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", wheel)
    done = subprocess.run(pip, capture_output=True, text=True)
    if done.returncode and any(sign in done.stderr for sign in ("NewConnection", "resolution")):
        pytest.skip("packages can't be fetched without a network")
    assert done.returncode == 0, done.stderr
    return python


def test_wheel_holds_every_file(wheel: Path) -> None:
    expected = {
        name if name.startswith("rackready/") else f"rackready/{name}"
        for name in files()
        if name.split("/")[0] in (*MAPPED, "rackready")
    }
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert found == expected


def test_licence_and_commands(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
        text = archive.read(entry_points).decode()
    assert any(name.endswith("LICENSE") for name in names)
    assert "rackready = rackready.cli:main" in text
    assert "[pyinfra.connectors]" in text


def test_checkout_is_unknown_to_it(python: Path, tmp_path: Path) -> None:
    code = "import rackready, rackready.facts.model as m; print(rackready.__file__, m.__file__)"
    done = subprocess.run(
        [python, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    for path in done.stdout.split():
        assert Path(path).is_relative_to(python.parents[1])


def test_ssh_sockets_do_not_delay(python: Path, tmp_path: Path) -> None:
    """Importing pyinfra's connectors, as each run does, is enough."""
    code = """
import socket
from pyinfra.api.connectors import get_all_connectors
get_all_connectors()
import paramiko
with socket.create_server(("127.0.0.1", 0)) as server:
    with socket.create_connection(server.getsockname()) as client:
        assert not client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        paramiko.Transport(client)
        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
"""
    subprocess.run([python, "-c", code], cwd=tmp_path, check=True)


def test_main_job_in_another_folder(python: Path, tmp_path: Path) -> None:
    shutil.copy(ROOT / "inventory.py", tmp_path)
    (deploy,) = python.parents[1].glob("lib/*/site-packages/rackready/deploys/metax_node.py")
    done = subprocess.run(
        [python, "-m", "pyinfra", "inventory.py", deploy, "-y"],
        cwd=tmp_path,
        env=os.environ | {"RACKREADY_EMULATOR_DIR": str(tmp_path / "nodes")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (report,) = tmp_path.glob("runs/*/report.json")
    nodes = json.loads(report.read_text())["nodes"]
    assert len(nodes) == 3
    assert all(node["reached_goal"] for node in nodes)
