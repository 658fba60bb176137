"""Launches of Open MPI: interfaces that it may use, daemons that it finds, rank files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_interface, ip_network
from typing import Any

from rackready.check import Cases, Rack, View, case, rack_check
from rackready.checks.network import is_virtual, lists_all_interfaces
from rackready.facts.parts.host import Environment
from rackready.facts.parts.launch import (
    CpuList,
    HostFile,
    LaunchCommand,
    LaunchFailure,
    McaFile,
    ProgramPath,
    RankFile,
)
from rackready.finding import Verdict

_FRAMEWORKS = ("btl_tcp", "oob_tcp")


@dataclass(frozen=True)
class _Parameter:
    value: str
    source: str  # "on the command line", "environment OMPI_MCA_btl_tcp_if_include"
    host: str


def _launches(rack: Rack) -> list[LaunchCommand]:
    return [launch for _, facts in rack.sources() for launch in facts.each(LaunchCommand)]


def _parameters(rack: Rack, name: str) -> Iterator[_Parameter]:
    """All places that set an MCA parameter; that of the daemons is PRRTE's since Open MPI 5."""
    variables = [f"{prefix}_MCA_{name}" for prefix in ("OMPI", "PRTE", "PMIX")]
    for host, facts in rack.sources():
        for launch in facts.each(LaunchCommand):
            if name in launch.mca:
                yield _Parameter(launch.mca[name], f"command line, --mca {name}", host)
            for variable in variables:
                if variable in launch.exports:
                    yield _Parameter(launch.exports[variable], f"command line, -x {variable}", host)
        for environment in facts.each(Environment):
            for variable in variables:
                if variable in environment.values:
                    where = f"environment {variable}"
                    yield _Parameter(environment.values[variable], where, host)
        for file in facts.each(McaFile):
            if name in file.values:
                yield _Parameter(file.values[name], f"{file.path}, {name}", host)


@rack_check(
    "mpi.interfaces",
    ok=Verdict.OK,
    both=Verdict.FAIL,
    shared=Verdict.FAIL,
    too_wide=Verdict.FAIL,
    several=Verdict.WARN,
    absent=Verdict.FAIL,
    absent_alternative=Verdict.WARN,
    no_address=Verdict.FAIL,
)
def interfaces(rack: Rack) -> Cases:
    contradictory = False
    for framework in _FRAMEWORKS:
        include = next(_parameters(rack, f"{framework}_if_include"), None)
        exclude = next(_parameters(rack, f"{framework}_if_exclude"), None)
        if include and exclude:
            contradictory = True
            yield case(
                "both",
                framework,
                include=f"{include.value} ({include.source})",
                exclude=f"{exclude.value} ({exclude.source})",
            )
        elif include:
            yield from _included(rack, f"{framework}_if_include", include)
    said = [f for _, facts in rack.sources() for f in facts.each(LaunchFailure) if f.kind == "both"]
    if said and not contradictory:
        yield case("both", "btl_tcp", include=said[0].values[0], exclude=said[0].values[1])
    yield from _shared(rack)


def _networks(view: View) -> Iterator[tuple[str, Any]]:
    """Interfaces and their addresses with prefix, loopback left out."""
    for item in view.node.net or ():
        for address in item.addresses or ():
            try:
                interface = ip_interface(address)
            except ValueError:
                continue
            if not interface.is_loopback and not interface.is_link_local:
                yield item.name, interface


