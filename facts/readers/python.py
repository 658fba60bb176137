"""Python packages: ``pip list`` in its formats, ``pip freeze``, ``pip show``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from rackready.facts.parts.python import PythonPackage
from rackready.facts.readers.reader import Output, reader

_NAME = r"[A-Za-z0-9][\w.-]{0,80}"
_VERSION = r"\d[\w.+!-]{0,60}"
_COLUMNS = re.compile(rf"({_NAME})\s+\(?({_VERSION})\)?(?:\s+\S.*)?$")
_FROZEN = re.compile(rf"({_NAME})==({_VERSION})(?:\s.*)?$")
_WHEEL = re.compile(rf"({_NAME}) @ \S{{0,400}}/[\w.]{{1,80}}-({_VERSION}?)-(?:cp|py)\d")
_SHOWN = re.compile(r"(Name|Version): (\S+)$")


def normal(name: str) -> str:
    """``deep_ep`` -> ``deep-ep``."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_packages(output: Output) -> Iterator[PythonPackage]:
    """A package a line; pip's own warnings, headers and hints are none."""
    if output.text.lstrip().startswith("["):
        yield from _json(output)
        return
    shown = ""
    for line in output.lines():
        if match := _SHOWN.match(line):
            if match[1] == "Name":
                shown = match[2]
            elif shown:
                yield PythonPackage(normal(shown), match[2])
                shown = ""
        elif match := _FROZEN.match(line) or _WHEEL.match(line) or _COLUMNS.match(line):
            yield PythonPackage(normal(match[1]), match[2])


def _json(output: Output) -> Iterator[PythonPackage]:
    try:
        rows = json.loads(output.text)
    except (ValueError, RecursionError):
        output.note("no list of packages")
        return
    for row in rows:
        if isinstance(row, dict) and {"name", "version"} <= row.keys():
            yield PythonPackage(normal(str(row["name"])), str(row["version"]))


READERS = (
    reader(
        "pip list",
        read_packages,
        command=r"(?:pip3?(?:\.\d+)?|uv\s+pip|python3?(?:\.\d+)?\s+-m\s+pip)"
        r"\s+(?:-\S+\s+)*(?:list|freeze|show)\b|conda\s+list\b",
        shape=r"^Package +Version\b[^\n]*\n-{3,} -{3,}",
    ),
)
