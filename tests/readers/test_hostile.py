"""Whatever is pasted: no reader raises, no check fails, and memory has its bound."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import captures
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rackready.diagnose import diagnose
from rackready.facts.readers.reader import Output
from rackready.facts.readers.registry import READERS
from rackready.policy import Policy

HERE = Path(__file__).parent
SAMPLES = HERE.parent / "samples"
CASES = HERE.parent / "cases"
POLICY = Policy(
    max_read_request=256,
    max_payload=256,
    gid_index=3,
    traffic_class=160,
    mtu=4200,
    roce_priority=5,
    rdma_subnet="10.2.122.0/24",
    compute_nics=("mlx5_0", "mlx5_1"),
)


@cache
def corpus() -> tuple[str, ...]:
    """All that our tests know of what tools print."""
    found = []
    for path in sorted(HERE.glob("outputs/*/*.yaml")):
        data = yaml.safe_load(path.read_text())
        text = data["text"] if "text" in data else SAMPLES.joinpath(data["sample"]).read_text()
        found.append(f"# {data['command']}\n{text}" if "command" in data else text)
    private = ("expected.json", "policy.yaml", "healed.yaml")
    found += [
        path.read_text()
        for case in sorted(CASES.glob("*/expected.json"))
        for path in sorted(case.parent.rglob("*"))
        if path.is_file() and path.name not in private
    ]
    return tuple(text[:20_000] for text in found if text.strip())


_PIECES = (
    "\x1b[4m",
    "\x1b[0m",
    "\r",
    "\t",
    " ",
    "\n",
    "0: ",
    "-",
    ":",
    "|",
    "#",
    "N/A",
    "é",
    "\udcff",
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A text of the corpus: cut, mixed with another, with pieces put in, doubled or left out."""
    text = draw(st.sampled_from(corpus()))
    for _ in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(("cut", "mix", "put", "drop", "double", "tabs", "join")))
        at = draw(st.integers(0, max(len(text), 1)))
        length = draw(st.integers(0, 200))
        if kind == "cut":
            text = text[:at] if draw(st.booleans()) else text[at:]
        elif kind == "mix":
            other = draw(st.sampled_from(corpus())).split("\n")
            rows = text.split("\n")
            size = max(len(rows), len(other))
            pairs = (row for n in range(size) for row in (*rows[n : n + 1], *other[n : n + 1]))
            text = "\n".join(pairs)
        elif kind == "put":
            text = text[:at] + draw(st.sampled_from(_PIECES)) * (1 + length % 3) + text[at:]
        elif kind == "drop":
            text = text[:at] + text[at + length :]
        elif kind == "double":
            text = text[:at] + text[at : at + length] + text[at:]
        elif kind == "tabs":
            text = text.expandtabs(8)
        else:
            text = text.replace("\n", " ", 1 + length % 5)
    return text


_SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


@_SETTINGS
@given(st.lists(damaged() | st.text(max_size=400), min_size=1, max_size=3))
def test_no_paste_breaks_a_diagnosis(texts: list[str]) -> None:
    names = (f"n{number % 2}/{number}.txt" for number in range(len(texts)))
    pile = captures.pile(list(zip(names, texts, strict=True)))
    found = diagnose(pile, captures.profiles(), POLICY, captures.TODAY).findings
    assert not [finding for finding in found if finding.case == "internal"]
    assert not [finding for finding in found if "its reader failed" in finding.message]


@_SETTINGS
@given(damaged() | st.text(max_size=400))
def test_no_reader_raises(text: str) -> None:
    for reader in READERS:
        notes: list[str] = []
        for fact in reader.read(Output(reader.name, text, notes.append)):
            assert hasattr(type(fact), "IDENTITY"), (reader.name, fact)


def test_a_hundred_megabytes_of_garbage() -> None:
    """Within 300 MiB of memory, and a minute of one processor where no benchmark looks."""
    code = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (300 << 20, 300 << 20))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
from pathlib import Path
from rackready.diagnose import collect
from rackready.diagnose import diagnose
from rackready.policy import Policy
from datetime import date
sys.exit(not diagnose(collect([Path(sys.argv[1])]), (), Policy(), date.today()).unread)
"""
    with tempfile.TemporaryDirectory() as folder:
        with Path(folder, "garbage.txt").open("wb") as file:
            line = bytes(32 + (n * 7919) % 94 for n in range(199)) + b"\n"
            for _ in range(500):
                file.write(line * 1000)
        done = subprocess.run(
            [sys.executable, "-c", code, folder], capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
