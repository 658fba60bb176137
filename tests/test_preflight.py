"""First contact: answers of hosts -> findings."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from rackready import preflight
from rackready.finding import Finding, Verdict
from rackready.preflight import Contact

HERE = Path(__file__).parent
SCRIPT = HERE.parent / "facts" / "preflight.sh"


def brief(findings: list[Finding]) -> list[str]:
    return [
        f"{f.verdict.value} {f.check.removeprefix('preflight.')}: {f.message}" for f in findings
    ]


@pytest.mark.parametrize("path", sorted((HERE / "preflight").iterdir()), ids=lambda path: path.stem)
def test_contact(path: Path) -> None:
    case = yaml.safe_load(path.read_text())
    fields = {"asked": 1000.0, "answered": 1000.0} | case["contact"]
    fields["lines"] = tuple(fields.get("lines", "").splitlines())
    assert brief(preflight.judge(Contact("node", **fields))) == case["findings"]


@given(st.lists(st.text(max_size=30)))
def test_any_answer_is_judged(lines: list[str]) -> None:
    whole = "rackready-preflight 1", *lines, "end"
    for answer in (tuple(lines), whole):
        preflight.judge(Contact("node", lines=answer))


def test_open_files() -> None:
    contacts = [Contact(f"n{number}") for number in range(200)]
    assert preflight.judge_controller(contacts, 40, open_files=300) == []
    assert brief(preflight.judge_controller(contacts, 40, open_files=256)) == [
        "fail open-files: 256 open files allowed for 200 hosts"
    ]


def test_bastion() -> None:
    contacts = [Contact(f"n{number}", jump="bastion") for number in range(50)]
    assert preflight.judge_controller(contacts[:10], 40, open_files=1024) == []
    assert preflight.judge_controller(contacts, 10, open_files=1024) == []
    assert brief(preflight.judge_controller(contacts, 40, open_files=1024)) == [
        "warn bastion: 50 hosts behind bastion, 40 connections at once: sshd's default MaxStartups "
        "10:30:100 starts to refuse at 10"
    ]


def test_table_folds_equal_findings_worst_first() -> None:
    output = io.StringIO()
    console = Console(file=output, width=120)
    findings = [
        *(Finding("preflight.noise", Verdict.WARN, f"n{n}", "", "[b]noise") for n in (1, 2, 3)),
        Finding("preflight.lock", Verdict.FAIL, "n2", "", "held", fix="wait"),
    ]
    console.print(preflight.table(findings))
    rows = [line.split() for line in output.getvalue().splitlines()]
    assert rows[1:] == [
        ["fail", "n2", "lock", "held"],
        ["wait"],
        ["warn", "n[1-3]", "noise", "[b]noise"],
    ]


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox sh"])
def test_script_answers_whole(shell: str, tmp_path: Path) -> None:
    (tmp_path / ".rackready-emulated").touch()
    answer = subprocess.run(
        [*shell.split(), "-s"],
        stdin=SCRIPT.open(),
        env={"RACKREADY_ROOT": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert answer[0] == "rackready-preflight 1"
    assert answer[2] == "privilege emulated"
    assert answer[-1] == "end"
    assert not list(tmp_path.glob("[!.]*")), "it only reads"


def test_script_says_who_holds_the_lock(tmp_path: Path) -> None:
    lock = tmp_path / "run" / "rackready.lock"
    lock.parent.mkdir()
    lock.write_text("controller-1 ops run-7\n")
    asked = f"RACKREADY_ROOT={tmp_path} sh {SCRIPT} | grep ^lock"

    def answer(command: str) -> str:
        return subprocess.run(command, shell=True, capture_output=True, text=True).stdout

    assert answer(asked) == ""
    held = f"flock {lock} sh -c '{asked}'"
    assert answer(held) == "lock controller-1 ops run-7\n"
