"""Captures of all hosts of an inventory, a file each."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyinfra.api.host import Host

from rackready.catalog import load_profiles
from rackready.facts.capture import ProbeLost, probe_script
from rackready.facts.mask import mask
from rackready.facts.probe import run_probe
from rackready.judge import probe_wishes
from rackready.report.files import write_atomically
from rackready.session import session


@dataclass(frozen=True)
class Collected:
    """The capture of one host, or why there is none."""

    host: str
    path: Path | None = None
    lost: str = ""


def collect(inventory: str, folder: Path, masked: bool, limit: Sequence[str]) -> list[Collected]:
    """
    Write a capture of every host into a folder: ``HOST.capture``, masked ``node-1.capture``, ...

    Masked captures of one call belong together: what was equal on two hosts stays equal. Raises
    InventoryError, and OSError where the folder can't be written to.
    """
    script = probe_script(probe_wishes(load_profiles()))
    folder.mkdir(parents=True, exist_ok=True)
    key = secrets.token_bytes(16)

    def probe(host: Host) -> tuple[str, str, str]:
        try:
            return host.name, run_probe(host, script), ""
        except ProbeLost as lost:
            return host.name, "", str(lost)

    with session(inventory, limit) as found:
        answers = found.map(probe)
        collected = [Collected(host, lost=reason) for host, reason in found.errors.items()]
    for number, (host, text, lost) in enumerate(answers, 1):
        name = f"node-{number}" if masked else host.replace("/", "_")
        path = folder / f"{name}.capture"
        if not lost:
            write_atomically(path, mask(text, key) if masked else text, 0o600)
        collected.append(Collected(host, None if lost else path, lost))
    return collected
