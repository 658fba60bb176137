"""Kernel modules: loaded, on disk, at boot, in use, and the symbols that they export."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar


def _empty() -> Mapping[str, str]:
    return MappingProxyType({})


def plain_name(module: str) -> str:
    """``nvidia-peermem`` -> ``nvidia_peermem``: the kernel's own way to write it."""
    return module.replace("-", "_")


@dataclass(frozen=True)
class Search:
    """
    What the lines of an output had to hold; each of ``patterns`` has to be found in a line.

    The patterns are regular expressions of plain words and alternatives. None of them: nothing was
    filtered.
    """

    patterns: tuple[str, ...] = ()

    def covers(self, line: str) -> bool:
        """True when such a line would have been shown."""
        return all(re.search(pattern, line) for pattern in self.patterns)


@dataclass(frozen=True)
class ModuleList:
    """Loaded modules as ``lsmod`` showed them; ``search`` None = what was left out is unknown."""

    IDENTITY: ClassVar = ()

    names: tuple[str, ...]
    search: Search | None = None

    def says(self, name: str) -> bool | None:
        """Is the module loaded? None: this listing does not tell."""
        if name in self.names:
            return True
        covered = self.search is not None and self.search.covers(f"{name}  1 0")
        return False if covered else None


@dataclass(frozen=True)
class ModuleFile:
    """A module on disk. ``parameters``: name -> description; ``aliases`` None = not looked at."""

    IDENTITY: ClassVar = (("name",),)

    name: str
    found: bool | None = None
    path: str | None = None
    version: str | None = None
    vermagic: str | None = None
    depends: tuple[str, ...] | None = None
    aliases: bool | None = None
    parameters: Mapping[str, str] = field(default_factory=_empty)

    @property
    def kernel(self) -> str | None:
        """The kernel release that it was built for."""
        return self.vermagic.split()[0] if self.vermagic and self.vermagic.strip() else None


@dataclass(frozen=True)
class ModuleState:
    """What ``/sys/module/NAME`` says of a loaded module."""

    IDENTITY: ClassVar = (("name",),)

    name: str
    present: bool | None = None
    state: str | None = None  # "live", "coming", "going"


@dataclass(frozen=True)
class ModuleChange:
    """A module that was to be loaded or unloaded, and what the tool said; "" = nothing."""

    IDENTITY: ClassVar = ()

    tool: str  # "modprobe", "rmmod", "insmod"
    module: str
    unload: bool
    error: str
    holders: tuple[str, ...] = ()  # modules that it is in use by


@dataclass(frozen=True)
class OpenHandle:
    """A process that holds a device node open."""

    IDENTITY: ClassVar = (("device", "pid", "program"),)

    device: str
    pid: int
    program: str  # some tools cut it


@dataclass(frozen=True)
class ModprobeLine:
    """A line of modprobe.d: ``options metax ib_reg_addr=0x...``; ``kind`` is its first word."""

    IDENTITY: ClassVar = (("path", "kind", "module", "text"),)

    path: str  # "" = not known
    kind: str
    module: str
    text: str  # what stands behind the module's name

    @property
    def options(self) -> Mapping[str, str]:
        found = _OPTION.findall(self.text) if self.kind == "options" else ()
        return {name: value.strip("\"'") for name, value in found}


_OPTION = re.compile(r"""\b(\w+)=((?:[^\s"']|"[^"]{0,400}"|'[^']{0,400}'){0,900})""")


@dataclass(frozen=True)
class BootFolder:
    """A folder of modules-load.d and the names of its files; ``whole``: there are no others."""

    IDENTITY: ClassVar = (("path",),)

    path: str
    files: tuple[str, ...] | None = None
    whole: bool | None = None


@dataclass(frozen=True)
class BootModules:
    """A file of modules-load.d (or /etc/modules) and the modules that it names."""

    IDENTITY: ClassVar = (("path",),)

    path: str
    names: tuple[str, ...] | None = None


@dataclass(frozen=True)
class InitramfsFile:
    """A file in the initial RAM disk."""

    IDENTITY: ClassVar = (("path",),)

    path: str


@dataclass(frozen=True)
class KernelSymbol:
    """A symbol of ``/proc/kallsyms``; address 0 = hidden; module "" = part of the kernel."""

    IDENTITY: ClassVar = (("name", "module", "kind"),)

    name: str
    kind: str  # "T", "t", "r", ...
    module: str
    address: int


@dataclass(frozen=True)
class SymbolSearch:
    """A look into ``/proc/kallsyms`` for names; what it would have shown and did not is absent."""

    IDENTITY: ClassVar = ()

    search: Search | None


@dataclass(frozen=True)
class ModprobeSearch:
    """A look into modprobe.d through filters; ``search`` None = what they left out is unknown."""

    IDENTITY: ClassVar = ()

    search: Search | None


@dataclass(frozen=True)
class LogSearch:
    """A look into the kernel log; ``lines`` = how many it showed."""

    IDENTITY: ClassVar = ()

    search: Search | None
    lines: int


@dataclass(frozen=True)
class OfedSources:
    """``/usr/src/ofa_kernel``: kernels it has sources for, and the one of its link ``default``."""

    IDENTITY: ClassVar = ((),)

    kernels: tuple[str, ...] = ()
    default: str | None = None


@dataclass(frozen=True)
class Ofed:
    """MLNX_OFED or DOCA-OFED; version "" = it is not installed."""

    IDENTITY: ClassVar = ((),)

    version: str | None = None


@dataclass(frozen=True)
class DkmsModule:
    """A line of ``dkms status``."""

    IDENTITY: ClassVar = (("name", "version", "kernel"),)

    name: str
    version: str
    kernel: str  # "" = for none yet
    state: str  # "installed", "built", "added", "broken"


@dataclass(frozen=True)
class DriverParameters:
    """Parameters that a driver says it runs with: ``/proc/driver/nvidia/params``."""

    IDENTITY: ClassVar = (("driver",),)

    driver: str
    values: Mapping[str, str]


@dataclass(frozen=True)
class MemoryPeer:
    """An entry of ``/sys/kernel/mm/memory_peers``; newer RDMA stacks have no such folder."""

    IDENTITY: ClassVar = (("name",),)

    name: str
    present: bool
    version: str | None = None
