"""Fixtures; and where ``CI`` is set, a skip that allowed_skips.txt does not name fails the run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import settings
from sshd import Sshd, running
from sshd import find as find_sshd

# How long an example takes says more of the machine than of the code.
settings.register_profile("rackready", deadline=None)
settings.load_profile("rackready")

_ALLOWED = Path(__file__).with_name("allowed_skips.txt")
_skipped: list[str] = []


def allowed_skips() -> Iterator[str]:
    for line in _ALLOWED.read_text().splitlines():
        pattern = line.partition("#")[0].strip()
        if pattern:
            yield pattern


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _skipped.append(report.nodeid)


def _forbidden() -> list[str]:
    if not os.environ.get("CI"):
        return []
    allowed = list(allowed_skips())
    return [test for test in _skipped if not any(fnmatchcase(test, p) for p in allowed)]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _forbidden() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for test in _forbidden():
        terminalreporter.write_line(f"{test}: skipped, and not in tests/allowed_skips.txt")


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    if not find_sshd():
        pytest.skip("no sshd (openssh-server)")
    with running(tmp_path_factory.mktemp("sshd")) as server:
        yield server
