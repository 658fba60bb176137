"""``mlnx_qos``, ``dcb`` and ``lldptool``: trust, DSCPs, PFC and who speaks DCBX."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Any

from rackready.facts.commands import simple_commands
from rackready.facts.parts.host import Service
from rackready.facts.parts.qos import DcbPort
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.sysfs import number

_INTERFACE = re.compile(r"(?:^|\s)(?:-i\s*|--interface[=\s])([\w.:@-]{1,32})(?=\s|$)")
_SHORT = re.compile(r"\s-[a-zA-Z]{1,6}i\s+([\w.:@-]{1,32})(?=\s|$)")  # -ti eth0
_DEV = re.compile(r"\bdev\s+([\w.:@-]{1,32})")
_NAME = re.compile(r"[^\w\n]{0,8}([a-z][\w.-]{1,30})[^\w\n]{0,8}$")
_ROW = re.compile(r"(?:prio:\s?(\d)\s+)?(?:dscp:)?((?:\d{1,2},){1,64})(?:\d{1,2})?$", re.ASCII)
_FLAGS = re.compile(r"enabled((?:\s+[01]){8})$")
_DCBX = re.compile(r"DCBX mode:\s*(OS|Firmware)\b", re.IGNORECASE)
_TRUST = re.compile(r"Priority trust (?:state|mode):\s*(dscp|pcp|both|none)$", re.IGNORECASE)
_LLDPAD = re.compile(r"\**\s*WARNING:\s+lldpad service is running")

# Names that iproute2 has for DSCPs (RFC 2474, 2597, 3246, 8622), in lower case.
_DSCPS = {
    **{f"cs{n}": n * 8 for n in range(8)},
    **{f"af{c}{d}": c * 8 + d * 2 for c in range(1, 5) for d in range(1, 4)},
    "ef": 46,
    "default": 0,
    "be": 0,
    "le": 1,
    "voice-admit": 44,
}


def read_mlnx_qos(output: Output) -> Iterator[DcbPort | Service]:
    """``mlnx_qos -i NIC``, also several one after another."""
    blocks = list(_blocks(output.text))
    if any(_LLDPAD.match(line) for line in output.lines()):
        yield Service("lldpad", active="active")
    asked = [match[1] for match in _INTERFACE.finditer(output.command)][:1]
    typed = [
        match[1]
        for item in (simple_commands(output.line) if output.line else ())
        if item.program == "mlnx_qos" and (match := _INTERFACE.search(item.command))
    ]
    # Of a loop over several, each gets the whole; a filter may have left fewer blocks.
    if len(blocks) > 1 or len(set(typed)) > 1:
        asked = typed
    for at, (heading, rows) in enumerate(blocks):
        known = len(asked) == len(blocks)
        yield _port(asked[at] if known else heading, rows, whole=not output.filters)


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """The rows of each interface, with the name that stood above them, if any did."""
    heading, last, rows = "", "", list[str]()
    for raw in text.split("\n"):
        line = raw.strip()
        if _LLDPAD.match(line):
            continue
        if line.startswith("DCBX mode:") or (
            line.startswith("Priority trust") and any(r.startswith("Priority") for r in rows)
        ):
            if rows:
                yield heading, rows
            name = _NAME.match(last)
            heading, rows = name[1] if name else "", []
        if line:
            last = line
            rows.append(line)
    if rows:
        yield heading, rows


def _port(netdev: str, rows: Iterable[str], whole: bool) -> DcbPort:
    dcbx = None
    flags: list[tuple[bool, ...]] = []
    trusts: list[str] = []
    pairs: list[tuple[int, int]] = []
    priority: int | None = None
    for line in rows:
        if match := _DCBX.match(line):
            dcbx = match[1].lower()
        elif match := _TRUST.match(line):
            trusts.append(match[1].lower())
        elif match := _FLAGS.match(line):
            flags.append(tuple(flag == "1" for flag in match[1].split()))
        elif match := _ROW.match(line):
            # A long row is wrapped; what follows belongs to the priority above.
            priority = int(match[1]) if match[1] else priority
            if priority is not None:
                words = line.rpartition(":")[2].split(",")
                pairs += [(int(word), priority) for word in words if word]
        else:
            priority = None
    table, doubled = _table(pairs)
    # Several of them without a heading between are of several interfaces.
    trust = trusts[0] if len(trusts) == 1 else None
    pfc = flags[0] if len(flags) == 1 else None
    return DcbPort(
        netdev, dcbx, trust, table, doubled, listed=True if pairs and whole else None, pfc=pfc
    )


def _table(pairs: Iterable[tuple[int, int]]) -> tuple[MappingProxyType[int, int], tuple[int, ...]]:
    """DSCP to priority; of those with several, the highest counts, and they are named."""
    table: dict[int, int] = {}
    doubled = set()
    for dscp, priority in pairs:
        if table.get(dscp, priority) != priority:
            doubled.add(dscp)
        table[dscp] = max(priority, table.get(dscp, 0))
    return MappingProxyType(table), tuple(sorted(doubled))


def read_dcb(output: Output) -> Iterator[DcbPort]:
    """``dcb pfc|app|dcbx|apptrust show dev NIC``, in words or with ``-j``, names or numbers."""
    match = _DEV.search(output.command)
    netdev = match[1] if match else ""
    text = output.text.strip()
    whole = not output.filters and re.search(r"\bapp\s+show\b", output.command) is not None
    if text.startswith(("{", "[")):
        yield from _dcb_json(text, netdev, whole, output)
        return
    if not text and whole and not output.status:
        yield DcbPort(netdev, listed=True)
    for line in output.lines():
        word, *rest = line.split()
        if word == "prio-pfc":
            flags = [pair.partition(":")[2] for pair in rest]
            if len(flags) == 8:
                yield DcbPort(netdev, pfc=tuple(flag == "on" for flag in flags))
        elif word == "dscp-prio":
            yield _app(netdev, (pair.split(":", 1) for pair in rest), whole)
        elif word == "order:":
            yield DcbPort(netdev, trust="dscp" if "dscp" in rest else "pcp")
        elif word == "lld-managed":
            yield DcbPort(netdev, dcbx="firmware")
        elif word == "host" and "dcbx" in output.command:
            yield DcbPort(netdev, dcbx="os")


def _app(netdev: str, pairs: Iterable[list[Any]], whole: bool) -> DcbPort:
    pairs = list(pairs)
    known = [
        (dscp, priority)
        for pair in pairs
        if len(pair) == 2
        and (dscp := _dscp(str(pair[0]))) is not None
        and (priority := number(str(pair[1]))) is not None
    ]
    table, doubled = _table(known)
    # A table of DSCPs in the kernel makes the drivers trust DSCP.
    trust = "dscp" if known else None
    # The last one of a row that was cut has no priority.
    whole = whole and all(len(pair) == 2 and number(str(pair[1])) is not None for pair in pairs)
    return DcbPort(netdev, None, trust, table, doubled, listed=True if whole else None)


def _dscp(text: str) -> int | None:
    name = text.lower()
    value = _DSCPS.get(name)
    if value is None:
        value = number(name, 16) if name.startswith("0x") else number(name)
    return value if value is not None and 0 <= value < 64 else None


def _dcb_json(text: str, netdev: str, whole: bool, output: Output) -> Iterator[DcbPort]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        output.note("dcb's JSON is damaged")
        return
    for item in data if isinstance(data, list) else [data]:
        if not isinstance(item, dict):
            continue
        flags = item.get("prio_pfc")
        if isinstance(flags, list) and len(flags) == 8:
            yield DcbPort(netdev, pfc=tuple(flag in (True, "on", 1) for flag in flags))
        pairs = item.get("dscp_prio")
        if isinstance(pairs, list):
            yield _app(netdev, (pair for pair in pairs if isinstance(pair, list)), whole)
        order = item.get("order")
        if isinstance(order, list) and order:
            yield DcbPort(netdev, trust="dscp" if "dscp" in order else "pcp")
        if item.get("lld_managed") is True:
            yield DcbPort(netdev, dcbx="firmware")
        elif item.get("host") is True:
            yield DcbPort(netdev, dcbx="os")


def read_lldptool(output: Output) -> Iterator[DcbPort | Service]:
    """
    ``lldptool -t -i NIC -V PFC``: what lldpad itself wants; that it answers shows that it runs.

    A port that is willing takes what the switch says, so that its own flags prove nothing.
    """
    match = _INTERFACE.search(output.command) or _SHORT.search(output.command)
    tlv, willing = "", True
    for line in output.lines():
        key, colon, value = (part.strip() for part in line.partition(":"))
        if line.endswith(" TLV"):
            tlv, willing = line, True
            if line.startswith("IEEE 8021QAZ"):
                yield Service("lldpad", active="active")
        elif not colon or tlv != "IEEE 8021QAZ PFC TLV":
            continue
        elif key == "Willing":
            willing = value != "no"
        elif key == "PFC enabled" and not willing:
            on = value.split()
            if on == ["none"] or (on and all(word in "01234567" for word in on)):
                flags = tuple(str(priority) in on for priority in range(8))
                yield DcbPort(match[1] if match else "", pfc=flags)


READERS = (
    reader(
        "mlnx_qos",
        read_mlnx_qos,
        command=r"mlnx_qos\b",
        shape=r"^(?:Priority trust (?:state|mode): \w+|PFC configuration:)[ \t]*$",
    ),
    reader(
        "dcb pfc show",
        read_dcb,
        command=r"dcb\s",
        shape=r"^(?:prio-pfc 0:(?:on|off) 1:o|dscp-prio \S{1,12}:\d\b)|^\{\"pfc_cap\":",
    ),
    reader(
        "lldptool -t",
        read_lldptool,
        # -n asks for what the switch said, -T changes something
        command=r"lldptool\s(?![^\n]{0,200}?-[a-zA-Z]{0,6}[nT])[^\n]{0,60}?-[a-zA-Z]{0,3}t",
    ),
)
