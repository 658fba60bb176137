"""
Readers of single outputs; each YAML file below outputs/ is a test, in a folder of its domain.

``text`` is what a tool printed, or ``sample`` a file below tests/samples; ``command`` is pasted
above it as ``# command``, and without one it has to be known by its shape. ``reader`` is the reader
that has to take it (a list: several). ``facts`` are facts of it: a type and the fields that have to
be so (a number that YAML can't tell from text may be quoted; ``fields`` of parts are nested).
``count`` says how many facts of a type there are, ``notes`` how many things were not understood
(default: 0).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackready.facts.paste import read_paste
from rackready.facts.readers.node import Notes, read_facts
from rackready.facts.readers.registry import READERS, by_command

HERE = Path(__file__).parent
SAMPLES = HERE.parent / "samples"
FILES = sorted(HERE.glob("outputs/*/*.yaml"))


def fits(fact: object, wanted: object) -> bool:
    """True when a fact has the fields that a file asks for."""
    if isinstance(fact, Enum):
        return bool(fact.value == wanted)
    if isinstance(fact, Mapping):
        return isinstance(wanted, Mapping) and all(
            key in fact and fits(fact[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, Mapping):
        return all(fits(getattr(fact, name), value) for name, value in wanted.items())
    if isinstance(fact, tuple):
        return isinstance(wanted, list) and (
            len(fact) == len(wanted) and all(map(fits, fact, wanted))
        )
    return fact == wanted


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_output(path: Path) -> None:
    data: dict[str, Any] = yaml.safe_load(path.read_text())
    text = data["text"] if "text" in data else SAMPLES.joinpath(data["sample"]).read_text()
    if "command" in data:
        text = f"# {data['command']}\n{text}"
    pasted = read_paste(text, "host", path.name)
    readers = [by_command(item.command) for item in pasted.evidence]
    names = list(dict.fromkeys(reader.name if reader else "" for reader in readers))
    wanted = data.get("reader", names)
    assert names == (wanted if isinstance(wanted, list) else [wanted]), pasted.gaps
    notes = Notes(())
    facts = read_facts(pasted.evidence, notes)
    everything = {kind.__name__: facts.each(kind) for kind in facts.kinds()}
    for entry in data.get("facts", ()):
        ((kind, fields),) = entry.items()
        found = everything.get(kind, ())
        assert any(fits(fact, fields) for fact in found), (kind, fields, found)
    for kind, count in data.get("count", {}).items():
        assert len(everything.get(kind, ())) == count, (kind, everything.get(kind))
    assert len(notes.gaps()) == data.get("notes", 0), notes.gaps()


def test_a_reader_is_known_by_its_name() -> None:
    """What was known by its shape goes by the reader's name from then on."""
    assert not [item.name for item in READERS if by_command(item.name) is not item]


def test_every_reader_has_a_test() -> None:
    reached = set()
    for path in FILES:
        names = yaml.safe_load(path.read_text()).get("reader", [])
        reached.update(names if isinstance(names, list) else [names])
    assert {item.name for item in READERS} - reached == set()


def test_every_sample_is_read_by_a_test() -> None:
    used = {yaml.safe_load(path.read_text()).get("sample") for path in FILES}
    tests = "".join(path.read_text() for path in HERE.glob("*.py"))
    samples = (path for path in SAMPLES.glob("*/*") if path.suffix not in (".capture", ".md"))
    names = {path.relative_to(SAMPLES).as_posix() for path in samples}
    assert {name for name in names - used if Path(name).name not in tests} == set()
