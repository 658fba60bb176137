"""Checks on captures of emulated nodes; each YAML file here is a test.

``node`` and ``faults`` say which node is emulated, ``evidence`` what is altered in its capture
(see captures.edited), ``policy`` what the site wants. ``expect`` names findings that must be there,
``never`` those that must not; and the check whose folder the file is in may have no other finding
that is worse than ok. A file of a rack check has several ``nodes``, and says how many are
``expected`` when that is more.

A file with ``paste`` holds what people paste instead, by file name (``hostA/show_gids.txt``: of a
host); it goes the way of ``rackready diagnose``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import captures
import pytest
import yaml

from rackready import explain
from rackready.check import texts
from rackready.checks import all_checks
from rackready.diagnose import diagnose
from rackready.finding import Finding, NodeVerdict
from rackready.judge import Judgement, judge, judge_rack
from rackready.plan import Plan, make_plan
from rackready.policy import Policy
from rackready.profile import Conflict
from rackready.remedies import pcie

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*/*.yaml"))
# No profile of ours has such a wish: test_contested_wish makes one.
REACHED_BELOW = (("pcie.max-read-request", "contested"), ("pcie.max-payload", "contested"))
REACHED_BY_REAL_MACHINES = (("node.compute-nics", "not-needed"),)  # test_real_machines.py


def load(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(path.read_text())
    return data


def judged(data: Mapping[str, Any], name: str = "node") -> Judgement:
    made = captures.capture(data["node"], data.get("faults"), data.get("evidence", ()), name)
    policy = Policy.from_data(data.get("policy", {}), "policy")
    policy.require_checks(all_checks())
    return judge(name, made, captures.profiles(), policy, captures.TODAY)


def diagnosed(data: Mapping[str, Any]) -> list[Finding]:
    policy = Policy.from_data(data.get("policy", {}), "policy")
    policy.require_checks(all_checks())
    found = diagnose(
        captures.pile(data["paste"].items()), captures.profiles(), policy, captures.TODAY
    )
    assert not found.unread
    return list(found.findings)


def findings(data: Mapping[str, Any]) -> list[Finding]:
    if "paste" in data:
        return diagnosed(data)
    if "nodes" not in data:
        result = judged(data)
        if "verdict" in data:
            assert result.verdict is NodeVerdict(data["verdict"])
        return list(result.findings)
    seen = [judged(node, name) for name, node in data["nodes"].items()]
    return judge_rack(seen, data.get("expected", len(seen)))


def fits(finding: Finding, wanted: Mapping[str, Any]) -> bool:
    told = finding.as_dict()
    text = str(told)
    return all(
        all(word in text for word in value) if key == "words" else told.get(key, "") == value
        for key, value in wanted.items()
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_check(path: Path) -> None:
    data = load(path)
    found = findings(data)
    # A text that names a value which its case has not ends as such a finding.
    assert not [finding for finding in found if finding.case == "internal"], shown(found)
    expected = data["expect"]
    for wanted in expected:
        assert wanted.get("check", path.parent.name) in all_checks()
        wanted.setdefault("check", path.parent.name)
        assert any(fits(finding, wanted) for finding in found), (wanted, shown(found))
    for unwanted in data.get("never", ()):
        assert not [finding for finding in found if fits(finding, unwanted)], unwanted
    surprises = [
        finding
        for finding in found
        if finding.check == path.parent.name
        and finding.verdict.value not in ("ok", "skip")
        and not any(fits(finding, wanted) for wanted in expected)
    ]
    assert not surprises, shown(surprises)


def shown(found: Iterable[Finding]) -> str:
    return "\n".join(
        f"{finding.check} {finding.case} {finding.verdict.value} {finding.subject}: "
        f"{finding.message}"
        for finding in found
    )


def cases() -> Iterator[tuple[str, str]]:
    return ((check.id, name) for check in all_checks().values() for name in check.cases)


def test_every_case_is_reached() -> None:
    reached = set()
    for path in FILES:
        for wanted in load(path)["expect"]:
            check = wanted.get("check", path.parent.name)
            if "case" in wanted:
                reached.add((check, wanted["case"]))
    assert set(cases()) - reached == {*REACHED_BELOW, *REACHED_BY_REAL_MACHINES}


def test_every_case_has_a_text_and_every_text_a_case() -> None:
    domains = {check.partition(".")[0] for check in all_checks()}
    files = Path(explain.__file__).parent.joinpath("checks", "en").glob("*.yaml")
    assert {path.stem for path in files} == domains
    written = {
        (check, name)
        for domain in domains
        for check, text in texts(domain).items()
        for name in text["cases"]
    }
    assert written == set(cases())


def test_what_needs_a_person_says_how() -> None:
    for check in all_checks().values():
        for name, verdict in check.cases.items():
            words = check.text["cases"][name]
            assert verdict.value in ("ok", "skip", "warn") or words.get("fix"), (check.id, name)
            assert words.keys() <= {"message", "cause", "fix", "persistent_fix"}
        assert check.text.keys() == {"title", "why", "sources", "cases"}


def test_page_is_up_to_date() -> None:
    page = HERE.parents[1] / "docs" / "checks.md"
    assert page.read_text() == explain.page(), "python -m rackready.explain > docs/checks.md"


def test_explain() -> None:
    for check in all_checks():
        told = explain.explain(check)
        assert told.startswith(f"{check}: ")
        assert all(name in told for name in all_checks()[check].cases)
    with pytest.raises(LookupError, match=r"did you mean 'pcie\.max-payload'"):
        explain.explain("pcie.max-paylod")
    assert all(check in explain.index() for check in all_checks())


def test_an_error_within_a_check_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    data = {"node": "c500x8-4nic"}
    monkeypatch.setitem(texts("node"), "node.kernel", {"cases": {}})
    found = judged(data).findings
    assert [f.verdict.value for f in found if f.check == "node.kernel"] == ["error"]
    assert {f.check for f in found} >= {"node.kernel", "node.probe", "roce.gid-index"}


def test_contested_wish() -> None:
    """Where sources disagree a difference is no more than a warning, and nothing is changed."""
    conflict = Conflict[int].model_construct(source="another source", value=1024)
    c500 = next(profile for profile in captures.profiles() if profile.name == "MetaX C500")
    wishes = {
        name: wish.model_copy(update={"conflicts": (conflict,)})
        for name, wish in (
            ("max_read_request", c500.pcie.max_read_request),
            ("max_payload", c500.pcie.max_payload),
        )
        if wish is not None
    }
    contested = c500.model_copy(update={"pcie": c500.pcie.model_copy(update=wishes)})
    faults = {"max_read_request": {"mlx5_0": 4096}, "max_payload": 128}
    made = captures.capture("c500x8-4nic", faults)
    judgement = judge("node", made, [contested], Policy(), captures.TODAY)
    told = {(f.check, f.case, f.verdict.value) for f in judgement.findings}
    assert told >= {(*reached, "warn") for reached in REACHED_BELOW}
    assert judgement.verdict is NodeVerdict.CONFIGURED
    remedies = {pcie.CHECK: pcie.keep_max_read_request}
    assert make_plan(judgement.view, judgement.findings, Policy(), remedies) == Plan()
    judgement = judge("node", made, [contested], Policy(max_read_request=256), captures.TODAY)
    assert judgement.verdict is NodeVerdict.NOT_READY  # the site has decided
