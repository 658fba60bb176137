"""How accelerators are at one moment: what they measure, count and run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar


def _no_values() -> Mapping[str, float]:
    return MappingProxyType({})


def _no_counts() -> Mapping[str, int]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Reading:
    """What one accelerator showed at one moment; of several, the last one counts."""

    IDENTITY: ClassVar = ()

    index: int | None = None
    bdf: str | None = None
    memory_used_mib: int | None = None
    memory_mib: int | None = None
    utilisation: int | None = None  # per cent
    power_w: float | None = None
    temperatures: Mapping[str, float] = field(default_factory=_no_values)  # degrees C, by sensor


@dataclass(frozen=True)
class ErrorCounts:
    """Memory errors that one accelerator has counted, by the tool's own words."""

    IDENTITY: ClassVar = ()

    index: int | None = None
    bdf: str | None = None
    errors: Mapping[str, int] = field(default_factory=_no_counts)  # "SRAM Correctable": 3
    retired_pages: Mapping[str, int] = field(default_factory=_no_counts)  # by their cause


@dataclass(frozen=True)
class AcceleratorProcess:
    index: int
    pid: int
    command: str
    memory_mib: int | None = None


@dataclass(frozen=True)
class AcceleratorProcesses:
    """A tool's whole list of processes that use accelerators; an empty one says that none does."""

    IDENTITY: ClassVar = ()

    tool: str
    found: tuple[AcceleratorProcess, ...] = ()
