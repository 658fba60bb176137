"""PCIe settings of compute NICs, accelerators and the bridges above them."""

from __future__ import annotations

from typing import Any

from rackready.check import Case, Cases, View, case, check
from rackready.checks.pcie_paths import (
    HEADER,
    accelerators,
    bridges_of,
    compute_functions,
    is_bridge,
    is_denied,
)
from rackready.facts.model import Express, PciFunction
from rackready.finding import Verdict

_NEVER_WRITTEN = 128  # the smallest encoding: some devices read 0 here without honouring it


def unknown(function: PciFunction) -> str:
    """The case that says why a field of the PCI Express capability of a function is unknown."""
    if function.responds is None:
        return "unreadable"
    if function.config_bytes <= HEADER:
        return "header-only"
    return "no-capability" if function.express is None else "reserved"


def _not_seen(view: View) -> list[str]:
    """Compute NICs that the list of PCI functions lacks; a paste need not hold them all."""
    if not view.node.probed:
        return []
    functions = view.node.pci or {}
    return sorted({port.bdf for port in view.wiring.compute if port.bdf} - functions.keys())


@check(
    "pcie.max-read-request",
    ok=Verdict.OK,
    too_large=Verdict.FAIL,
    too_small=Verdict.FAIL,
    contested=Verdict.WARN,
    smallest=Verdict.WARN,
    tied=Verdict.WARN,
    unjudged=Verdict.SKIP,
    virtual=Verdict.SKIP,
    accelerator=Verdict.SKIP,
    gone=Verdict.ERROR,
    unreadable=Verdict.ERROR,
    header_only=Verdict.ERROR,
    no_capability=Verdict.ERROR,
    reserved=Verdict.ERROR,
    not_listed=Verdict.ERROR,
    kind_unknown=Verdict.ERROR,
    keeper_gone=Verdict.FAIL,
    keeper_changed=Verdict.FAIL,
    keeper_mode=Verdict.FAIL,
)
def max_read_request(view: View) -> Cases:
    yield from _read_requests(view)
    for item in view.node.managed or ():
        if "max-read-request" in item.path and item.found is not None:
            if item.found == "":
                yield case("keeper-gone", item.path)
            elif item.found != item.written:
                yield case("keeper-changed", item.path)
            elif item.mode is not None and item.mode != item.written_mode:
                observed, expected = f"{item.mode:04o}", f"{item.written_mode:04o}"
                yield case("keeper-mode", item.path, observed=observed, expected=expected)


def _read_requests(view: View) -> Cases:
    wish = view.wishes.max_read_request
    if wish is None:
        if view.profile is None:
            yield from _unjudged(view)
        return
    for bdf in _not_seen(view):
        yield case("not-listed", bdf, expected=f"{wish.value} B")
    owned = {port.bdf for port in view.wiring.ports if port.accelerator_owned}
    for function in compute_functions(view):
        bdf, express = function.bdf, function.express
        observed = express.max_read_request if express else None
        if function.is_virtual:
            yield case("virtual", bdf, physfn=function.physfn or "that the paste does not show")
            continue
        if _is_silent(view, function, observed):
            continue
        if bdf in owned:
            yield case("accelerator", bdf)
            continue
        if function.is_virtual is None and view.node.probed:
            yield case("kind-unknown", bdf, expected=f"{wish.value} B")
            continue
        data = {
            "bdf": bdf,
            "device": f"{function.vendor or 0:04x}:{function.device or 0:04x}",
            "after": wish.value,
            "known": observed not in (None, _NEVER_WRITTEN),
        }
        values: dict[str, Any] = {
            "observed": f"{observed} B",
            "expected": f"{wish.value} B",
            "bits": f"{(wish.value.bit_length() - 8) << 12:x}",
            "wished_by": wish.origin,
        }
        if function.responds is False:
            yield case("gone", bdf, data)
        elif observed is None:
            why, size = unknown(function), function.config_bytes
            yield case(why, bdf, data, bytes=size, expected=f"{wish.value} B")
        elif observed == wish.value:
            yield case("ok", bdf, data, **values)
        elif observed == _NEVER_WRITTEN:
            yield case("smallest", bdf, data, **values)
        elif wish.contested:
            yield case("contested", bdf, **values)
        elif express and _tied(view, express, wish.value):
            payload = f"{express.max_payload} B"
            yield case("tied", bdf, payload=payload, **values)
        else:
            yield case("too-large" if observed > wish.value else "too-small", bdf, data, **values)


def _unjudged(view: View) -> Cases:
    """What was seen where nobody says what it should be: one finding for all NICs."""
    seen: dict[int, list[str]] = {}
    for function in compute_functions(view):
        size = function.express.max_read_request if function.express else None
        if size is not None and not function.is_virtual:
            seen.setdefault(size, []).append(function.bdf)
    if seen:
        told = (f"{size} B ({', '.join(names[:4])})" for size, names in sorted(seen.items()))
        yield case("unjudged", "MaxReadReq", observed=", ".join(told))


def _is_silent(view: View, function: PciFunction, observed: int | None) -> bool:
    """True where a paste simply does not hold the register."""
    known = observed is not None or is_denied(function) or function.responds is False
    return not view.node.probed and not known


