"""Outputs in JSON, such as of ``ip -j`` and ``rdma -j``: compact, pretty, or through jq."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from rackready.facts.readers.reader import Output

_BEGIN = re.compile(r"^[ \t]*(?=\{|\[\s*[{\]])", re.MULTILINE)
_MOST = 8  # beginnings that turn out to be none; each costs a look at what follows
_DECODER = json.JSONDecoder()


def objects(output: Output) -> tuple[Mapping[str, Any], ...] | None:
    """The objects of an output, one after another or in arrays; None where it is no JSON."""
    found: list[Any] = []
    at, failed, known = 0, 0, False
    while failed < _MOST and (begin := _BEGIN.search(output.text, at)):
        try:
            value, at = _DECODER.raw_decode(output.text, begin.end())
        except (ValueError, RecursionError):
            at, failed = begin.end() + 1, failed + 1
            continue
        known = True
        found += value if isinstance(value, list) else [value]
    if failed and output.text.lstrip().startswith(("{", "[")):
        output.note(f"the JSON of {output.command[:40]} is damaged or cut")
    # Old iproute2 prints an empty object for each interface that it leaves out.
    return tuple(item for item in found if isinstance(item, dict) and item) if known else None


def text_of(item: Mapping[str, Any], key: str) -> str | None:
    value = item.get(key)
    return value if isinstance(value, str) and value else None


def number_of(item: Mapping[str, Any], key: str) -> int | None:
    value = item.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def items_of(item: Mapping[str, Any], key: str) -> tuple[Any, ...]:
    value = item.get(key)
    return tuple(value) if isinstance(value, list) else ()


def part_of(item: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = item.get(key)
    return value if isinstance(value, dict) else {}
