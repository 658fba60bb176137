"""``rackready preflight`` against a real sshd."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sshd import Sshd

PREFLIGHT = (sys.executable, "-m", "rackready", "preflight")


def preflight(folder: Path, hosts: dict[str, dict[str, object]], *options: str) -> tuple[int, str]:
    """Exit status and output for an inventory of these hosts."""
    inventory = folder / "rack.py"
    inventory.write_text(f"metax = {list(hosts.items())!r}\n")
    done = subprocess.run(
        [*PREFLIGHT, str(inventory), *options],
        cwd=folder,
        env=os.environ | {"HOME": str(folder), "COLUMNS": "150"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert not done.stderr
    return done.returncode, done.stdout


def test_hosts_that_can_be_worked_on(sshd: Sshd, tmp_path: Path) -> None:
    noisy = sshd.host('echo Welcome; eval "$SSH_ORIGINAL_COMMAND"')
    unknown = sshd.host(known=False)
    hosts = {"c1": sshd.host(), "c2": sshd.host(), "noisy": noisy, "unknown": unknown}
    for data in hosts.values():
        data["_sudo"] = True
    status, output = preflight(tmp_path, hosts)
    assert "the login shell prints 1 lines at start-up: 'Welcome'" in output
    assert "the host key is not known yet" in output
    assert not Path(str(unknown["ssh_known_hosts_file"])).read_text(), "it only looks"
    if os.getuid() == 0:
        assert status == 0
        assert "4 of 4 hosts can be worked on" in output


def test_hosts_that_can_not(sshd: Sshd, tmp_path: Path) -> None:
    changed = sshd.host()
    Path(str(changed["ssh_known_hosts_file"])).write_text(
        f"{sshd.address} {Path(str(changed['ssh_key'])).with_suffix('.pub').read_text()}"
    )
    every_byte = "".join(f"\\{byte:03o}" for byte in range(256))
    hosts = {
        "changed": changed,
        "garbage": sshd.host(f"printf '{every_byte}'"),
        "refused": sshd.host() | {"ssh_key": str(sshd.folder / "server")},
        "silent1": sshd.host() | {"ssh_port": 1},
        "silent2": sshd.host() | {"ssh_port": 1},
    }
    status, output = preflight(tmp_path, hosts)
    assert status == 1
    for line in (
        "changed      host-key  the host key has changed",
        "garbage      shell     the login shell runs no POSIX script: no whole answer came back",
        "refused      login     the login is refused",
        "silent[1-2]  reach     nothing listens there",
        "0 of 5 hosts can be worked on",
    ):
        assert line in output


@pytest.mark.parametrize(
    ("options", "expected"),
    [((), "rack.py: no inventory with a host"), (("--limit", "x"), "no host that matches x")],
)
def test_no_host_is_a_failure(tmp_path: Path, options: tuple[str, ...], expected: str) -> None:
    (tmp_path / "rack.py").write_text("metax = []\n")
    done = subprocess.run(
        [*PREFLIGHT, "rack.py", *options], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert expected in done.stderr
