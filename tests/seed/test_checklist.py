"""
The documents that the project was made from, row by row: nothing is forgotten.

A row has its line, kind and area in the document, its subject in a few words, and one of:
``honoured``, where (pointers that are followed here); ``refused``, why; ``step``, the step of the
roadmap with which it comes. Rows of the steps that are done say ``because`` where they come later
after all.
"""

from __future__ import annotations

from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackready.checks import all_checks
from rackready.facts.readers.registry import READERS
from rackready.policy import Policy

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ROWS = {"metax": ("M", 462), "ppu": ("P", 182), "efa": ("E", 54)}
STEPS = range(3, 12)
DOCUMENTS = {name: yaml.safe_load((HERE / f"{name}.yaml").read_text()) for name in ROWS}


def exists(pointer: str) -> bool:
    """Whether there is what a pointer points at: ``KIND NAME``."""
    kind, _, name = pointer.partition(" ")
    if kind == "check":
        return name in all_checks()
    if kind == "case":
        check, _, case = name.partition("/")
        return check in all_checks() and case in all_checks()[check].cases
    if kind == "reader":
        return name in {reader.name for reader in READERS}
    if kind == "policy":
        return name in Policy.model_fields
    if kind == "description":
        return (ROOT / "rackready" / "emulator" / "nodes" / f"{name}.yaml").is_file()
    if kind == "template":
        return (ROOT / "templates" / name).is_file()
    if kind == "profile":
        file, _, keys = name.partition(": ")
        data: Any = yaml.safe_load((ROOT / "profiles" / file).read_text())
        return reduce(lambda part, key: (part or {}).get(key), keys.split("."), data) is not None
    if kind == "probe":
        return name in (ROOT / "facts" / "probe.sh").read_text()
    if kind == "test":
        return name.startswith("tests/") and (ROOT / name).is_file()
    if kind == "module":
        module, _, attribute = name.partition(":")
        return hasattr(import_module(module), attribute)
    raise ValueError(f"unknown kind of pointer: {pointer}")


@pytest.mark.parametrize("name", ROWS)
def test_every_row_is_there(name: str) -> None:
    letter, count = ROWS[name]
    assert list(DOCUMENTS[name]) == [f"{letter}{number:03}" for number in range(1, count + 1)]
    assert sum(count for _, count in ROWS.values()) == 698


@pytest.mark.parametrize("name", ROWS)
def test_every_row_has_one_state(name: str) -> None:
    for identity, row in DOCUMENTS[name].items():
        assert {"line", "kind", "area", "subject"} <= row.keys(), identity
        assert 2 <= len(row["subject"].split()) <= 12, identity
        assert "because" not in row or "step" in row, identity
        assert len(row.keys() & {"honoured", "refused", "step"}) == 1, identity
        assert row.get("step", 3) in STEPS, f"{identity}: this step is done"
        assert row.get("refused", "x").strip(), identity


@pytest.mark.parametrize("name", ROWS)
def test_every_pointer_points_at_something(name: str) -> None:
    for identity, row in DOCUMENTS[name].items():
        for pointer in row.get("honoured", ()):
            assert exists(pointer), f"{identity}: {pointer}"
        assert row.get("honoured", ["x"]), identity


@pytest.mark.parametrize(
    "pointer",
    [
        "check pcie.maximum",
        "case pcie.acs/nonsense",
        "reader lspci -yy",
        "policy max_red_request",
        "description c500x9",
        "template etc/nothing",
        "profile metax.yaml: pcie.nothing",
        "module rackready.wiring:Nothing",
        "probe show cat /proc/nothing",
        "test tests/seed/nothing.py",
    ],
)
def test_a_wrong_pointer_is_found(pointer: str) -> None:
    assert not exists(pointer)
