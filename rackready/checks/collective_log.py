"""Logs of collective libraries: bootstrap, network, rails, and calls that failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Interface, IPv6Interface, ip_address, ip_interface, ip_network

from rackready.check import Case, Cases, Rack, View, case, rack_check
from rackready.checks.network import lists_all_interfaces
from rackready.facts.parts.collective_log import (
    FabricDomain,
    FabricFailure,
    LibraryPath,
    LogFailure,
    NetworkPlugin,
    NetworkUse,
)
from rackready.facts.parts.host import Environment
from rackready.finding import Verdict

_TIMED_OUT = ("110", "113", "101", "Network is unreachable", "No route to host")


def _failures(rack: Rack, kind: str) -> Iterator[tuple[str, LogFailure]]:
    """Failures of a kind, with the host that the line or the folder names."""
    for source, facts in rack.sources():
        for item in facts.each(LogFailure):
            if item.kind == kind:
                yield item.host or source, item


def _library_variables(rack: Rack, ending: str) -> Iterator[tuple[str, str, str]]:
    """Host, name and value of ``NCCL_`` variables and their kin, by the part behind that."""
    for source, facts in rack.sources():
        for environment in facts.each(Environment):
            for name, value in environment.values.items():
                if name.endswith(f"CCL_{ending}"):
                    yield source, name, value


@rack_check(
    "nccl.interface",
    ok=Verdict.OK,
    not_judged=Verdict.SKIP,
    exact_unknown=Verdict.FAIL,
    absent=Verdict.FAIL,
    none_found=Verdict.FAIL,
)
def interface(rack: Rack) -> Cases:
    """
    What the variable names, and what the host has.

    That an interface is missing is said where the library says so too, or where the lists of the
    hosts are whole.
    """
    failed = list(_failures(rack, "no-interface"))
    named = list(_library_variables(rack, "SOCKET_IFNAME"))
    for source, name, value in named:
        names = [part for part in value.lstrip("=^").split(",") if part]
        if value.startswith("^") or not names:
            continue
        exact = value.startswith("=")
        views = [view for view in rack.views if source in ("", view.node.name) and view.node.net]
        taken = {view.node.name: _taken(view, names, exact) for view in views}
        if not views and not failed:
            yield case("not-judged", name, host=source, observed=value)
        if failed and exact and (any(taken.values()) or not views):
            right = ",".join(names)
            yield case("exact-unknown", name, host=source, observed=value, right=right)
            continue
        for view in views:
            if not taken[view.node.name] and (failed or lists_all_interfaces(view)):
                here = ", ".join(i.name for i in view.node.net or () if i.name != "lo") or "none"
                host = view.node.name
                yield case("absent", name, host=host, observed=value, here=here)
        if views and all(taken.values()) and not failed:
            found = ", ".join(dict.fromkeys(each for some in taken.values() for each in some))
            yield case("ok", name, host=source, observed=value, taken=found)
    if failed and not named:
        host, item = failed[0]
        yield case("none-found", host or "job", observed=item.text)


def _taken(view: View, names: Sequence[str], exact: bool) -> list[str]:
    """Interfaces of a host that a list takes; names are prefixes unless it is exact."""
    known = [interface.name for interface in view.node.net or ()]
    return [n for n in known if any(n == p or (not exact and n.startswith(p)) for p in names)]


def _set(rack: Rack, name: str) -> dict[str, str]:
    """What each host's environment, or the job's, has in a variable."""
    return {
        source: value
        for source, facts in rack.sources()
        for item in facts.each(Environment)
        if (value := item.values.get(name))
    }


def _places(rack: Rack) -> Cases:
    """Where the first rank is, and which place each host has: as torchrun and its kin are told."""
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        found = _set(rack, name)
        if len(set(found.values())) > 1:
            told = "; ".join(f"{host or 'the job'} has {name}={v}" for host, v in found.items())
            yield case("master", name, told=told)
    ranks, masters = _set(rack, "NODE_RANK"), _set(rack, "MASTER_ADDR")
    for rank in dict.fromkeys(ranks.values()):
        hosts = [host for host, value in ranks.items() if value == rank and host in masters]
        if len(hosts) > 1:
            yield case("node-rank", "NODE_RANK", observed=rank, hosts=", ".join(hosts))


@rack_check(
    "nccl.bootstrap",
    ranks=Verdict.FAIL,
    world_size=Verdict.FAIL,
    node_rank=Verdict.FAIL,
    master=Verdict.WARN,
    refused=Verdict.ERROR,
)
def bootstrap(rack: Rack) -> Cases:
    """Refused connections are a consequence where the processes do not agree on their number."""
    yield from _places(rack)
    sizes = {host: value for host, value in _set(rack, "WORLD_SIZE").items() if value.isdecimal()}
    told = "; ".join(f"{host or 'the job'} has WORLD_SIZE={v}" for host, v in sizes.items())
    counts = list(_failures(rack, "rank-count"))
    if counts:
        expected, got = counts[0][1].values[:2]
        yield case(
            "ranks",
            "ranks",
            observed=got,
            expected=expected,
            told=f": {told}" if len(set(sizes.values())) > 1 else "",
        )
    elif len(set(sizes.values())) > 1:
        yield case("world-size", "WORLD_SIZE", told=told)
    elif not any(_failures(rack, "no-interface")):
        for host, item in _failures(rack, "refused"):
            yield case("refused", host or "job", observed=item.values[0])


@rack_check(
    "nccl.network",
    ok=Verdict.OK,
    one_node=Verdict.SKIP,
    plugin=Verdict.FAIL,
    chosen=Verdict.WARN,
    socket=Verdict.FAIL,
    fallback=Verdict.WARN,
    no_provider=Verdict.FAIL,
)
def network(rack: Rack) -> Cases:
    for source, facts in rack.sources():
        uses = facts.each(NetworkUse)
        networks = [name for use in uses for name in use.networks]
        transports = {kind: n for use in uses for kind, n in (use.transports or {}).items()}
        socket = "Socket" in networks or any(kind.startswith("NET/Socket") for kind in transports)
        failure = next((f for _, part in rack.sources() for f in part.each(FabricFailure)), None)
        if failure is not None and (socket or not uses) and source == "":
            yield case("no-provider", failure.provider or "libfabric", observed=failure.text)
        if not uses:
            continue
        library = uses[0].library
        if not socket:
            if networks or any(kind.startswith("NET/") for kind in transports):
                over = [kind for kind in transports if kind.startswith("NET/")]
                told = ", ".join(dict.fromkeys([*networks, *over]))
                yield case("ok", library, host=source, observed=told)
            continue
        nodes = max((use.nodes or 0 for use in uses), default=0)
        if nodes == 1:
            yield case("one-node", library, host=source)
            continue
        domains = [d for _, part in rack.sources() for d in part.each(FabricDomain)]
        if any(domain.provider == "efa" for domain in domains):
            yield _without_plugin(rack, source, library, uses)
            continue
        devices = _devices(rack, source)
        active = ", ".join(name for name, is_active in devices if is_active)
        off = next(_switched_off(rack, source), None)
        why = _why(uses)
        if off and (active or not devices):
            yield case("chosen", library, host=source, name=off[0], observed=f"{off[0]}={off[1]}")
        elif active:
            told = f": {why}" if why else ""
            yield case("socket", library, host=source, devices=active, why=told)
        elif why and nodes > 1 and not devices:
            yield case("fallback", library, host=source, observed=why)


def _switched_off(rack: Rack, source: str) -> Iterator[tuple[str, str]]:
    """Variables by which somebody chose sockets: name and value."""
    for ending, values in (("IB_DISABLE", ("1",)), ("NET", ("socket",))):
        for host, name, value in _library_variables(rack, ending):
            if value.lower() in values and (not source or host in ("", source)):
                yield name, value


def _why(uses: tuple[NetworkUse, ...]) -> str:
    """What the log itself says of RDMA."""
    if any(use.no_verbs for use in uses):
        return "it could not open libibverbs.so"
    return "it found no RDMA device" if any(use.no_ib_device for use in uses) else ""


def _without_plugin(rack: Rack, source: str, library: str, uses: tuple[NetworkUse, ...]) -> Case:
    plugins = [p for _, part in rack.sources() for p in part.each(NetworkPlugin)]
    path = next((p for _, part in rack.sources() for p in part.each(LibraryPath)), None)
    folder = plugins[0].folder if plugins else ""
    missing = next((name for use in uses for name in use.plugins_missing), "libnccl-net.so")
    known = path is not None and folder in path.folders
    return case(
        "plugin",
        library,
        host=source,
        missing=missing,
        lies=f"it lies in {folder}" if folder else "it was not looked for",
        path="" if known or not folder else ", which is not in LD_LIBRARY_PATH",
        folder=folder or "FOLDER",
    )


def _devices(rack: Rack, source: str) -> list[tuple[str, bool]]:
    """RDMA devices that are known, and whether they are active."""
    return [
        (device.name, any((p.state or "").upper().endswith("ACTIVE") for p in device.ports))
        for view in rack.views
        if source in ("", view.node.name)
        for device in view.node.rdma or ()
    ]


@rack_check(
    "nccl.rails", other_rail=Verdict.WARN, unreachable=Verdict.FAIL, queue_pair=Verdict.FAIL
)
def rails(rack: Rack) -> Cases:
    """
    A queue pair to another rail needs a route between the rails.

    Which addresses share a subnet the hosts' own prefixes say; without these it is taken from the
    first three bytes, and is only suspicious.
    """
    for host, item in _failures(rack, "queue-pair"):
        error, device, _, local, remote = (*item.values, "", "", "", "", "")[:5]
        if error not in _TIMED_OUT or not device:
            if not device:
                yield case("queue-pair", host or "job", observed=error)
            continue
        here, there = _plain(local), _plain(remote)
        same = _same_subnet(rack, here, there)
        values = {"host": host, "observed": f"{here} -> {there}", "error": error}
        yield case("unreachable" if same else "other-rail", device, None, **values)


def _plain(gid: str) -> str:
    try:
        address = ip_address(gid)
    except ValueError:
        return gid
    return str(getattr(address, "ipv4_mapped", None) or address)


def _interface(address: str) -> IPv4Interface | IPv6Interface | None:
    try:
        return ip_interface(address)
    except ValueError:
        return None


def _same_subnet(rack: Rack, here: str, there: str) -> bool:
    prefixes = {
        str(found.ip): found.network
        for view in rack.views
        for interface in view.node.net or ()
        for address in interface.addresses or ()
        if "/" in address and (found := _interface(address))
    }
    try:
        network_ = prefixes.get(here) or ip_network(f"{here}/24", strict=False)
        return ip_address(there) in network_
    except ValueError:
        return True


# ibv_wc_status: what most often ends a work request of a library.
_STATUS = {
    4: ("protection", "local protection error"),
    5: ("completion", "flushed"),
    10: ("protection", "remote access error"),
    12: ("no-answer", "retries exceeded"),
    13: ("no-answer", "receiver not ready"),
}
_FLUSHED = 5  # what was under way when another request failed


def _completions(rack: Rack) -> Cases:
    """Work that the NIC could not complete; what was flushed only where nothing else is told."""
    found = [(host, int(item.values[0]), item) for host, item in _failures(rack, "completion")]
    for host, status, item in found:
        if status == _FLUSHED and any(other != _FLUSHED for _, other, _ in found):
            continue
        kind, meaning = _STATUS.get(status, ("completion", "an error"))
        times = "once" if item.count == 1 else f"{item.count} times"
        observed = f"completion status {status} ({meaning})"
        yield case(kind, f"status {status}", host=host, observed=observed, times=times)


@rack_check(
    "nccl.log",
    registration=Verdict.FAIL,
    open_device=Verdict.FAIL,
    version=Verdict.FAIL,
    completion=Verdict.FAIL,
    no_answer=Verdict.FAIL,
    protection=Verdict.FAIL,
)
def log(rack: Rack) -> Cases:
    """Failures that no other check explains; each kind and detail once."""
    yield from _completions(rack)
    kinds = {
        "registration": "registration",
        "open-device": "open-device",
        "version": "version",
        "async": "completion",
    }
    for kind, name in kinds.items():
        for host, item in _failures(rack, kind):
            observed = next((value for value in item.values if value), item.text)
            times = "once" if item.count == 1 else f"{item.count} times"
            yield case(
                name,
                observed if kind == "open-device" else kind,
                host=host,
                observed=observed,
                times=times,
            )
