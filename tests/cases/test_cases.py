"""Bug cases and healthy controls in true formats: a folder each, with what is expected."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import captures
import pytest
from score import score

from rackready.diagnose import diagnose, pile_of
from rackready.finding import Finding
from rackready.policy import Policy

HERE = Path(__file__).parent
CASES = sorted(path.parent for path in HERE.glob("*/expected.json"))
PRIVATE = ("expected.json", "policy.yaml")


def texts(case: Path) -> list[tuple[str, str]]:
    return [
        (path.relative_to(case).as_posix(), path.read_text())
        for path in sorted(case.rglob("*"))
        if path.is_file() and path.name not in PRIVATE
    ]


def policy_of(case: Path) -> Policy:
    path = case / "policy.yaml"
    return Policy.from_file(path) if path.exists() else Policy()


def shown(findings: Sequence[Finding]) -> str:
    return "\n".join(
        f"{f.verdict.value} {f.check} {f.case} [{f.host}] {f.subject}: {f.message}"
        for f in findings
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Path) -> None:
    pile = pile_of(texts(case))
    findings = diagnose(pile, captures.profiles(), policy_of(case), captures.TODAY).findings
    assert not [finding for finding in findings if finding.case == "internal"]
    wrong = score(findings, json.loads(case.joinpath("expected.json").read_text()))
    assert not wrong, "\n".join([*wrong, shown(findings)])
