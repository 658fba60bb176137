"""Which RDMA devices a collective library takes: ``NCCL_IB_HCA`` and its kin."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rackready.check import Cases, Rack, View, case, rack_check
from rackready.facts.parts.collective_log import NetworkUse
from rackready.facts.parts.host import Environment
from rackready.finding import Verdict
from rackready.wiring import Role

_NAME = re.compile(r"([A-Z]{1,8}CCL)_IB_HCA$")
# Documented for prefix, "^" and lists alone: MetaX cluster communication test guide.
_WITHOUT_EXACT = ("MCCL",)


@dataclass(frozen=True)
class Selection:
    """A list of RDMA devices: ``mlx5_0:1,mlx5_1``, ``=mlx5_1``, ``^mlx5_4``."""

    names: tuple[str, ...]
    exact: bool
    exclude: bool

    def takes(self, device: str) -> bool:
        hit = any(device == name if self.exact else device.startswith(name) for name in self.names)
        return hit is not self.exclude


def selection(value: str) -> Selection | None:
    """The list in a variable; ports behind a colon do not matter for which device is taken."""
    match = re.match(r"(\^?)(=?)", value)
    exclude, exact = (match[1], match[2]) if match else ("", "")
    body = value[len(exclude) + len(exact) :]
    names = tuple(name.partition(":")[0].strip() for name in body.split(",") if name.strip())
    return Selection(names, bool(exact), bool(exclude)) if names and all(names) else None


@rack_check(
    "nccl.hca",
    ok=Verdict.OK,
    too_many=Verdict.FAIL,
    left_out=Verdict.FAIL,
    prefix=Verdict.WARN,
    exact_unknown=Verdict.WARN,
    none_taken=Verdict.WARN,
    not_judged=Verdict.SKIP,
    used=Verdict.FAIL,
    used_ok=Verdict.OK,
)
def hca(rack: Rack) -> Cases:
    yield from _used(rack)
    for host, facts in rack.sources():
        variables = {
            name: value for item in facts.each(Environment) for name, value in item.values.items()
        }
        for name, value in variables.items():
            library, chosen = _NAME.match(name), selection(value)
            if library is None or chosen is None:
                continue
            if chosen.exact and library[1] in _WITHOUT_EXACT:
                yield case("exact-unknown", name, observed=value, library=library[1])
            views = [v for v in rack.views if host in ("", v.node.name) and v.node.rdma]
            if not views:
                yield case("not-judged", name, host=host, observed=value)
            for view in views:
                yield from _judged(view, name, value, chosen, library[1])


def _used(rack: Rack) -> Cases:
    """Devices that the library's log names, against those that the site wishes."""
    wishes = [view.wishes.compute_nics for view in rack.views]
    wanted = {name for wish in wishes if wish is not None and wish.site for name in wish.value}
    for host, facts in rack.sources():
        for use in facts.each(NetworkUse) if wanted else ():
            more = [device for device in use.devices if device not in wanted]
            values: dict[str, Any] = {"host": host} if host else {}
            if more:
                right = _exact(sorted(wanted), "", use.devices, use.library)
                values["right"] = f"{use.library}_IB_HCA={right}"
                yield case("used", use.library, more=", ".join(more), **values)
            elif use.devices:
                yield case("used-ok", use.library, taken=", ".join(use.devices), **values)


def _judged(view: View, name: str, value: str, chosen: Selection, library: str) -> Cases:
    devices = [device.name for device in view.node.rdma or ()]
    taken = [device for device in devices if chosen.takes(device)]
    values: dict[str, Any] = {"observed": value, "host": view.node.name}
    if view.wishes.compute_nics is None:
        # one device may be all that somebody showed of several
        if not taken and (view.node.probed or len(devices) > 1):
            yield case("none-taken", name, here=", ".join(devices), **values)
        more = [
            device
            for device in taken
            if not (chosen.exact or chosen.exclude) and device not in chosen.names
            # "mlx5" stands for all on purpose; "mlx5_1" is the name of one
            if any(device.startswith(one) and one in devices for one in chosen.names)
        ]
        if more:
            right = _exact(chosen.names, value, devices, library)
            yield case("prefix", name, more=", ".join(more), right=f"{name}={right}", **values)
        return
    wanted = [port.rdma for port in view.wiring.ports if port.role is Role.COMPUTE and port.rdma]
    if not wanted:
        return
    more = [device for device in taken if device not in wanted]
    less = [device for device in dict.fromkeys(wanted) if device not in taken]
    right = _exact(wanted, value, devices, library)
    values["right"] = f"{name}={right}"
    if more:
        yield case("too-many", name, more=", ".join(more), **values)
    if less:
        yield case("left-out", name, less=", ".join(less), **values)
    if not more and not less:
        yield case("ok", name, taken=", ".join(taken), **values)


def _exact(wanted: Sequence[str], value: str, devices: Sequence[str], library: str) -> str:
    """A value that takes these devices and no others."""
    ports = dict(re.findall(r"([A-Za-z][\w.-]{0,63}):(\d{1,3})", value))
    listed = [f"{one}:{ports[one]}" if one in ports else one for one in dict.fromkeys(wanted)]
    if library not in _WITHOUT_EXACT:
        return f"={','.join(listed)}"
    others = [device for device in devices if device not in wanted]
    if not any(other.startswith(one) for other in others for one in wanted):
        return ",".join(listed)
    # as prefixes again: a name here takes out all that begin so
    if not any(one.startswith(other) for other in others for one in wanted):
        return f"^{','.join(others)}"
    return f"{','.join(listed)} (after rdma dev set has given them names of their own)"
