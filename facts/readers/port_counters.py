"""``ethtool -S`` and ``ethtool -a``, and RoCE packets that ``tcpdump -v`` saw."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import MappingProxyType

from rackready.facts.parts.qos import MarkedFlow, PauseFrames, PortCounters
from rackready.facts.readers.reader import Output, reader

_MOST = 4000  # counters of one port
_COUNTER = re.compile(r"([a-zA-Z][\w\[\]. -]{1,80}?):\s+(\d{1,20})$")
_SWITCH = re.compile(r"(RX|TX)( negotiated)?:\s+(on|off)$")

_HEADER = re.compile(r"\((?:(?:tos|class) (0x[0-9a-f]{1,2})\b|flowlabel 0x|hlim \d|ttl \d)")
_FLOW = re.compile(r"(\S{1,64})\.\d{1,5} > (\S{1,64})\.4791:")
_FLOWS = 512


def _netdev(output: Output) -> str:
    return next(iter(output.arguments()), "")


def read_counters(output: Output) -> Iterator[PortCounters]:
    """``ethtool -S NIC``; each is kept for itself, as a second look shows what grew."""
    values: dict[str, int] = {}
    for line in output.lines():
        if (match := _COUNTER.match(line)) and len(values) < _MOST:
            values[match[1]] = int(match[2])
    if values:
        yield PortCounters(_netdev(output), MappingProxyType(values))


def read_pause(output: Output) -> Iterator[PauseFrames]:
    """``ethtool -a NIC``."""
    found = {
        match[1]: match[3] == "on"
        for line in output.lines()
        if (match := _SWITCH.match(line)) and not match[2]
    }
    if found:
        yield PauseFrames(_netdev(output), found.get("RX"), found.get("TX"))


def read_packets(output: Output) -> Iterator[MarkedFlow]:
    """``tcpdump -v ... udp port 4791``: the ToS byte in the first row of a packet, ends below."""
    seen: set[MarkedFlow] = set()
    tos: int | None = None
    for line in output.lines():
        if header := _HEADER.search(line):
            # IPv6 shows no class where it is 0.
            tos = int(header[1], 16) if header[1] else 0 if " IP6 " in f" {line}" else None
        if (flow := _FLOW.search(line)) and tos is not None:
            fact = MarkedFlow(flow[1], flow[2], tos)
            if fact not in seen and len(seen) < _FLOWS:
                seen.add(fact)
                yield fact
            tos = None


READERS = (
    reader(
        "ethtool -S",
        read_counters,
        command=r"ethtool\s+(?:-S|--statistics)\b",
        shape=r"^[ \t]{0,16}[rt]x_prio[0-7]_(?:packets|bytes|pause|discards): \d",
    ),
    reader(
        "ethtool -a",
        read_pause,
        command=r"ethtool\s+(?:-a|--show-pause)\b",
        shape=r"^Pause parameters for \S",
    ),
    reader(
        "tcpdump -v",
        read_packets,
        command=r"tcpdump\b",
        shape=r"^[ \t]{1,16}\S{1,64}\.\d{1,5} > \S{1,64}\.4791: ",
    ),
)
