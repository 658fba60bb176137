"""Files of sysfs that tell the state of RDMA ports, as people print them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackready.facts.commands import simple_commands
from rackready.facts.model import RdmaDevice, RdmaPort
from rackready.facts.readers.rdma_tools import physical_state_of, state_of
from rackready.facts.readers.reader import Output, reader

_FILES = r"(state|phys_state|link_layer|rate)"
_PATH = re.compile(
    rf"/sys/class/infiniband/([\w.*-]{{1,64}})/ports/([\d*]{{1,3}})/{_FILES}(?![\w/])"
)
_NAMED = re.compile(r"([a-zA-Z][\w.-]{1,63}\d)(?:/(\d{1,3}))?[\s:=]+(\S.*)$")
_RATE = re.compile(r"(\d{1,4}(?:\.\d)? Gb/sec)\b")


def read_port_files(output: Output) -> Iterator[RdmaDevice]:
    """``/sys/class/infiniband/DEVICE/ports/PORT/state`` and its neighbours: cat, grep or a loop."""
    rows = list(output.lines())
    whole = output.line == output.command and output.line.startswith("for ")
    commands = [each.command for each in simple_commands(output.line)] if whole else []
    asked = _PATH.findall(" ".join(commands) if whole else output.command)
    plain = [path for path in asked if "*" not in path[0] + path[1]]
    if output.program == "head" and len(plain) == 1:
        plain = []
    if len(plain) == len(rows) and not any(_PATH.search(row) for row in rows):
        for (device, port, file), row in zip(plain, rows, strict=True):
            named = _NAMED.match(row)
            value = named[3] if named and named[1] == device else row
            yield from _port(device, port, file, value)
        return
    heading: tuple[str, str, str] | None = None
    for row in rows:
        if in_row := _PATH.search(row):
            device, port, file = in_row.groups()
            heading = (device, port, file) if row.startswith("==>") else None
            yield from _port(device, port, file, row[in_row.end() :].lstrip(": \t"))
        elif heading:
            yield from _port(*heading, row)
            heading = None
        elif (named := _NAMED.match(row)) and len({file for _, _, file in asked}) == 1:
            # "for d in ...; do echo $d: $(cat .../state); done"
            yield from _port(named[1], named[2] or "1", asked[0][2], named[3])


def _port(device: str, port: str, file: str, text: str) -> Iterator[RdmaDevice]:
    made = RdmaPort(int(port)) if port.isdecimal() else None
    value = text.strip()
    if made is None or "*" in device:
        return
    if file == "state" and (state := state_of(value)):
        made = RdmaPort(made.number, state=state)
    elif file == "phys_state" and (physical := physical_state_of(value)):
        made = RdmaPort(made.number, physical_state=physical)
    elif file == "link_layer" and value in ("Ethernet", "InfiniBand"):
        made = RdmaPort(made.number, link_layer=value)
    elif file == "rate" and (rate := _RATE.match(value)):
        made = RdmaPort(made.number, rate=rate[1])
    else:
        return
    yield RdmaDevice(device, ports=(made,))


READERS = (
    reader(
        "cat /sys/class/infiniband/mlx5_0/ports/1/state",
        read_port_files,
        command=rf"(?:cat|grep|egrep|head|more|echo)\b[^\n]{{0,400}}?/ports/[\d*]{{1,3}}/{_FILES}"
        r"(?![\w/])",
        line=rf"^for [^\n]{{1,400}}?/ports/[\d*]{{1,3}}/{_FILES}(?![\w/])",
        shape=rf"^/sys/class/infiniband/[\w.-]+/ports/\d+/{_FILES}:",
    ),
)
