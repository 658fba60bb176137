"""Listings of sysfs: what ``ls -l`` and ``grep -s ''`` print of many small files and links."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

Note = Callable[[str], None]
"""Takes one sentence about something that could not be understood."""

BDF = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)

# Mode, count, owner, group, size (or device numbers), time in one of two styles, name.
_LONG = re.compile(
    r"([-bcdlps])([-rwxsStT]{9})[.+@]?\s+\d+\s+\S+\s+\S+\s+(?:\d+,\s*)?\d+\s+"
    r"(?:[A-Z][a-z]{2}\s+\d+\s+[\d:]+|\d{4}-\d\d-\d\d\s+[\d:.]+(?:\s+[-+]\d{4})?)\s(.*)",
    re.ASCII,
)
_TOTAL = re.compile(r"total \d+", re.ASCII)
_DECIMAL = re.compile(r"-?[0-9]{1,20}")
_HEXADECIMAL = re.compile(r"(?:0x)?[0-9a-f]{1,16}", re.IGNORECASE)


def bdf(text: str) -> str | None:
    """``33:00.0`` or ``0000:33:00.0`` in any case -> ``0000:33:00.0``; None if it is no address."""
    match = BDF.fullmatch(text.strip())
    if match is None or int(match[3], 16) > 0x1F:
        return None
    return f"{int(match[1] or '0', 16):04x}:{match[2]}:{match[3]}.{match[4]}".lower()


def lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers; nothing but a newline ends a line."""
    for number, line in enumerate(text.split("\n"), 1):
        if line := line.strip():
            yield number, line


def links(text: str, note: Note) -> Iterator[tuple[str, str]]:
    """Pairs (name, target) of the symbolic links in a long listing."""
    for number, line in lines(text):
        entry = _LONG.fullmatch(line)
        if entry and entry[1] == "l":
            name, arrow, target = entry[3].partition(" -> ")
            if arrow:
                yield name, target
                continue
        if not (entry and entry[1] != "l") and not _TOTAL.fullmatch(line):
            note(f"line {number} is no entry of a listing: {line[:60]!r}")


def mode_of(text: str) -> int | None:
    """``-rw-r--r-- 1 root ...`` -> 0o644."""
    entry = _LONG.fullmatch(text.strip())
    if entry is None:
        return None
    bits = [letter not in "-ST" for letter in entry[2]]
    special = [letter in "sStT" for letter in entry[2][2::3]]
    return sum(bit << place for bit, place in zip(special + bits, range(11, -1, -1), strict=True))


def attributes(text: str, note: Note) -> dict[str, dict[str, str]]:
    """``0000:33:00.0/class:0x020000`` -> {"0000:33:00.0": {"class": "0x020000"}}."""
    found: dict[str, dict[str, str]] = {}
    for number, line in lines(text):
        name, slash, rest = line.partition("/")
        attribute, colon, value = rest.partition(":")
        if slash and colon:
            found.setdefault(name, {})[attribute] = value.strip()
        else:
            note(f"line {number} is no attribute: {line[:60]!r}")
    return found


def number(text: str | None, base: int = 10) -> int | None:
    """A number as sysfs prints it, in base 10 or 16; None when it is none."""
    pattern = _HEXADECIMAL if base == 16 else _DECIMAL
    return int(match[0], base) if (match := pattern.fullmatch((text or "").strip())) else None
