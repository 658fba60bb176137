"""Limits of locked memory: of shells, jobs, services and containers, and what sets them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

UNLIMITED = -1


@dataclass(frozen=True)
class MemLock:
    """A limit of locked memory in bytes; ``UNLIMITED`` where there is none."""

    IDENTITY: ClassVar = (("place", "name", "soft"),)

    place: str  # "shell", "job", "service", "process", "container", "log"
    name: str  # of the service, the process, the container; "" where there is none
    soft: int
    hard: int | None = None


@dataclass(frozen=True)
class ProcessId:
    """A process of a program, as pidof found it."""

    IDENTITY: ClassVar = (("pid",),)

    pid: int
    program: str


@dataclass(frozen=True)
class MemLockRefusal:
    """A line of a log: memory could not be locked. ``limit`` as the line tells it, in bytes."""

    IDENTITY: ClassVar = (("call", "limit"),)

    call: str  # "ibv_create_cq"; "" where the line names none
    limit: int | None = None


@dataclass(frozen=True)
class LimitRule:
    """A memlock line of limits.conf or limits.d; ``value`` in KiB, as there."""

    IDENTITY: ClassVar = (("file", "domain", "kind"),)

    file: str
    domain: str  # "*", "root", "@group"
    kind: str  # "soft", "hard", "-" = both
    value: int | None = None  # UNLIMITED; None = it is no number


@dataclass(frozen=True)
class PamLimits:
    """Whether pam_limits stands in the PAM files that were searched."""

    IDENTITY: ClassVar = ((),)

    used: bool
