"""Errors that drivers report in the kernel log."""

from __future__ import annotations

from collections import Counter

from rackready.check import Cases, View, case, check
from rackready.facts.parts.kernel_log import KernelEvent, kernel_events
from rackready.finding import Verdict

_MOST = 20  # findings of one node

# Grave ones, by family: the device or its driver has stopped.
_GRAVE = {"mlx5": ("health", "device-error"), "metax": ("FATAL", "ALERT")}


@check(
    "kernel.events",
    accelerator=Verdict.WARN,
    accelerator_grave=Verdict.FAIL,
    nic=Verdict.WARN,
    nic_grave=Verdict.FAIL,
    bus=Verdict.WARN,
    bus_grave=Verdict.FAIL,
)
def events(view: View) -> Cases:
    """One finding for a device and a kind of error; Xids are judged with their accelerators."""
    seen: Counter[tuple[str, str, str]] = Counter()
    first: dict[tuple[str, str, str], KernelEvent] = {}
    for event in kernel_events(view.node.kernel_log or ()):
        if event.level != "error" or event.family in ("xid", "sxid"):
            continue
        key = (event.family, event.code, event.bdf or "")
        seen[key] += 1
        first.setdefault(key, event)
    for key, event in list(first.items())[:_MOST]:
        family, code, bdf = key
        times = "once" if seen[key] == 1 else f"{seen[key]} times"
        yield case(_kind(event), bdf or family, code=code, times=times, observed=event.text)


def _kind(event: KernelEvent) -> str:
    kind = {"mlx5": "nic", "aer": "bus"}.get(event.family, "accelerator")
    grave = event.code in _GRAVE.get(event.family, ()) or event.grave
    return f"{kind}-grave" if grave else kind
