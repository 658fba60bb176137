"""``./in-venv`` in checkouts of somebody else, with a Python that only notes what it does."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = """#!/bin/sh
echo "$*" >>"$LOG"
for last; do :; done
case $* in
"-V") echo "Python 3.12.1" ;;
"-m venv "*) mkdir "$last/bin" && cp "$0" "$last/bin/python" &&
    echo "prompt = 'rackready'" >"$last/pyvenv.cfg" ;;
"-m pip "*) echo built >"$(sed -n 's/^egg_base = //p' "$DIST_EXTRA_CONFIG")/metadata" ;;
esac
"""
# Root may write everywhere unless it gives that up.
NO_PRIVILEGE = () if os.getuid() else ("setpriv", "--bounding-set=-all", "--inh-caps=-all")


class Checkout:
    """A checkout that can't be written to."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "checkout"
        self.tools = folder / "tools"
        self.log = folder / "log"
        self.path.mkdir()
        self.tools.mkdir()
        for name in ("in-venv", "pyproject.toml"):
            shutil.copy(ROOT / name, self.path)
        for name, text in (("python3", PYTHON), ("setpci", "#!/bin/sh\n")):
            self.tools.joinpath(name).write_text(text)
            self.tools.joinpath(name).chmod(0o755)
        self.path.chmod(0o555)

    def run(self, venv: str = "") -> subprocess.CompletedProcess[str]:
        self.log.write_text("")
        return subprocess.run(
            [*NO_PRIVILEGE, self.path / "in-venv", "sh", "-c", 'echo "${PATH%%:*}"'],
            cwd=self.tools.parent,
            env={
                "PATH": f"{self.tools}:{os.environ['PATH']}",
                "LOG": str(self.log),
                "RACKREADY_VENV": venv,
            },
            capture_output=True,
            text=True,
        )

    def made(self) -> bool:
        return "-m venv" in self.log.read_text()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.mark.parametrize("exists", [False, True])
def test_an_environment_that_cannot_be_written_is_left_alone(
    checkout: Checkout, exists: bool
) -> None:
    blocked = checkout.path
    if exists:
        blocked.chmod(0o755)
        blocked = checkout.path / ".venv"
        blocked.mkdir(mode=0o555)
    done = checkout.run()
    assert done.returncode == 1
    assert done.stderr == (
        f"in-venv: {blocked} (of {getpass.getuser()}) can't be written;"
        " clone it yourself or set RACKREADY_VENV=FOLDER\n"
    )
    assert not checkout.made()


@pytest.mark.parametrize("venv", ["new/venv", "/new/venv"])
def test_an_environment_elsewhere(checkout: Checkout, tmp_path: Path, venv: str) -> None:
    done = checkout.run(str(tmp_path) + venv if venv.startswith("/") else venv)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/new/venv/bin\n"), done.stderr
    assert checkout.made()
    assert sorted(os.listdir(checkout.path)) == ["in-venv", "pyproject.toml"]
    again = checkout.run("new/venv")
    assert (again.stdout, again.stderr) == (done.stdout, "")
    assert not checkout.made()


def test_an_environment_that_is_ready_may_be_somebody_elses(checkout: Checkout) -> None:
    checkout.path.chmod(0o755)
    assert checkout.run().returncode == 0
    for path in (checkout.path / ".venv", checkout.path):
        path.chmod(0o555)
    again = checkout.run()
    assert (again.returncode, again.stderr) == (0, "")
    assert not checkout.made()


def test_a_folder_with_other_things_is_never_emptied(checkout: Checkout, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.joinpath("thesis").touch()
    done = checkout.run(str(home))
    assert done.returncode == 1
    assert f"{home} holds something else" in done.stderr
    assert os.listdir(home) == ["thesis"]


def test_an_interrupted_environment_is_made_anew(checkout: Checkout, tmp_path: Path) -> None:
    assert checkout.run("venv").returncode == 0
    tmp_path.joinpath("venv", "stamp").unlink()
    shutil.rmtree(tmp_path / "venv" / "bin")
    assert checkout.run("venv").returncode == 0
    assert checkout.made()
