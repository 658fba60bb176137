"""A real sshd on the loopback address, run by whoever runs the tests."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Sshd:
    folder: Path
    port: int
    program: str
    hosts: list[str] = field(default_factory=list)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    @property
    def address(self) -> str:
        """As known_hosts names it."""
        return f"[127.0.0.1]:{self.port}"

    def host(self, command: str = "", known: bool = True) -> dict[str, object]:
        """
        pyinfra's data of one more "host": a login of its own.

        ``command`` is what it runs instead of what it is asked to (a forced command of sshd).
        """
        name = f"host{len(self.hosts)}"
        self.hosts.append(name)
        key = _make_key(self.folder / name)
        options = 'command="{}" '.format(command.replace('"', '\\"')) if command else ""
        with (self.folder / "authorized_keys").open("a") as file:
            file.write(options + key.with_suffix(".pub").read_text())
        known_hosts = self.folder / f"{name}.known_hosts"
        public = (self.folder / "server.pub").read_text() if known else ""
        known_hosts.write_text(f"{self.address} {public}" if known else "")
        return {
            "ssh_hostname": "127.0.0.1",
            "ssh_port": self.port,
            "ssh_user": getpass.getuser(),
            "ssh_key": str(key),
            "ssh_known_hosts_file": str(known_hosts),
        }


def find() -> str:
    """Path of sshd; empty where it is not installed."""
    return shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or ""


@contextmanager
def running(folder: Path) -> Iterator[Sshd]:
    """An sshd with its files in ``folder``; it is ended on the way out."""
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # else made by the service that we don't start
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Sshd(folder, port, find())
    settings = {
        "ListenAddress": f"127.0.0.1:{port}",
        "HostKey": _make_key(folder / "server"),
        "AuthorizedKeysFile": folder / "authorized_keys",
        "PasswordAuthentication": "no",
        "PermitRootLogin": "yes",
        "StrictModes": "no",
        "UsePAM": "no",
        "PidFile": "none",
        "MaxStartups": "100",
        "LogLevel": "DEBUG1",
        "Subsystem": "sftp internal-sftp",
    }
    config = folder / "config"
    config.write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    process = subprocess.Popen([server.program, "-D", "-f", config, "-E", folder / "log"])
    try:
        _wait(port, process)
        yield server
    finally:
        process.terminate()
        process.wait()


def _make_key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    raise RuntimeError(f"sshd does not listen, exit status {process.poll()}")
