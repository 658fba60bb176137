"""Accelerators at work: memory errors, temperature, memory that nobody uses, links among them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from rackready.check import Cases, View, case, check
from rackready.facts.parts.accelerators import AcceleratorProcesses, ErrorCounts, Reading
from rackready.facts.parts.topology import Topology
from rackready.finding import Verdict


def named(view: View, index: int | None, bdf: str | None) -> str:
    """The address of a device, where any output tells it."""
    known = (item.bdf for item in view.node.stack.accelerators or () if item.index == index)
    return bdf or next((address for address in known if address), None) or f"GPU {index}"


@check(
    "accelerator.ecc",
    ok=Verdict.OK,
    uncorrectable=Verdict.FAIL,
    retired=Verdict.WARN,
    too_many_retired=Verdict.FAIL,
)
def ecc(view: View) -> Cases:
    """
    Errors that were corrected are harmless; the last count of a device holds.

    Without a counter of the others, nothing tells that there were none.
    """
    last = {named(view, item.index, item.bdf): item for item in view.node.facts.each(ErrorCounts)}
    limit = view.profile.health.retired_pages if view.profile else None
    for subject, item in last.items():
        lost = {key: count for key, count in item.errors.items() if count and _is_lost(key)}
        pages = sum(item.retired_pages.values())
        corrected = sum(count for key, count in item.errors.items() if key not in lost)
        if lost:
            yield case("uncorrectable", subject, index=item.index, observed=_told(lost))
        if limit is not None and pages > limit.value:
            yield case(
                "too-many-retired",
                subject,
                index=item.index,
                observed=pages,
                expected=limit.value,
                source=limit.source,
            )
        elif pages:
            yield case("retired", subject, index=item.index, observed=_told(item.retired_pages))
        elif not lost and any(map(_is_lost, (*item.errors, *item.retired_pages))):
            yield case("ok", subject, index=item.index, observed=corrected)


def _is_lost(counter: str) -> bool:
    return counter.lower().replace("-", "").startswith(("un", "double")) or any(
        word in counter.lower() for word in ("uncorrect", "double bit", "fatal")
    )


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{key}: {count}" for key, count in counts.items() if count)


_HEADLINE = "GPU"  # the one temperature of a tool's table


@check("accelerator.temperature", ok=Verdict.OK, hot=Verdict.WARN)
def temperature(view: View) -> Cases:
    """
    Judged by the product's limit only; without one a figure says nothing.

    The limit is one of the hottest spot: cooler sensors of a list that lacks it prove nothing.
    """
    limit = view.profile.health.temperature if view.profile else None
    if limit is None:
        return
    hottest: dict[str, tuple[float, str]] = {}
    proven: set[str] = set()
    for item in view.node.facts.each(Reading):
        subject = named(view, item.index, item.bdf)
        for sensor, value in item.temperatures.items():
            hottest[subject] = max(hottest.get(subject, (value, sensor)), (value, sensor))
            if sensor.startswith(("hotspot", _HEADLINE)):
                proven.add(subject)
    for subject, (value, sensor) in hottest.items():
        if value < limit.value and subject not in proven:
            continue
        yield case(
            "hot" if value >= limit.value else "ok",
            subject,
            observed=f"{value:g} C",
            expected=f"below {limit.value:g} C",
            sensor=sensor,
            source=limit.source,
        )


@check("accelerator.idle-memory", ok=Verdict.OK, held=Verdict.WARN)
def idle_memory(view: View) -> Cases:
    """
    Memory in use on a node whose tool lists no process at all.

    What driver and firmware keep is no use; twice as much leaves room for other releases.
    """
    reserve = view.profile.health.idle_memory if view.profile else None
    lists = view.node.facts.each(AcceleratorProcesses)
    if reserve is None or not lists or any(item.found for item in lists):
        return
    last: dict[str, Reading] = {}
    for item in view.node.facts.each(Reading):
        if item.memory_used_mib is not None:
            last[named(view, item.index, item.bdf)] = item
    for subject, item in last.items():
        held = (item.memory_used_mib or 0) > 2 * reserve.value and not item.utilisation
        yield case(
            "held" if held else "ok",
            subject,
            index=item.index,
            observed=f"{item.memory_used_mib} MiB",
            expected=f"about {reserve.value} MiB",
        )


@check(
    "accelerator.links",
    ok=Verdict.OK,
    missing=Verdict.FAIL,
    uneven=Verdict.WARN,
    none=Verdict.SKIP,
)
def links(view: View) -> Cases:
    """
    Groups of accelerators in which each two have a link of their own.

    A pair without one in a group that is complete otherwise has lost it. A device that is in no
    group, or a group that is smaller than the others, may be meant so.
    """
    mesh = view.profile.mesh if view.profile else None
    for matrix in _matrices(view.node.facts.each(Topology)):
        if mesh is None:
            return
        devices = [name for name in matrix.accelerators if name in matrix.links]
        joined = {
            (one, other)
            for one in devices
            for other in devices
            if one != other and matrix.between(one, other) == mesh.value
        }
        groups = _groups(devices, joined)
        if not joined:
            yield case("none", "links", expected=mesh.value)
            continue
        bad = list(_lost(groups, joined))
        for one, other in bad:
            yield case(
                "missing",
                f"{one} - {other}",
                observed=matrix.between(one, other) or "nothing",
                expected=mesh.value,
                back=matrix.between(other, one) or "nothing",
            )
        sizes = {len(group) for group in groups}
        if len(devices) < len(matrix.accelerators):
            continue  # rows are missing: what they would show is open
        if len(sizes) > 1:
            for group in groups:
                if len(group) < max(sizes):
                    yield case(
                        "uneven",
                        ", ".join(group),
                        observed=len(group),
                        expected=max(sizes),
                        link=mesh.value,
                    )
        elif not bad:
            yield case("ok", "links", observed=f"{len(groups)} x {max(sizes)}", link=mesh.value)


def _matrices(found: Sequence[Topology]) -> Iterator[Topology]:
    """One matrix for each set of accelerators: those with and without NICs show the same links."""
    seen: set[tuple[str, ...]] = set()
    for matrix in found:
        if matrix.accelerators not in seen:
            seen.add(matrix.accelerators)
            yield matrix


def _groups(devices: Sequence[str], joined: Collection[tuple[str, str]]) -> list[list[str]]:
    """Devices that reach one another over links, be it through others."""
    groups: list[list[str]] = []
    left = list(devices)
    while left:
        group = [left.pop(0)]
        for member in group:
            near = [name for name in left if (member, name) in joined or (name, member) in joined]
            group += near
            left = [name for name in left if name not in near]
        groups.append([name for name in devices if name in group])
    return groups


def _lost(
    groups: Sequence[Sequence[str]], joined: Collection[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Pairs of a group that have no link, in either direction of the matrix."""
    for group in groups:
        for at, one in enumerate(group):
            for other in group[at + 1 :]:
                if (one, other) not in joined or (other, one) not in joined:
                    yield one, other
