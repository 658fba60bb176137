"""How a job was started: launch commands, hosts, rank files, MCA parameters; what failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar


def _empty() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True)
class LaunchCommand:
    """A command line of mpirun or its kin. ``mca`` and ``exports``: name -> value ("" = none)."""

    IDENTITY: ClassVar = ()

    program: str  # "mpirun", as it was typed: also "/opt/maca/ompi/bin/mpirun"
    ranks: int | None = None
    hosts: tuple[str, ...] = ()
    slots: tuple[tuple[str, int | None], ...] = ()  # as -host gives them: ("n1", 8)
    hostfile: str | None = None
    rankfile: str | None = None
    prefix: str | None = None
    oversubscribes: bool = False  # more processes than slots are allowed
    mca: Mapping[str, str] = field(default_factory=_empty)
    exports: Mapping[str, str] = field(default_factory=_empty)
    application: tuple[str, ...] = ()

    @property
    def implied_prefix(self) -> str | None:
        """``/opt/x`` of ``/opt/x/bin/mpirun``: an absolute path stands for --prefix."""
        if self.prefix:
            return self.prefix
        folder, _, _ = self.program.rpartition("/")
        return folder.removesuffix("/bin") or None if folder.startswith("/") else None


@dataclass(frozen=True)
class Placement:
    rank: int
    host: str
    slots: str  # "16-31", "0:0-3"


@dataclass(frozen=True)
class RankFile:
    """Lines ``rank N=HOST slot=LIST``; ``path`` "" = not known. Not complete: it was filtered."""

    IDENTITY: ClassVar = ()

    placements: tuple[Placement, ...]
    path: str = ""
    complete: bool = True


@dataclass(frozen=True)
class HostFile:
    """Lines ``HOST slots=N`` or ``HOST:N``; slots None = not given."""

    IDENTITY: ClassVar = ()

    hosts: tuple[tuple[str, int | None], ...]
    path: str = ""
    complete: bool = True


@dataclass(frozen=True)
class McaFile:
    """Parameters of a file such as ``openmpi-mca-params.conf``."""

    IDENTITY: ClassVar = (("path",),)

    path: str
    values: Mapping[str, str]


@dataclass(frozen=True)
class CpuList:
    """Processors of a NUMA node: ``0-15,64-79``."""

    IDENTITY: ClassVar = (("node",),)

    node: int
    cpus: str


@dataclass(frozen=True)
class ProgramPath:
    """Where a shell finds a program; ``path`` "" = nowhere. ``host`` "" = where it was typed."""

    IDENTITY: ClassVar = (("host", "program"),)

    host: str
    program: str
    path: str


@dataclass(frozen=True)
class LaunchFailure:
    """What Open MPI said: ``kind`` is one of the reader's, ``values`` its details, ``host`` who."""

    IDENTITY: ClassVar = ()

    kind: str
    values: tuple[str, ...] = ()
    host: str = ""
