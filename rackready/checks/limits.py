"""Locked memory: whoever runs jobs has to be allowed to lock as much as they register."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from rackready.check import Case, Cases, Rack, case, rack_check
from rackready.facts.model import System
from rackready.facts.parts.limits import (
    UNLIMITED,
    LimitRule,
    MemLock,
    MemLockRefusal,
    PamLimits,
    ProcessId,
)
from rackready.facts.parts.ssh import SshdOption
from rackready.facts.parts.store import Facts
from rackready.finding import Verdict

# Bytes. Queue pairs and buffers of one process already take more than the first; the EFA check of
# nccl-tests' documentation warns below the second.
TOO_LOW = 1 << 30
_LOW = 16 << 30

# Services whose children are jobs.
_LAUNCHERS = frozenset(
    (
        "slurmd",
        "slurmstepd",
        "pbs_mom",
        "pbs",
        "lim",
        "res",
        "sbatchd",
        "condor",
        "sge_execd",
        "ray",
        "raylet",
        "orted",
        "prted",
        "supervisord",
    )
)
# Services whose children are containers, which may have a limit or CAP_IPC_LOCK of their own.
_ENGINES = frozenset(
    (
        "docker",
        "dockerd",
        "containerd",
        "containerd-shim",
        "kubelet",
        "crio",
        "cri-o",
        "k3s",
        "k3s-agent",
        "rke2-agent",
        "podman",
    )
)
_IPC_LOCK = 1 << 14  # the kernel asks for it before it looks at the limit (ib_umem_get)


@rack_check(
    "limits.memlock",
    each_node=True,
    ok=Verdict.OK,
    shell=Verdict.FAIL,
    shell_only=Verdict.WARN,
    shell_of_root=Verdict.WARN,
    service=Verdict.FAIL,
    engine=Verdict.WARN,
    engine_alone=Verdict.SKIP,
    process=Verdict.WARN,
    job=Verdict.FAIL,
    propagated=Verdict.FAIL,
    container=Verdict.FAIL,
    rule=Verdict.FAIL,
    log=Verdict.FAIL,
    refused=Verdict.WARN,
    tight=Verdict.WARN,
)
def memlock(rack: Rack) -> Cases:
    """A cause is told once: a job's limit is that of the service, else of the shell."""
    found = [(host, facts) for host, facts in rack.sources()]
    limits = [(host, item) for host, facts in found for item in _named(facts)]
    services = [(host, item) for host, item in limits if _starts_jobs(item, dict(found)[host])]
    jobs = [(host, item) for host, item in limits if item.place == "job"]
    shells = [(host, item) for host, item in limits if item.place == "shell"]
    told: list[Case] = []
    engines = [] if _is_felt(rack, limits) else [p for p in services if _base(p[1]) in _ENGINES]
    told += _each("service", (p for p in services if _low(p[1]) and p not in engines))
    told += _each("container", (p for p in limits if p[1].place == "container" and _low(p[1])))
    probed = {view.node.name for view in rack.views if view.node.probed}
    if not told:
        # A look at a node shows all services: jobs are not started by the shell of the probe.
        started = [pair for pair in services if pair[0] in probed]
        told += _shells(rack, shells, [*jobs, *started])
    if not told and jobs:
        fine = any(not _low(item) for _, item in services)
        told += _each("propagated" if fine else "job", (p for p in jobs if _low(p[1])))
    if not shells:
        told += _rules(found)
    faults = bool(told)
    others = [(host, item) for host, item in limits if item.place in ("process", "service")]
    told += _each(
        "process", (p for p in others if _low(p[1]) and p not in services and p[1].name != "sshd")
    )
    if not faults:
        told += _logged(found)
    for pair in engines:
        if _low(pair[1]):
            told += _each("engine-alone" if pair[0] in probed else "engine", [pair])
    told += _each("tight", (p for p in limits if p[1].place != "process" and _tight(p[1])))
    yield from told
    for host, item in limits:
        if not _low(item) and not _tight(item):
            yield case("ok", _name(item), observed=_size(item.soft), **_at(host))


def _named(facts: Facts) -> Iterator[MemLock]:
    """Limits; a process whose program is known as that service."""
    programs = {str(item.pid): item.program for item in facts.each(ProcessId)}
    for item in facts.each(MemLock):
        known = item.place == "process" and item.name in programs
        yield replace(item, place="service", name=programs[item.name]) if known else item


def _low(item: MemLock) -> bool:
    return UNLIMITED != item.soft < TOO_LOW


def _tight(item: MemLock) -> bool:
    return TOO_LOW <= item.soft < _LOW


def _starts_jobs(item: MemLock, facts: Facts) -> bool:
    """sshd gives its sessions the limits of PAM, unless it does not use it."""
    if item.place != "service":
        return False
    if item.name == "sshd":
        option = facts.first(SshdOption, name="usepam")
        return option is not None and option.value.lower() == "no"
    # whose unit was not pasted, was looked at for a reason
    return not item.name or _base(item) in _LAUNCHERS | _ENGINES


