"""The real pyinfra command on the embedded rack, in folders of the test's own."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PYINFRA = Path(sys.executable).with_name("pyinfra")


@dataclass
class Outcome:
    """One pyinfra command that has ended."""

    status: int
    output: str
    errors: str
    folder: Path | None  # of the run

    @property
    def report(self) -> dict[str, Any]:
        assert self.folder is not None, self.output + self.errors
        loaded: dict[str, Any] = json.loads((self.folder / "report.json").read_text())
        return loaded

    @property
    def nodes(self) -> dict[str, dict[str, Any]]:
        return {node["name"]: node for node in self.report["nodes"]}

    @property
    def retry(self) -> list[str]:
        assert self.folder is not None
        return (self.folder / "retry").read_text().split()


class Rack:
    """Runs pyinfra with emulated nodes and reports below one folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.trees = folder / "emulated"
        self.environment = os.environ | {
            "RACKREADY_EMULATOR_DIR": str(self.trees),
            "RACKREADY_RUNS": str(folder / "runs"),
            "COLUMNS": "200",
        }

    def start(
        self,
        inventory: str | Path,
        deploy: str = "metax_node",
        *options: str,
        wrap: tuple[str, ...] = (),
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*wrap, PYINFRA, inventory, f"deploys/{deploy}.py", "-y", *options],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A shell starts background jobs with SIGINT ignored, and pyinfra would inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    def finish(self, process: subprocess.Popen[str], before: set[Path]) -> Outcome:
        output, errors = process.communicate(timeout=120)
        folders = sorted(self.runs() - before)
        return Outcome(process.returncode, output, errors, folders[-1] if folders else None)

    def run(
        self,
        inventory: str | Path,
        deploy: str = "metax_node",
        *options: str,
        wrap: tuple[str, ...] = (),
    ) -> Outcome:
        before = self.runs()
        return self.finish(self.start(inventory, deploy, *options, wrap=wrap), before)

    def runs(self) -> set[Path]:
        return set((self.folder / "runs").glob("*"))

    def inventory(self, hosts: list[Any]) -> Path:
        """An inventory file of these hosts."""
        path = self.folder / f"inventory{len(list(self.folder.glob('inventory*')))}.py"
        path.write_text(f"rack = {hosts!r}\n")
        return path


def snapshot(tree: Path, times: bool = True, ours: bool = True) -> dict[str, tuple[Any, ...]]:
    """Everything below a folder: kind, mode, content, and the time of the last change.

    Without ``ours``: not what rackready keeps about its own work.
    """
    seen = {}
    for folder, folders, files in os.walk(tree):
        for name in [*folders, *files]:
            path = Path(folder, name)
            relative = str(path.relative_to(tree))
            if not ours and (
                relative.startswith("var/lib/rackready") or relative == "run/rackready.lock"
            ):
                continue
            status = path.lstat()
            if path.is_symlink():
                content = os.readlink(path)
            elif path.is_file():
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                content = ""
            seen[relative] = (status.st_mode, content, *((status.st_mtime_ns,) if times else ()))
    return seen


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Rack:
    return Rack(tmp_path_factory.mktemp("rack"))
