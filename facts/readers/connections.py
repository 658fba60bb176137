"""Profiles of NetworkManager and files of netplan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from rackready.facts.parts.connection import (
    Connection,
    DevicesListed,
    ManagedDevice,
    NetplanInterface,
)
from rackready.facts.readers.reader import Output, reader

_FIELD = re.compile(r"((?:connection|ipv4|ipv6|802-3-ethernet|ethernet)\.[\w-]{1,40}):\s*(.*)$")
_GET = re.compile(r"(?:-g|--get-values)[ =](\S{1,400})")
_MODES = {"0": "eui64", "1": "stable-privacy", "2": "default-or-eui64", "3": "default"}
_METHODS = {"auto", "dhcp", "disabled", "ignore", "link-local", "manual", "shared"}
_NETPLAN_MOST = 100_000  # characters of a file


def _connection(values: Mapping[str, str]) -> Connection | None:
    """A profile from its settings by their long names; ``--`` and "" say nothing."""

    def value(*names: str) -> str | None:
        found = next((values[name] for name in names if name in values), "").strip()
        return None if found in ("", "--") else found

    name = value("connection.id")
    if name is None:
        return None
    ipv4, ipv6 = value("ipv4.method"), value("ipv6.method")
    if any(method is not None and method not in _METHODS for method in (ipv4, ipv6)):
        return None  # lines that are something else: a question for a password, an error
    mode = value("ipv6.addr-gen-mode")
    if mode and mode.split(" ")[0] in _MODES:
        mode = _MODES[mode.split(" ")[0]]
    addresses = value("ipv4.addresses") or ""
    return Connection(
        name,
        value("connection.interface-name"),
        ipv4,
        ipv6,
        mode,
        tuple(addresses.replace(",", " ").split()),
        value("802-3-ethernet.mtu", "ethernet.mtu"),
    )


def read_nmcli(output: Output) -> Iterator[Connection]:
    """``nmcli connection show NAME`` (``field: value``) and ``nmcli -g FIELDS``: a value a line."""
    asked = _GET.search(output.command)
    names = re.search(r"\bshow\s+(?:id\s+)?(.+)$", output.command)
    name = names[1].strip("'\" ") if names else ""
    if asked:
        fields = asked[1].split(",")
        rows = [row.strip() for row in output.text.split("\n")]
        while rows and not rows[-1]:
            rows.pop()
        if len(fields) == len(rows):
            values = dict(zip(fields, (row.replace("\\:", ":") for row in rows), strict=True))
            if found := _connection({"connection.id": name, **values}):
                yield found
        return
    settings: dict[str, str] = {}
    for line in output.lines():
        if match := _FIELD.match(line):
            if match[1] == "connection.id" and "connection.id" in settings:
                if found := _connection(settings):
                    yield found
                settings = {}
            settings[match[1]] = match[2]
    if settings and (found := _connection({"connection.id": name, **settings})):
        yield found


def read_keyfile(output: Output) -> Iterator[Connection]:
    """
    ``/etc/NetworkManager/system-connections/NAME.nmconnection``.

    A file without addr-gen-mode, as people write it by hand, means eui64.
    """
    section, values = "", dict[str, str]()
    for line in [*output.lines(), "[connection]"]:
        if match := re.fullmatch(r"\[([\w-]{1,40})\]", line):
            section = match[1]
            if section == "connection" and values:
                if not output.filters:
                    values.setdefault("ipv6.addr-gen-mode", "eui64")
                if found := _connection(values):
                    yield found
                values = {}
        elif not line.startswith("#"):
            key, equals, value = (part.strip() for part in line.partition("="))
            if not equals:
                continue
            if section in ("ipv4", "ipv6") and re.fullmatch(r"address\d{0,3}", key):
                key, value = "addresses", value.partition(",")[0]
            values[f"{section}.{key}"] = value


def read_netplan(output: Output) -> Iterator[NetplanInterface]:
    """``netplan get`` and files below /etc/netplan."""
    if len(output.text) > _NETPLAN_MOST or "&" in output.text or "*" in output.text:
        return
    try:
        data = yaml.load(output.text, yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        output.note("no netplan file: its YAML is wrong")
        return
    network = data.get("network", data) if isinstance(data, dict) else None
    if not isinstance(network, dict):
        return
    for kind in ("ethernets", "bonds", "vlans"):
        group = network.get(kind)
        for name, entry in group.items() if isinstance(group, dict) else ():
            if isinstance(entry, dict) and isinstance(name, str):
                plain = kind == "ethernets" and "match" not in entry
                yield _netplan(name, entry, network, plain)


def _netplan(
    name: str, entry: dict[str, Any], network: dict[str, Any], plain: bool
) -> NetplanInterface:
    local = entry.get("link-local")
    renderer = entry.get("renderer", network.get("renderer"))
    ra, mtu, addresses = entry.get("accept-ra"), entry.get("mtu"), entry.get("addresses")
    return NetplanInterface(
        name,
        renderer if isinstance(renderer, str) else None,
        tuple(map(str, local)) if isinstance(local, list) else None,
        ra if isinstance(ra, bool) else None,
        mtu if isinstance(mtu, int) else None,
        tuple(word for word in addresses if isinstance(word, str))
        if isinstance(addresses, list)
        else (),
        plain,
    )


_STATES = re.compile(
    r"(connected(?: \([a-z]{1,20}\))?|disconnected|unmanaged|unavailable|unknown|deactivating"
    r"|connecting(?: \([\w ]{1,40}\))?)$"
)
_ASKED = re.compile(r"(?:-f|--fields|-g|--get-values)[ =](\S{1,200})")


def read_devices(output: Output) -> Iterator[ManagedDevice | DevicesListed]:
    """``nmcli device`` as a table, and with ``-t`` or ``-g``: values between colons."""
    asked = _ASKED.search(output.command)
    names = asked[1].upper().split(",") if asked else ["DEVICE", "TYPE", "STATE", "CONNECTION"]
    columns: list[str] = []
    rows = 0
    for line in output.lines():
        if line.startswith("DEVICE ") and "STATE" in line:
            columns = line.split()
            continue
        # columns of a table stand two blanks apart
        words = re.split(r"\s{2,}", line) if columns else re.split(r"(?<!\\):", line)
        fields = dict(zip(columns or names, words, strict=False))
        name, state = fields.get("DEVICE", ""), _STATES.match(fields.get("STATE", ""))
        if not re.fullmatch(r"[A-Za-z][\w.-]{0,31}", name) or state is None:
            continue
        rows += 1
        profile = fields.get("CONNECTION")
        yield ManagedDevice(
            name, state[1], None if profile is None else "" if profile == "--" else profile
        )
    if rows > 1 and not output.filters:
        yield DevicesListed()


READERS = (
    reader(
        "nmcli connection show roce0",
        read_nmcli,
        command=r"nmcli\s.*?\b(?:c|con|conn|connection)\s+show\s+\S",
        shape=r"^connection\.id:\s",
    ),
    reader(
        "nmcli device",
        read_devices,
        command=r"nmcli\s+(?:-[^\s=]+(?:=\S+| [A-Z,]+)?\s+)*"
        r"d(?:ev(?:ice)?)?(?:\s+s(?:tatus)?)?\s*$",
        shape=r"^DEVICE +TYPE +STATE +CONNECTION *$",
    ),
    reader(
        "cat /etc/NetworkManager/system-connections/roce0.nmconnection",
        read_keyfile,
        command=r"cat\s.*?(?:system-connections/|\.nmconnection)",
        shape=r"^\[connection\]$",
    ),
    reader(
        "netplan get",
        read_netplan,
        command=r"netplan\s+get\b|cat\s.*?/etc/netplan/",
        shape=r"^network:\n(?:  (?:version|renderer|ethernets|bonds|vlans):)",
    ),
)
