"""Emulated nodes behind a real sshd: what travels, what is counted, what gets lost on the way."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from run.conftest import Rack
from sshd import Sshd

from rackready.emulator.tree import build

WRONG = {"max_read_request": {"mlx5_1": 4096}}
ASKED = 'sh -c "$SSH_ORIGINAL_COMMAND"'
GARBAGE = 'i=0; while [ $i -lt 256 ]; do printf "\\\\$(printf %03o $i)"; i=$((i + 1)); done; echo'


@pytest.fixture
def node(rack: Rack, sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a host of the inventory: an SSH login into an emulated node."""
    monkeypatch.setenv("RACKREADY_EMULATOR_DIR", str(rack.trees))

    def make(name: str, faults: dict[str, Any], around: str = "{}") -> tuple[str, dict[str, Any]]:
        tree = build(name, "c500x8-2dual", faults)
        enter = f"export RACKREADY_ROOT={tree} RACKREADY_EMULATED=1"
        return name, sshd.host(f"{enter}; {around.format(ASKED)}")

    return make


def requests(sshd: Sshd, since: str) -> tuple[int, int]:
    """Exec requests and SFTP openings in the log of sshd."""
    log = sshd.log.removeprefix(since)
    return log.count("Starting session: forced-command"), len(re.findall("subsystem.*sftp", log))


def test_requests_are_counted(rack: Rack, sshd: Sshd, node: Any) -> None:
    inventory = rack.inventory([node("counted", WRONG)])
    log = sshd.log
    changing = rack.run(inventory)
    assert changing.status == 0, changing.output
    assert changing.nodes["counted"]["changed"]
    assert requests(sshd, log) == (3, 0)  # probe, one converge script, probe
    log = sshd.log
    again = rack.run(inventory)
    assert (again.status, again.nodes["counted"]["changed"]) == (0, [])
    assert requests(sshd, log) == (1, 0)


def test_host_that_prints_every_byte(rack: Rack, sshd: Sshd, node: Any) -> None:
    hosts = [("babbling", sshd.host(f"{GARBAGE}; {GARBAGE} >&2")), node("quiet", {})]
    outcome = rack.run(rack.inventory(hosts))
    assert outcome.status == 1
    assert outcome.nodes["babbling"]["error"].startswith("probe lost: ")
    assert outcome.nodes["quiet"]["reached_goal"]
    assert "Traceback" not in outcome.output + outcome.errors
    assert "\x1b" not in outcome.nodes["babbling"]["error"]


def test_every_byte_around_the_answer_does_no_harm(rack: Rack, node: Any) -> None:
    around = GARBAGE.replace("{", "{{").replace("}", "}}") + "; {}; " + GARBAGE
    outcome = rack.run(rack.inventory([node("between", WRONG, around)]))
    assert outcome.status == 0, outcome.output
    node_report = outcome.nodes["between"]
    cases = [
        {item["case"] for item in node_report[when] if item["check"] == "pcie.max-read-request"}
        for when in ("findings_before", "findings_after")
    ]
    assert cases == [{"ok", "too-large"}, {"ok"}]


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_connection_lost_half_way(rack: Rack, node: Any, tmp_path: Path, nth: int) -> None:
    """The nth command of the run ends with its sshd: probe, converge script or second probe."""
    count = tmp_path / "count"
    around = f"echo >> {count}; if [ $(wc -l < {count}) = {nth} ]; then kill -9 $PPID; fi; {{}}"
    name = f"cut-{nth}"
    inventory = rack.inventory([node(name, WRONG, around), node(f"beside-{nth}", {})])
    outcome = rack.run(inventory)
    assert outcome.status == 1
    assert "probe lost" in outcome.nodes[name]["error"]
    assert outcome.nodes[f"beside-{nth}"]["reached_goal"]
    assert "Traceback" not in outcome.output + outcome.errors
    again = rack.run(inventory)
    assert again.status == 0, again.output


def test_wrong_host_key_is_named(rack: Rack, sshd: Sshd, node: Any) -> None:
    name, data = node("impostor", {})
    known = Path(data["ssh_known_hosts_file"])
    other = (sshd.folder / f"{sshd.hosts[-1]}.pub").read_text()
    known.write_text(f"{sshd.address} {other}")
    outcome = rack.run(rack.inventory([(name, data)]))
    assert outcome.status == 1
    assert "unreachable: SSH host key error" in outcome.nodes["impostor"]["error"]
