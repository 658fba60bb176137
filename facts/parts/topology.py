"""How far accelerators and NICs of one host are apart, in the words of the vendor's tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar


def _empty() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Topology:
    """
    The matrix of ``nvidia-smi topo -m`` and its kin.

    ``links`` holds, for each name that has a row, the words of all columns in the order of
    ``names``: "PIX", "SYS", "NV18", "MX", "ICN2"; "X" is the thing itself.
    """

    # a tool has a matrix of accelerators alone and one with NICs
    IDENTITY: ClassVar = (("tool", "names"),)

    tool: str  # "nvidia-smi"
    names: tuple[str, ...]  # columns: "GPU0", ..., "NIC0", ...
    links: Mapping[str, tuple[str, ...]]
    nics: Mapping[str, str] = field(default_factory=_empty)  # "NIC0": "mlx5_0"
    numa: Mapping[str, str] = field(default_factory=_empty)  # "GPU0": "0", "PPU0": "2-3"

    def between(self, one: str, other: str) -> str | None:
        """The word for two things of the matrix; None where no row or column tells."""
        for row, column in ((one, other), (other, one)):
            if row in self.links and column in self.names:
                return self.links[row][self.names.index(column)]
        return None

    def label(self, device: str) -> str | None:
        """``mlx5_0`` -> ``NIC0``; older tools name the columns after the devices themselves."""
        if device in self.names:
            return device
        return next((label for label, name in self.nics.items() if name == device), None)

    def device(self, label: str) -> str:
        return self.nics.get(label, label)

    @property
    def accelerators(self) -> tuple[str, ...]:
        """Columns of accelerators: those that begin as the first one does."""
        stem = self.names[0].rstrip("0123456789") if self.names else ""
        return tuple(name for name in self.names if name.rstrip("0123456789") == stem)

    @property
    def adapters(self) -> tuple[str, ...]:
        """Columns of NICs."""
        own = set(self.accelerators)
        return tuple(name for name in self.names if name not in own)
