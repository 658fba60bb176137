"""The smallest emulated node that the scripts of a change can work on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from rackready.change import Answer, File, Link, Outcome, Remove, Setting, Step, Undo
from rackready.operations.converge import read_answers, render

TEMPLATES = Path(__file__).parents[2] / "templates"
SHELLS = [
    shell
    for shell in (["dash"], ["busybox", "ash"], ["bash"])
    if shutil.which(shell[0]) is not None
]

CHECK = "pcie.max-read-request"
SCRIPT = "/usr/local/lib/rackready/max-read-request"
CONF = "/etc/rackready/max-read-request.conf"
UNIT = "/etc/systemd/system/rackready-max-read-request.service"
WANTS = "/etc/systemd/system/multi-user.target.wants/rackready-max-read-request.service"
RULES = "/etc/udev/rules.d/90-rackready-max-read-request.rules"
NIC = "0000:33:00.0"
CARD = "15b3:1021"
STATE = "/var/lib/rackready"


def template(path: str, mode: int = 0o644) -> File:
    return File(path, (TEMPLATES / path.lstrip("/")).read_text(encoding="ascii"), mode)


def max_read_request_steps(conf: str = f"{NIC} 15b3:1021 256\n") -> list[tuple[str, Step]]:
    """All that MaxReadReq takes: script, configuration, both triggers, and the setting itself."""
    steps: list[Step] = [
        template(SCRIPT, 0o755),
        File(CONF, conf),
        template(RULES),
        template(UNIT),
        Link(WANTS, "../rackready-max-read-request.service"),
        Setting(SCRIPT, NIC, "256", CARD),
    ]
    return [(CHECK, step) for step in steps]


class SmallNode:
    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("etc", "run", "usr/local/lib", "var/lib", "sys/bus/pci/devices"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / ".rackready-emulated").write_text("small node of the tests\n")

    def path(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def add_function(
        self,
        bdf: str = NIC,
        control: int = 0x5937,
        capability: int = 0x60,
        card: str = CARD,
        base_class: int = 0x02,
    ) -> Path:
        """A network card; Device Control reads ``control``. Returns its configuration space."""
        folder = self.path(f"/sys/bus/pci/devices/{bdf}")
        folder.mkdir()
        vendor, device = (int(word, 16) for word in card.split(":"))
        space = bytearray(256)
        space[0:2], space[2:4] = vendor.to_bytes(2, "little"), device.to_bytes(2, "little")
        space[11] = base_class
        space[6], space[0x34] = 0x10, 0x40  # a capability list, and where it begins
        space[0x40:0x42] = bytes([0x01, capability])  # power management first
        space[capability : capability + 4] = bytes([0x10, 0, 2, 0])
        space[capability + 8 : capability + 10] = control.to_bytes(2, "little")
        (folder / "config").write_bytes(bytes(space))
        (folder / "vendor").write_text(f"0x{vendor:04x}\n")
        (folder / "device").write_text(f"0x{device:04x}\n")
        (folder / "class").write_text(f"0x{base_class:02x}0000\n")
        return folder / "config"

    def control(self, bdf: str = NIC, capability: int = 0x60) -> int:
        space = self.path(f"/sys/bus/pci/devices/{bdf}/config").read_bytes()
        return int.from_bytes(space[capability + 8 : capability + 10], "little")

    def stand_in(self, name: str, body: str) -> None:
        """A program that scripts of this node find before the machine's own."""
        program = self.path(f"/sbin/{name}")
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)

    def environment(self, **variables: str) -> dict[str, str]:
        fixed = {"RACKREADY_ROOT": str(self.root), "RACKREADY_EMULATED": "1"}
        return {**os.environ, **fixed, **variables}

    def sh(
        self,
        script: str,
        shell: Iterable[str] = ("sh",),
        keep: Sequence[int] = (),
        **variables: str,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*shell, "-s"],
            input=script,
            env=self.environment(**variables),
            pass_fds=keep,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def converge(
        self,
        steps: Iterable[tuple[str, Step]],
        run: str = "r1",
        shell: Iterable[str] = ("sh",),
        everything: bool = False,
    ) -> list[Answer]:
        script = render(steps, run=run, owner="ann@desk", emulated=True, everything=everything)
        done = self.sh(script, shell)
        answers, reason = read_answers(done.stdout.splitlines())
        assert (done.returncode, reason, done.stderr) == (0, "", "")
        return answers

    def snapshot(self, times: bool = False) -> dict[str, object]:
        """All of the tree but rackready's own records."""
        held: dict[str, object] = {}
        for path in sorted(self.root.rglob("*")):
            name = f"/{path.relative_to(self.root)}"
            if name.startswith(STATE) or name == "/run/rackready.lock":
                continue
            status = path.lstat()
            content: object = "folder"
            if path.is_symlink():
                content = os.readlink(path)
            elif path.is_file():
                content = path.read_bytes()
            held[name] = (status.st_mode, content, status.st_mtime_ns if times else None)
        return held


def journal(node: SmallNode) -> list[dict[str, str]]:
    entries = []
    for line in node.path(f"{STATE}/journal.jsonl").read_text().splitlines():
        try:
            entries.append(json.loads(line))
        except ValueError:
            continue  # half a line, of a run that was killed
    return entries


def undo_steps(node: SmallNode, *runs: str) -> list[tuple[str, Step]]:
    """What takes these runs (without any: all) back, the newest line first."""
    entries = journal(node)
    undone = {entry["undoes"] for entry in entries if entry["kind"] == "undo"}
    return [
        (entry["check"], Undo(entry))
        for entry in reversed(entries)
        if entry["kind"] != "undo"
        and entry["id"] not in undone
        and (not runs or entry["run"] in runs)
    ]


def remove_steps(node: SmallNode) -> list[tuple[str, Step]]:
    """What takes all that is ours away: the last line of a path wins."""
    things: dict[str, tuple[str, str]] = {}
    for line in node.path(f"{STATE}/manifest").read_text().splitlines():
        kind, path, *rest = line.split()
        things.pop(path, None)
        if kind != "gone":
            things[path] = (kind, rest[0] if rest else "")
    return [
        ("remove", Remove(path, kind, written))
        for path, (kind, written) in reversed(things.items())
    ]


def outcomes(node: SmallNode, steps: Iterable[tuple[str, Step]], run: str = "r1") -> set[Outcome]:
    return {answer.outcome for answer in node.converge(steps, run=run)}
