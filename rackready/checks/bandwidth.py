"""Results of bandwidth tests: right data first, then the shape of a curve, then who is slower."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from statistics import median

from rackready.check import Cases, Rack, View, case, check, rack_check
from rackready.facts.model import RdmaPort
from rackready.facts.parts.bandwidth import Collective, CopyTest, Diagnostic, RdmaTest, Transfer
from rackready.facts.parts.pcie import DeviceQuery
from rackready.facts.parts.topology import Topology
from rackready.facts.readers.gids import is_zero
from rackready.finding import Verdict
from rackready.wiring import gid_address, is_ipv4

_SMALL = 256 << 10  # bytes: below, latency rules
_DIP = 0.7  # of what is around it, from where on a hole is no noise
_DIP_ALONE = 0.5  # the same where only one of the two columns, out of place and in place, has it
_BACK = 0.9  # of the peak, from where on a size is as fast as others
_FALL = 0.6  # of the peak, below which the largest sizes have fallen
_SLOW_LINK = 0.8  # of the port's rate: headers take 3 to 8 %, a far accelerator half
_SLOW_PAIR = 0.8  # of the median of its kind
_FEWEST = 4  # transfers of a kind, from where on a median tells something
_FAR = ("SYS", "NODE", "PHB")


def _size(count: int) -> str:
    """``33554432`` -> ``32 MiB (33554432)``."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << shift and count % (1 << shift) == 0:
            return f"{count >> shift} {unit} ({count})"
    return f"{count} B"


def _runs(rack: Rack) -> Iterator[tuple[str, str, Collective]]:
    for source, facts in rack.sources():
        for run in facts.each(Collective):
            yield source, run.test or "collective test", run


@rack_check(
    "collective.data",
    ok=Verdict.OK,
    wrong=Verdict.FAIL,
    not_validated=Verdict.SKIP,
    gave_up=Verdict.FAIL,
)
def data(rack: Rack) -> Cases:
    """The speed says nothing as long as the data are wrong."""
    for source, name, run in _runs(rack):
        bad = [p.size for p in run.points if (p.wrong or 0) > 0 or (p.in_place_wrong or 0) > 0]
        failed = run.verdict == "FAILED" or (run.out_of_bounds or 0) > 0
        checked = any(p.wrong is not None or p.in_place_wrong is not None for p in run.points)
        peak = max((p.bus for p in run.points if p.bus is not None), default=run.average)
        if bad or failed:
            sizes = ", ".join(map(_size, bad)) or "sizes that the paste does not show"
            count = run.out_of_bounds if run.out_of_bounds is not None else "?"
            yield case("wrong", name, host=source, sizes=sizes, observed=count)
        elif run.failure and not run.points:
            yield case("gave-up", name, host=source, observed=run.failure)
        elif run.validated is False or not (checked or run.verdict):
            yield case("not-validated", name, host=source)
        else:
            speed = f", up to {peak:g} GB/s of bus bandwidth" if peak is not None else ""
            yield case("ok", name, host=source, observed=len(run.points), speed=speed)


@rack_check("collective.curve", ok=Verdict.OK, hole=Verdict.WARN, falls=Verdict.WARN)
def curve(rack: Rack) -> Cases:
    """A hole between sizes that are fast, or a fall at the end; small sizes are slow anyway."""
    for source, name, run in _runs(rack):
        shown = [
            p
            for p in sorted(run.points, key=lambda p: p.size)
            if p.bus is not None and p.size >= _SMALL
        ]
        if len(shown) < _FEWEST:
            continue
        points = [(p.size, p.bus or 0.0) for p in shown]
        peak = max(bus for _, bus in points)
        columns = [[bus for _, bus in points]]
        if all(p.in_place_bus is not None for p in shown):
            columns.append([p.in_place_bus or 0.0 for p in shown])
        if hole := _hole(columns):
            first, last = hole[0], hole[-1]
            column = min(columns, key=lambda values: values[first])  # the one that shows it best
            told = [
                f"{bus:g} GB/s at {_size(p.size)}" for p, bus in zip(shown, column, strict=True)
            ]
            values = {
                "observed": ", ".join(told[at] for at in hole),
                "before": told[first - 1],
                "after": told[last + 1],
            }
            yield case("hole", name, None, host=source, **values)
        elif points[-1][1] < _FALL * peak and points[-2][1] < _BACK * peak:
            size, bus = points[-1]
            yield case(
                "falls", name, host=source, observed=f"{bus:g} GB/s at {_size(size)}", peak=peak
            )
        else:
            yield case("ok", name, host=source, observed=f"{peak:g} GB/s")


