"""TransferBench, and the tests of mixture-of-experts libraries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import MappingProxyType

from rackready.facts.parts.bandwidth import CopyTest, ExpertTest, Transfer
from rackready.facts.readers.reader import Output, reader

_MOST = 65_536  # cells of a matrix
_ENDS = re.compile(r"\s*SRC\+EXE\\DST\s+(\S.*)$")
_ROW = re.compile(r"\s*((?:CPU|GPU)\s?\d{1,3})\s+(?:->|<-)\s+(\S.*)$")
_KINDS = re.compile(r"\s*((?:Uni|Bi)directional copy peak bandwidth GB/s\b[^\n]{0,200})$")


def read_transferbench(output: Output) -> Iterator[CopyTest]:
    """The matrices of ``TransferBench p2p``: a row for each source, a column for each target."""
    title, targets, transfers = "", list[str](), list[Transfer]()
    for line in output.text.split("\n"):
        if match := _KINDS.match(line):
            if transfers:
                yield CopyTest("TransferBench", title, tuple(transfers[:_MOST]))
            title, targets, transfers = match[1].strip(), [], []
        elif match := _ENDS.match(line):
            targets = [_plain(name) for name in re.findall(r"[CG]PU\s?\d{1,3}", match[1])]
        elif targets and (match := _ROW.match(line)):
            for target, word in zip(targets, match[2].split(), strict=False):
                if re.fullmatch(r"\d{1,6}(?:\.\d{1,6})?", word):
                    transfers.append(Transfer(_plain(match[1]), target, float(word)))
    if transfers:
        yield CopyTest("TransferBench", title, tuple(transfers[:_MOST]))


def _plain(name: str) -> str:
    """``GPU 00`` -> ``GPU#0``."""
    return f"{name[:3]}#{int(name[3:])}"


_TESTING = re.compile(r"\[testing\] [^\n]{0,200}\.\.\.\s*(passed|failed)?")
_BEST = re.compile(
    r"\[tuning\] Best (\w[^:]{0,40}):[^\n]{0,120}?(\d{1,6}(?:\.\d{1,6})?) GB/s \((\w+)\)"
)
_BOTH = re.compile(r"(Dispatch|Combine) both time: [^\n]{0,200}?, (\d{1,6}(?:\.\d{1,6})?) GB/s")


def read_experts(output: Output) -> Iterator[ExpertTest]:
    """Tests of DeepEP, and the benchmark of pplx-garden."""
    results = [match[1] for match in _TESTING.finditer(output.text) if match[1]]
    best = {
        f"{match[1].strip()} ({match[3]})": float(match[2]) for match in _BEST.finditer(output.text)
    }
    both = {match[1]: float(match[2]) for match in _BOTH.finditer(output.text)}
    if results or best or both:
        yield ExpertTest(
            results.count("passed") if results else None,
            results.count("failed") if results else None,
            MappingProxyType({**best, **both}),
        )


READERS = (
    reader(
        "TransferBench p2p",
        read_transferbench,
        command=r"TransferBench\b",
        shape=r"^\s{0,8}SRC\+EXE\\DST\s",
    ),
    reader(
        "test_intranode.py",
        read_experts,
        command=r"(?:python3?\s+)?(?:\S{0,100}/)?test_(?:intranode|internode|low_latency)\.py",
        shape=r"^\[tuning\] (?:Best|SMs) |^(?:Dispatch|Combine) both time: ",
    ),
)
