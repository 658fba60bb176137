"""What drivers report in the kernel log, as typed events."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_BDF = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"

# METAX.B4F00.D0.V0.SMI.ERROR text: B = domain << 16 | bus << 8 | function
_METAX = re.compile(
    r"\b(?:METAX|MXGVM|MXCD)(?:\.B([0-9A-F]{3,12}))?(?:\.[DV]\d{1,3}){0,2}\.(\w{2,12})\."
    r"(INFO|WARN|WARNING|ERROR|ALERT|FATAL)\b:? ?(.*)"
)
_EVENT = re.compile(rf"EID \(({_BDF})\): (0x[0-9a-f]{{1,8}}), ?(.*)", re.IGNORECASE)
_SDK = re.compile(r"\bSDK\.\d{6,8}\.(\w{2,12})\.(ERROR|FATAL|ALERT) (.*)")
_XID = re.compile(
    r"NVRM: Xid \(PCI:([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})\): (\d{1,5}),? ?(.*)", re.I
)
_SXID = re.compile(
    r"SXid \(PCI:([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\): (\d{1,6}), ?((?:non-)?fatal\b.*)",
    re.I,
)
_MLX5 = re.compile(
    rf"mlx5_core ({_BDF})(?: \S{{1,32}})?: (.*)",
    re.IGNORECASE,
)
_PPU = re.compile(
    rf"(?:({_BDF}).{{0,120}}?)?(uncorrected ECC error|ERR_FAB_REQ_TO)", re.IGNORECASE
)
_MLX5_HEALTH = (
    ("health", re.compile(r"health (?:compromised|poll failed)|Health issue observed|Fatal error")),
    ("command-timeout", re.compile(r"wait_func:\d+.*timeout\. Will cause a leak|cmd.* timeout")),
    ("device-error", re.compile(r"device is in internal error|enter_error_state|firmware fatal")),
)
_AER = re.compile(
    rf"({_BDF}): (?:PCIe Bus Error|AER): (?:Multiple |severity=)?(Uncorrected \(?(?:Non-)?Fatal\)?"
    rf"|Uncorrectable \(?(?:Non-)?Fatal\)?|Corrected|Correctable)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class KernelEvent:
    """One report of a driver; ``bdf`` None: it names no device. ``text`` is its own wording."""

    family: str  # "metax", "mlx5", "aer", "xid", "sxid" (of a switch of the fabric), "ppu"
    code: str  # event id, Xid number, kind of error
    level: str  # "info", "warning", "error"
    bdf: str | None
    text: str
    grave: bool = False  # the driver says that it is fatal


def kernel_events(lines: Iterable[str]) -> Iterator[KernelEvent]:
    """The events of a kernel log, oldest first."""
    for line in lines:
        if event := _event(line):
            yield event


def _event(line: str) -> KernelEvent | None:
    if "NVRM" in line:
        match = _XID.search(line)
        return match and KernelEvent("xid", match[2], "error", f"{match[1].lower()}.0", match[3])
    if "SXid" in line and (match := _SXID.search(line)):
        grave = match[3].lower().startswith("fatal")
        return KernelEvent("sxid", match[2], "error", match[1].lower(), match[3], grave)
    if "alixpu" in line and (match := _PPU.search(line)):
        device = match[1] and match[1].lower()
        return KernelEvent("ppu", match[2], "error", device, line.strip(), "ECC" in match[2])
    if "mlx5_core" in line and (match := _MLX5.search(line)):
        for code, pattern in _MLX5_HEALTH:
            if pattern.search(match[2]):
                return KernelEvent("mlx5", code, "error", match[1].lower(), match[2])
        return None
    if match := _SDK.search(line):
        return _metax_event(None, match[2], match[3])
    if match := _METAX.search(line):
        return _metax_event(match[1], match[3], match[4])
    if ("AER" in line or "PCIe Bus Error" in line) and (match := _AER.search(line)):
        level = "info" if match[2].lower().startswith("correct") else "error"
        fatal = level == "error" and "non" not in match[2].lower()
        return KernelEvent("aer", match[2].lower(), level, match[1].lower(), line, fatal)
    return None


def _metax_event(code: str | None, level: str, text: str) -> KernelEvent:
    severity = {"INFO": "info", "WARN": "warning", "WARNING": "warning"}.get(level, "error")
    if match := _EVENT.search(text):
        grave = level in ("FATAL", "ALERT")
        return KernelEvent("metax", match[2].lower(), severity, match[1].lower(), match[3], grave)
    return KernelEvent("metax", level, severity, _device(code) if code else None, text)


def _device(code: str) -> str:
    """``4F00`` -> ``0000:4f:00.0``."""
    number = int(code, 16)
    domain, bus, function = number >> 16, number >> 8 & 0xFF, number & 0xFF
    return f"{domain:04x}:{bus:02x}:{function >> 3:02x}.{function & 7}"