def _base(item: MemLock) -> str:
    return item.name.partition("@")[0]


def _is_felt(rack: Rack, limits: Iterable[tuple[str, MemLock]]) -> bool:
    """True where jobs or containers have a small limit, or were refused memory."""
    measured = any(item.place in ("job", "container") and _low(item) for _, item in limits)
    return measured or any(facts.each(MemLockRefusal) for _, facts in rack.sources())


def _name(item: MemLock) -> str:
    return item.name or {"service": "the service", "job": "the job"}.get(item.place, item.place)


def _at(host: str) -> dict[str, Any]:
    return {"host": host} if host else {}


def _size(value: int) -> str:
    if value == UNLIMITED:
        return "unlimited"
    if value >= 1 << 30:
        return f"{value / (1 << 30):.1f} GiB"
    return f"{value // 1024} KiB ({value} bytes)"


def _each(name: str, pairs: Iterable[tuple[str, MemLock]], cause: str = "") -> Iterator[Case]:
    seen = set()
    for host, item in pairs:
        if (host, item.name, item.soft) not in seen:
            seen.add((host, item.name, item.soft))
            yield case(
                name,
                _name(item),
                observed=_size(item.soft),
                expected="unlimited",
                cause=cause,
                **_at(host),
            )


def _shells(
    rack: Rack,
    shells: Iterable[tuple[str, MemLock]],
    jobs: Iterable[tuple[str, MemLock]],
) -> Iterator[Case]:
    measured = [item for _, item in jobs]
    fine = bool(measured) and not any(map(_low, measured))
    sources = dict(rack.sources())
    systems = {view.node.name: view.node.system for view in rack.views}
    refused = any(facts.each(MemLockRefusal) for facts in sources.values())
    for host, item in shells:
        if _low(item):
            free = not refused and host != "container" and _may_lock(systems.get(host))
            name = "shell-only" if fine else "shell-of-root" if free else "shell"
            yield from _each(name, [(host, item)], _cause(sources[host]))


def _may_lock(system: System | None) -> bool:
    """True where the limit does not bind: root has CAP_IPC_LOCK, but in most containers."""
    if system is None:
        return False
    if system.capabilities is not None:
        return bool(system.capabilities & _IPC_LOCK)
    return system.uid == 0


def _cause(facts: Facts) -> str:
    """Why sessions of a host do not get the limit, as far as its PAM and its rules tell."""
    pam, option = facts.first(PamLimits), facts.first(SshdOption, name="usepam")
    rules = facts.each(LimitRule)
    wide = [item for item in rules if item.value == UNLIMITED]
    if option and option.value.lower() == "no":
        return "sshd runs with UsePAM no, so its sessions read no limits.conf"
    if pam and not pam.used:
        return "pam_limits is not in the PAM files of the login, so limits.conf is not read"
    if low := _low_rules(facts):
        return f"{low[0].file or 'limits.conf'} sets {low[0].value} for {low[0].domain}"
    if wide and all(item.kind == "hard" for item in wide):
        return "limits.conf raises the hard limit only: the soft limit is what counts"
    if wide and all(item.domain != "root" for item in wide):
        who = ", ".join(sorted({item.domain for item in wide}))
        return (
            f"limits.conf sets it for {who}, which does not cover root, and for new sessions only"
        )
    return "sessions take it from limits.conf through pam_limits; without a rule the default stays"


def _low_rules(facts: Facts) -> list[LimitRule]:
    """Rules with a low value; where files disagree on a domain, the later file counts."""
    last: dict[tuple[str, str], LimitRule] = {}
    for item in sorted(facts.each(LimitRule), key=lambda rule: (".d/" in rule.file, rule.file)):
        for kind in ("soft", "hard") if item.kind == "-" else (item.kind,):
            last[item.domain, kind] = item
    return [
        item
        for item in dict.fromkeys(last.values())
        if item.value is not None and UNLIMITED != item.value < TOO_LOW >> 10
    ]


def _rules(found: Iterable[tuple[str, Facts]]) -> Iterator[Case]:
    for host, facts in found:
        for item in _low_rules(facts):
            yield case(
                "rule",
                item.domain,
                file=item.file or "limits.conf",
                kind="soft and hard" if item.kind == "-" else item.kind,
                observed=f"{item.value} KiB",
                expected="unlimited",
                **_at(host),
            )


def _logged(found: Iterable[tuple[str, Facts]]) -> Iterator[Case]:
    for host, facts in found:
        refusals = facts.each(MemLockRefusal)
        known = [item for item in refusals if item.limit is not None]
        for item in known[:1] or refusals[:1]:
            call = item.call or "registration of memory"
            low = item.limit is not None and UNLIMITED != item.limit < _LOW
            observed = _size(item.limit) if item.limit is not None else "unknown"
            name = "log" if low else "refused"
            yield case(name, call, observed=observed, expected="unlimited", **_at(host))
