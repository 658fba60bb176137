"""Judge captures that were made before: no host is asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from rich.console import Console

from rackready.catalog import load_profiles
from rackready.facts.capture import LARGEST, read_capture
from rackready.finding import worst
from rackready.judge import judge, judge_rack
from rackready.policy import Policy
from rackready.report import NodeReport, Report
from rackready.report.table import print_report, printable


def check_captures(paths: Sequence[Path], policy: Policy, as_json: bool, console: Console) -> int:
    """
    Judge captures, several of them as one rack.

    Exit status: 0: every node reaches the goal; 1: one does not; 2: a file is no capture.
    """
    profiles, judgements, unreadable = load_profiles(), [], []
    for path in paths:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)  # enough to see that it is too large
        capture = read_capture(data, path.name.removesuffix(".capture"))
        if not capture.evidence:
            unreadable.append(f"{path}: {capture.gaps[0].reason if capture.gaps else 'empty'}")
            continue
        judgements.append(judge(capture.host, capture, profiles, policy, date.today()))
    rack = judge_rack(judgements, len(paths)) if len(paths) > 1 else []
    findings = [finding for item in judgements for finding in item.findings]
    if as_json:
        told = {
            "verdict": worst([*findings, *rack]).value,
            "nodes": {item.view.node.name: item.verdict.value for item in judgements},
            "findings": [finding.as_dict() for finding in [*findings, *rack]],
            "unreadable": unreadable,
        }
        print(json.dumps(told, indent=1))
    else:
        nodes = [
            NodeReport(
                name=item.view.node.name,
                product=item.view.product,
                verdict=item.verdict,
                reached_goal=item.verdict.reaches(policy.goal),
                findings_after=item.findings,
            )
            for item in judgements
        ]
        if nodes:
            report = Report("", "check", policy.goal, "", 0, False, nodes, rack)
            print_report(report, console)
        for line in unreadable:
            console.print(printable(line), markup=False, soft_wrap=True)
    if unreadable:
        return 2
    return int(not all(item.verdict.reaches(policy.goal) for item in judgements))
