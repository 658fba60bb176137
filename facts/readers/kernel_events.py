"""Reports of drivers among the lines of a kernel log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rackready.facts.parts.kernel_log import KernelEvent

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
    r"SXid \(PCI:([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\): (\d{1,6}), ?"
    r"((?:non-)?fatal\b.*)",
    re.I,
)
_MLX5 = re.compile(
    rf"mlx5_core ({_BDF})(?: \S{{1,32}})?: (.*)",
    re.IGNORECASE,
)
_PPU = re.compile(rf"(?:({_BDF}).{{0,120}}?)?(uncorrected ECC error|ERR_FAB_REQ_TO)", re.IGNORECASE)
_MLX5_HEALTH = (
    ("health", re.compile(r"health (?:compromised|poll failed)|Health issue observed|Fatal error")),
    (
        "command-timeout",
        re.compile(r"wait_func:\d{1,9}.{0,200}timeout\. Will cause a leak|cmd.{0,200} timeout"),
    ),
    ("device-error", re.compile(r"device is in internal error|enter_error_state|firmware fatal")),
)
_AER = re.compile(
    rf"({_BDF}): (?:AER: )?(?:PCIe Bus Error|AER): (?:Multiple )?(?:severity=)?"
    r"(Uncorrect(?:ed|able)(?: \(?(?:Non-)?Fatal\)?)?|Correct(?:ed|able))",
    re.IGNORECASE,
)

# "error message received from 0000:41:00.0", of older kernels "received: id=4100"
_SENDER = re.compile(rf"received(?: from|:) (?:({_BDF})|id=([0-9a-f]{{4}})\b)", re.IGNORECASE)
_OUT_OF_MEMORY = re.compile(r"Out of memory: Kill(?:ed)? process .{0,200}")
_COMMAND_FAILED = re.compile(r"mlx5_cmd_(?:out_err|check)\b.{0,80}\bfailed")

_LOST = "fallen off the bus"  # no driver that is loaded anew brings such a device back

# What ends the reports before it, of which families: of the device that it names, else of all
_ENDS = (
    (
        re.compile(r"Linux version \d"),
        ("mlx5", "metax", "aer", "xid", "sxid", "ppu", "memory", "lost"),
    ),
    (re.compile(r"NVRM: loading NVIDIA "), ("xid", "sxid")),
    (re.compile(r"\[alixpu\] XPU Driver Initialization"), ("ppu",)),
    (
        re.compile(
            rf"mlx5_core ({_BDF}).{{0,80}}: (?:health recovery succeeded|firmware version: )"
        ),
        ("mlx5",),
    ),
    # Xid 154: the action that was asked for is none any more
    (
        re.compile(
            r"NVRM: Xid \(PCI:([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})\): 154\b.{0,160}"
            r" to 0x0 \(None\)",
            re.IGNORECASE,
        ),
        ("xid",),
    ),
)
_END_WORDS = (
    "Linux version",
    "loading NVIDIA",
    "Initialization",
    "succeeded",
    "firmware v",
    "None",
)


def kernel_events(lines: Sequence[str]) -> Iterator[KernelEvent]:
    """The events of one kernel log, oldest first."""
    found: list[KernelEvent] = []
    ended: set[tuple[str, str]] = set()  # family and device ("" = all), by what comes later
    for line in reversed(lines):
        if event := _event(line):
            family = "lost" if _LOST in event.text else event.family
            over = bool(ended & {(family, ""), (family, event.bdf or "")})
            found.append(replace(event, over=over))
        if any(word in line for word in _END_WORDS):
            ended |= set(_ended(line))
    yield from reversed(found)


def _ended(line: str) -> Iterator[tuple[str, str]]:
    for pattern, families in _ENDS:
        if match := pattern.search(line):
            device = match[1].lower() if match.groups() else ""
            device = f"{device}.0" if device and "." not in device else device
            yield from ((family, device) for family in families)


def _event(line: str) -> KernelEvent | None:
    if "NVRM" in line:
        match = _XID.search(line)
        return match and KernelEvent("xid", match[2], "error", f"{match[1].lower()}.0", match[3])
    if ("AER" in line or "PCIe Bus Error" in line) and (match := _AER.search(line)):
        level = "info" if match[2].lower().startswith("correct") else "error"
        fatal = level == "error" and re.search(r"(?<!non-)\bfatal", match[2].lower()) is not None
        # a port names the function that sent the message
        source = _SENDER.search(line) if level == "error" else None
        address = _sender(source, match[1]) if source else match[1].lower()
        return KernelEvent("aer", match[2].lower(), level, address, line, fatal)
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
        if _COMMAND_FAILED.search(match[2]):
            return KernelEvent("mlx5", "command-failed", "unknown", match[1].lower(), match[2])
        return None
    if "Out of memory" in line and (match := _OUT_OF_MEMORY.search(line)):
        return KernelEvent("memory", "out-of-memory", "unknown", None, match[0])
    if match := _SDK.search(line):
        return _metax_event(None, match[2], match[3])
    if match := _METAX.search(line):
        return _metax_event(match[1], match[3], match[4])
    return None


def _metax_event(code: str | None, level: str, text: str) -> KernelEvent:
    severity = {"INFO": "info", "WARN": "warning", "WARNING": "warning"}.get(level, "error")
    if match := _EVENT.search(text):
        grave = level in ("FATAL", "ALERT")
        return KernelEvent("metax", match[2].lower(), severity, match[1].lower(), match[3], grave)
    return KernelEvent("metax", level, severity, _device(code) if code else None, text)


def _sender(source: re.Match[str], port: str) -> str:
    """The device that a port's message names; an id is that of one in the port's domain."""
    return (source[1] or _device(source[2], int(port.partition(":")[0], 16))).lower()


def _device(code: str, above: int = 0) -> str:
    """``4F00`` -> ``0000:4f:00.0``; ``above`` is the domain where the code holds none."""
    number = int(code, 16) | above << 16
    domain, bus, function = number >> 16, number >> 8 & 0xFF, number & 0xFF
    return f"{domain:04x}:{bus:02x}:{function >> 3:02x}.{function & 7}"
