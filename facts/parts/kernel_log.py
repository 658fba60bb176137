"""What drivers report in the kernel log, as typed events."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelEvent:
    """
    One report of a driver; ``bdf`` None: it names no device. ``text`` is its own wording.

    ``over``: after it the driver was loaded, or the device recovered.
    """

    # "metax", "mlx5", "aer", "xid", "sxid" (of a switch of the fabric), "ppu", "memory"
    family: str
    code: str  # event id, Xid number, kind of error
    level: str  # "info", "warning", "error"; "unknown": nothing tells how grave it is
    bdf: str | None
    text: str
    grave: bool = False  # the driver says that it is fatal
    over: bool = False