def _included(rack: Rack, name: str, parameter: _Parameter) -> Cases:
    right = _common_network(rack)
    fix = f"--mca {name} {right}" if right else f"--mca {name} with the subnet of the hosts"
    items = [item for part in parameter.value.split(",") if (item := part.strip())]
    holders = _holders(rack)
    for item in items:
        if "/" not in item:
            missing = [
                view
                for view in rack.views
                if view.node.net
                and lists_all_interfaces(view)
                and item not in {interface.name for interface in view.node.net}
            ]
            for view in missing:
                which = "absent-alternative" if _takes_any(view, items) else "absent"
                yield case(which, item, host=view.node.name, parameter=name, right=fix)
            if not missing and all(
                any(item == interface.name for interface in view.node.net or ())
                for view in rack.views
            ):
                yield case("ok", item, parameter=name, source=parameter.source)
            continue
        try:
            network = ip_network(item, strict=False)
        except ValueError:
            continue
        wide: dict[str, None] = {}
        known = fine = wrong = False
        for view in rack.views:
            if not view.node.net:
                continue
            known = True
            within = [pair for pair in _networks(view) if pair[1].ip in network]
            taken = list(dict.fromkeys(each for each, _ in within))
            if len(taken) > 1:
                wide.update(dict.fromkeys(taken))
                wrong = wrong or any(
                    is_virtual(each) or len(holders[address.ip]) > 1 for each, address in within
                )
            fine = fine or len(taken) == 1
            if not taken and lists_all_interfaces(view):
                yield case("no-address", item, host=view.node.name, parameter=name, right=fix)
        if wide:
            bits = "" if str(network) == item else f"; as a network it is {network}"
            values = {"taken": ", ".join(wide), "bits": bits, "right": fix}
            yield case("too-wide" if wrong else "several", item, parameter=name, **values)
        elif known and fine:
            yield case("ok", item, parameter=name, source=parameter.source)


def _takes_any(view: View, items: list[str]) -> bool:
    """True where a host has one of the interfaces or subnets that a list names."""
    own = list(_networks(view))
    names = {interface.name for interface in view.node.net or ()}
    for item in items:
        if item in names:
            return True
        try:
            network = ip_network(item, strict=False) if "/" in item else None
        except ValueError:
            continue
        if network is not None and any(address.ip in network for _, address in own):
            return True
    return False


def _holders(rack: Rack) -> dict[Any, set[str]]:
    """The hosts that have each address."""
    found: dict[Any, set[str]] = {}
    for view in rack.views:
        for _, address in _networks(view):
            found.setdefault(address.ip, set()).add(view.node.name)
    return found


def _common_network(rack: Rack) -> IPv4Network | None:
    """The network that holds the addresses of the launch's hosts, or that all hosts share."""
    asked = {host for launch in _launches(rack) for host in launch.hosts}
    shared: set[Any] | None = None
    for view in rack.views:
        own = list(_networks(view))
        for _, address in own:
            if str(address.ip) in asked:
                return address.network  # type: ignore[no-any-return]
        addresses = {address.network for _, address in own if address.version == 4}
        shared = addresses if shared is None else shared & addresses
    return min(shared) if shared else None


def _shared(rack: Rack) -> Cases:
    """Bridges with the same address on several hosts: a peer's address is then one's own."""
    if not _launches(rack) and not any(
        f.kind in ("connect", "wrong-peer")
        for _, facts in rack.sources()
        for f in facts.each(LaunchFailure)
    ):
        return
    if any(any(_parameters(rack, f"{name}_if_include")) for name in ("btl_tcp",)):
        return
    excluded = ",".join(item.value for item in _parameters(rack, "btl_tcp_if_exclude")).split(",")
    seen: dict[str, list[tuple[str, str, str]]] = {}
    for view in rack.views:
        for name, address in _networks(view):
            if name not in excluded and str(address.network) not in excluded:
                network = str(address.network)
                seen.setdefault(str(address.ip), []).append((view.node.name, name, network))
    right = _common_network(rack)
    for ip, places in seen.items():
        if len({host for host, _, _ in places}) > 1:
            names = ", ".join(dict.fromkeys(name for _, name, _ in places))
            yield case(
                "shared",
                names,
                address=ip,
                hosts=" and ".join(host or "a host" for host, _, _ in places),
                right=right or "the subnet of the hosts",
            )


