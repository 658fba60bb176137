"""Findings stay readable whatever a node prints."""

from __future__ import annotations

import captures

from rackready.judge import judge
from rackready.policy import Policy

LONG = "9." * 100_000


def test_texts_of_a_node_are_cut_visibly() -> None:
    edits = [
        {"command": "cat /proc/sys/kernel/osrelease", "text": LONG},
        {"command": "ls -l /sys/class/net", "text": LONG},
        {"command": LONG, "add": True},
        {"command": LONG, "lost": "late 1"},
    ]
    made = captures.capture("c500x8-4nic", edits=edits)
    seen = judge("node", made, captures.profiles(), Policy(), captures.TODAY)
    told = [finding.as_dict() for finding in seen.findings]
    assert max(len(str(value)) for finding in told for value in finding.values()) <= 500
    cut = {str(finding["case"]) for finding in told if str(finding["subject"]).endswith(" [...]")}
    assert cut >= {"not-listed", "late"}


def test_a_node_has_a_limited_number_of_faults() -> None:
    edits = [{"command": f"tool {n}", "add": True} for n in range(300)]
    edits += [{"command": f"tool {n}", "lost": f"late {n}"} for n in range(300)]
    made = captures.capture("c500x8-4nic", edits=edits)
    seen = judge("node", made, captures.profiles(), Policy(), captures.TODAY)
    told = [finding for finding in seen.findings if finding.check == "node.probe"]
    assert len(told) == 51
    assert told[-1].message == "250 more parts could not be read or understood"
