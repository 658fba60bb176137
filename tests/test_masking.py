"""A masked capture gives the same verdict as the capture itself."""

from __future__ import annotations

from typing import Any

import captures
import pytest

from rackready.emulator.description import description_names
from rackready.facts.capture import read_capture
from rackready.facts.mask import mask
from rackready.judge import judge
from rackready.policy import Policy

FAULTS: dict[str, dict[str, Any]] = {
    "max-read-request": {"max_read_request": {"0000:1b:00.0": 4096}},
    "max-payload": {"max_payload": 128},
    "peer-memory": {"peer_memory": "refused"},
    "gid": {"gid": "extra-link-local"},
    "traffic-class": {"traffic_class": "missing"},
    "hung-tool": {"hung_tool": "mx-smi"},
    "missing": {"accelerator_missing": 3},
    "unavailable": {"accelerator_unavailable": 1},
}
NODES = [
    *(pytest.param(name, {}, id=name) for name in description_names()),
    *(pytest.param("c500x8-4nic", faults, id=name) for name, faults in FAULTS.items()),
]


def verdicts(text: str) -> list[tuple[str, ...]]:
    # What a site wants is not masked: private networks stay as they are.
    policy = Policy(gid_index=3, traffic_class=160, compute_nics=None, rdma_subnet="10.0.0.0/8")
    result = judge("n", read_capture(text, "n"), captures.profiles(), policy, captures.TODAY)
    told = [
        (f.check, f.case, f.verdict.value, f.subject, f.observed, f.expected)
        for f in result.findings
    ]
    return [(result.verdict.value,), *told]


@pytest.mark.parametrize(("description", "faults"), NODES)
def test_verdict_stays(description: str, faults: dict[str, Any]) -> None:
    text = captures.capture_text(description, faults)
    masked = mask(text)
    assert masked != text
    assert verdicts(masked) == verdicts(text)
