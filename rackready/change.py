"""What a change of a node is made of: pure data, made by the plan, rendered by the operations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

_NAME = "[A-Za-z0-9_:@%+,=-][A-Za-z0-9_.:@%+,=-]*"  # so that none is "..", nor hidden
_TRIGGER = f"([0-9][0-9]-)?rackready-{_NAME}"

OURS = (
    f"/(etc|usr/local/lib)/rackready(/{_NAME})+"
    rf"|/etc/(udev/rules|modprobe|modules-load)\.d/{_TRIGGER}"
    rf"|/etc/systemd/system/({_NAME}\.wants/)?{_TRIGGER}"
)
"""Files and links that are rackready's: no other is written, shown or taken away.

An expression that ``re`` and ``grep -E`` read alike, to match a whole path. Manifest and journal
lie on the node, where they can be damaged or forged; this holds whatever they say.
"""

OUR_FOLDERS = (
    f"/(etc|usr/local/lib)/rackready(/{_NAME})*"
    r"|/etc|/usr|/usr/local|/usr/local/lib|/etc/(udev|(udev/rules|modprobe|modules-load)\.d)"
    rf"|/etc/systemd(/system(/{_NAME}\.wants)?)?"
)
"""Folders that rackready makes where they are missing, and takes away when they are empty."""

_OURS, _OUR_FOLDERS = re.compile(OURS), re.compile(OUR_FOLDERS)


def is_ours(kind: str, path: str) -> bool:
    """May a ``kind`` ("file", "link", "dir") at ``path`` be rackready's?"""
    return (_OUR_FOLDERS if kind == "dir" else _OURS).fullmatch(path) is not None


class Risk(str, Enum):
    """What a change can disturb, mildest first."""

    NONE = "none"  # files, limits, MaxReadReq
    TRAFFIC = "traffic"  # GID, QoS, MTU, ACS, links
    SERVICE = "service"  # module or daemon reload
    REBOOT = "reboot"
    FIRMWARE = "firmware"


@dataclass(frozen=True)
class File:
    """A file that is to hold ``text`` (ASCII, ending in a newline)."""

    path: str
    text: str
    mode: int = 0o644


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    path: str
    target: str


@dataclass(frozen=True)
class Setting:
    """A value that one of our on-node scripts reads and sets.

    ``script read SUBJECT`` prints the value, ``script apply SUBJECT`` sets what its configuration
    says, ``script restore SUBJECT VALUE CARD`` puts a prior value back, on that card only.
    """

    script: str
    subject: str
    value: str
    card: str  # vendor:device of what the subject names, now: another card may come to sit there


@dataclass(frozen=True)
class Undo:
    """Take one line of a node's journal back; ``entry`` is that line."""

    entry: Mapping[str, object]


@dataclass(frozen=True)
class Remove:
    """Take one thing of the manifest away; refused where it is no longer what was written."""

    path: str
    kind: str  # "file", "link", "dir"
    written: str


@dataclass(frozen=True)
class Refused:
    """Nothing to do, but to answer why: what was asked for can't be done."""

    subject: str
    reason: str


Step = File | Link | Setting | Undo | Remove | Refused


@dataclass(frozen=True)
class Change:
    """One change as a person reads it: what, from what to what, and what it can disturb."""

    check: str
    subject: str
    before: str
    after: str
    risk: Risk = Risk.NONE
    reason: str = ""
    diff: str = ""  # of a managed file that a person changed

    def __str__(self) -> str:
        return f"{self.check}: {self.subject}: {self.before} -> {self.after}"

    def as_dict(self) -> dict[str, str]:
        fields = {
            "check": self.check,
            "subject": self.subject,
            "before": self.before,
            "after": self.after,
            "risk": self.risk.value,
            "reason": self.reason,
            "diff": self.diff,
        }
        return {key: value for key, value in fields.items() if value}


@dataclass(frozen=True)
class Stage:
    """Changes that belong together, and the steps of the one script that makes them."""

    name: str
    check: str
    risk: Risk
    changes: tuple[Change, ...]
    steps: tuple[Step, ...]


class Outcome(str, Enum):
    """What a script on a node says of one item."""

    DONE = "done"
    SAME = "same"
    REFUSED = "refused"


@dataclass(frozen=True)
class Answer:
    check: str
    subject: str
    outcome: Outcome
    reason: str = ""
