"""State of PCI Express links, errors on them, and addresses that hit nothing or too much."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rackready.check import Cases, View, case, check
from rackready.checks.pcie_paths import accelerators, bridges_of, compute_functions
from rackready.facts.model import PciFunction
from rackready.facts.parts.pcie import (
    AccessTrouble,
    DeviceQuery,
    ErrorCounters,
    LinkFiles,
    RegisterRead,
    RegisterWrite,
)
from rackready.facts.readers.lspci import CORRECTABLE, UNCORRECTABLE
from rackready.facts.readers.setpci import matching
from rackready.facts.readers.sysfs import bdf as as_bdf
from rackready.facts.readers.sysfs import number
from rackready.finding import Verdict

_RATES = {1: "2.5 GT/s", 2: "5 GT/s", 3: "8 GT/s", 4: "16 GT/s", 5: "32 GT/s", 6: "64 GT/s"}
_BUSY = 20  # per cent of use from which on a link has no reason to save power


@dataclass(frozen=True)
class _Link:
    """A link as all outputs together tell it; speeds are PCIe generations."""

    subject: str
    accelerator: bool
    speed: int | None = None
    width: int | None = None
    speed_max: int | None = None
    width_max: int | None = None
    use: int | None = None  # per cent
    narrow: bool = False
    slow: bool = False


def _field(row: DeviceQuery | None, *names: str) -> int | None:
    values: Mapping[str, str] = row.values if row else {}
    return next((number(values[name]) for name in names if name in values), None)


def _links(view: View) -> Iterator[_Link]:
    functions = view.node.pci or {}
    cards = accelerators(view)
    rows = {row.bdf: row for row in view.node.facts.each(DeviceQuery) if row.bdf}
    logged = dict(_logged(view))
    nics = {item.bdf for item in compute_functions(view) if not item.is_virtual}
    own = {bdf for bdf, (driver, _) in logged.items() if driver in _DRIVERS}
    shown = {item.bdf for item in view.node.facts.each(LinkFiles)} & _named(view)
    for bdf in sorted(cards | nics | rows.keys() | own | shown):
        yield _link(
            bdf,
            functions.get(bdf),
            rows.get(bdf),
            view.node.facts.first(LinkFiles, bdf=bdf) or logged.get(bdf, ("", None))[1],
            bdf in cards or bdf in rows or bdf in shown,
        )
    for row in view.node.facts.each(DeviceQuery):
        if row.bdf is None and row.index is not None:
            yield _link(f"GPU {row.index}", None, row, None, True)


def _named(view: View) -> set[str]:
    """Accelerators by what their tools say."""
    return {item.bdf for item in view.node.stack.accelerators or () if item.bdf}


# "126.0 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x8 link at 0000:16:01.0
# (capable of 252.0 Gb/s with 16.0 GT/s PCIe x16 link)"
_LIMITED = re.compile(
    r"(\w{2,16}) ([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): [\d.]{1,10} Gb/s available PCIe "
    r"bandwidth, limited by ([\d.]{1,5}) GT/s PCIe x(\d{1,2}) link at \S{1,20} "
    r"\(capable of [\d.]{1,10} Gb/s with ([\d.]{1,5}) GT/s PCIe x(\d{1,2}) link\)"
)
_DRIVERS = {"mlx5_core", "bnxt_en", "ice", "ionic", "hns3", "erdma", "metax", "METAX", "alixpu"}


def _logged(view: View) -> Iterator[tuple[str, tuple[str, LinkFiles]]]:
    """What the kernel says of the bandwidth of a function, and which driver it was."""
    speeds = {rate.partition(" ")[0]: number for number, rate in _RATES.items()}
    for line in view.node.kernel_log or ():
        match = _LIMITED.search(line) if "available PCIe" in line else None
        if match:
            speed, most = (speeds.get(match[at].removesuffix(".0")) for at in (3, 5))
            found = LinkFiles(match[2], speed, int(match[4]), most, int(match[6]))
            yield match[2], (match[1], found)


def _link(
    subject: str,
    function: PciFunction | None,
    row: DeviceQuery | None,
    files: LinkFiles | None,
    accelerator: bool,
) -> _Link:
    express = function.express if function else None
    speed = (
        _field(row, "pcie.link.gen.gpucurrent", "pcie.link.gen.current")
        or (files.speed if files else None)
        or (express.link_speed if express else None)
    )
    width = (
        _field(row, "pcie.link.width.current")
        or (files.width if files else None)
        or (express.link_width if express else None)
    )
    speed_max = (
        _field(row, "pcie.link.gen.max", "pcie.link.gen.gpumax")
        or (files.speed_max if files else None)
        or (express.link_speed_max if express else None)
    )
    width_max = (
        _field(row, "pcie.link.width.max")
        or (files.width_max if files else None)
        or (express.link_width_max if express else None)
    )
    return _Link(
        subject,
        accelerator,
        speed,
        width,
        speed_max,
        width_max,
        _field(row, "utilization.gpu"),
        bool(width and width_max and width < width_max)
        or bool(express and express.width_reduced and not width_max),
        bool(speed and speed_max and speed < speed_max)
        or bool(express and express.speed_reduced and not speed_max),
    )


@check(
    "pcie.link",
    ok=Verdict.OK,
    gone=Verdict.FAIL,
    narrow=Verdict.FAIL,
    narrow_slot=Verdict.WARN,
    slow_under_load=Verdict.FAIL,
    slow=Verdict.WARN,
    slow_slot=Verdict.OK,
    idle=Verdict.OK,
    unloaded=Verdict.SKIP,
)
def link(view: View) -> Cases:
    functions = view.node.pci or {}
    for item in _links(view):
        function = functions.get(item.subject)
        if function is not None and function.responds is False:
            yield case("gone", item.subject)
            continue
        if item.width is None and item.speed is None:
            continue
        values = {
            "observed": _told(item.speed, item.width),
            "expected": _told(item.speed_max, item.width_max),
            "use": item.use,
            "lost": "width and speed" if item.slow else "width",
        }
        above = _slot(view, item.subject)
        slot = above.express if above else None
        if item.narrow:
            fits = slot is not None and slot.link_width_max == item.width
            yield case("narrow-slot" if fits else "narrow", item.subject, **values)
        elif not item.slow:
            if _is_compared(item):
                yield case("ok", item.subject, **values)
        elif slot is not None and item.speed and slot.link_speed_max == item.speed:
            yield case("slow-slot", item.subject, **values)
        elif item.accelerator:
            if item.use is None:
                yield case("unloaded", item.subject, **values)
            else:
                busy = item.use >= _BUSY
                yield case("slow-under-load" if busy else "idle", item.subject, **values)
        else:
            yield case("slow", item.subject, **values)


def _is_compared(item: _Link) -> bool:
    """Something was compared with what the device is able to, and nothing is missing for that."""
    pairs = (item.width, item.width_max), (item.speed, item.speed_max)
    return any(map(all, pairs)) and all(now for now, able in pairs if able)


def _slot(view: View, bdf: str) -> PciFunction | None:
    """The bridge just above a function."""
    functions = view.node.pci or {}
    function = functions.get(bdf)
    above = bridges_of(view, function) if function else ()
    return functions.get(above[-1]) if above else None


def _told(speed: int | None, width: int | None) -> str:
    rate = _RATES.get(speed or 0, "an unknown speed")
    return f"{rate} x{width}" if width else rate


# A request that a device does not know, a completion nobody waits for: probing leaves these behind.
_HARMLESS = {"UnsupReq", "UnxCmplt", "ACSViol", "AdvNonFatalErr", "NonFatalErr", "CorrIntErr"}
_MANY = 100  # errors since the last boot from which on a link is worth a look


@check(
    "pcie.errors",
    ok=Verdict.OK,
    fatal=Verdict.FAIL,
    counted=Verdict.WARN,
    many_corrected=Verdict.WARN,
    happened=Verdict.WARN,
)
def errors(view: View) -> Cases:
    """
    Counters are those since the last boot: a probe of the bus or a hot-plug leaves one behind.

    Functions that are known to be on no path between NICs and accelerators are left out.
    """
    functions = view.node.pci or {}
    counted = view.node.facts.each(ErrorCounters)
    ends = {item.bdf for item in compute_functions(view)} | accelerators(view)
    above = {bdf for end in ends for bdf in bridges_of(view, functions[end])}
    elsewhere = functions.keys() - ends - above if ends else set()
    for bdf in sorted({item.bdf for item in counted} - elsewhere):
        bad = [item for item in counted if item.bdf == bdf and item.severity != "correctable"]
        corrected = [item for item in counted if item.bdf == bdf and item.severity == "correctable"]
        if fatal := _counts(bad):
            name = "fatal" if _is_at_fault(view, bdf, fatal) else "counted"
            yield case(name, bdf, observed=_listed(fatal))
        elif sum((few := _counts(corrected)).values()) >= _MANY:
            yield case("many-corrected", bdf, observed=_listed(few))
        elif all(item.whole for item in (*bad, *corrected)):
            yield case("ok", bdf)
    known = {item.bdf for item in counted}
    for bdf in sorted((ends | above) & functions.keys() - known):
        status = functions[bdf].errors
        if status is None or functions[bdf].responds is False:
            continue
        happened = [
            *_set(status.uncorrectable, UNCORRECTABLE),
            *_set(status.correctable, CORRECTABLE),
        ]
        if happened:
            yield case("happened", bdf, observed=", ".join(happened))
        elif status.uncorrectable is not None and status.correctable is not None:
            yield case("ok", bdf)


def _is_at_fault(view: View, bdf: str, counts: Mapping[str, int]) -> bool:
    """True where more than a count tells of it: many of them, a status still set, the kernel."""
    function = (view.node.pci or {}).get(bdf)
    status = function.errors if function and function.responds is not False else None
    return (
        sum(counts.values()) >= _MANY
        or bool(status and _set(status.uncorrectable, UNCORRECTABLE))
        or any(bdf in line and "Uncorrect" in line for line in view.node.kernel_log or ())
    )


def _counts(counters: list[ErrorCounters]) -> dict[str, int]:
    return {
        name: count
        for item in counters
        for name, count in item.counts.items()
        if count and not name.startswith("TOTAL_") and name not in _HARMLESS
    }


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _set(word: int | None, places: Mapping[str, int]) -> list[str]:
    """Names of the bits that are set, the harmless ones left out."""
    names = {place: name for name, place in reversed(tuple(places.items()))}
    return [
        name for place, name in names.items() if (word or 0) >> place & 1 and name not in _HARMLESS
    ]


_TROUBLES = {
    "none-selected": "not-there",
    "unparsable": "no-address",
    "no-capability": "hidden",
    "cannot-open": "closed",
    "refused": "refused",
}


@check(
    "pcie.selector",
    one_device=Verdict.OK,
    not_there=Verdict.ERROR,
    no_address=Verdict.ERROR,
    ambiguous=Verdict.WARN,
    hidden=Verdict.ERROR,
    closed=Verdict.ERROR,
    refused=Verdict.ERROR,
)
def selector(view: View) -> Cases:
    functions = view.node.pci or {}
    for trouble in view.node.facts.each(AccessTrouble):
        name = _TROUBLES.get(trouble.kind)
        if name:
            subject = as_bdf(trouble.selector) or trouble.selector or "setpci"
            yield case(name, subject, observed=trouble.said)
    read: dict[str, tuple[int, ...]] = {}
    for fact in view.node.facts.each(RegisterRead):
        read[fact.selector] = fact.values
    writes = {fact.selector for fact in view.node.facts.each(RegisterWrite) if not fact.script}
    for short in sorted(read.keys() | writes):
        if short.count(":") != 1 or as_bdf(short) is None:
            continue
        found = matching(short, functions)
        values = read.get(short, ())
        hit = max(len(found), len(values))
        if hit > 1 and (short in writes or len(set(values)) > 1):
            devices = " and ".join(found) if len(found) > 1 else f"{hit} devices"
            yield case("ambiguous", short.lower(), observed=devices)
        elif hit == 1:
            yield case("one-device", short.lower(), observed=found[0] if found else short)
