"""The command ``diagnose``: what it takes, what it says, how it ends."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import captures
import pytest
from click.testing import CliRunner, Result

from rackready.checks import all_checks
from rackready.cli import main
from rackready.diagnose import JUDGED_BY
from rackready.facts import paste
from rackready.policy import Policy

ENV = "# env\nNCCL_DEBUG=INFO\n"
MISMATCH = "# nvidia-smi\nFailed to initialize NVML: Driver/library version mismatch\n"
BELOW = "net.ipv4.conf.all.rp_filter = 1\n"


def diagnose(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["diagnose", *map(str, arguments)])


def report(*arguments: str | Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(diagnose(*arguments, "--json").stdout)
    return told


def hosts(told: dict[str, Any]) -> set[str]:
    return {finding.get("host", "") for finding in told["findings"]}


def put(folder: Path, **texts: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        folder.joinpath(f"{name}.txt").write_text(text)
    return folder


def test_a_fault_is_told_and_the_status_says_so(tmp_path: Path) -> None:
    done = diagnose(put(tmp_path, smi=MISMATCH))
    assert done.exit_code == 1
    assert "fail: gpu.driver nvidia: kernel module nvidia" in done.stdout
    assert "  fix: stop all jobs" in done.stdout
    told = report(tmp_path)
    assert told["verdict"] == "fail"
    assert told["findings"][0]["check"] == "gpu.driver"
    assert "host" not in told["findings"][0]  # the one host has no name


def test_nothing_failed(tmp_path: Path) -> None:
    done = diagnose(put(tmp_path, env=ENV))
    assert done.exit_code == 0
    assert diagnose(tmp_path / "env.txt").exit_code == 0


def test_hosts_and_job(tmp_path: Path) -> None:
    put(tmp_path, env=ENV, note="all is slow\n")
    put(tmp_path / "a", smi=MISMATCH)
    put(tmp_path / "b" / "deeper", sysctl=BELOW, twice=BELOW.replace("1", "2"))
    told = report(tmp_path)
    assert hosts(told) >= {"a", "b"}
    assert [f["host"] for f in told["findings"] if f["verdict"] == "fail"] == ["a"]
    assert diagnose(tmp_path).stdout.startswith("a\n")  # the worst host leads


def test_several_folders_are_several_hosts(tmp_path: Path) -> None:
    one = put(tmp_path / "one", smi=MISMATCH)
    two = put(tmp_path / "two", smi=MISMATCH)
    assert hosts(report(one, two)) >= {"one", "two"}


def test_a_capture_among_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "n1"
    folder.mkdir()
    folder.joinpath("n1.capture").write_text(captures.capture_text("c500x8-4nic"))
    told = report(tmp_path)
    assert ("accelerator.count", "ok", "n1") in {
        (f["check"], f["verdict"], f.get("host")) for f in told["findings"]
    }


@pytest.mark.parametrize("texts", [{}, {"empty": ""}, {"words": "nothing that a tool prints\n"}])
def test_nothing_readable(tmp_path: Path, texts: dict[str, str]) -> None:
    done = diagnose(put(tmp_path, **texts))
    assert done.exit_code == 2
    assert "nothing here could be read" in done.output
    assert "Traceback" not in done.output


def test_wrong_usage(tmp_path: Path) -> None:
    assert diagnose().exit_code == 2
    assert diagnose(tmp_path / "absent").exit_code == 2
    policy = tmp_path / "policy.yaml"
    policy.write_text("max_red_request: 256\n")
    done = diagnose(put(tmp_path / "n", env=ENV), "--policy", policy)
    assert done.exit_code == 2
    assert "max_read_request" in done.output


def test_bytes_of_any_kind(tmp_path: Path) -> None:
    put(tmp_path, env=ENV)
    tmp_path.joinpath("core").write_bytes(bytes(range(256)) * 50)
    tmp_path.joinpath(".hidden").write_bytes(b"\x00")
    assert diagnose(tmp_path).exit_code == 0


def test_both_ends_of_a_large_file_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rackready.diagnose.LARGEST", 4000)
    assert paste.LARGEST == 32 << 20
    middle = "a line of no consequence\n" * 1000
    tmp_path.joinpath("log").write_text(f"{ENV}{middle}{MISMATCH}")
    told = report(tmp_path)
    assert told["verdict"] == "fail"
    assert any("only both its ends" in finding["message"] for finding in told["findings"])


def test_starts_without_pyinfra(tmp_path: Path) -> None:
    put(tmp_path, smi=MISMATCH)
    code = (
        "import sys\n"
        "from rackready.cli import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "finally:\n    print('pyinfra' in sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "diagnose", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.split()[-1] == "False"


def test_escape_sequences_do_not_reach_the_terminal(tmp_path: Path) -> None:
    put(tmp_path, sysctl="net.x.\x1b[31my = 1\n", env="# env\nA=\x1b]0;evil\x07b\n")
    assert "\x1b" not in diagnose(tmp_path).stdout


def test_a_name_is_no_line_of_the_report(tmp_path: Path) -> None:
    put(tmp_path / "h1\nfail: fake.check x", smi=MISMATCH)
    put(tmp_path / "h2\x1b[31m", smi=MISMATCH)
    told = diagnose(tmp_path).stdout
    assert "\nfail: fake" not in told
    assert "\x1b" not in told
    done = diagnose(put(tmp_path / "e\x1b[31m", x="no tool prints this\n") / "x.txt")
    assert "\x1b" not in done.output


def test_what_a_node_printed_stays_a_word_of_a_command(tmp_path: Path) -> None:
    log = "n1:7:7 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n"
    listing = "# namei -l /home/ops$(reboot)/.ssh\nf: /home/ops$(reboot)/.ssh\n"
    rows = "drwxr-xr-x root root /\ndrwxrwxrwx ops ops ops$(reboot);reboot\n"
    put(tmp_path, log=log, namei=listing + rows)
    module = "# lsmod | grep nv_peer_mem\n# modinfo nv_peer_mem;reboot\n"
    put(tmp_path, module=module)
    for finding in report(tmp_path)["findings"]:
        for part in ("fix", "persistent_fix"):
            assert "$(reboot" not in finding.get(part, ""), finding
            assert ";reboot" not in finding.get(part, ""), finding


def test_what_can_not_be_read_is_told_and_the_rest_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "h1", smi=MISMATCH)
    put(tmp_path / "h2", env=ENV)
    put(tmp_path / "h3", gone=MISMATCH)
    real = Path.open

    def refusing(path: Path, *arguments: Any, **named: Any) -> Any:
        if path.name in ("env.txt", "gone.txt"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *arguments, **named)

    monkeypatch.setattr(Path, "open", refusing)
    told = report(tmp_path)
    assert told["verdict"] == "fail"
    for host in ("h2", "h3"):
        assert any(
            "can't be read: Permission denied" in finding["message"]
            for finding in told["findings"]
            if finding.get("host") == host
        )


def test_a_host_may_be_a_link_and_a_name_twice(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere", smi=MISMATCH)
    put(tmp_path / "all" / "n1", env=ENV)
    (tmp_path / "all" / "n2").symlink_to(tmp_path / "elsewhere")
    assert "n2" in hosts(report(tmp_path / "all"))
    one, two = put(tmp_path / "x" / "n", smi=MISMATCH), put(tmp_path / "y" / "n", smi=MISMATCH)
    told = report(one, two)
    assert len({f.get("host") for f in told["findings"] if f["verdict"] == "fail"}) == 2


def test_a_capture_behind_other_lines(tmp_path: Path) -> None:
    folder = put(tmp_path / "n1", notes=ENV)
    text = captures.capture_text("c500x8-4nic")
    folder.joinpath("n1.capture").write_text(f"\ufeffpasted by me\n{text}")
    assert any(f["check"] == "accelerator.count" for f in report(tmp_path)["findings"])


def test_packed_files_are_named(tmp_path: Path) -> None:
    put(tmp_path, env=ENV)
    tmp_path.joinpath("log.gz").write_bytes(gzip.compress(MISMATCH.encode()))
    assert any("gzip" in finding["message"] for finding in report(tmp_path)["findings"])


def test_a_waived_fault_is_no_verdict(tmp_path: Path) -> None:
    put(tmp_path / "n", smi=MISMATCH)
    policy = tmp_path / "policy.yaml"
    policy.write_text("waive: [{check: gpu.driver, reason: known, until: 2999-01-01}]\n")
    done = diagnose(tmp_path / "n", "--policy", policy)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1] != "fail"
    assert report(tmp_path / "n", "--policy", policy)["verdict"] != "fail"


def test_the_checks_that_judge_a_wish_are_there() -> None:
    assert all(hasattr(Policy(), key) for key in JUDGED_BY)
    assert {check for checks in JUDGED_BY.values() for check in checks} <= set(all_checks())


def test_a_report_that_can_not_be_written(tmp_path: Path) -> None:
    put(tmp_path, smi=MISMATCH)
    words = [sys.executable, "-m", "rackready", "diagnose", str(tmp_path)]
    for more in ([], ["--json"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([*words, *more], stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 2
        assert "No space left" in done.stderr
        assert "Traceback" not in done.stderr
