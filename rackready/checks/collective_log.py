"""Logs of collective libraries: bootstrap, network, rails, and calls that failed."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Interface, IPv6Interface, ip_address, ip_interface, ip_network

from rackready.check import Case, Cases, Rack, View, case, rack_check
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


def _variables(rack: Rack, ending: str) -> Iterator[tuple[str, str, str]]:
    """Host, name and value of the environment variables whose names end so."""
    for source, facts in rack.sources():
        for environment in facts.each(Environment):
            for name, value in environment.values.items():
                if name.endswith(ending):
                    yield source, name, value


def _interfaces(rack: Rack, source: str) -> dict[str, View]:
    """Interfaces that are known of a host; of all hosts where it is the job that speaks."""
    return {
        interface.name: view
        for view in rack.views
        if source in ("", view.node.name)
        for interface in view.node.net or ()
    }


@rack_check(
    "nccl.interface",
    ok=Verdict.OK,
    exact_unknown=Verdict.FAIL,
    absent=Verdict.FAIL,
    none_found=Verdict.FAIL,
)
def interface(rack: Rack) -> Cases:
    """
    What the variable names, and what the host has.

    That an interface is missing is said where the library says so too, or where the host's list is
    whole (it shows lo).
    """
    failed = list(_failures(rack, "no-interface"))
    named = list(_variables(rack, "CCL_SOCKET_IFNAME"))
    for source, name, value in named:
        known = _interfaces(rack, source)
        names = [part for part in value.lstrip("=^").split(",") if part]
        exact, excluded = value.startswith("="), value.startswith("^")
        taken = [n for n in known if any(n == p or (not exact and n.startswith(p)) for p in names)]
        right = ",".join(names)
        if excluded or not names:
            continue
        if failed and exact and (taken or not known):
            yield case("exact-unknown", name, host=source, observed=value, right=right)
        elif not taken and known and (failed or "lo" in known):
            here = ", ".join(sorted(known.keys() - {"lo"})) or "none"
            yield case("absent", name, host=source, observed=value, here=here)
        elif taken and not failed:
            yield case("ok", name, host=source, observed=value, taken=", ".join(taken))
    if failed and not named:
        host, item = failed[0]
        yield case("none-found", host or "job", observed=item.text)


@rack_check("nccl.bootstrap", ranks=Verdict.FAIL, world_size=Verdict.FAIL, refused=Verdict.ERROR)
def bootstrap(rack: Rack) -> Cases:
    """Refused connections are a consequence where the processes do not agree on their number."""
    sizes = {
        source: value for source, name, value in _variables(rack, "WORLD_SIZE") if value.isdecimal()
    }
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
    plugin=Verdict.FAIL,
    socket=Verdict.FAIL,
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
        domains = [d for _, part in rack.sources() for d in part.each(FabricDomain)]
        if any(domain.provider == "efa" for domain in domains):
            yield _without_plugin(rack, source, library, uses)
        elif active := _active_devices(rack, source):
            yield case("socket", library, host=source, devices=", ".join(active))


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


def _active_devices(rack: Rack, source: str) -> list[str]:
    return [
        device.name
        for view in rack.views
        if source in ("", view.node.name)
        for device in view.node.rdma or ()
        if any((port.state or "").upper().endswith("ACTIVE") for port in device.ports)
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


@rack_check(
    "nccl.log",
    registration=Verdict.FAIL,
    open_device=Verdict.FAIL,
    version=Verdict.FAIL,
    completion=Verdict.FAIL,
)
def log(rack: Rack) -> Cases:
    """Failures that no other check explains; each kind and detail once."""
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
