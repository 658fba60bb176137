"""Results of bandwidth tests: right data first, then the shape of a curve, then who is slower."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from statistics import median

from rackready.check import Cases, Rack, View, case, check, rack_check
from rackready.facts.model import RdmaPort
from rackready.facts.parts.bandwidth import Collective, CopyTest, RdmaTest, Transfer
from rackready.facts.parts.topology import Topology
from rackready.finding import Verdict

_SMALL = 256 << 10  # bytes: below, latency rules
_DIP = 0.7  # of what came before, from where on a hole is no noise
_BACK = 0.9  # of what came before, from where on it has come back
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
        points = [
            (p.size, p.bus)
            for p in sorted(run.points, key=lambda p: p.size)
            if p.bus is not None and p.size >= _SMALL
        ]
        if len(points) < _FEWEST:
            continue
        peak = max(bus for _, bus in points)
        hole = [at for at in range(1, len(points)) if _in_hole(points, at)]
        if hole:
            first, last = hole[0], hole[-1]
            values = {
                "observed": ", ".join(
                    f"{points[at][1]:g} GB/s at {_size(points[at][0])}" for at in hole
                ),
                "before": f"{points[first - 1][1]:g} GB/s at {_size(points[first - 1][0])}",
                "after": f"{points[last + 1][1]:g} GB/s at {_size(points[last + 1][0])}",
            }
            yield case("hole", name, None, host=source, **values)
        elif points[-1][1] < _FALL * peak and points[-2][1] < _BACK * peak:
            size, bus = points[-1]
            yield case(
                "falls", name, host=source, observed=f"{bus:g} GB/s at {_size(size)}", peak=peak
            )
        else:
            yield case("ok", name, host=source, observed=f"{peak:g} GB/s")


def _in_hole(points: Sequence[tuple[int, float]], at: int) -> bool:
    before = max(bus for _, bus in points[:at])
    after = max((bus for _, bus in points[at + 1 :]), default=0.0)
    return points[at][1] < _DIP * before and after >= _BACK * before


@check("rdma.bandwidth", ok=Verdict.OK, far=Verdict.WARN, slow=Verdict.WARN)
def rdma_bandwidth(view: View) -> Cases:
    """A test between a NIC and an accelerator that are far apart measures the way between them."""
    tests = (*view.node.facts.each(RdmaTest), *view.job.each(RdmaTest))
    for test in tests:
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
        if test.accelerator is None or test.accelerator >= len(names) or nic is None:
            continue
        accelerator = names[test.accelerator]
        word = topology.between(nic, accelerator)
        if word not in _FAR:
            continue
        nics = [topology.device(n) for n in topology.adapters if _near(topology, n, accelerator)]
        near = [name for name in names if _near(topology, nic, name)]
        return {
            "accelerator": f"GPU {test.accelerator}",
            "distance": f"{word}: {_WORDS.get(word or '', word)}",
            "near_nic": " or ".join(nics) or "a NIC near it",
            "near_gpu": " or ".join(near) or "an accelerator near it",
        }
    return {}


_WORDS = {
    "SYS": "on different sockets",
    "NODE": "at different host bridges of one NUMA node",
    "PHB": "at one host bridge, without a switch between them",
}


def _near(topology: Topology, one: str, other: str) -> bool:
    return topology.between(one, other) in ("PIX", "PXB")


@check("accelerator.p2p", ok=Verdict.OK, slow=Verdict.WARN, wrong=Verdict.FAIL)
def pairs(view: View) -> Cases:
    """Pairs that are slower than others of the same kind of link; PASS speaks of the data only."""
    for test in (*view.node.facts.each(CopyTest), *view.job.each(CopyTest)):
        kinds: dict[str, list[Transfer]] = {}
        for item in test.transfers:
            kinds.setdefault(_kind(item), []).append(item)
            if item.valid is False:
                yield case("wrong", f"{item.source}-{item.target}", tool=test.tool)
        for kind, items in kinds.items():
            if len(items) < _FEWEST:
                continue
            usual = median(item.effective for item in items)
            slow: dict[str, list[float]] = {}
            for item in items:
                if item.effective < _SLOW_PAIR * usual:
                    name = "-".join(sorted((item.source, item.target), key=_natural))
                    slow.setdefault(name, []).append(item.effective)
            for name, speeds in slow.items():
                told = " and ".join(f"{speed:g}" for speed in dict.fromkeys(speeds))
                yield case(
                    "slow", name, observed=f"{told} GB/s", expected=f"{usual:g} GB/s", kind=kind
                )
            if not slow:
                yield case("ok", kind, observed=f"{usual:g} GB/s", count=len(items))


def _kind(item: Transfer) -> str:
    ends = sorted(re.sub(r"[#\d]+$", "", end) for end in (item.source, item.target))
    return f"{item.link or 'link'} {ends[0]}-{ends[1]}"


def _natural(text: str) -> tuple[str, int]:
    digits = re.search(r"\d+$", text)
    return (text[: digits.start()], int(digits[0])) if digits else (text, -1)