@rack_check(
    "mpi.launch",
    ok=Verdict.OK,
    daemon_not_found=Verdict.FAIL,
    daemon_library=Verdict.FAIL,
    slots=Verdict.FAIL,
    too_few=Verdict.FAIL,
    perhaps_too_few=Verdict.WARN,
    slots_fit=Verdict.OK,
    as_root=Verdict.FAIL,
)
def launch(rack: Rack) -> Cases:
    """A shell that is not interactive finds other programs than a login does."""
    paths = [item for _, facts in rack.sources() for item in facts.each(ProgramPath)]
    prefix = next((run.implied_prefix for run in _launches(rack) if run.implied_prefix), None)
    local = next((p.path for p in paths if not p.host and p.program == "mpirun" and p.path), "")
    where = prefix or local.removesuffix("/bin/mpirun") or "PREFIX"
    failures = [item for _, facts in rack.sources() for item in facts.each(LaunchFailure)]
    for item in failures:
        if item.kind in ("daemon-not-found", "daemon-not-there"):
            daemon = item.values[-1]
            hosts = [p.host for p in paths if p.host and p.program == daemon and not p.path]
            named = item.host or ", ".join(hosts) or "a host"
            yield case("daemon-not-found", named, daemon=daemon, where=where)
        elif item.kind == "daemon-library":
            daemon, library = item.values
            yield case(
                "daemon-library", item.host or "a host", daemon=daemon, library=library, where=where
            )
        elif item.kind == "slots":
            yield case("slots", "slots", observed=item.values[0])
        elif item.kind == "as-root":
            yield case("as-root", item.values[0])
    if not any(item.kind == "slots" for item in failures):
        yield from _slots(rack)
    if not failures:
        for path in paths:
            if path.program in ("orted", "prted") and path.host:
                name = "ok" if path.path else "daemon-not-found"
                yield case(name, path.host, daemon=path.program, where=path.path or where)


def _slots(rack: Rack) -> Cases:
    """
    Processes against the slots of their hosts.

    A host of -host has one slot for each time that it is named, if it has no number; within an
    allocation it may have those of the allocation. One of a hostfile has as many as it has cores.
    """
    files = [item for _, facts in rack.sources() for item in facts.each(HostFile)]
    for run in _launches(rack):
        if run.ranks is None or run.oversubscribes or bool(run.slots) == bool(run.hostfile):
            continue
        if run.hostfile:
            named = [f for f in files if f.path.rpartition("/")[2] in ("", _base(run.hostfile))]
            hosts = named[0].hosts if len(named) == 1 and named[0].complete else ()
            if not hosts or any(count is None for _, count in hosts):
                continue
        else:
            hosts = run.slots
        total = sum(1 if count is None else count for _, count in hosts)
        counted = all(count is not None for _, count in hosts)
        kind = "slots-fit" if run.ranks <= total else "too-few" if counted else "perhaps-too-few"
        if run.ranks > total or counted:
            where = run.hostfile or "-host"
            yield case(kind, "slots", observed=run.ranks, expected=total, where=where)


def _base(path: str) -> str:
    return path.rpartition("/")[2]


@rack_check(
    "mpi.rankfile",
    ok=Verdict.OK,
    missing=Verdict.FAIL,
    twice=Verdict.FAIL,
    other_host=Verdict.FAIL,
    no_such_cpu=Verdict.FAIL,
)
def rankfile(rack: Rack) -> Cases:
    launches = [item for item in _launches(rack) if item.rankfile or item.ranks]
    count = next((item.ranks for item in launches if item.ranks is not None), None)
    named = {host for item in launches for host in item.hosts}
    known = {
        cpu
        for _, facts in rack.sources()
        for node in facts.each(CpuList)
        for cpu in _cpus(node.cpus)
    }
    for _, facts in rack.sources():
        for file in facts.each(RankFile):
            if not file.placements:
                continue
            ranks = Counter(placement.rank for placement in file.placements)
            last = file.placements[-1]
            wrong = False
            if count is not None:
                for rank in [rank for rank in range(min(count, 100_000)) if rank not in ranks][:20]:
                    wrong = True
                    yield case(
                        "missing",
                        f"rank {rank}",
                        observed=len(ranks),
                        expected=count,
                        example=f"rank {rank}={last.host} slot={last.slots}",
                    )
            for rank in sorted(rank for rank, times in ranks.items() if times > 1)[:20]:
                wrong = True
                yield case("twice", f"rank {rank}")
            for host in dict.fromkeys(placement.host for placement in file.placements):
                if named and host not in named and not host.startswith("+"):
                    wrong = True
                    yield case("other-host", host, expected=", ".join(sorted(named)))
            if known:
                for slots in dict.fromkeys(placement.slots for placement in file.placements):
                    outside = [] if ":" in slots else sorted(_cpus(slots) - known)
                    if outside:
                        wrong = True
                        yield case("no-such-cpu", slots, observed=outside[0], expected=max(known))
            if not wrong:
                yield case("ok", "rankfile", observed=ranks.total())


def _cpus(text: str) -> set[int]:
    """``0-3,8`` -> {0, 1, 2, 3, 8}."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last.isdecimal() or not last):
            start, end = int(first), int(last or first)
            found.update(range(start, min(end, start + 4096) + 1))
    return found
