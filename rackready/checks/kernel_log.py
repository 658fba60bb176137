"""Errors that drivers report in the kernel log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rackready.check import Cases, View, case, check
from rackready.facts.model import KernelLog
from rackready.facts.parts.kernel_log import KernelEvent
from rackready.facts.readers.kernel_events import kernel_events
from rackready.finding import Verdict

_MOST = 20  # findings of one node
_FLOOD = 20  # lines on corrected errors of one function from which on its link is worth a look

# Grave ones, by family: the device or its driver has stopped.
_GRAVE = {"mlx5": ("health", "device-error"), "metax": ("FATAL", "ALERT")}

Key = tuple[str, str, str]  # family, code, device


def reports(view: View) -> Iterator[tuple[KernelEvent, KernelEvent, int]]:
    """
    For each device and kind of error its first and its last event, and how many there are.

    Several outputs may show one log, whole or in parts: what is over in one of them is so in all,
    unless another shows more of its kind.
    """
    best: dict[Key, tuple[KernelEvent, KernelEvent, int]] = {}
    logs = view.node.facts.each(KernelLog) or (KernelLog(view.node.kernel_log or ()),)
    for log in logs:
        own: dict[Key, tuple[KernelEvent, KernelEvent, int]] = {}
        for event in kernel_events(log.lines):
            key = (event.family, event.code, event.bdf or "")
            first, _, count = own.get(key, (event, event, 0))
            own[key] = (first, event, count + 1)
        for key, found in own.items():
            known = best.get(key)
            if known is None or (found[2], found[1].over) > (known[2], known[1].over):
                best[key] = found
    yield from best.values()


@check(
    "kernel.events",
    accelerator=Verdict.WARN,
    accelerator_grave=Verdict.FAIL,
    nic=Verdict.WARN,
    nic_grave=Verdict.FAIL,
    bus=Verdict.WARN,
    bus_grave=Verdict.FAIL,
    bus_corrected=Verdict.WARN,
    past=Verdict.SKIP,
    not_judged=Verdict.SKIP,
    more=Verdict.WARN,
)
def events(view: View) -> Cases:
    """
    One finding for a device and a kind of error, grave ones first.

    Xids are judged with their accelerators.
    """
    found = []
    corrected: Counter[str] = Counter()
    for first, last, count in reports(view):
        if first.family == "aer" and first.level == "info":
            corrected[first.bdf or ""] += 0 if last.over else count
        elif first.level in ("error", "unknown") and first.family not in ("xid", "sxid"):
            found.append((_kind(first, last), first, count))
    bad = [item for item in found if item[0] not in _TOLD]
    bad.sort(key=lambda item: not item[0].endswith("-grave"))
    for kind, event, count in (*bad[:_MOST], *[i for i in found if i[0] in _TOLD][:_MOST]):
        times = "once" if count == 1 else f"{count} times"
        subject = event.bdf or event.family
        yield case(kind, subject, code=event.code, times=times, observed=event.text)
    if len(bad) > _MOST:
        yield case("more", "kernel log", observed=len(bad) - _MOST)
    for bdf, count in corrected.items():
        if count >= _FLOOD:
            yield case("bus-corrected", bdf, observed=count)


_TOLD = ("past", "not-judged")


def _kind(first: KernelEvent, last: KernelEvent) -> str:
    if last.over:
        return "past"
    if first.level == "unknown":
        return "not-judged"
    kind = {"mlx5": "nic", "aer": "bus"}.get(first.family, "accelerator")
    grave = first.code in _GRAVE.get(first.family, ()) or first.grave
    return f"{kind}-grave" if grave else kind
