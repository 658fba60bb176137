"""Network of the host: several NICs in one subnet, and configuration that is not applied."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from ipaddress import ip_address, ip_network
from typing import Any

from rackready.check import Cases, Command, Rack, View, case, check, harmless, rack_check
from rackready.facts.parts.connection import (
    Connection,
    DevicesListed,
    ManagedDevice,
    NetplanInterface,
)
from rackready.facts.parts.host import Setting
from rackready.facts.parts.network import (
    InterfacesListed,
    LinksListed,
    Neighbour,
    NetworkFile,
    NetworkLink,
    Route,
    RoutingRule,
    RulesListed,
)
from rackready.facts.readers.sysfs import number
from rackready.finding import Verdict

_VIRTUAL = re.compile(r"(?:lo|docker|br-|veth|cni|cali|flannel|virbr|vnet|tap|tun|kube|lxc)")
_MAIN_TABLES = {"main", "local", "default", "254", "255", "253"}


# IP over InfiniBand, and RDMA devices that are neither: their packets do not go by routes.
_IPOIB = re.compile(r"ib[a-z]*\d")
_NO_ROCE = re.compile(r"(?:rdmap|efa_|ibp)\d|ib_")


def shared_subnets(view: View) -> Iterator[tuple[str, dict[str, str]]]:
    """
    Subnets that several NICs with RoCE are in, with the address of each NIC: by the routing table.

    Where no RDMA device tells which NICs these are, it may be all that the default route does not
    go by: two NICs of a general network may well share it.
    """
    devices = {device.name: device for device in view.node.rdma or ()}
    roce = set[str]()
    for port in view.wiring.ports:
        device = devices.get(port.rdma or "")
        layers = {item.link_layer for item in device.ports} if device else set()
        if port.netdev and device and layers != {"InfiniBand"} and not _NO_ROCE.match(device.name):
            roce.add(port.netdev)
    uplinks = {item.netdev for item in view.node.facts.each(Route) if item.target == "default"}
    known = view.node.probed or bool(devices and all(map(_NO_ROCE.match, devices)))
    for subnet, addresses in _subnets(view):
        if view.node.probed:
            addresses = {dev: ip for dev, ip in addresses.items() if dev in roce}
        guessed = not known and not roce and not uplinks & addresses.keys()
        if len(addresses) > 1 and (roce & addresses.keys() or guessed):
            yield subnet, addresses


def is_virtual(netdev: str) -> bool:
    """By its name: a bridge, or an interface of a container or guest."""
    return _VIRTUAL.match(netdev) is not None


def _subnets(view: View) -> Iterator[tuple[str, dict[str, str]]]:
    found: dict[str, dict[str, str]] = {}
    for route in view.node.facts.each(Route):
        direct = route.scope == "link" and route.source and not route.gateway
        other = _VIRTUAL.match(route.netdev) or _IPOIB.match(route.netdev)
        if direct and route.table == "main" and not other:
            found.setdefault(route.target, {}).setdefault(route.netdev, route.source or "")
    yield from found.items()


def has_rule(view: View, netdev: str, address: str) -> bool:
    """True when packets from an address have a routing table of their own."""
    for rule in view.node.facts.each(RoutingRule):
        if rule.table in _MAIN_TABLES:
            continue
        if rule.interface == netdev:
            return True
        try:
            source = ip_network(rule.source, strict=False)
        except ValueError:
            continue  # "all"
        if ip_address(address) in source:
            return True
    return False


def effective(view: View, name: str, netdev: str) -> int | None:
    """
    What the kernel goes by: the larger one of "all" and the interface's own.

    None where neither is known. Where one is, the other may only make it larger.
    """
    values = [
        value
        for key in ("all", netdev)
        if (setting := view.node.facts.first(Setting, name=f"net.ipv4.conf.{key}.{name}"))
        and (value := number(setting.value)) is not None
        and 0 <= value <= 8  # the largest of all that are asked for
    ]
    return max(values, default=None)


def lists_all_interfaces(view: View) -> bool:
    """Whether an interface that is not known does not exist."""
    lists = view.node.facts.each(InterfacesListed)
    return view.node.probed or any(item.complete for item in lists)


@check(
    "net.arp",
    ok=Verdict.OK,
    no_rules=Verdict.FAIL,
    perhaps_no_rules=Verdict.WARN,
    answers=Verdict.WARN,
)
def arp(view: View) -> Cases:
    """
    NICs that share a subnet need a routing rule each, and must answer for their own address only.
    """
    listed = view.node.facts.first(RulesListed) is not None
    for subnet, addresses in shared_subnets(view):
        names = ", ".join(addresses)
        # The main table serves the first of them.
        without = {dev: ip for dev, ip in addresses.items() if not has_rule(view, dev, ip)}
        asked = {
            name: [value for dev in addresses if (value := effective(view, name, dev)) is not None]
            for name in ("arp_ignore", "arp_announce", "rp_filter")
        }
        open_ = any(value < 1 for value in asked["arp_ignore"]) or any(
            value < 2 for value in asked["arp_announce"]
        )
        quiet = bool(asked["arp_ignore"] and asked["arp_announce"]) and not open_
        values: dict[str, Any] = {
            "observed": names,
            "subnet": subnet,
            "asked": ", ".join(f"{name} {min(found)}" for name, found in asked.items() if found)
            or "not shown",
            **_rules(view, subnet, addresses),
        }
        if len(without) < 2:
            yield case("answers" if open_ else "ok", names, **values)
        elif listed and not quiet:
            yield case("no-rules", names, **values)
        else:
            yield case("perhaps-no-rules", names, **values)


_SHOWN = 2  # NICs whose commands are written out: a fix is short


def _rules(view: View, subnet: str, addresses: Mapping[str, str]) -> dict[str, Any]:
    """Rule and route for each NIC, with tables that nobody uses; of many, for the first ones."""
    facts = view.node.facts
    used = {item.table for item in facts.each(RoutingRule)}
    used |= {item.table for item in facts.each(Route)}
    free = [table for table in range(101, 251) if str(table) not in used]
    commands = [
        f"ip rule add from {address} table {table}; "
        f"ip route add {subnet} dev {harmless(netdev)} src {address} table {table}"
        for (netdev, address), table in zip(addresses.items(), free[:_SHOWN], strict=False)
    ]
    left = len(addresses) - len(commands)
    more = f"; the same two for each of the other {left} NICs, in a table of its own"
    return {"commands": Command("; ".join(commands)), "more": Command(more if left > 0 else "")}


@rack_check("net.arp-flux", flux=Verdict.FAIL, one_mac=Verdict.WARN)
def arp_flux(rack: Rack) -> Cases:
    """One MAC address that answers for addresses of several NICs."""
    owners = _owners(rack)
    for host, facts in rack.sources():
        answers: dict[tuple[str, str], set[str]] = {}
        for item in facts.each(Neighbour):
            if item.mac and item.state not in ("FAILED", "INCOMPLETE"):
                answers.setdefault((item.netdev, item.mac), set()).add(item.address)
        for (netdev, mac), found in answers.items():
            if len(found) < 2 or _VIRTUAL.match(netdev):
                continue
            shown = sorted(found, key=lambda text: (len(text), text))
            holders = {owners[address] for address in found if address in owners}
            machines = {machine for machine, _ in holders}
            values: dict[str, Any] = {
                "addresses": ", ".join(shown),
                "netdev": netdev,
                "seen_on": host or "the host",
                "holders": ", ".join(sorted({dev for _, dev in holders})),
            }
            if len(machines) == 1 and len(holders) > 1:
                at = machines.pop()
                yield case("flux", mac, **values, **_at(at))
            elif not holders and _is_compute(rack, netdev, shown):
                yield case("one-mac", mac, **values, **_at(host))


def _at(host: str) -> dict[str, Any]:
    """The host that a finding is told of; "" = what has no name."""
    return {"host": host} if host else {}


def _owners(rack: Rack) -> dict[str, tuple[str, str]]:
    """Host and interface that an address is on."""
    found: dict[str, tuple[str, str]] = {}
    for view in rack.views:
        for route in view.node.facts.each(Route):
            if route.source and not route.gateway:
                found[route.source] = view.node.name, route.netdev
        for interface in view.node.net or ():
            for address in interface.addresses or ():
                found[address.partition("/")[0]] = view.node.name, interface.name
    return found


def _is_compute(rack: Rack, netdev: str, addresses: list[str]) -> bool:
    """True when the interface or the addresses are known to be of the compute network."""
    for view in rack.views:
        if any(port.netdev == netdev for port in view.wiring.compute):
            return True
        wish = view.wishes.rdma_subnet
        if wish is not None and all(
            ip_address(address) in ip_network(wish.value) for address in addresses
        ):
            return True
    return False


# --- Who configures the interfaces --------------------------------------------------------------


@check(
    "net.owner",
    ok=Verdict.OK,
    no_link=Verdict.FAIL,
    no_link_now=Verdict.WARN,
    not_applied=Verdict.FAIL,
    other_file=Verdict.FAIL,
    no_device=Verdict.FAIL,
    not_in_use=Verdict.FAIL,
    other_profile=Verdict.WARN,
    profile_ok=Verdict.OK,
    two_owners=Verdict.WARN,
)
def owner(view: View) -> Cases:
    """A .network file has an effect where its [Match] names a link, and none before it does."""
    yield from _profiles(view)
    yield from _netplan(view)
    yield from _two_owners(view)
    files = [item for item in view.node.facts.each(NetworkFile) if item.settings]
    links = [item for item in view.node.facts.each(NetworkLink) if item.kind != "loopback"]
    listed = view.node.facts.first(LinksListed) is not None
    for file in files:
        name = file.path.rpartition("/")[2] or "the .network file"
        fits = {link.name: _matches(view, file, link) for link in links}
        values: dict[str, Any] = {"file": file.path or name, "match": _shown(file)}
        # A link that says it has no file proves something without a list of all links, too.
        proven = listed or any(link.file == "" and link.setup == "unmanaged" for link in links)
        if links and proven and all(answer is False for answer in fits.values()):
            idle = [
                link.name
                for link in links
                if link.setup == "unmanaged"
                and link.kind == "ether"
                and not _VIRTUAL.match(link.name)
            ]
            values["settings"] = ", ".join(key.partition(".")[2] for key in file.settings)
            which = "no-link" if idle and listed else "no-link-now"
            yield case(which, name, **values, links=", ".join(idle[:4]), first=(idle or ["NIC"])[0])
        unmanaged = file.settings.get("Link.Unmanaged", ("no",))[-1] in ("yes", "true", "1")
        for link in links:
            if not fits[link.name] or unmanaged:
                continue
            values["link"] = link.name
            if link.file and file.path and link.file != file.path:
                yield case("other-file", name, **values, observed=link.file, expected=file.path)
            elif link.setup in ("unmanaged", "failed"):
                yield case("not-applied", name, **values, observed=link.setup)
            elif link.setup == "configured":
                yield case("ok", name, **values)


def _profiles(view: View) -> Cases:
    """Profiles of NetworkManager against the interfaces that it manages."""
    devices = {item.name: item for item in view.node.facts.each(ManagedDevice)}
    listed = view.node.facts.first(DevicesListed) is not None
    profiles = [item for item in view.node.facts.each(Connection) if item.interface]
    for item in profiles:
        device = devices.get(item.interface or "")
        values = {"link": item.interface, "kind": "profile"}
        mine = {each.name for each in profiles if each.interface == item.interface}
        if device is None:
            idle = ", ".join(d.name for d in devices.values() if d.state in _IDLE)
            if listed:
                yield case("no-device", item.name, **values, links=idle or "none")
        elif device.state in _IDLE:
            yield case("not-in-use", item.name, **values, observed=device.state)
        elif device.profile and device.profile not in mine:
            yield case("other-profile", item.name, **values, observed=device.profile)
        elif device.state == "connected" and device.profile in (None, item.name):
            yield case("profile-ok", item.name, **values)


_IDLE = ("unmanaged", "disconnected")


def _netplan(view: View) -> Cases:
    """Interfaces of netplan that are found by their name."""
    links = {item.name for item in view.node.facts.each(NetworkLink)}
    listed = view.node.facts.first(LinksListed) is not None
    if lists_all_interfaces(view) and not view.node.probed:
        links |= {item.name for item in view.node.net or ()}
        listed = True
    idle = [
        item.name
        for item in view.node.facts.each(NetworkLink)
        if item.setup == "unmanaged" and item.kind == "ether" and not _VIRTUAL.match(item.name)
    ]
    for item in view.node.facts.each(NetplanInterface):
        if listed and item.found_by_name and item.name not in links:
            shown = ", ".join(idle) or "none"
            yield case("no-device", item.name, link=item.name, kind="netplan", links=shown)


def _two_owners(view: View) -> Cases:
    links = {item.name: item for item in view.node.facts.each(NetworkLink)}
    for item in view.node.facts.each(ManagedDevice):
        link = links.get(item.name)
        if item.state == "connected" and link is not None and link.setup == "configured":
            yield case("two-owners", item.name)


def _shown(file: NetworkFile) -> str:
    return " ".join(f"{key}={' '.join(words)}" for key, words in file.match.items()) or "all"


def _matches(view: View, file: NetworkFile, link: NetworkLink) -> bool | None:
    """Whether all of [Match] fits; None where one of its keys can't be judged from here."""
    macs = {item.name: item.mac for item in view.node.net or ()}
    answers: list[bool | None] = []
    for key, words in file.match.items():
        if key == "Name":
            answers.append(_fits(words, link.name))
        elif key == "Type":
            answers.append(None if link.kind is None else _fits(words, link.kind))
        elif key == "MACAddress" and (mac := macs.get(link.name)):
            answers.append(mac.lower() in {word.lower().replace("-", ":") for word in words})
        else:
            answers.append(None)
    if False in answers:
        return False
    return None if None in answers else True


def _fits(words: tuple[str, ...], name: str) -> bool:
    """Patterns of systemd: the first "!" turns all of them."""
    turned = bool(words) and words[0].startswith("!")
    plain = [words[0][1:], *words[1:]] if turned else words
    return any(fnmatchcase(name, word) for word in plain) is not turned
