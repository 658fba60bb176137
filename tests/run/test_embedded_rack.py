"""The main job on both embedded inventories: verdicts, second run, dry run, undo, removal."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path

import pytest
import yaml
from run.conftest import ROOT, Outcome, Rack, snapshot

EXPECTED = yaml.safe_load(Path(__file__).with_name("expected.yaml").read_text())


def keeps_from_goal(node: dict) -> set[str]:
    return {
        finding["check"]
        for finding in node["findings_after"]
        if finding["verdict"] in ("fail", "error") and not finding.get("waived")
    }


def judge(outcome: Outcome, expected: dict) -> None:
    assert outcome.status == expected["status"], outcome.output + outcome.errors
    assert set(outcome.nodes) == set(expected["nodes"])
    for name, wanted in expected["nodes"].items():
        node = outcome.nodes[name]
        assert node["verdict"] == wanted["verdict"], name
        assert node["reached_goal"] is wanted["reached_goal"], name
        assert keeps_from_goal(node) == set(wanted.get("keeps", [])), name
        assert wanted.get("error", "") in (node["error"] or ""), name
        assert bool(node["error"]) is bool(wanted.get("error")), name
        for words in wanted.get("words", []):
            assert words in str(node["findings_after"]), (name, words)
        waived = {item["check"] for item in node["findings_after"] if item.get("waived")}
        assert waived == set(wanted.get("waived", [])), name
    missed = [name for name, node in outcome.nodes.items() if not node["reached_goal"]]
    assert outcome.retry == [f"@emulated/{name}" for name in missed]


@pytest.fixture(scope="module")
def first(rack: Rack) -> Outcome:
    rack.before = None
    rack.run("inventory.py", "inspect")  # builds the trees
    rack.before = {name: snapshot(rack.trees / name) for name in EXPECTED["inventory.py"]["nodes"]}
    return rack.run("inventory.py")


def test_first_run_brings_every_node_to_its_goal(first: Outcome) -> None:
    judge(first, EXPECTED["inventory.py"])
    node = first.nodes["max-read-request"]
    values = [change for change in node["changed"] if change.get("before")]
    assert [(item["subject"], item["before"], item["after"]) for item in values] == [
        ("0000:2d:00.1", "4096 B", "256 B")
    ]
    before = [item["case"] for item in node["findings_before"] if item["verdict"] == "fail"]
    assert before == ["too-large"]
    assert node["open"] == []
    for name in ("healthy", "bios-max-payload"):
        assert first.nodes[name]["changed"] == []


def test_looking_changes_nothing(rack: Rack, first: Outcome) -> None:
    assert rack.before is not None
    for name in ("healthy", "bios-max-payload"):
        assert snapshot(rack.trees / name) == rack.before[name]


def test_second_run_changes_nothing(rack: Rack, first: Outcome) -> None:
    trees = snapshot(rack.trees)
    second = rack.run("inventory.py")
    judge(second, EXPECTED["inventory.py"])
    assert all(node["changed"] == [] for node in second.nodes.values())
    assert snapshot(rack.trees) == trees


def test_assets(first: Outcome) -> None:
    assert first.folder is not None
    rows = list(csv.DictReader((first.folder / "assets.csv").open()))
    kinds = {
        kind: [row for row in rows if row["kind"] == kind] for kind in ("accelerator", "NIC port")
    }
    assert len(kinds["accelerator"]) == 24
    assert all(row["serial"] and row["firmware"] for row in kinds["accelerator"])
    assert {row["role"] for row in kinds["NIC port"]} == {"compute", "other", "management"}


def test_captures_of_a_run_are_judged_alike(rack: Rack, first: Outcome) -> None:
    assert first.folder is not None
    captures = sorted((first.folder / "captures").iterdir())
    assert [path.name for path in captures] == [
        "bios-max-payload.before.capture",
        "healthy.before.capture",
        "max-read-request.after.capture",
        "max-read-request.before.capture",
    ]


def test_dry_run_plans_and_opens_nothing_for_writing(rack: Rack, first: Outcome) -> None:
    if shutil.which("strace") is None:
        pytest.skip("no strace")
    inventory = rack.inventory(
        [
            (
                "@emulated/dry",
                {"emulated": "c500x8-2dual", "faults": {"max_read_request": {"mlx5_0": 512}}},
            )
        ]
    )
    rack.run(inventory, "inspect")
    trees = snapshot(rack.trees)
    trace = rack.folder / "trace"
    calls = "open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,link,linkat"
    calls += ",symlink,symlinkat,chmod,fchmodat,truncate,utimensat"
    wrap = ("strace", "-f", "-qq", "-e", f"trace={calls}", "-o", str(trace))
    dry = rack.run(inventory, "metax_node", "--dry", wrap=wrap)
    tree = re.escape(str(rack.trees / "dry"))
    writing = [
        line
        for line in trace.read_text(errors="replace").splitlines()
        if (re.search(tree, line) and not re.search(r"\bopen(at)?\(", line))
        or re.search(rf"{tree}.*O_(WRONLY|RDWR|CREAT)", line)
    ]
    assert writing == []
    assert snapshot(rack.trees) == trees
    assert dry.status == 1
    assert "to do: pcie.max-read-request: 0000:2d:00.0: 512 B -> 256 B" in dry.output
    node = dry.nodes["dry"]
    assert (node["changed"], node["reached_goal"]) == ([], False)
    assert [line.partition(" -> ")[0] for line in node["open"]] == [
        "pcie.max-read-request: 0000:2d:00.0: 512 B"
    ]
    assert dry.report["run"]["dry"] is True


def test_faults_are_found_with_their_causes(rack: Rack) -> None:
    judge(rack.run("inventories/faults.py"), EXPECTED["inventories/faults.py"])


def test_undo_is_byte_for_byte(rack: Rack, first: Outcome) -> None:
    assert rack.before is not None
    undone = rack.run("inventory.py", "undo", "--data", f"run={first.report['run']['id']}")
    assert undone.status == 0, undone.output
    assert len(undone.nodes["max-read-request"]["changed"]) > 5
    tree = rack.trees / "max-read-request"
    now = {path: entry[:2] for path, entry in snapshot(tree, ours=False).items()}
    before = {path: entry[:2] for path, entry in rack.before["max-read-request"].items()}
    own = {path for path in set(now) - set(before) if "rackready" in path}
    assert own == set()
    assert now == {path: entry for path, entry in before.items()}
    unnamed = rack.run("inventory.py", "undo")
    assert unnamed.status == 1
    assert "name what to undo: --data run=RUN" in unnamed.output
    unknown = rack.run("inventory.py", "undo", "--data", "run=20000101-000000")
    assert unknown.status == 1
    assert "no journal has anything of run 20000101-000000" in unknown.output


def test_removal_leaves_nothing_of_ours(rack: Rack, first: Outcome) -> None:
    assert rack.before is not None
    inventory = rack.inventory(
        [
            (
                "@emulated/removal",
                {"emulated": "c500x8-2dual", "faults": {"max_read_request": {"mlx5_1": 4096}}},
            )
        ]
    )
    rack.run(inventory, "inspect")
    tree = rack.trees / "removal"
    before = snapshot(tree, times=False)
    assert rack.run(inventory).status == 0
    removed = rack.run(inventory, "remove")
    assert removed.status == 0, removed.output
    assert "stays until a reboot, unless you undo first: 0000:2d:00.1: 256 (was 4096)" in (
        removed.output
    )
    now = snapshot(tree, times=False)
    assert [path for path in now if "rackready" in path.removeprefix(".rackready-emulated")] == []
    assert set(now) == set(before)
    differing = [path for path in now if now[path] != before[path]]
    # the value that was set stays until a reboot
    assert [Path(path).name for path in differing] == ["config"]
    again = rack.run(inventory, "remove")
    assert (again.status, again.nodes["removal"]["changed"]) == (0, [])


def test_removal_after_undo_leaves_nothing_either(rack: Rack) -> None:
    faults = {"max_read_request": {"mlx5_1": 4096}}
    inventory = rack.inventory([("@emulated/both", {"emulated": "c500x8-2dual", "faults": faults})])
    rack.run(inventory, "inspect")
    before = snapshot(rack.trees / "both", times=False)
    run = rack.run(inventory).report["run"]["id"]
    assert rack.run(inventory, "undo", "--data", f"run={run}").status == 0
    twice = rack.run(inventory, "undo", "--data", f"run={run}")
    assert (twice.status, twice.nodes["both"]["changed"]) == (0, [])
    assert rack.run(inventory, "remove").status == 0
    assert snapshot(rack.trees / "both", times=False) == before


def test_file_changed_by_hand_is_shown_backed_up_and_written_again(rack: Rack) -> None:
    inventory = rack.inventory(
        [
            (
                "@emulated/edited",
                {"emulated": "c500x8-2dual", "faults": {"max_read_request": {"mlx5_1": 4096}}},
            )
        ]
    )
    assert rack.run(inventory).status == 0
    configuration = rack.trees / "edited/etc/rackready/max-read-request.conf"
    good = configuration.read_text()
    configuration.write_text(good.replace("256", "512"))
    seen = rack.run(inventory, "inspect")
    assert seen.status == 1
    assert keeps_from_goal(seen.nodes["edited"]) == {"pcie.max-read-request"}
    mended = rack.run(inventory)
    assert mended.status == 0, mended.output
    for line in ("-0000:2d:00.0 15b3:1021 512", "+0000:2d:00.0 15b3:1021 256"):
        assert f"\n{line}\n" in mended.output
    assert configuration.read_text() == good
    run = f"run={mended.report['run']['id']}"
    undone = rack.run(inventory, "undo", "--data", run)
    assert undone.status == 0, undone.output
    assert configuration.read_text() == good.replace("256", "512")


def test_readme_shows_what_the_first_command_prints(first: Outcome) -> None:
    readme = (ROOT / "README.md").read_text()
    _, sample, _ = readme.partition("and exit status 0")[0].rsplit("```", 2)
    printed = [line.strip() for line in first.output.splitlines()]
    lines = [line.strip() for line in sample.splitlines()]
    assert len(lines) > 10
    assert [line for line in lines if line not in printed] == []
