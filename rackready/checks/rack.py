"""What has to be equal on all nodes of a rack."""

from __future__ import annotations

from collections import Counter

from rackready.check import Cases, Rack, View, case, rack_check
from rackready.finding import Verdict
from rackready.fold import fold


def _spread(rack: Rack, values: dict[str, str]) -> str:
    """``3.4.4 on n[1-9], 3.3.0 on n10``, the most frequent first."""
    order = [value for value, _ in Counter(values.values()).most_common()]
    return "; ".join(
        f"{value} on {fold(name for name, seen in values.items() if seen == value)}"
        for value in order
    )


@rack_check("rack.versions", ok=Verdict.OK, mixed=Verdict.WARN, part=Verdict.SKIP)
def versions(rack: Rack) -> Cases:
    def read(view: View, field: str) -> str | None:
        value = getattr(view.node.stack, field)
        return None if value is None else str(value)

    for what, field in (
        ("driver", "driver_version"),
        ("SDK", "sdk_version"),
        ("firmware", "firmware_version"),
    ):
        values = {
            view.node.name: value for view in rack.views if (value := read(view, field)) is not None
        }
        yield from _equal(rack, what, values)


@rack_check("rack.kernel", ok=Verdict.OK, mixed=Verdict.WARN, part=Verdict.SKIP)
def kernel(rack: Rack) -> Cases:
    values = {
        view.node.name: view.node.system.kernel for view in rack.views if view.node.system.kernel
    }
    yield from _equal(rack, "kernel", values)


# Only a warning: where the site pins an index, each node that differs fails by itself.
@rack_check("rack.gid-index", ok=Verdict.OK, mixed=Verdict.WARN, part=Verdict.SKIP)
def gid_index(rack: Rack) -> Cases:
    values = {}
    for view in rack.views:
        indices = sorted({str(port.gid.index) for port in view.wiring.compute if port.gid})
        if indices:
            values[view.node.name] = " and ".join(indices)
    yield from _equal(rack, "GID index", values)


@rack_check("rack.accelerators", ok=Verdict.OK, mixed=Verdict.WARN, part=Verdict.SKIP)
def accelerators(rack: Rack) -> Cases:
    values = {
        view.node.name: f"{len(view.wiring.accelerators)} x "
        + (view.profile.name if view.profile else "unknown")
        for view in rack.views
        # What a paste shows of PCI may be a part; a management tool lists them all.
        if view.node.pci is not None and (view.node.probed or view.node.stack.accelerators)
    }
    yield from _equal(rack, "accelerators", values)


def _equal(rack: Rack, what: str, values: dict[str, str]) -> Cases:
    """
    A difference counts on a part of the rack too; equality is claimed of the whole only.

    What a container brings itself, beside the host that it runs on, need not be the host's.
    """
    if {"container", "host"} <= {view.node.name for view in rack.views}:
        values = {name: value for name, value in values.items() if name != "container"}
    if len(set(values.values())) > 1:
        yield case("mixed", what, observed=_spread(rack, values))
    elif values and (not rack.whole or len(values) < rack.expected):
        yield case("part", what, seen=len(values), expected=rack.expected)
    elif values:
        yield case("ok", what, observed=next(iter(values.values())))
