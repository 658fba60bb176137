"""Files of a run: report.json, assets.csv, retry. Each is written whole or not at all."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Mapping
from io import StringIO
from pathlib import Path

from rackready.check import View
from rackready.report import Report

ASSETS = (
    "node",
    "kind",
    "address",
    "slot",
    "name",
    "model",
    "serial",
    "firmware",
    "numa_node",
    "role",
)


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    """A reader sees the old content or the new one, also after a crash of the machine."""
    beside = path.with_name(f".{path.name}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    # Text of a node may hold bytes that are no UTF-8, as surrogates.
    with open(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def write_report(folder: Path, report: Report) -> None:
    text = json.dumps(report.as_dict(), indent=1, ensure_ascii=True)
    write_atomically(folder / "report.json", text + "\n")


def write_assets(folder: Path, views: Iterable[View]) -> None:
    """One row for each machine, accelerator and NIC, with serial, slot and firmware."""
    text = StringIO()
    writer = csv.DictWriter(text, ASSETS, restval="", lineterminator="\n")
    writer.writeheader()
    for view in views:
        writer.writerows(assets(view))
    write_atomically(folder / "assets.csv", text.getvalue())


def assets(view: View) -> list[Mapping[str, object]]:
    """Rows of one node; what is unknown is an empty cell."""
    node = view.node
    system, functions = node.system, node.pci or {}
    rows: list[dict[str, object]] = [
        {
            "node": node.name,
            "kind": "machine",
            "name": system.hostname,
            "model": " ".join(word for word in (system.vendor, system.product) if word),
            "serial": system.serial,
            "firmware": system.bios,
        }
    ]
    listed = {item.bdf: item for item in node.stack.accelerators or ()}
    for bdf in view.wiring.accelerators:
        function, item = functions[bdf], listed.get(bdf)
        rows.append(
            {
                "node": node.name,
                "kind": "accelerator",
                "address": bdf,
                "slot": function.slot,
                "name": f"GPU {item.index}" if item else None,
                "model": item.model if item else None,
                "serial": item.uuid if item and item.uuid else function.serial,
                "firmware": node.stack.firmware_version,
                "numa_node": function.numa_node,
            }
        )
    firmware = {device.name: device for device in node.rdma or ()}
    for port in view.wiring.ports:
        function_or_none = functions.get(port.bdf or "")
        device = firmware.get(port.rdma or "")
        rows.append(
            {
                "node": node.name,
                "kind": "NIC port",
                "address": port.bdf,
                "slot": function_or_none.slot if function_or_none else None,
                "name": " ".join(name for name in (port.rdma, port.netdev) if name),
                "model": device.board_id if device else None,
                "serial": function_or_none.serial if function_or_none else None,
                "firmware": device.firmware if device else None,
                "numa_node": port.numa_node,
                "role": port.role.value,
            }
        )
    return [{key: _cell(value) for key, value in row.items()} for row in rows]


def _cell(value: object) -> object:
    """A spreadsheet takes text that begins so for a formula, and a node's text is not trusted."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return "" if value is None else value
