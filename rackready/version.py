"""Versions of an accelerator SDK, which come in two lines that cannot be compared."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from packaging.version import Version


class Line(str, Enum):
    RELEASE = "release"  # 3.8.2, 3.3.0.15
    MASTER = "master"  # date of the build and its number: 20260806-1300


_WORDS = re.compile(r"(?:(?:maca|sdk|version|release|master)[\s:_-]*)*[(#]*", re.IGNORECASE)
_MASTER = re.compile(r"(20[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01]))-([0-9]{1,6})\)?")
_RELEASE = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,6}){1,4}\)?")


@dataclass(frozen=True)
class SdkVersion:
    """
    A version of one line. Versions of the same line are ordered; ``<`` and the like raise TypeError
    across lines, since no date build is newer or older than a release.
    """

    line: Line
    key: Version  # of a date build: date and number as if they were parts of a release

    @classmethod
    def parse(cls, text: str | None) -> SdkVersion | None:
        """The version in ``Version:3.8.1.6``, ``release-2.32``, ``#20260510-924``; else None."""
        if text is None:
            return None
        text = text.strip()
        words = _WORDS.match(text)
        bare = text[words.end() :] if words else text
        if found := _MASTER.fullmatch(bare):
            return cls(Line.MASTER, Version(f"{found[1]}.{found[2]}"))
        if _RELEASE.fullmatch(bare):
            return cls(Line.RELEASE, Version(bare.rstrip(")")))
        return None

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, SdkVersion) or other.line is not self.line:
            return NotImplemented
        return self.key < other.key

    def __le__(self, other: object) -> bool:
        if not isinstance(other, SdkVersion) or other.line is not self.line:
            return NotImplemented
        return self.key <= other.key

    def __str__(self) -> str:
        return str(self.key).replace(".", "-") if self.line is Line.MASTER else str(self.key)


def at_least(
    version: SdkVersion | None, release: SdkVersion | None, master: SdkVersion | None
) -> bool | None:
    """
    Whether ``version`` is as new as the first one of its own line: ``release`` or ``master``.

    None when that cannot be told: no version, or no first one is known for its line.
    """
    if version is None:
        return None
    first = release if version.line is Line.RELEASE else master
    return None if first is None else version >= first