def _hole(columns: Sequence[Sequence[float]]) -> list[int]:
    """Positions that are slow between faster ones, in all columns, or deeply so in one."""
    depths = [_depths(column) for column in columns]
    return [
        at
        for at, each in enumerate(zip(*depths, strict=True))
        if max(each) < _DIP or min(each) < _DIP_ALONE
    ]


def _depths(column: Sequence[float]) -> list[float]:
    """Each value as a share of the slower of the peaks before and after it; 1.0 at both ends."""
    before = [0.0, *accumulate(column, max)][: len(column)]
    after = [0.0, *accumulate(reversed(column), max)][: len(column)][::-1]
    rims = map(min, before, after)
    return [value / rim if rim else 1.0 for value, rim in zip(column, rims, strict=True)]


@check(
    "rdma.bandwidth",
    ok=Verdict.OK,
    far=Verdict.WARN,
    slow=Verdict.WARN,
    other_family=Verdict.FAIL,
    failed=Verdict.ERROR,
)
def rdma_bandwidth(view: View) -> Cases:
    """A test between a NIC and an accelerator that are far apart measures the way between them."""
    tests = (*view.node.facts.each(RdmaTest), *view.job.each(RdmaTest))
    for test in tests:
        if test.failure and not test.points:
            yield from _failed(test)
            continue
        rate = _rate(view, test.device)
        best = max((p.average or 0.0 for p in test.points if p.size >= 65536), default=0.0)
        if rate is None or not best or test.limited or test.device is None:
            continue
        able = rate * (2 if test.bidirectional else 1)
        observed, expected = f"{best:g} Gb/s", f"{able:g} Gb/s"
        if best >= _SLOW_LINK * able:
            yield case("ok", test.device, observed=observed, expected=expected, test=test.test)
            continue
        values = {"observed": observed, "expected": expected, "test": test.test}
        far = _far(view, test)
        yield (
            case("far", test.device, None, **values, **far)
            if far
            else case("slow", test.device, None, **values)
        )


def _failed(test: RdmaTest) -> Cases:
    """A test that came to no result; that a GID is empty says roce.gid-empty."""
    subject = test.device or "the device of the test"
    if any(is_zero(gid) for gid in test.gids):
        return
    families = [is_ipv4(gid) for gid in test.gids]
    values = {"test": test.test, "observed": test.failure}
    if len(set(families)) > 1:
        yield case(
            "other-family", subject, **values, gids=" and ".join(map(gid_address, test.gids))
        )
    else:
        yield case("failed", subject, **values)


_RATE = re.compile(r"(\d{1,4}(?:\.\d)?)(?: ?Gb/?s(?:ec)?\b| |$)", re.IGNORECASE)


def _rate(view: View, device: str | None) -> float | None:
    """Gb/s of the device's fastest port."""
    ports: list[RdmaPort] = [
        port for item in view.node.rdma or () if item.name == device for port in item.ports
    ]
    rates = [float(m[1]) for port in ports if port.rate and (m := _RATE.match(port.rate))]
    return max(rates, default=None)


def _far(view: View, test: RdmaTest) -> dict[str, str]:
    """Accelerator, distance and better partners; empty where the topology explains nothing."""
    for topology in (*view.node.facts.each(Topology), *view.job.each(Topology)):
        names = topology.accelerators
        nic = topology.label(test.device or "")
        index = _accelerator(view, test, len(names))
        if index is None or index >= len(names) or nic is None:
            continue
        accelerator = names[index]
        word = topology.between(nic, accelerator)
        if word not in _FAR:
            continue
        nics = [topology.device(n) for n in topology.adapters if _near(topology, n, accelerator)]
        near = [name for name in names if _near(topology, nic, name)]
        return {
            "accelerator": f"GPU {index}",
            "distance": f"{word}: {_WORDS.get(word or '', word)}",
            "near_nic": " or ".join(nics) or "a NIC near it",
            "near_gpu": " or ".join(near) or "an accelerator near it",
        }
    return {}


