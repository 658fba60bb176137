"""Hosts that do not disturb each other: many, none, lost, hung, locked and interrupted ones."""

from __future__ import annotations

import fcntl
import signal
import time
from typing import Any

import pytest
from run.conftest import Rack

WRONG = {"emulated": "c500x8-2dual", "faults": {"max_read_request": {"mlx5_1": 4096}}}


def test_ten_hosts_with_two_at_a_time(rack: Rack) -> None:
    hosts: list[Any] = [
        (f"@emulated/ten-{number}", {"emulated": "c500x8-2dual"}) for number in range(8)
    ]
    hosts += [("@emulated/ten-wrong", WRONG)]
    hosts += [("@emulated/ten-away", {**WRONG, "faults": {"unreachable": True}})]
    outcome = rack.run(rack.inventory(hosts), "metax_node", "--parallel", "2")
    assert outcome.status == 1
    assert {name for name, node in outcome.nodes.items() if not node["reached_goal"]} == {
        "ten-away"
    }
    assert outcome.retry == ["@emulated/ten-away"]
    assert "ten-[0-7]" in outcome.output
    parts = {item["check"] for item in outcome.report["rack"] if item["verdict"] == "skip"}
    assert parts >= {"rack.versions"}


def test_all_hosts_unreachable(rack: Rack) -> None:
    hosts = [
        (f"@emulated/away-{number}", {**WRONG, "faults": {"unreachable": True}})
        for number in range(3)
    ]
    outcome = rack.run(rack.inventory(hosts))
    assert outcome.status == 1
    assert all(node["error"].startswith("unreachable: ") for node in outcome.nodes.values())
    assert "0 of 3 nodes at the goal" in outcome.output
    assert "Traceback" not in outcome.output + outcome.errors


@pytest.mark.parametrize("options", [(), ("--limit", "nobody")])
def test_no_host_is_a_failure(rack: Rack, options: tuple[str, ...]) -> None:
    inventory = rack.inventory([("@emulated/some", WRONG)] if options else [])
    outcome = rack.run(inventory, "metax_node", *options)
    assert outcome.status == 1
    assert outcome.report["nodes"] == []
    assert "there is no host" in outcome.output + outcome.errors


def test_part_of_the_rack_is_never_ok(rack: Rack) -> None:
    hosts = [(f"@emulated/part-{number}", {"emulated": "c500x8-2dual"}) for number in range(2)]
    outcome = rack.run(rack.inventory(hosts), "inspect", "--limit", "part-0")
    assert outcome.status == 0
    assert list(outcome.nodes) == ["part-0"]
    assert {item["verdict"] for item in outcome.report["rack"]} == {"skip"}
    assert "1 of 2 nodes seen" in str(outcome.report["rack"])


def test_hung_tool(rack: Rack) -> None:
    hosts = [
        ("@emulated/hung", {"emulated": "c500x8-2dual", "faults": {"hung_tool": "mx-smi"}}),
        ("@emulated/beside", {"emulated": "c500x8-2dual"}),
    ]
    outcome = rack.run(rack.inventory(hosts), "inspect")
    assert outcome.status == 1
    hung = outcome.nodes["hung"]
    assert hung["verdict"] == "INCONCLUSIVE"
    assert hung["seconds"] < 30
    late = [item for item in hung["findings_after"] if item.get("case") == "late"]
    assert [item["subject"] for item in late] == ["mx-smi"]
    assert outcome.nodes["beside"]["reached_goal"]


def test_noise_of_the_login_shell_is_harmless(rack: Rack) -> None:
    faults = {"noise": True, "max_read_request": {"mlx5_1": 4096}}
    inventory = rack.inventory(
        [("@emulated/noisy", {"emulated": "c500x8-2dual", "faults": faults})]
    )
    outcome = rack.run(inventory)
    assert outcome.status == 0, outcome.output
    assert "Traceback" not in outcome.output + outcome.errors


def test_lockdown_is_an_error_with_its_reason(rack: Rack) -> None:
    faults = {"lockdown": "integrity", "max_read_request": {"mlx5_1": 4096}}
    inventory = rack.inventory(
        [("@emulated/locked", {"emulated": "c500x8-2dual", "faults": faults})]
    )
    outcome = rack.run(inventory)
    assert outcome.status == 1
    node = outcome.nodes["locked"]
    refused = [item for item in node["findings_after"] if item.get("case") == "refused"]
    assert [(item["verdict"], item["subject"]) for item in refused] == [("error", "0000:2d:00.1")]
    assert "lockdown" in refused[0]["message"]
    assert [item for item in node["changed"] if item.get("before")] == []
    assert node["passes"] == 2  # what is refused is not tried again


