"""GID tables: ``show_gids``, and the files of sysfs as people print them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv6Address

from rackready.facts.commands import simple_commands
from rackready.facts.model import Gid, RdmaDevice, RdmaPort
from rackready.facts.parts.rdma import EmptyGids
from rackready.facts.readers.reader import Output, reader

_FULL = r"[0-9a-f]{4}(?::[0-9a-f]{4}){7}"
_ROW = re.compile(rf"(\S{{1,64}})\s+(\d{{1,3}})\s+(\d{{1,4}})\s+({_FULL})(.*)$", re.IGNORECASE)
_HEADER = re.compile(r"DEV\s+PORT\s+INDEX\s+GID\b")
_TOTAL = re.compile(r"n_gids_found\s*=\s*(\d{1,6})")
_IPV4 = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}$")
_VERSIONS = {
    "v1": "v1",
    "v2": "v2",
    "rocev1": "v1",
    "rocev2": "v2",
    "ib/rocev1": "v1",
    "ib": "ib",
    "infiniband": "ib",
}
# /sys/class/infiniband/mlx5_0/ports/1/gids/3, also from within the folder
_PATH = re.compile(
    r"(?:(?:^|/|[\s'\"])([\w.-]{1,64})/)?ports/(\d{1,3})/(gids|gid_attrs/types|gid_attrs/ndevs)"
    r"/(\d{1,4})"
)
_SHORT = re.compile(r"(?:\./)?(gids|gid_attrs/types|types|gid_attrs/ndevs|ndevs)/(\d{1,4})\b")
_PLACE = re.compile(r"infiniband/([\w.-]{1,64})(?:/ports/(\d{1,3}))?")
_IN_PORT = re.compile(r"\bports/(\d{1,3})\b")
# "3 fe80:... | RoCE v2 | ens1", "mlx5_0 1 3 ...": whatever a loop of somebody's own puts between
_LOOPED = re.compile(rf"(.{{0,80}}?)(?<![0-9a-f:])({_FULL})\b(.*)$", re.IGNORECASE)
_NUMBERS = re.compile(r"(?<![\w.])\d{1,4}(?![\w.])")
_NAMED = re.compile(r"[A-Za-z]\w{1,40}_?\d{1,3}(?=[\s/:|])")
_TYPE = re.compile(r"\b(?:(?:IB/)?RoCE ?v([12])|v([12]))\b", re.IGNORECASE)
_IB_TYPE = re.compile(r"(?:^|[|,;\s])IB(?:$|[|,;\s])")
_NETDEV = re.compile(r"[A-Za-z][\w.@:-]{1,31}$")


def version_of(text: str) -> str | None:
    """``IB/RoCE v1``, ``RoCE v2``, ``v2``, ``IB`` -> "v1", "v2", "ib"."""
    return _VERSIONS.get(re.sub(r"\s", "", text).lower())


def full(gid: str) -> str | None:
    """Any way to write a GID -> eight groups of four hex digits; None if it is none."""
    try:
        return IPv6Address(gid.strip()).exploded
    except ValueError:
        return None


def is_zero(gid: str) -> bool:
    return not gid.strip("0:")


@dataclass
class Tables:
    """GID tables while they are being read: entries by device, port and index."""

    gids: dict[tuple[str, int], dict[int, str]] = field(default_factory=dict)
    types: dict[tuple[str, int, int], str] = field(default_factory=dict)
    netdevs: dict[tuple[str, int, int], str] = field(default_factory=dict)

    def add(self, device: str, port: int, index: int, gid: str) -> None:
        self.gids.setdefault((device, port), {})[index] = gid.lower()

    def facts(self, cut: bool) -> Iterator[RdmaDevice | EmptyGids]:
        """Entries in use. A table of zeros alone is told: its interface is somewhere else."""
        for (device, port), entries in self.gids.items():
            used = {index: gid for index, gid in entries.items() if not is_zero(gid)}
            if not used:
                if 0 in entries:
                    yield EmptyGids(device, port)
                continue
            # the last row is in use: there may be more behind it
            open_end = max(used) == max(entries) and len(entries) < 16
            gids = tuple(
                Gid(
                    index,
                    gid,
                    self.types.get((device, port, index)),
                    self.netdevs.get((device, port, index)),
                )
                for index, gid in sorted(used.items())
            )
            yield RdmaDevice(device, ports=(RdmaPort(port, gids=gids, gids_cut=cut or open_end),))


def read_show_gids(output: Output) -> Iterator[RdmaDevice | EmptyGids]:
    """
    ``DEV PORT INDEX GID IPv4 VER DEV``.

    The IPv4 column is empty for other addresses, and blanks take the place of tabs in what was
    copied from a terminal: what stands behind the GID is told apart by its form.
    """
    tables = Tables()
    total = None
    for line in output.text.split("\n"):
        if match := _TOTAL.search(line):
            total = int(match[1])
        elif match := _ROW.match(line.strip()):
            key = match[1], int(match[2]), int(match[3])
            tables.add(*key, match[4])
            words = [word for word in match[5].split() if not _IPV4.match(word)]
            version = _VERSIONS.get(words[0].lower()) if words else None
            tables.types[key] = version or ""
            rest = words[1:] if version else words
            if rest and _NETDEV.match(rest[-1]):
                tables.netdevs[key] = rest[-1]
    if total == 0 and not tables.gids:
        yield EmptyGids("", 0)
    rows = sum(map(len, tables.gids.values()))
    for fact in tables.facts(cut=False):
        if isinstance(fact, RdmaDevice):
            # The tool ends with the total, unless a search for a device has left it out.
            counted = total == rows or (total is None and bool(output.filters))
            whole = counted and not _filtered(output)
            ports = (RdmaPort(p.number, gids=p.gids, gids_cut=not whole) for p in fact.ports)
            yield RdmaDevice(fact.name, ports=tuple(ports))


def _filtered(output: Output) -> bool:
    """A search for a device leaves its table whole, any other one may not."""
    for each in output.filters:
        words = each.split()
        names = [word for word in words[1:] if not word.startswith("-")]
        if words[:1] not in (["grep"], ["egrep"]) or "-v" in words:
            return True
        if not all(re.match(r"[a-z]\w{0,20}_\w|DEV", name) for name in names):
            return True
    return False


def read_gid_files(output: Output) -> Iterator[RdmaDevice | EmptyGids]:
    """
    Files below ``ports/1/gids`` and ``gid_attrs``: ``grep -r``, ``cat``, or rows of a loop.

    An entry that is not in use is all zeros, and its type can't be read (EINVAL).
    """
    line = output.line or output.command
    place = _PLACE.search(line)
    device = place[1] if place else ""
    port = int((place and place[2]) or (m[1] if (m := _IN_PORT.search(line)) else 1))
    tables = Tables()
    single = _PATH.search(output.command)
    rows = list(output.lines())
    looped = _looped(output)
    if len(looped) > 1 and len(looped) == len(rows):
        # bare values, in the order in which the loop names their files
        for each, row in zip(looped, rows, strict=True):
            _store(tables, (each[1] or device, int(each[2]), int(each[4])), each[3], row)
        rows = []
    for row in rows:
        if match := _PATH.search(row):
            name, number = match[1] or device, int(match[2])
            _store(tables, (name, number, int(match[4])), match[3], row[match.end() :])
        elif single and single[1]:
            _store(tables, (single[1], int(single[2]), int(single[4])), single[3], row)
        elif match := _SHORT.match(row):
            kind = match[1] if match[1].startswith("gid") else f"gid_attrs/{match[1]}"
            _store(tables, (device, port, int(match[2])), kind, row[match.end() :])
        elif (match := _LOOPED.match(row)) and (numbers := _NUMBERS.findall(match[1])):
            named = _NAMED.match(row)
            at = int(numbers[-2]) if len(numbers) > 1 else port
            key = named[0] if named else device, at, int(numbers[-1])
            tables.add(*key, match[2])
            _store_rest(tables, key, match[3])
    for nameless in [place for place in tables.gids if not place[0]]:
        del tables.gids[nameless]
    yield from tables.facts(cut=bool(output.filters))


def _looped(output: Output) -> list[re.Match[str]]:
    """The files that a loop reads, one a command, where nothing else of it prints."""
    if output.line != output.command or not output.line.startswith("for "):
        return []
    commands = simple_commands(output.line)
    found = [match for item in commands if (match := _PATH.search(item.command))]
    plain = all(item.program == "cat" and not item.filters for item in commands)
    return found if plain and len(found) == len(commands) else []


def _store(tables: Tables, key: tuple[str, int, int], kind: str, text: str) -> None:
    value = text.lstrip("'\"").lstrip(":").strip()
    if kind == "gids":
        if re.fullmatch(_FULL, value, re.IGNORECASE):
            tables.add(*key, value)
    elif "Invalid argument" in text or "No such" in text:
        return
    elif kind == "gid_attrs/types":
        if version := version_of(value):
            tables.types[key] = version
    elif _NETDEV.match(value):
        tables.netdevs[key] = value


def _store_rest(tables: Tables, key: tuple[str, int, int], rest: str) -> None:
    """Type and interface behind a GID; of a slot that is not in use both are error messages."""
    if "Invalid argument" in rest or "No such" in rest:
        return
    if match := _TYPE.search(rest):
        tables.types[key] = f"v{match[1] or match[2]}"
        rest = rest[match.end() :]
    elif _IB_TYPE.search(rest):
        tables.types[key] = "ib"
        rest = rest.replace("IB", "", 1)
    words = [word for word in re.split(r"[\s|,;]+", rest) if _NETDEV.match(word)]
    if words:
        tables.netdevs[key] = words[-1]


READERS = (
    reader(
        "show_gids",
        read_show_gids,
        command=r"show_gids\b",
        shape=rf"{_HEADER.pattern}|^\S+\t\d+\t\d+\t{_FULL}\t|^n_gids_found=\d",
    ),
    reader(
        "grep -r . /sys/class/infiniband/mlx5_0/ports/1/gids",
        read_gid_files,
        command=r"(?:grep|egrep|cat|head|tail|more|find)\s[^\n]{0,300}?"
        r"(?:ports/[\d*]{1,3}/gid|/gids?\b|gid_attrs)",
        line=r"^(?:cd\s|for\s|while\s)[^\n]{0,600}?\bgids?/",
        shape=rf"/ports/\d+/gids/\d+:{_FULL}$",
    ),
)