def _accelerator(view: View, test: RdmaTest, count: int) -> int | None:
    """
    Number of a test's accelerator as the topology counts: by address, where both are known.

    Else the test's own number has to do, unless it counts something else: parts of accelerators,
    or only some of them.
    """
    listed = [(item.bdf, item.index) for item in view.node.stack.accelerators or ()]
    listed += [(item.bdf, item.index) for item in view.node.facts.each(DeviceQuery)]
    for address, index in listed:
        if address is not None and address == test.accelerator_address:
            return index
    return test.accelerator if len(test.accelerators) in (0, count) else None


_WORDS = {
    "SYS": "on different sockets",
    "NODE": "at different host bridges of one NUMA node",
    "PHB": "at one host bridge, without a switch between them",
}


def _near(topology: Topology, one: str, other: str) -> bool:
    return topology.between(one, other) in ("PIX", "PXB")


@check(
    "accelerator.p2p",
    ok=Verdict.OK,
    slow=Verdict.WARN,
    slow_device=Verdict.WARN,
    wrong=Verdict.FAIL,
)
def pairs(view: View) -> Cases:
    """
    Pairs that are slower than others of the same kind of link; PASS speaks of the data only.

    Where a tool does not name the kind of link, a slow pair may be one that has a slower link.
    """
    for test in (*view.node.facts.each(CopyTest), *view.job.each(CopyTest)):
        kinds: dict[str, list[Transfer]] = {}
        for item in test.transfers:
            if item.link is not None:
                kinds.setdefault(_kind(item), []).append(item)
            if item.valid is False:
                yield case("wrong", f"{item.source}-{item.target}", tool=test.tool)
        for kind, items in kinds.items():
            if len(items) < _FEWEST:
                continue
            usual = median(item.effective for item in items)
            slow = [item for item in items if item.effective < _SLOW_PAIR * usual]
            if device := _common(slow, items):
                told = (
                    f"{min(i.effective for i in slow):g} to {max(i.effective for i in slow):g} GB/s"
                )
                yield case(
                    "slow-device", device, observed=told, expected=f"{usual:g} GB/s", kind=kind
                )
                continue
            speeds: dict[str, list[float]] = {}
            for item in slow:
                name = "-".join(sorted((item.source, item.target), key=_natural))
                speeds.setdefault(name, []).append(item.effective)
            for name, each in speeds.items():
                told = " and ".join(f"{speed:g}" for speed in dict.fromkeys(each))
                yield case(
                    "slow", name, observed=f"{told} GB/s", expected=f"{usual:g} GB/s", kind=kind
                )
            if not slow:
                yield case("ok", kind, observed=f"{usual:g} GB/s", count=len(items))


def _common(slow: Sequence[Transfer], items: Sequence[Transfer]) -> str | None:
    """The accelerator of which all links of a kind are slow, and no others."""
    pairs = {frozenset((item.source, item.target)) for item in slow}
    if len(pairs) < 2:
        return None
    ends = frozenset.intersection(*pairs)
    for end in ends:
        if all(item in slow for item in items if end in (item.source, item.target)):
            return end if end.rpartition("#")[1] else None
    return None


def _kind(item: Transfer) -> str:
    ends = sorted(re.sub(r"(?<![#\d])[#\d]+$", "", end) for end in (item.source, item.target))
    return f"{item.link} {ends[0]}-{ends[1]}"


def _natural(text: str) -> tuple[str, int]:
    digits = re.search(r"(?<!\d)\d{1,20}$", text)
    return (text[: digits.start()], int(digits[0])) if digits else (text, -1)


@check(
    "accelerator.diagnosis",
    ok=Verdict.OK,
    failed=Verdict.FAIL,
    warned=Verdict.WARN,
    part=Verdict.SKIP,
    not_run=Verdict.SKIP,
)
def diagnosis(view: View) -> Cases:
    """What the vendor's own diagnosis says; a test that was left out says nothing."""
    tests = view.node.facts.each(Diagnostic)
    passed = [item for item in tests if item.result == "Pass"]
    bad = [item for item in tests if item.result in ("Fail", "Warn")]
    for item in bad:
        where = ", ".join(f"GPU {number}" for number in item.accelerators)
        yield case(
            "failed" if item.result == "Fail" else "warned",
            f"{item.name} ({where})" if where else item.name,
            test=item.tool,
            observed=item.detail or item.result,
        )
    for tool in dict.fromkeys(item.tool for item in tests):
        if any(item.tool == tool for item in bad):
            continue
        count = sum(item.tool == tool for item in passed)
        whole = any(item.whole for item in tests if item.tool == tool)
        kind = "not-run" if not count else "ok" if whole else "part"
        yield case(kind, tool, test=tool, observed=count)