def test_locked_node_says_who_holds_it(rack: Rack) -> None:
    inventory = rack.inventory([("@emulated/busy", WRONG)])
    rack.run(inventory, "inspect")
    path = rack.trees / "busy/run/rackready.lock"
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("night@ops7 run 20261130-010203 pid 4711 since 2026-11-30T01:02:03Z\n")
        lock.flush()
        outcome = rack.run(inventory)
    assert outcome.status == 1
    assert "locked by night@ops7 run 20261130-010203" in str(
        outcome.nodes["busy"]["findings_after"]
    )
    assert rack.run(inventory).status == 0


def test_two_runs_at_once(rack: Rack) -> None:
    inventory = rack.inventory([("@emulated/shared", WRONG)])
    before = rack.runs()
    processes = [rack.start(inventory) for _ in range(2)]
    for process in processes:
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, output + errors
    assert len(rack.runs() - before) == 2
    assert rack.run(inventory).nodes["shared"]["changed"] == []


def test_interrupt_ends_with_a_report_and_no_success(rack: Rack) -> None:
    hosts = [
        ("@emulated/slow", {"emulated": "c500x8-2dual", "faults": {"hung_tool": "mx-smi"}}),
        ("@emulated/waiting", WRONG),
    ]
    inventory = rack.inventory(hosts)
    before = rack.runs()
    process = rack.start(inventory, "metax_node", "--parallel", "1")
    deadline = time.monotonic() + 30
    while not any((run / "pyinfra.log").exists() for run in rack.runs() - before):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    outcome = rack.finish(process, before)
    assert outcome.status == 130, outcome.output + outcome.errors
    assert outcome.report["run"]["problem"] == "interrupted by SIGINT"
    assert not any(node["reached_goal"] for node in outcome.nodes.values())
    assert len(outcome.nodes) == 2


def test_wrong_policy_stops_its_node_only(rack: Rack) -> None:
    waiver = {"check": "pcie.max-paylod", "reason": "r", "until": "2099-01-01"}
    hosts = [
        ("@emulated/typo", {**WRONG, "max_read_requst": 256}),
        ("@emulated/check-typo", {**WRONG, "waive": [waiver]}),
        ("@emulated/right", {"emulated": "c500x8-2dual", "rack_unit": 7}),
    ]
    outcome = rack.run(rack.inventory(hosts))
    assert outcome.status == 1
    assert "did you mean 'max_read_request'" in outcome.nodes["typo"]["error"]
    assert "did you mean 'pcie.max-payload'" in outcome.nodes["check-typo"]["error"]
    assert outcome.nodes["right"]["reached_goal"]
    assert outcome.nodes["typo"]["changed"] == []


def test_allow_nothing_plans_and_holds_back(rack: Rack) -> None:
    inventory = rack.inventory([("@emulated/held", {**WRONG, "allow": []})])
    outcome = rack.run(inventory)
    assert outcome.status == 1
    node = outcome.nodes["held"]
    assert node["changed"] == []
    assert "--data allow=none allows it" in node["open"][0]
    assert rack.run(inventory, "metax_node", "--data", "allow=none").status == 0


def test_folder_for_reports_that_cannot_be_written(rack: Rack) -> None:
    rack.environment["RACKREADY_RUNS"] = "/proc/rackready"
    try:
        outcome = rack.run(rack.inventory([("@emulated/unreported", {"emulated": "c500x8-2dual"})]))
    finally:
        rack.environment["RACKREADY_RUNS"] = str(rack.folder / "runs")
    assert outcome.status == 1
    assert "no report can be written to /proc/rackready" in outcome.errors
    assert "set RACKREADY_RUNS" in outcome.errors
    assert not (rack.trees / "unreported").exists()  # not even connected
    assert "Traceback" not in outcome.output + outcome.errors


def test_reader_of_the_output_goes_away(rack: Rack) -> None:
    inventory = rack.inventory([("@emulated/unread", WRONG)])
    before = rack.runs()
    process = rack.start(inventory)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    (folder,) = rack.runs() - before
    assert '"reached_goal": true' in (folder / "report.json").read_text()
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
