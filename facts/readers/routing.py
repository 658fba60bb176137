"""``ip rule``, ``ip route`` and ``ip neigh``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address, ip_network
from typing import Any

from rackready.facts.parts.network import Neighbour, Route, RoutingRule, RulesListed
from rackready.facts.readers.json_output import items_of, number_of, objects, part_of, text_of
from rackready.facts.readers.reader import Output, reader

_RULE = re.compile(r"(\d{1,10}):\s+(?:not\s+)?from\s+(\S{1,64})\s(.*)")
_KEY = re.compile(r"\b(dev|src|via|scope|table|lladdr|lookup|iif|oif|proto)\s+(\S{1,64})")
_KINDS = re.compile(r"(?:unicast|local|broadcast|multicast|blackhole|unreachable|prohibit)\s+")
_STATES = {
    "REACHABLE", "STALE", "DELAY", "PROBE", "FAILED", "INCOMPLETE", "PERMANENT", "NOARP", "NONE",
}  # fmt: skip
_MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}$", re.IGNORECASE)


def read_rules(output: Output) -> Iterator[RoutingRule | RulesListed]:
    """``ip rule``: ``32766:	from all lookup main``."""
    plain = False
    for rule in _rules(output):
        plain = plain or (rule.source == "all" and rule.table == "main")
        yield rule
    if plain and not output.filters and not re.search(r"\s-6\b", output.command):
        yield RulesListed()


def _rules(output: Output) -> Iterator[RoutingRule]:
    items = objects(output)
    for line in output.lines() if items is None else ():
        if match := _RULE.match(line):
            keys = dict(_KEY.findall(match[3]))
            table = keys.get("lookup") or keys.get("table") or ""
            interface = keys.get("iif") or keys.get("oif") or ""
            yield RoutingRule(int(match[1]), match[2], table, interface)
    for item in items or ():
        priority, source = number_of(item, "priority"), text_of(item, "src")
        if priority is not None and source:
            length = number_of(item, "srclen")
            yield RoutingRule(
                priority,
                source if length is None else f"{source}/{length}",
                text_of(item, "table") or "",
                text_of(item, "iif") or text_of(item, "oif") or "",
            )


def read_routes(output: Output) -> Iterator[Route]:
    """``ip route`` and ``ip route show table 102``."""
    asked = re.search(r"\btable\s+(\S+)", output.command)
    if (items := objects(output)) is not None:
        yield from filter(None, (_route(item, asked[1] if asked else "main") for item in items))
        return
    for line in output.lines():
        line = _KINDS.sub("", line, count=1) if _KINDS.match(line) else line
        target = _target(line.partition(" ")[0])
        keys = dict(_KEY.findall(line))
        if target and "dev" in keys:
            yield Route(
                keys.get("table") or (asked[1] if asked else "main"),
                target,
                keys["dev"],
                _address(keys.get("src", "")),
                keys.get("via"),
                keys.get("scope"),
            )


def _route(item: Mapping[str, Any], table: str) -> Route | None:
    target, netdev = _target(text_of(item, "dst") or ""), text_of(item, "dev")
    if not target or not netdev or "lladdr" in item:
        return None
    return Route(
        text_of(item, "table") or table,
        target,
        netdev,
        _address(text_of(item, "prefsrc") or ""),
        text_of(item, "gateway") or text_of(part_of(item, "via"), "host"),
        text_of(item, "scope"),
    )


def _address(word: str) -> str | None:
    try:
        return str(ip_address(word))
    except ValueError:
        return None


def _target(word: str) -> str:
    if word in ("default", "0.0.0.0/0"):
        return "default"
    try:
        return str(ip_network(word, strict=False)) if word[:1] in "0123456789abcdef" else ""
    except ValueError:
        return ""


def read_neighbours(output: Output) -> Iterator[Neighbour]:
    """``ip neigh`` and ``arp -n``."""
    asked = re.search(r"\bdev\s+(\S+)", output.command)
    if (items := objects(output)) is not None:
        yield from filter(None, (_neighbour(item, asked[1] if asked else "") for item in items))
        return
    for line in output.lines():
        words = line.split()
        address = _address(words[0].strip("()"))
        if address is None:
            continue
        keys = dict(_KEY.findall(line))
        mac = next((word.lower() for word in words[1:] if _MAC.match(word)), None)
        netdev = keys.get("dev") or (asked[1] if asked else "")
        if not netdev and output.program == "arp" and len(words) > 3:
            netdev = words[-1]
        if netdev:
            state = next((word for word in words[1:] if word in _STATES), None)
            yield Neighbour(address, netdev, mac, state)


def _neighbour(item: Mapping[str, Any], asked: str) -> Neighbour | None:
    address, netdev = _address(text_of(item, "dst") or ""), text_of(item, "dev") or asked
    states = [state for state in items_of(item, "state") if state in _STATES]
    mac = text_of(item, "lladdr") or ""
    if address is None or not netdev or not (states or mac):
        return None
    return Neighbour(
        address, netdev, mac.lower() if _MAC.match(mac) else None, states[0] if states else None
    )


_OPTIONS = r"ip(?:\s+-[\w]+)*\s+"

READERS = (
    reader(
        "ip rule",
        read_rules,
        command=_OPTIONS + r"rule(?:\s+(?:show|list|ls)\b|$)",
        shape=r"^\d{1,10}:\s+from (?:all|[\d.:a-f/]+) .*lookup \S"
        r"|^\[ ?\{\s*\"priority\": ?\d+,\s*\"(?:not|src)\":",
    ),
    reader(
        "ip route",
        read_routes,
        command=_OPTIONS + r"r(?:o|oute)?(?:\s+(?:show|list|ls)\b|$)",
        shape=r"^(?:default via \S+ dev \S|[\d.]{7,15}/\d{1,2} dev \S+ )"
        r"|^\[ ?\{\s*(?:\"type\": ?\"\w{1,12}\",\s*)?\"dst\": ?\"[\w.:/]{1,50}\",\s*"
        r"(?:\"(?:gateway|via)\":|\"dev\": ?\"[\w.-]{1,32}\",\s*"
        r"\"(?:protocol|scope|table|metric)\":)",
    ),
    reader(
        "ip neigh",
        read_neighbours,
        command=_OPTIONS + r"n(?:ei(?:gh(?:bou?r)?)?)?(?:\s+(?:show|list|ls)\b|$)|arp\s+-\w*n",
        shape=r"^[\d.]{7,15} dev \S+ lladdr [0-9a-f:]{17} [A-Z]+"
        r"|^\[ ?\{\s*\"dst\": ?\"[\w.:]{1,50}\",\s*(?:\"dev\": ?\"[\w.-]{1,32}\",\s*)?"
        r"\"(?:lladdr|state)\":",
    ),
)
