"""Captures of machines that are well, real and emulated: nothing fails or is suspicious."""

from __future__ import annotations

from pathlib import Path

import captures
import pytest

from rackready.facts.capture import read_capture
from rackready.finding import Verdict
from rackready.judge import judge
from rackready.policy import Policy

NODES = Path(__file__).parents[2] / "rackready" / "emulator" / "nodes"
SAMPLES = Path(__file__).parents[1] / "samples" / "captures"


@pytest.mark.parametrize("name", sorted(path.stem for path in SAMPLES.glob("*.capture")))
def test_a_healthy_machine_is_clean(name: str) -> None:
    capture = read_capture(SAMPLES.joinpath(f"{name}.capture").read_bytes(), name)
    judgement = judge(name, capture, captures.profiles(), Policy(), captures.TODAY)
    assert judgement.view.profile is not None
    assert judgement.view.profile.name == "NVIDIA H200"
    bad = (Verdict.WARN, Verdict.ERROR, Verdict.FAIL)
    assert not [finding for finding in judgement.findings if finding.verdict in bad]
    told = {(finding.check, finding.case) for finding in judgement.findings}
    assert told >= {("gpu.driver", "ok"), ("accelerator.count", "ok")}
    assert ("node.compute-nics", "not-needed") in told


@pytest.mark.parametrize("name", sorted(path.stem for path in NODES.glob("*.yaml")))
def test_a_healthy_emulated_node_is_clean(name: str) -> None:
    judgement = judge(name, captures.capture(name), captures.profiles(), Policy(), captures.TODAY)
    bad = (Verdict.WARN, Verdict.ERROR, Verdict.FAIL)
    assert not [finding for finding in judgement.findings if finding.verdict in bad]