def _tied(view: View, express: Express, wanted: int) -> bool:
    """
    True where the kernel keeps MaxReadReq at MaxPayload or below, and more is wanted.

    With pci=pcie_bus_perf it lets MaxPayload differ along a path, and relies on that.
    """
    options = view.node.system.cmdline or ""
    return "pcie_bus_perf" in options and wanted > (express.max_payload or 0)


@check(
    "pcie.max-payload",
    ok=Verdict.OK,
    too_small=Verdict.FAIL,
    contested=Verdict.WARN,
    unsupported=Verdict.FAIL,
    held_by_kernel=Verdict.FAIL,
    mismatch=Verdict.FAIL,
    below_bridge=Verdict.WARN,
    virtual=Verdict.SKIP,
    gone=Verdict.ERROR,
    unreadable=Verdict.ERROR,
    header_only=Verdict.ERROR,
    no_capability=Verdict.ERROR,
    reserved=Verdict.ERROR,
    not_listed=Verdict.ERROR,
)
def max_payload(view: View) -> Cases:
    wish = view.wishes.max_payload
    functions = view.node.pci or {}
    if wish is None:
        yield from _unequal_payloads(view)
        return
    ends = {function.bdf for function in compute_functions(view)} | accelerators(view)
    paths = {bdf for end in ends for bdf in bridges_of(view, functions[end])}
    if view.node.probed:
        for bdf in sorted({*_not_seen(view), *(paths - functions.keys())}):
            yield case("not-listed", bdf, expected=f"{wish.value} B")
    else:
        paths |= _short_bridges(view, ends, wish.value)
    for bdf in sorted(ends | (paths & functions.keys())):
        function = functions[bdf]
        express = function.express
        if function.is_virtual:
            yield case("virtual", bdf, physfn=function.physfn or "that the paste does not show")
            continue
        if _is_silent(view, function, express.max_payload if express else None):
            continue
        if function.responds is False:
            yield case("gone", bdf)
            continue
        if express is None or express.max_payload is None:
            why, size = unknown(function), function.config_bytes
            yield case(why, bdf, bytes=size, expected=f"{wish.value} B")
            continue
        observed, able = express.max_payload, express.max_payload_supported
        values: dict[str, Any] = {
            "observed": f"{observed} B",
            "expected": f"{wish.value} B",
            "supported": f"{able} B" if able else "an unknown size",
            "wished_by": wish.origin,
        }
        narrow = [
            (size, bridge)
            for bridge in bridges_of(view, function)
            # A bridge below the wish is a finding of its own, and the cause of all below it.
            if wish.value <= (size := _payload(functions.get(bridge)) or 0) < observed
        ]
        if narrow:
            smallest, bridge = min(narrow)
            yield case("mismatch", bdf, **{**values, "expected": f"{smallest} B"}, bridge=bridge)
        elif observed >= wish.value:
            yield _under_bridge(view, function) or case("ok", bdf, **values)
        elif wish.contested:
            yield case("contested", bdf, **values)
        elif able is not None and able < wish.value:
            yield case("unsupported", bdf, **values)
        elif "pcie_bus_peer2peer" in (view.node.system.cmdline or ""):
            yield case("held-by-kernel", bdf, **values)
        else:
            yield case("too-small", bdf, **values)


def _unequal_payloads(view: View) -> Cases:
    """A path whose functions disagree is wrong, whatever the site wants."""
    functions = view.node.pci or {}
    ends = {function.bdf for function in compute_functions(view)} | accelerators(view)
    paths = {bdf for end in ends for bdf in bridges_of(view, functions[end])}
    for bdf in sorted(ends | (paths & functions.keys())):
        function = functions[bdf]
        observed = _payload(function)
        if function.is_virtual or function.responds is False or observed is None:
            continue
        above = [
            (size, bridge)
            for bridge in bridges_of(view, function)
            if (size := _payload(functions.get(bridge))) and size < observed
        ]
        if above:
            smallest, bridge = min(above)
            yield case(
                "mismatch", bdf, observed=f"{observed} B", expected=f"{smallest} B", bridge=bridge
            )
        elif found := _under_bridge(view, function):
            yield found


def _under_bridge(view: View, function: PciFunction) -> Case | None:
    """
    A function that takes less than the bridge just above it may send.

    With pci=pcie_bus_perf that is meant so: then no function is asked for more than it takes.
    """
    observed = _payload(function)
    above = bridges_of(view, function)
    size = _payload((view.node.pci or {}).get(above[-1])) if above else None
    meant = "pcie_bus_perf" in (view.node.system.cmdline or "")
    if not size or not observed or observed >= size or meant:
        return None
    return case(
        "below-bridge",
        function.bdf,
        observed=f"{observed} B",
        expected=f"{size} B",
        bridge=above[-1],
    )


def _short_bridges(view: View, ends: set[str], wanted: int) -> set[str]:
    """Bridges of a paste that does not show what is below them: as short as the ends are."""
    functions = view.node.pci or {}
    short = {size for end in ends if (size := _payload(functions[end])) and size < wanted}
    return {
        bdf
        for bdf, function in functions.items()
        if is_bridge(function) and not function.buses and _payload(function) in short
    }


def _payload(function: PciFunction | None) -> int | None:
    return function.express.max_payload if function and function.express else None
