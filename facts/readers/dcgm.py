"""``dcgmi diag`` and the tests of gdrcopy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rackready.facts.parts.bandwidth import CopyTest, Diagnostic, Transfer
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.search import search_of

_SELECTED = re.compile(r"selecting device (\d{1,3})")
_COPY = re.compile(r"(write|read) BW: (\d{1,9}(?:\.\d{1,6})?)MB/s")
_TOTAL = re.compile(r"Total: \d+, Passed: (\d{1,6}), Failed: (\d{1,6}), Waived: \d+")
_LIST = re.compile(r"List of (passed|failed|waived) tests:")


def read_gdrcopy(output: Output) -> Iterator[CopyTest | Diagnostic]:
    """``gdrcopy_copybw`` and ``gdrcopy_sanity``."""
    device, transfers = "GPU#0", list[Transfer]()
    section = ""
    for line in output.lines():
        if match := _SELECTED.match(line):
            device = f"GPU#{match[1]}"
        elif match := _COPY.match(line):
            ends = ("CPU", device) if match[1] == "write" else (device, "CPU")
            transfers.append(Transfer(*ends, round(float(match[2]) / 1e3, 6)))
        elif match := _TOTAL.match(line):
            result = "Pass" if match[2] == "0" else "Fail"
            told = None if match[2] == "0" else f"{match[2]} failed"
            yield Diagnostic("gdrcopy_sanity", "all", result, detail=told, whole=True)
        elif match := _LIST.match(line):
            section = match[1]
        elif section == "failed" and re.fullmatch(r"[a-z]\w{3,80}", line):
            yield Diagnostic("gdrcopy_sanity", line, "Fail")
    if transfers:
        yield CopyTest("gdrcopy", "copybw", tuple(transfers))


_CELLS = re.compile(r"\|\s*(\w[^|]{1,80})\|\s*([^|]{0,400})\|\s*$")
_RESULT = re.compile(r"(Pass|Fail|Warn|Skip)\b(?:\s*-\s*(\S.*))?", re.IGNORECASE)
_DETAIL = {"Warning", "Info", "Error"}


def read_dcgm(output: Output) -> Iterator[Diagnostic]:
    """``dcgmi diag``: the table, or JSON of DCGM 3 (``tests``) and DCGM 4 (other spellings)."""
    start = output.text.find("{")
    if start >= 0 and '"test' in output.text:
        try:
            data = json.loads(output.text[start : output.text.rfind("}") + 1])
        except (ValueError, RecursionError):
            output.note("this is no JSON")
            return
        yield from _from_json(data)
        return
    last: Diagnostic | None = None
    whole = _is_whole(output)
    for line in output.lines():
        match = _CELLS.match(line)
        if match is None:
            continue
        name, said = match[1].strip(), match[2].strip()
        result = _RESULT.match(said)
        if result and name not in _DETAIL:
            if last:
                yield last
            where = tuple(re.findall(r"\d{1,4}", (result[2] or "").replace("All", "")))
            word = result[1].capitalize()
            last = Diagnostic("dcgmi diag", name, word, where, whole=whole)
        elif last and name in _DETAIL and last.detail is None:
            last = replace(last, detail=said)
    if last:
        yield last


def _is_whole(output: Output) -> bool | None:
    """A table down to the line that closes it, or a search that lets failures through."""
    if output.filters:
        search = search_of(output)
        return (search is not None and search.covers("| PCIe   | Fail  |")) or None
    rows = [line for line in output.lines() if line.startswith(("|", "+"))]
    return (bool(rows) and re.fullmatch(r"\+-+\+-+\+", rows[-1]) is not None) or None


def _from_json(data: Any) -> Iterator[Diagnostic]:
    top = next(iter(data.values()), None) if isinstance(data, dict) else None
    categories = top.get("test_categories") if isinstance(top, dict) else None
    for category in categories if isinstance(categories, list) else ():
        tests = category.get("tests") if isinstance(category, dict) else None
        for test in tests if isinstance(tests, list) else ():
            results = test.get("results") if isinstance(test, dict) else None
            grouped: dict[str, list[str]] = {}
            details: dict[str, str] = {}
            for result in results if isinstance(results, list) else ():
                if isinstance(result, dict) and isinstance(status := result.get("status"), str):
                    entity = result.get("gpu_id", result.get("entity_id"))
                    grouped.setdefault(status.capitalize(), []).append(str(entity))
                    told = result.get("warnings") or result.get("info") or ""
                    details.setdefault(status.capitalize(), str(told)[:200])
            for status, entities in grouped.items():
                where = tuple(name for name in entities if name.isdigit())
                name = str(test.get("name"))[:60]
                yield Diagnostic("dcgmi diag", name, status, where, details[status] or None, True)


READERS = (
    reader(
        "gdrcopy_copybw",
        read_gdrcopy,
        command=r"(?:gdrcopy_)?(?:copybw|copylat|sanity)\b",
        shape=r"^Total: \d+, Passed: \d+, Failed: \d+, Waived:|^(?:write|read) BW: [\d.]+MB/s",
    ),
    reader(
        "dcgmi diag",
        read_dcgm,
        command=r"dcgmi\s+diag\b",
        shape=r"^\| Diagnostic +\| Result|^ {0,8}\"DCGM (?:GPU )?Diagnostic\"",
    ),
)
