"""What reroutes or reorders traffic between NICs and accelerators: ACS, IOMMU, write ordering."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackready.check import Cases, View, case, check
from rackready.checks.pcie_paths import accelerators, bridges_of, compute_functions, is_bridge
from rackready.facts.model import PciFunction
from rackready.facts.parts.pcie import (
    AcsLines,
    DriversLeftOut,
    FirmwareSetting,
    IommuGroup,
    IommuKinds,
    IommuUnits,
    RegisterRead,
    RegisterWrite,
)
from rackready.finding import Verdict

_ROOT_PORT = 4
_REDIRECTS = ((2, "ReqRedir"), (3, "CmpltRedir"), (4, "UpstreamFwd"))
_PLAIN = re.compile(r"[0-9a-f]{3}")


def _names(control: int) -> str:
    return " ".join(f"{name}+" for bit, name in _REDIRECTS if control >> bit & 1)


def _ports(view: View) -> Iterator[PciFunction]:
    """
    Switch ports whose ACS control is known.

    Of a whole node these are the ports above compute NICs and accelerators. Root ports do not
    count: what is redirected there has left the switch already.
    """
    functions = view.node.pci or {}
    above = set[str]()
    if view.node.probed:
        ends = {item.bdf for item in compute_functions(view)} | accelerators(view)
        above = {bdf for end in ends for bdf in bridges_of(view, functions[end])}
    for bdf, function in sorted(functions.items()):
        control = function.access_control
        if control is None or control.control is None or not (_is_port(view, function)):
            continue
        if not view.node.probed or bdf in above:
            yield function


def _is_port(view: View, function: PciFunction) -> bool:
    if function.express and function.express.port_type is not None:
        return function.express.port_type in (5, 6)
    below = function.bridges is not None or bridges_of(view, function)
    # A port with nothing above it is a root port, as far as the buses of bridges were shown.
    if not below and (function.buses or "Root Port" in (function.name or "")):
        return False
    # setpci alone says nothing of the class: ACS is asked of ports
    return is_bridge(function) or (function.class_code is None and not view.node.probed)


@check(
    "pcie.acs",
    ok=Verdict.OK,
    redirect=Verdict.FAIL,
    redirect_somewhere=Verdict.FAIL,
    isolation=Verdict.SKIP,
    by_platform=Verdict.SKIP,
    drivers_left_out=Verdict.ERROR,
    wrong_offset=Verdict.WARN,
)
def access_control(view: View) -> Cases:
    left_out = view.node.facts.first(DriversLeftOut) is not None
    redirecting = []
    ports = list(_ports(view))
    for port in ports:
        known = port.access_control
        control = known.control if known and known.control is not None else 0
        values = {"observed": f"{control:04x}", "bits": _names(control)}
        if not control & 0x1C:
            yield case("ok", port.bdf, **values)
        elif guest := _guest_below(view, port):
            yield case("isolation", port.bdf, guest=guest, **values)
        elif view.node.system.machine == "aarch64":
            yield case("by-platform", port.bdf, **values)
        elif left_out:
            yield case("drivers-left-out", port.bdf, **values)
        else:
            redirecting.append(port)
            yield case("redirect", port.bdf, **values)
    if not ports:
        yield from _lines_without_names(view)
    yield from _wrong_offsets(view, redirecting)


def _guest_below(view: View, port: PciFunction) -> str | None:
    """A function of a guest below a port, or one of which it is not known what is above it."""
    for bdf, item in sorted((view.node.pci or {}).items()):
        if item.driver == "vfio-pci":
            above = bridges_of(view, item)
            if port.bdf in above or (not above and item.bridges is None):
                return bdf
    return None


def _lines_without_names(view: View) -> Cases:
    listings = tuple(dict.fromkeys(view.node.facts.each(AcsLines)))
    controls = [control for lines in listings for control in lines.controls]
    on = [control for control in controls if control & 0x1C]
    if on:
        seen = {"observed": f"{on[0]:04x}", "bits": _names(on[0])}
        yield case("redirect-somewhere", "ACSCtl", count=len(on), total=len(controls), **seen)
    elif any(lines.whole for lines in listings):
        yield case("ok", "ACSCtl", observed="0000", bits="")


def _wrong_offsets(view: View, redirecting: list[PciFunction]) -> Cases:
    """Accesses to a word of the extended config space that is ACS control on other switches."""
    known = {
        f"{port.access_control.offset + 6:x}": port.bdf
        for port in redirecting
        if port.access_control and port.access_control.offset is not None
    }
    if not known:
        return
    told = set[str]()
    facts = view.node.facts
    accesses: tuple[RegisterWrite | RegisterRead, ...] = (
        *facts.each(RegisterWrite),
        *facts.each(RegisterRead),
    )
    for fact in accesses:
        register = fact.register
        # capabilities begin at multiples of four, and the control word six bytes further
        if not _PLAIN.fullmatch(register) or register[0] == "0" or int(register, 16) % 4 != 2:
            continue
        if register not in known and register not in told:
            told.add(register)
            right, bdf = next(iter(known.items()))
            script = getattr(fact, "script", "") or "this setpci"
            yield case("wrong-offset", f"{register}.w", right=f"{right}.w", port=bdf, script=script)


_DOMAIN = re.compile(r"iommu: Default domain type: (\w+)")
_JOINED = re.compile(
    r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): Adding to iommu group (\d{1,6})$"
)
_TRANSLATED = ("DMA", "DMA-FQ")


@check(
    "pcie.iommu",
    ok=Verdict.OK,
    off=Verdict.OK,
    translated=Verdict.FAIL,
    mixed=Verdict.WARN,
    by_default=Verdict.WARN,
    by_platform=Verdict.SKIP,
)
def iommu(view: View) -> Cases:
    facts = view.node.facts
    default = None
    members: dict[int, set[str]] = {}
    for line in view.node.kernel_log or ():
        if match := _DOMAIN.search(line):
            default = match[1]
        elif match := _JOINED.search(line.rstrip()):
            members.setdefault(int(match[2]), set()).add(match[1])
    for group in facts.each(IommuGroup):
        members.setdefault(group.number, set()).update(group.members)
    groups = [group for group in facts.each(IommuGroup) if group.kind]
    ends = {item.bdf for item in compute_functions(view)} | accelerators(view)
    ours = [group for group in groups if members.get(group.number, set()) & ends]
    chosen = ours or groups
    bad = [group for group in chosen if group.kind in _TRANSLATED]
    listed = facts.each(IommuKinds)
    kinds = {group.kind for group in chosen} | {kind for item in listed for kind in item.kinds}
    covered = ends <= {bdf for group in ours for bdf in members[group.number]} if ours else False
    whole = covered or not listed or any(item.whole for item in listed)
    names = ", ".join(
        " of ".join(filter(None, (f"group {group.number}", _some(members.get(group.number)))))
        for group in bad[:4]
    )
    values = {"default": f"; default domain type: {default}" if default else ""}
    # Some arm64 platforms want pass-through, Grace wants translation: their guides decide.
    arm = view.node.system.machine == "aarch64"
    if kinds & set(_TRANSLATED):
        wrong = sorted(kind for kind in kinds if kind in _TRANSLATED)
        mixed = not ours and "identity" in kinds and default != "Translated"
        yield case(
            "by-platform" if arm else "mixed" if mixed else "translated",
            "iommu",
            observed=" and ".join(wrong),
            groups=names or "some groups",
            **values,
        )
    elif ("identity" in kinds and whole) or default == "Passthrough":
        yield case("ok", "iommu", observed="identity" if "identity" in kinds else default)
    elif default == "Translated":
        # A driver may ask for another type: without our devices, nothing tells that it counts here.
        name = "by-platform" if arm else "translated" if ends else "by-default"
        yield case(name, "iommu", observed=default, groups="the default of all groups", default="")
    elif (units := facts.first(IommuUnits)) and not units.names:
        yield case("off", "iommu")


def _some(members: set[str] | None) -> str:
    return ", ".join(sorted(members or ())[:2])


@check(
    "pcie.relaxed-ordering",
    ok=Verdict.OK,
    forced=Verdict.WARN,
    forced_next=Verdict.WARN,
    forced_now=Verdict.WARN,
)
def relaxed_ordering(view: View) -> Cases:
    for setting in view.node.facts.each(FirmwareSetting):
        if setting.name != "PCI_WR_ORDERING":
            continue
        device = setting.device or "NIC"
        now = setting.current or setting.next_boot
        if _is_forced(setting.next_boot):
            name = "forced" if _is_forced(now) else "forced-next"
            yield case(name, device, observed=setting.next_boot)
        elif _is_forced(now):
            yield case("forced-now", device, observed=now, expected=setting.next_boot)
        else:
            yield case("ok", device, observed=setting.next_boot)


def _is_forced(value: str) -> bool:
    return value.startswith("force_relax") or value in ("1", "(1)")
