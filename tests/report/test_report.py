"""Report: order, folding, files, and that report.json is as docs/report.md says."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import captures
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from rackready.change import Change, Risk
from rackready.check import View
from rackready.facts.model import Accelerator, AcceleratorStack, Node, System
from rackready.finding import Finding, NodeVerdict, Verdict
from rackready.fold import fold
from rackready.judge import judge, judge_rack
from rackready.policy import Policy
from rackready.report import NodeReport, Report, ordered
from rackready.report.captures import check_captures
from rackready.report.files import (
    ASSETS,
    write_assets,
    write_atomically,
    write_report,
)
from rackready.report.table import details, print_report

PAGE = Path(__file__).parents[2] / "docs" / "report.md"


def finding(
    host: str, verdict: Verdict = Verdict.FAIL, case: str = "too-large", **fields: Any
) -> Finding:
    values = {"subject": "0000:33:00.0", "message": f"it is {case}", "case": case, **fields}
    return Finding("pcie.max-read-request", verdict, host, **values)


def missed(name: str, *findings: Finding, **fields: Any) -> NodeReport:
    return NodeReport(name, "MetaX C500", NodeVerdict.NOT_READY, findings_after=findings, **fields)


def reached(name: str, *findings: Finding) -> NodeReport:
    return NodeReport(
        name, "MetaX C500", NodeVerdict.CONFIGURED, reached_goal=True, findings_after=findings
    )


def report(nodes: Iterable[NodeReport], rack: Iterable[Finding] = (), **fields: Any) -> Report:
    return Report(
        run="20261201-120000",
        deploy="metax_node",
        goal="configured",
        started="2026-12-01T12:00:00+00:00",
        seconds=1.5,
        dry=False,
        nodes=list(nodes),
        rack=list(rack),
        **fields,
    )


def printed(shown: Report, width: int = 120) -> str:
    stream = io.StringIO()
    print_report(shown, Console(file=stream, width=width))
    return stream.getvalue()


# --- Table


def test_worst_first() -> None:
    nodes = [
        reached("a"),
        NodeReport("b", verdict=NodeVerdict.INCONCLUSIVE),
        missed("c"),
        NodeReport("d", verdict=NodeVerdict.CONFIGURED),
        missed("a2"),
    ]
    assert [node.name for node in ordered(nodes)] == ["a2", "c", "b", "d", "a"]


def test_equal_findings_make_one_row() -> None:
    nodes = [missed(f"c500-{number:03}", finding(f"c500-{number:03}")) for number in range(1, 33)]
    nodes.append(missed("c500-040", finding("c500-040", observed="512 B")))
    nodes += [reached(f"c500-{number:03}") for number in range(50, 60)]
    text = printed(report(nodes))
    assert "c500-[001-032]" in text
    assert "c500-[050-059]" in text
    assert text.count("it is too-large") == 2
    assert text.index("c500-[001-032]") < text.index("c500-040") < text.index("c500-[050-059]")
    assert "10 of 43 nodes at the goal (configured)" in text


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], ""),
        (["n2", "n1", "n10", "m"], "m, n[1-2,10]"),
        (["c500-001", "c500-003", "c500-002"], "c500-[001-003]"),
        (["a-1", "b"], "a-1, b"),
        (["odd[1-2]", "@emulated/x", "a,b", "n*", "n1"], "n1, @emulated/x, a,b, n*, odd[1-2]"),
        (["n1", "n1"], "n1"),
    ],
)
def test_fold(names: list[str], expected: str) -> None:
    assert fold(names) == expected


@given(st.lists(st.text(max_size=12), max_size=8))
def test_fold_of_any_names(names: list[str]) -> None:
    fold(names)


def test_row_says_why_and_what_to_do() -> None:
    node = missed(
        "n1",
        finding("n1", Verdict.WARN, "smallest"),
        finding("n1", cause="the cause", fix="the fix", persistent_fix="for ever"),
        finding("n1", subject="0000:34:00.0"),
        finding("n1", waived="known (until 2026-12-31)", case="waived-one"),
        finding("n1", Verdict.OK, "ok"),
        changed=[
            Change("c", "s", "4096 B", "256 B"),
            Change("c", "/etc/x", "", "written"),
        ],
        open=["c: s: a -> b (it can disturb: reboot)"],
        error="probe lost",
    )
    assert details(node) == [
        "error: probe lost",
        "fail: pcie.max-read-request 0000:33:00.0, 0000:34:00.0: it is too-large",
        "  why: the cause",
        "  fix: the fix",
        "  for good: for ever",
        "warn: pcie.max-read-request 0000:33:00.0: it is smallest",
        "waived: pcie.max-read-request 0000:33:00.0: it is waived-one",
        "  because: known (until 2026-12-31)",
        "changed: c: s: 4096 B -> 256 B",
        "changed: 1 files and links of rackready's own",
        "open: c: s: a -> b (it can disturb: reboot)",
    ]


def test_many_subjects_are_counted() -> None:
    findings = [finding("n1", subject=f"s{number}") for number in range(9)]
    assert details(missed("n1", *findings)) == [
        "fail: pcie.max-read-request s0, s1, s2 and 6 more: it is too-large"
    ]
    different = [replace(item, message=f"{item.subject} is wrong") for item in findings]
    assert details(missed("n1", *different)) == [
        "fail: pcie.max-read-request s0, s1, s2 and 6 more",
        "  s0: s0 is wrong",
        "  s1: s1 is wrong",
        "  s2: s2 is wrong",
    ]


def test_text_of_a_node_steers_no_terminal() -> None:
    evil = "\x1b]0;title\x07[red]\udcff\r"
    text = printed(
        report([missed(evil, finding(evil, message=evil))], [finding("rack", message=evil)])
    )
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\ud800-\udfff]", text)
    assert "[red]" in text


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_text_in_the_table(name: str, message: str) -> None:
    printed(report([missed(name, finding(name, message=message), error=message)]), width=40)


def test_rack_and_problem_are_printed() -> None:
    rack = [finding("rack", Verdict.WARN, message="driver differs"), finding("rack", Verdict.OK)]
    text = printed(report([], rack, problem="interrupted"))
    assert "rack: warn: pcie.max-read-request: driver differs" in text
    assert "interrupted; 0 of 0 nodes at the goal" in text


# --- report.json


def documented() -> dict[str, dict[str, str]]:
    """Field -> type, of each table of the page."""
    found: dict[str, dict[str, str]] = {}
    section = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("### "):
            section = line[4:]
        elif section and (row := re.match(r"\| `(\w+)` \| ([^|]+) \|", line)):
            found.setdefault(section, {})[row[1]] = row[2].strip()
    return found


TABLES = documented()
PLAIN: dict[str, type | tuple[type, ...]] = {
    "text": str,
    "number": (int, float),
    "true or false": bool,
    "text or null": (str, type(None)),
}


def validate(value: Any, kind: str, where: str) -> None:
    if kind.startswith("list of "):
        assert isinstance(value, list), where
        for number, item in enumerate(value):
            validate(item, kind.removeprefix("list of "), f"{where}[{number}]")
    elif kind in PLAIN:
        assert isinstance(value, PLAIN[kind]), f"{where}: {value!r} is no {kind}"
    else:
        fields = TABLES[kind]
        assert value.keys() <= fields.keys(), where
        needed = {name for name, kind in fields.items() if not kind.endswith("?")}
        assert needed <= value.keys(), where
        for name, item in value.items():
            validate(item, fields[name].removesuffix("?"), f"{where}.{name}")


def full_report() -> Report:
    made = captures.capture("c500x8-2dual", {"max_read_request": {"mlx5_1": 4096}})
    judgement = judge("node", made, captures.profiles(), Policy(), captures.TODAY)
    change = Change("c", "s", "4096 B", "256 B", Risk.NONE, "reason", "diff")
    new = Change("c", "/etc/x", "", "written")
    node = missed(
        "node",
        *judgement.findings,
        finding("node", waived="known", observed="1 B", expected="2 B", persistent_fix="x"),
        changed=[change, new],
        open=["x"],
        error="why",
        findings_before=judgement.findings,
    )
    return report([node, NodeReport("lost")], judge_rack([judgement], 2), problem="why")


def test_report_is_as_documented(tmp_path: Path) -> None:
    write_report(tmp_path, full_report())
    written = (tmp_path / "report.json").read_bytes()
    assert written.isascii()
    told = json.loads(written)
    validate(told, "Report", "report")
    assert told["schema"] == 1
    # every documented field is really written
    seen: dict[str, set[str]] = {
        "Report": set(told),
        "run": set(told["run"]),
        "node": set(told["nodes"][0]),
        "finding": {key for item in told["nodes"][0]["findings_after"] for key in item},
        "change": {key for item in told["nodes"][0]["changed"] for key in item},
    }
    assert seen == {name: set(fields) for name, fields in TABLES.items()}


def test_bytes_of_a_node_reach_the_report(tmp_path: Path) -> None:
    write_report(tmp_path, report([missed("n1", error="\udcff\x00\u2028")]))
    told = json.loads((tmp_path / "report.json").read_bytes())
    assert told["nodes"][0]["error"] == "\udcff\x00\u2028"


def test_file_is_whole_or_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    write_atomically(path, "old")

    def no_space(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    monkeypatch.undo()
    write_atomically(path, "new", 0o600)
    assert path.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.json"]


# --- assets.csv


def rows(folder: Path, *views: View) -> list[dict[str, str]]:
    write_assets(folder, views)
    with (folder / "assets.csv").open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        assert tuple(reader.fieldnames or ()) == ASSETS
        return list(reader)


def view(description: str) -> View:
    made = captures.capture(description)
    return judge("node", made, captures.profiles(), Policy(), captures.TODAY).view


def test_assets(tmp_path: Path) -> None:
    found = rows(tmp_path, view("c500x8-2dual"))
    assert [row["kind"] for row in found] == ["machine"] + ["accelerator"] * 8 + ["NIC port"] * 6
    machine, gpu, nic = found[0], found[1], found[9]
    assert machine["serial"].startswith("EMU-")
    assert (gpu["address"], gpu["name"], gpu["model"]) == ("0000:29:00.0", "GPU 0", "MetaX C500")
    assert gpu["serial"].startswith("GPU-")
    assert (gpu["firmware"], gpu["numa_node"]) == ("1.30.0.0", "0")
    assert (nic["address"], nic["name"], nic["role"]) == (
        "0000:2d:00.0",
        "mlx5_0 ens21f0np0",
        "compute",
    )
    assert nic["slot"]
    assert nic["firmware"] == "28.39.1002"


def test_formulas_and_bytes_in_assets(tmp_path: Path) -> None:
    evil = '=cmd|"/c calc"!A1\n,\udcff'
    node = Node(
        "=node",
        system=System(hostname="+1", vendor="@x", product="y", serial="-1", bios="\tz"),
        stack=AcceleratorStack(firmware_version=evil, accelerators=(Accelerator(0, evil),)),
    )
    seen = view("c500x8-2dual")
    (machine,) = rows(
        tmp_path, replace(seen, node=node, wiring=replace(seen.wiring, accelerators=(), ports=()))
    )
    assert machine == {
        "node": "'=node",
        "kind": "machine",
        "address": "",
        "slot": "",
        "name": "'+1",
        "model": "'@x y",
        "serial": "'-1",
        "firmware": "'\tz",
        "numa_node": "",
        "role": "",
    }
    gpu = seen.wiring.accelerators[0]
    assert seen.node.pci is not None
    node = replace(
        node,
        pci=seen.node.pci,
        stack=replace(node.stack, accelerators=(Accelerator(0, evil, gpu),)),
    )
    _, first, *_ = rows(tmp_path, replace(seen, node=node))
    assert first["model"] == '\'=cmd|"/c calc"!A1\n,\\udcff'


# --- rackready check


def test_captures_are_judged_as_one_rack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "good.capture", tmp_path / "bad.capture"
    good.write_text(captures.capture_text("c500x8-4nic"))
    bad.write_text(captures.capture_text("c500x8-2dual", {"max_read_request": {"mlx5_1": 4096}}))
    stream = io.StringIO()
    console = Console(file=stream, width=120)
    assert check_captures([good], Policy(), False, console) == 0
    assert "1 of 1 nodes at the goal" in stream.getvalue()
    assert check_captures([good, bad], Policy(), True, console) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["nodes"] == {"good": "CONFIGURED", "bad": "NOT READY"}
    assert told["verdict"] == "fail"
    assert {item["host"] for item in told["findings"]} == {"good", "bad", "rack"}


def test_no_capture_is_said(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(bytes(range(256)))
    stream = io.StringIO()
    assert check_captures([path], Policy(), False, Console(file=stream, width=200)) == 2
    assert "this is no capture: no header line" in stream.getvalue()


def test_capture_that_is_cut_is_inconclusive(tmp_path: Path) -> None:
    """Wherever it is cut: never a pass."""
    text = captures.capture_text("c500x8-4nic")
    lines = text.splitlines(keepends=True)
    path = tmp_path / "cut.capture"
    for end in range(1, len(lines), len(lines) // 12):
        path.write_text("".join(lines[:end]))
        assert check_captures([path], Policy(), False, Console(file=io.StringIO())) != 0
