"""RDMA devices: ports, GID tables, traffic class, counters, from the listings of the probe."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rackready.facts.model import Gid, RdmaDevice, RdmaPort
from rackready.facts.readers.pci import function_of
from rackready.facts.readers.sysfs import Note, attributes, lines, links, number

_GID = re.compile(r"[0-9a-f]{4}(?::[0-9a-f]{4}){7}")
_VERSIONS = {"RoCE v2": "v2", "IB/RoCE v1": "v1", "RoCE v1": "v1", "IB": "ib"}
_TRAFFIC_CLASS = re.compile(r"(?:Global tclass=)?(-?[0-9]+)")


def read_traffic_class(text: str) -> int | None:
    """``Global tclass=160`` or ``160``; -1 when the file is empty, None when it is neither."""
    if not text.strip():
        return -1
    match = _TRAFFIC_CLASS.fullmatch(text.strip())
    return number(match[1]) if match else None


def _octets(start: Mapping[str, str], end: Mapping[str, str], port: str) -> tuple[int, int] | None:
    """Octets sent and received at the start and at the end of the probe (files count words)."""
    totals = []
    for fields in (start, end):
        sent, received = (
            number(fields.get(f"{port}/counters/port_{name}_data")) for name in ("xmit", "rcv")
        )
        if sent is None or received is None:
            return None
        totals.append(4 * (sent + received))
    return totals[0], totals[1]


def tables_of(gids: Mapping[str, Mapping[str, str]]) -> dict[tuple[str, str], dict[str, str]]:
    """GIDs of each port: {("mlx5_0", "ports/1"): {"3": "0000:..."}}."""
    tables: dict[tuple[str, str], dict[str, str]] = {}
    for name, fields in gids.items():
        for key, gid in fields.items():
            port, found, index = key.partition("/gids/")
            if found:
                tables.setdefault((name, port), {})[index] = gid
    return tables


def read_gids(
    fields: Mapping[str, str],
    types: Mapping[str, str] | None,
    netdevs: Mapping[str, str] | None,
    port: str,
    note: Note,
) -> tuple[Gid, ...]:
    """GID table of a port, from its ``gids`` by index, ``gid_attrs/types`` and ``ndevs``."""
    table = []
    for key, value in fields.items():
        index, gid = number(key), value.lower()
        if index is None or not _GID.fullmatch(gid):
            note(f"no GID: {port}/gids/{key[:30]}: {value[:60]!r}")
            continue
        version = (types or {}).get(f"{port}/gid_attrs/types/{index}")
        table.append(
            Gid(
                index=index,
                gid=gid,
                version=_VERSIONS.get(version) if version is not None else None,
                netdev=(netdevs or {}).get(f"{port}/gid_attrs/ndevs/{index}"),
            )
        )
    return tuple(sorted(table, key=lambda gid: gid.index))


def rdma_devices(
    listing: str,
    attribute_listing: str,
    gid_listing: str | None,
    type_listing: str | None,
    netdev_listing: str | None,
    traffic_class_listing: str | None,
    counters: tuple[str, str],
    note: Note,
) -> tuple[RdmaDevice, ...]:
    """All RDMA devices of a host, from what the probe's commands printed of them."""

    def by_device(text: str | None) -> dict[str, dict[str, str]] | None:
        return None if text is None else attributes(text, note)

    values = attributes(attribute_listing, note)
    gids, types, netdevs = map(by_device, (gid_listing, type_listing, netdev_listing))
    tables = tables_of(gids or {})
    start, end = (attributes(text, note) for text in counters)
    # Two kinds of lines: "DEVICE/tc/1/traffic_class:160" where the file says something, and the
    # bare path of every such file, so that an empty one is told from a driver without it.
    classes: dict[tuple[str, str], str] = {}
    for _, line in lines(traffic_class_listing or ""):
        path, _, setting = line.partition(":")
        parts = path.strip().split("/")
        if len(parts) == 4 and parts[1] == "tc" and parts[3] == "traffic_class":
            key = (parts[0], parts[2])
            classes[key] = classes.get(key) or setting
        else:
            note(f"no traffic class: {line[:60]!r}")

    def read_port(name: str, number_text: str) -> RdmaPort | None:
        port, fields = f"ports/{number_text}", values.get(name, {})
        port_number = number(number_text)
        if port_number is None:
            note(f"no port number: {name}/{port[:30]!r}")
            return None
        table = None
        if gids is not None:
            table = read_gids(
                tables.get((name, port), {}),
                None if types is None else types.get(name, {}),
                None if netdevs is None else netdevs.get(name, {}),
                port,
                note,
            )
        value = classes.get((name, number_text))
        return RdmaPort(
            number=port_number,
            link_layer=fields.get(f"{port}/link_layer"),
            state=_after_colon(fields.get(f"{port}/state")),
            physical_state=_after_colon(fields.get(f"{port}/phys_state")),
            rate=fields.get(f"{port}/rate"),
            gids=table,
            traffic_class=None if value is None else read_traffic_class(value),
            traffic_class_file=None
            if traffic_class_listing is None
            else (name, number_text) in classes,
            octets=_octets(start.get(name, {}), end.get(name, {}), port),
        )

    devices = []
    for name, target in links(listing, note):
        fields = values.get(name, {})
        numbers = {parts[1] for key in fields if len(parts := key.split("/")) > 2}
        ports = (read_port(name, number_text) for number_text in sorted(numbers))
        devices.append(
            RdmaDevice(
                name=name,
                bdf=function_of(target),
                ports=tuple(port for port in ports if port is not None),
                firmware=fields.get("fw_ver"),
                board_id=fields.get("board_id"),
                node_guid=fields.get("node_guid"),
            )
        )
    return tuple(devices)


def _after_colon(text: str | None) -> str | None:
    """``4: ACTIVE`` -> ``ACTIVE``."""
    return None if text is None else text.rpartition(":")[2].strip()
