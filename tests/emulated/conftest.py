from __future__ import annotations

from pathlib import Path

import pytest

import rackready.connect  # noqa: F401  # puts the hooks in place, as each pyinfra run does


@pytest.fixture(autouse=True)
def work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Trees of a test lie in a folder of its own."""
    folder = tmp_path / "emulated nodes"  # a blank: every path has to be quoted
    monkeypatch.setenv("RACKREADY_EMULATOR_DIR", str(folder))
    return folder
