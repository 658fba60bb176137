"""
Bug cases and healthy controls in true formats: a folder each, with what is expected.

Each is also judged after changes that keep its meaning (variants.py), and after its fault is taken
away: ``healed.yaml`` says how, by file: ``replace`` (old: new), another ``text``, or ``drop``; a
file that is not there is added. Then nothing may fail, whatever keeps its meaning is changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import captures
import pytest
import yaml
from score import score
from variants import VARIANTS, Texts, Told

from rackready.diagnose import diagnose
from rackready.finding import Finding, Verdict
from rackready.policy import Policy

HERE = Path(__file__).parent
CASES = sorted(path.parent for path in HERE.glob("*/expected.json"))
PRIVATE = ("expected.json", "policy.yaml", "healed.yaml")


def told(case: Path) -> Told:
    texts = [
        (path.relative_to(case).as_posix(), path.read_text())
        for path in sorted(case.rglob("*"))
        if path.is_file() and path.name not in PRIVATE
    ]
    policy = case / "policy.yaml"
    expected = case.joinpath("expected.json").read_text()
    return Told(texts, expected, policy.read_text() if policy.exists() else "{}")


def findings(texts: Texts, policy: str) -> tuple[Finding, ...]:
    wished = Policy.from_data(yaml.safe_load(policy) or {}, "policy")
    found = diagnose(captures.pile(texts), captures.profiles(), wished, captures.TODAY).findings
    assert not [finding for finding in found if finding.case == "internal"], shown(found)
    return found


def shown(found: Sequence[Finding]) -> str:
    return "\n".join(
        f"{f.verdict.value} {f.check} {f.case} [{f.host}] {f.subject}: {f.message}" for f in found
    )


def assert_right(case: Told) -> None:
    found = findings(case.texts, case.policy)
    wrong = score(found, json.loads(case.expected))
    assert not wrong, "\n".join([*wrong, shown(found)])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Path) -> None:
    assert_right(told(case))


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_variant(case: Path, variant: Callable[[Told], Told]) -> None:
    changed = variant(told(case))
    if changed != told(case):
        assert_right(changed)


def healed(case: Path) -> Told:
    edits = yaml.safe_load(case.joinpath("healed.yaml").read_text())
    texts = dict(told(case).texts)
    for name, edit in edits.items():
        if edit == "drop":
            del texts[name]
            continue
        text = edit.get("text", texts.get(name, ""))
        for old, new in edit.get("replace", {}).items():
            assert old in text, f"{case.name}: no {old!r} in {name}"
            text = text.replace(old, new)
        texts[name] = text
    return replace(told(case), texts=list(texts.items()))


def is_faulty(case: Path) -> bool:
    return json.loads(case.joinpath("expected.json").read_text())["worst"] not in ("ok", ["ok"])


FAULTY = list(filter(is_faulty, CASES))


def assert_nothing_wrong(case: Told) -> None:
    found = findings(case.texts, case.policy)
    wrong = [f for f in found if f.verdict in (Verdict.FAIL, Verdict.WARN)]
    assert not wrong, shown(found)


@pytest.mark.parametrize("case", FAULTY, ids=lambda case: case.name)
def test_healed(case: Path) -> None:
    assert_nothing_wrong(healed(case))


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
@pytest.mark.parametrize("case", FAULTY, ids=lambda case: case.name)
def test_healed_variant(case: Path, variant: Callable[[Told], Told]) -> None:
    changed = variant(healed(case))
    if changed != healed(case):
        assert_nothing_wrong(changed)


def test_texts_that_are_renamed_tell_something_else() -> None:
    """Each variant changes some case, or it would test nothing."""
    for variant in VARIANTS:
        assert any(variant(told(case)) != told(case) for case in CASES), variant.__name__
