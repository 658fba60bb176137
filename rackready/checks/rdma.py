"""RDMA devices: state of their ports, bonds, and the user-space part of their drivers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rackready.check import Case, Cases, Rack, View, case, check, rack_check
from rackready.checks.roce import speaks_infiniband
from rackready.facts.model import NetDevice, RdmaPort
from rackready.facts.parts.host import Package
from rackready.facts.parts.rdma import VerbsLibrary
from rackready.facts.parts.store import Facts
from rackready.finding import Verdict
from rackready.wiring import NicPort, Role, card, is_bond


def _ports(view: View) -> Iterator[tuple[NicPort, RdmaPort]]:
    """All ports of RDMA devices, compute or not."""
    devices = {device.name: device for device in view.node.rdma or ()}
    for nic in view.wiring.ports:
        device = devices.get(nic.rdma or "")
        for port in device.ports if device else ():
            if port.number == nic.port:
                yield nic, port


@check(
    "rdma.port-state",
    ok=Verdict.OK,
    disabled=Verdict.FAIL,
    no_link=Verdict.FAIL,
    down=Verdict.FAIL,
    initializing=Verdict.FAIL,
    second_port=Verdict.WARN,
    unused=Verdict.SKIP,
)
def port_state(view: View) -> Cases:
    """Compute ports that carry nothing. Bonds and NICs that the site does not name are left."""
    ports = [(nic, port) for nic, port in _ports(view) if port.state or port.physical_state]
    ethernet = any(
        port.state == "ACTIVE" and not _is_infiniband(nic, port)
        for nic, port in ports
        if nic.role is Role.COMPUTE
    )
    interfaces = {item.name: item for item in view.node.net or ()}
    active = [nic for nic, port in ports if port.state == "ACTIVE"]
    for nic, port in ports:
        if nic.role is not Role.COMPUTE or nic.virtual:
            continue
        if port.state == "ACTIVE":
            yield case("ok", nic.name, observed="ACTIVE")
            continue
        if port.state is None and port.physical_state == "LinkUp":
            continue  # the line with its state was left out
        infiniband = _is_infiniband(nic, port)
        layer = "InfiniBand" if infiniband else port.link_layer or "Ethernet"
        physical = port.physical_state
        interface = interfaces.get(nic.netdev or "")
        off = physical == "Disabled" or (interface is not None and interface.enabled is False)
        values: dict[str, Any] = {
            "observed": " ".join(word for word in (port.state, physical) if word),
            "netdev": nic.netdev or "its interface",
            "link": nic.netdev or "NETDEV",
            "find": ""
            if nic.netdev
            else f"ls /sys/class/infiniband/{nic.rdma}/device/net names NETDEV; then ",
            "layer": layer,
            "rdma": nic.rdma,
        }
        if infiniband and ethernet and view.wishes.compute_nics is None:
            # of a host whose compute fabric is Ethernet
            yield case("unused", nic.name, **values)
        elif port.state in ("INIT", "ARMED") and infiniband:
            yield case("initializing", nic.name, **values)
        elif view.wishes.compute_nics is None and any(_same_card(nic, other) for other in active):
            yield case("second-port", nic.name, **values)
        elif infiniband or (physical is not None and physical not in ("Disabled", "LinkUp")):
            yield case("no-link", nic.name, **values)
        elif off:
            yield case("disabled", nic.name, **values)
        elif port.state in ("DOWN", None) or physical == "LinkUp":
            yield case("down", nic.name, **values)


_FUNCTION = re.compile(r"(e[nt][a-zA-Z0-9]{1,24}|ib[a-zA-Z0-9]{1,24})f\d{1,2}(?:np?\d{1,2})?$")


def _same_card(nic: NicPort, other: NicPort) -> bool:
    """By the device and the address; where that is not known, by the names that systemd gives."""
    if nic.bdf and other.bdf:
        return card(nic.bdf) == card(other.bdf)
    names = [_FUNCTION.match(item.netdev or "") for item in (nic, other)]
    placed = [match[1] for match in names if match]
    return nic.rdma == other.rdma or (len(placed) == 2 and placed[0] == placed[1])


def _is_infiniband(nic: NicPort, port: RdmaPort) -> bool:
    """By its link layer, else by the name of its IP over InfiniBand interface."""
    named = port.link_layer is None and re.match(r"ib[a-z]*\d", nic.netdev or "") is not None
    return named or speaks_infiniband(port)


_PLACE = re.compile(r"en(?:P(\d{1,5}))?p(\d{1,3})s(\d{1,2})(?:f\d{1,2})?(?:n|d|v|$)")


def _card_by_name(netdev: str) -> str | None:
    """``enp129s0f0np0`` -> ``0000:81:00``: systemd names an interface by its place on the bus."""
    match = _PLACE.match(netdev)
    if match is None or int(match[2]) > 255 or int(match[3]) > 31:
        return None
    return f"{int(match[1] or 0):04x}:{int(match[2]):02x}:{int(match[3]):02x}"


@check(
    "rdma.bond",
    ok=Verdict.OK,
    two_cards=Verdict.FAIL,
    no_lag=Verdict.WARN,
    mode=Verdict.WARN,
    member_down=Verdict.WARN,
)
def bond(view: View) -> Cases:
    """A bond is one RDMA device only where all its ports are of one card."""
    interfaces = {item.name: item for item in view.node.net or ()}
    bonds: dict[str, list[NicPort]] = {}
    for nic, _ in _ports(view):
        if nic.netdev:
            bonds.setdefault(nic.netdev, []).append(nic)
    for name, nics in bonds.items():
        master = _master(name, interfaces, len(bonds))
        # Of a live node it is known which NICs are near accelerators: others may be bonded freely.
        known = view.node.probed or view.wishes.compute_nics is not None
        free = known and all(nic.role is not Role.COMPUTE for nic in nics)
        if free or not is_bond(name, master):
            continue
        devices = sorted({nic.rdma or "" for nic in nics})
        members = (master.members or ()) if master else ()
        found = {interfaces[member].bdf for member in members if member in interfaces}
        cards = {card(bdf) for bdf in (*found, *(nic.bdf for nic in nics)) if bdf}
        if len(cards) < 2:
            # Where addresses are not known, names tell; they are compared with each other only.
            by_name = {place for member in members if (place := _card_by_name(member))}
            cards = by_name if len(by_name) > 1 or not cards else cards
        mode = master.bond_mode if master else None
        values: dict[str, Any] = {
            "devices": ", ".join(devices),
            "members": ", ".join(members) or "its ports",
        }
        if len(cards) > 1:
            yield case("two-cards", name, observed=", ".join(sorted(cards)), **values)
        elif len(devices) > 1:
            yield case("no-lag", name, observed=len(devices), **values)
        elif mode is not None and mode not in (1, 2, 4):
            yield case("mode", name, observed=mode, **values)
        elif down := [m for m in members if m in interfaces and interfaces[m].state == "down"]:
            yield case("member-down", name, observed=", ".join(down))
        elif members or cards:
            yield case("ok", name, observed=", ".join(devices), **values)


def _master(name: str, interfaces: dict[str, NetDevice], bonds: int) -> NetDevice | None:
    """A bond whose file was pasted without its path has no name: where there is one, it is it."""
    nameless = interfaces.get("")
    if nameless is not None and (bonds == 1 or is_bond(name)):
        return nameless
    return interfaces.get(name)


@rack_check(
    "rdma.provider",
    missing=Verdict.FAIL,
    not_found=Verdict.FAIL,
    not_loaded=Verdict.FAIL,
    mixed=Verdict.FAIL,
)
def provider(rack: Rack) -> Cases:
    """libibverbs finds RDMA devices only with the user-space driver of their maker."""
    names = {view.node.name: [d.name for d in view.node.rdma or ()] for view in rack.views}
    for host, facts in rack.sources():
        for library in facts.each(VerbsLibrary):
            yield from _library(library, facts, names.get(host, []), {"host": host} if host else {})


def _library(
    library: VerbsLibrary, facts: Facts, devices: list[str], at: dict[str, Any]
) -> Iterator[Case]:
    lacking = [
        name
        for name in library.not_loaded
        if any(device.startswith(name) for device in devices)
        or (library.no_devices and name != "vmw_pvrdma")
    ]
    packages = {item.name: item for item in facts.each(Package)}
    wanted = packages.get("ibverbs-providers")
    values: dict[str, Any] = {
        "observed": ", ".join(lacking or library.without_driver),
        "install": _install(packages),
        **at,
    }
    if library.private_symbol:
        values["observed"] = library.private_symbol
        yield case("mixed", "libibverbs", **values)
    elif lacking:
        yield case("not-loaded", "libibverbs", **values)
    elif library.without_driver and wanted is not None and not wanted.installed:
        yield case("missing", "libibverbs", package="ibverbs-providers", **values)
    elif library.without_driver:
        yield case("not-found", "libibverbs", **values)


def _install(packages: dict[str, Package]) -> str:
    """The command that installs the providers, for the packages that this system has."""
    if any(name in packages for name in ("ibverbs-providers", "libibverbs1")):
        return "apt-get install ibverbs-providers"
    if "libibverbs" in packages or "rdma-core" in packages:
        return "dnf install libibverbs rdma-core"
    return "apt-get install ibverbs-providers (on EL: dnf install libibverbs)"
