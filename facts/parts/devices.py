"""Device nodes and other paths as listings show them, and what opening a node ended with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class DeviceNode:
    """A path below /dev; ``exists`` is False where a tool said that it is not there."""

    IDENTITY: ClassVar = (("path",),)

    path: str
    exists: bool
    mode: str | None = None  # "crw-rw-rw-"
    owner: str | None = None
    group: str | None = None
    major: int | None = None
    minor: int | None = None


@dataclass(frozen=True)
class Folder:
    """The names in a folder, where all of them were listed."""

    IDENTITY: ClassVar = (("path",),)

    path: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class OpenError:
    """How opening a device node ended."""

    IDENTITY: ClassVar = (("path", "errno"),)

    path: str
    errno: str  # "EPERM", "EACCES", "ENXIO", "ENODEV"; "" = it was opened


@dataclass(frozen=True)
class PathMode:
    """Permissions and owner of a file or a folder."""

    IDENTITY: ClassVar = (("path",),)

    path: str
    mode: int  # permission bits, with set-user-id and the like
    owner: str | None = None
    group: str | None = None


@dataclass(frozen=True)
class SharedMemory:
    """Size of /dev/shm in bytes."""

    IDENTITY: ClassVar = ((),)

    size: int
