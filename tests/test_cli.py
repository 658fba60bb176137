"""The command ``rackready``, where it is more than the function that it calls."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from rackready import __version__
from rackready.cli import main


def run(*words: str, text: str = "") -> tuple[int, str]:
    done = CliRunner().invoke(main, words, input=text)
    return done.exit_code, done.output


def test_version() -> None:
    assert run("--version") == (0, f"{__version__}\n")


def test_unknown_check_names_the_nearest() -> None:
    status, output = run("explain", "pcie.max-read-requets")
    assert status == 2
    assert "pcie.max-read-request" in output


def test_profiles() -> None:
    status, output = run("profiles")
    assert status == 0
    assert "MetaX C500" in output


def test_inventory_is_not_overwritten(tmp_path: Path) -> None:
    rack = tmp_path / "rack.py"
    words = ("inventory", "-", "-o", str(rack))
    assert run(*words, text="c1\n") == (0, "")
    status, output = run(*words, text="c2\n")
    assert status == 2
    assert "--force" in output
    assert '"c1"' in rack.read_text()
    assert run(*words, "--force", text="c2\n") == (0, "")
    assert '"c2"' in rack.read_text()


def test_inventory_of_nothing() -> None:
    status, output = run("inventory", "c[1-")
    assert status == 2
    assert "node set:1:" in output
