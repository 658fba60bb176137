"""Captures of emulated nodes: made by the real probe, once a session, altered as a test says."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cache, partial
from typing import Any

import pytest

from rackready.catalog import load_profiles
from rackready.diagnose import Pile, pile_of
from rackready.emulator.tree import build
from rackready.facts.capture import Capture, probe_script, read_capture
from rackready.facts.model import Evidence, Node
from rackready.facts.readers.node import read_node
from rackready.facts.readers.pci import read_dump
from rackready.judge import probe_wishes
from rackready.profile import Profile

TODAY = date(2026, 12, 1)
_TREES = tempfile.mkdtemp(prefix="rackready-captures-")
# Not by Python: under gevent it would hold a descriptor for every folder (emulator/tree.py).
atexit.register(subprocess.run, ["rm", "-rf", _TREES], check=False)


@cache
def profiles() -> tuple[Profile, ...]:
    return load_profiles()


def capture_text(description: str, faults: Mapping[str, Any] | None = None) -> str:
    """What the probe prints on the emulated node of this description."""
    return _capture_text(description, json.dumps(faults or {}))


@cache
def _capture_text(description: str, faults: str) -> str:
    name = f"n{len(os.listdir(_TREES)):03}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RACKREADY_EMULATOR_DIR", _TREES)
        tree = build(name, description, json.loads(faults))
    done = subprocess.run(
        ["sh", "-s"],
        input=probe_script(probe_wishes(profiles()), transport=False),
        env={
            "PATH": os.environ["PATH"],
            "RACKREADY_ROOT": str(tree),
            "RACKREADY_EMULATED": "1",
            "RACKREADY_COUNTER_SECONDS": "0",
            "RACKREADY_TOOL_LIMIT": "1",
        },
        text=True,
        capture_output=True,
        check=True,
    )
    return done.stdout


def pile(texts: Iterable[tuple[str, str]]) -> Pile:
    """What is pasted, from pairs of file name and text."""
    return pile_of((name, partial(str, text)) for name, text in texts)


def capture(
    description: str,
    faults: Mapping[str, Any] | None = None,
    edits: Sequence[Mapping[str, Any]] = (),
    name: str = "node",
) -> Capture:
    made = read_capture(capture_text(description, faults), name)
    assert made.gaps == ()
    return replace(made, evidence=tuple(edited(made.evidence, edits)))


def node(
    description: str,
    faults: Mapping[str, Any] | None = None,
    edits: Sequence[Mapping[str, Any]] = (),
) -> Node:
    made = capture(description, faults, edits)
    return read_node(made.host, made.evidence, made.gaps)


def edited(evidence: Iterable[Evidence], edits: Sequence[Mapping[str, Any]]) -> list[Evidence]:
    """
    Evidence with some outputs altered.

    An edit names a ``command``, or how several begin, and: ``drop``; ``text``; ``status``; ``lost``
    (why there is no status); ``replace`` (old: new); of a config space ``length``, ``fill`` and
    ``bytes`` (offset: hex). One with ``add`` adds the command.
    """
    items = list(evidence)
    for edit in edits:
        command = edit["command"]
        if edit.get("add"):
            items.append(Evidence("node", command, edit.get("text", ""), edit.get("status", 0)))
            continue
        chosen = [item for item in items if item.command == command]
        chosen = chosen or [item for item in items if item.command.startswith(command)]
        assert chosen, f"no command starts with {command!r}"
        if edit.get("drop"):
            items = [item for item in items if item not in chosen]
        else:
            items = [_edited(item, edit) if item in chosen else item for item in items]
    return items


def _edited(item: Evidence, edit: Mapping[str, Any]) -> Evidence:
    text = edit.get("text", item.text)
    for old, new in edit.get("replace", {}).items():
        assert old in text, f"{item.command}: no {old!r}"
        text = text.replace(old, new)
    if edit.keys() & {"length", "fill", "bytes"}:
        config = bytearray(read_dump(text, pytest.fail))[: edit.get("length", 4096)]
        if "fill" in edit:
            config[:] = bytes([edit["fill"]]) * len(config)
        for offset, value in edit.get("bytes", {}).items():
            data = bytes.fromhex(value)
            config[offset : offset + len(data)] = data
        text = "".join(
            f"{at:06x} {config[at : at + 16].hex(' ')}\n" for at in range(0, len(config), 16)
        )
        text += f"{len(config):06x}\n"
    lost = edit.get("lost", item.lost)
    return replace(
        item, text=text, lost=lost, status=None if lost else edit.get("status", item.status)
    )
