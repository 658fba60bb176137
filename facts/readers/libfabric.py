"""libfabric: what it offers, and where a library's network plugin lies."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackready.facts.parts.collective_log import (
    FabricDomain,
    FabricFailure,
    FabricTest,
    LibraryPath,
    NetworkPlugin,
)
from rackready.facts.readers.reader import Output, reader

_PLUGIN = re.compile(r"lib\w{1,12}-net(?:-\w{1,20})?\.so(?:\.\d+)*$")
_FAILED = re.compile(r"fi_getinfo: (-?\d{1,4}.*)$", re.MULTILINE)


def read_fi_info(output: Output) -> Iterator[object]:
    """``fi_info -p efa``: blocks that begin with ``provider:``."""
    block: dict[str, str] = {}
    asked = re.search(r"-p\s+(\S+)", output.command)
    if failed := _FAILED.search(output.text):
        yield FabricFailure(asked[1] if asked else "", failed[1].strip())
    for line in [*output.lines(), "provider: "]:
        key, colon, value = line.partition(":")
        if key == "provider" and block.get("domain"):
            yield FabricDomain(
                block.get("provider", ""),
                block.get("fabric", ""),
                block["domain"],
                block.get("type", ""),
            )
        if key == "provider":
            block = {}
        if colon:
            block.setdefault(key, value.strip())


def read_plugins(output: Output) -> Iterator[NetworkPlugin]:
    """``ls`` of a folder, ``find -name``, ``ldconfig -p``: where network plugins lie."""
    arguments = output.arguments()
    folder = arguments[-1].rstrip("/") if arguments else ""
    found: dict[str, list[str]] = {}
    for line in output.lines():
        word = line.split()[-1] if " -> " not in line else line.split(" -> ")[0].split()[-1]
        path, _, name = word.rpartition("/")
        if _PLUGIN.match(name):
            found.setdefault(path or folder, []).append(name)
    for path, names in found.items():
        yield NetworkPlugin(path, tuple(sorted(names)))


def read_library_path(output: Output) -> Iterator[LibraryPath]:
    """``echo $LD_LIBRARY_PATH``; an empty one is known as well."""
    yield LibraryPath(tuple(part for part in output.text.strip().split(":") if part))


_PINGPONG = re.compile(r"(\d{1,9}k?m?)\s+\d+k?m?\s+=?\d\S*\s+\S+\s+([\d.]+)s\s+([\d.]+)\s")


def read_pingpong(output: Output) -> Iterator[FabricTest]:
    """``fi_pingpong``: a row for each size."""
    rows = [match for line in output.lines() if (match := _PINGPONG.match(line))]
    if rows:
        yield FabricTest(len(rows), max(float(match[3]) for match in rows))


READERS = (
    reader(
        "fi_pingpong -p efa", read_pingpong, command=r"fi_pingpong\b", shape=r"^bytes +#sent +#ack "
    ),
    reader(
        "fi_info -p efa",
        read_fi_info,
        command=r"fi_info\b",
        shape=r"^provider: \w[^\n]*\n\s+fabric: |^fi_getinfo: -?\d",
    ),
    reader(
        "ls /opt/amazon/ofi-nccl/lib",
        read_plugins,
        command=r"(?:ls|find)\s[^\n]{0,400}?(?:ccl|ofi)[^\n]{0,200}$|ldconfig\s+-p",
        shape=r"^(?:\S*/)?lib\w{1,12}-net(?:-ofi)?\.so$",
    ),
    reader(
        "echo $LD_LIBRARY_PATH", read_library_path, command=r"echo\s+\"?\$\{?LD_LIBRARY_PATH\}?"
    ),
)
