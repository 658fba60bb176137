"""Host lists as sites keep them -> a pyinfra inventory file."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from rackready.document import hint
from rackready.fold import MOST, unfold

# column of a CSV file -> key of pyinfra's host data
_COLUMNS = {
    "name": "",
    "address": "ssh_hostname",
    "user": "ssh_user",
    "port": "ssh_port",
    "key": "ssh_key",
    "known_hosts": "ssh_known_hosts_file",
    "rack": "rack",
    "slot": "slot",
}
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?")


_TOLD = 10  # faults; a file with more is most likely no host list


class RosterError(ValueError):
    """What is wrong with a host list: one line for each fault, with file and line number."""

    def __init__(self, faults: Iterable[str]) -> None:
        faults = list(faults)
        more = len(faults) - _TOLD
        rest = [f"... and {more} more: is this a list of hosts?"] if more > 0 else []
        super().__init__("\n".join([*faults[:_TOLD], *rest]))


@dataclass(frozen=True)
class Entry:
    """One host; ``data`` in pyinfra's own keys."""

    name: str
    data: dict[str, str | int] = field(default_factory=dict)


@dataclass
class _Reader:
    """Collects entries and faults of one source, so that a person sees all faults at once."""

    source: str
    entries: list[Entry] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)

    def fault(self, line: int, text: str) -> None:
        self.faults.append(f"{self.source}:{line}: {text}")

    def add(self, line: int, name: str, data: dict[str, str | int]) -> None:
        if not _NAME.fullmatch(name):
            self.fault(line, f"{name!r} is not a host name" if name else "the name is empty")
        elif name in self.lines:
            self.fault(line, f"{name} is already in line {self.lines[name]}")
        else:
            self.lines[name] = line
            self.entries.append(Entry(name, data))

    def done(self) -> list[Entry]:
        if not self.entries and not self.faults:
            self.faults.append(f"{self.source}: no host in it")
        if self.faults:
            raise RosterError(self.faults)
        return self.entries


def read(source: str, stdin: TextIO) -> list[Entry]:
    """
    The hosts of ``source``: a CSV file, a file with one host name or node set a line (as
    ``scontrol show hostnames`` prints), ``-`` for such lines on standard input, or a node set.

    RosterError says everything that is wrong with it.
    """
    if source == "-":
        return read_names("standard input", stdin.read())
    path = Path(source)
    if not source or not path.exists():
        if "/" in source or source.endswith((".csv", ".txt")):
            raise RosterError([f"{source}: no such file"])
        return read_names("node set", source)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise RosterError([f"{source}: {error}"]) from error
    return read_csv(source, text) if path.suffix == ".csv" else read_names(source, text)


def read_names(source: str, text: str) -> list[Entry]:
    """Host names or node sets such as ``c500-[001-032]``; ``#`` starts a comment."""
    reader = _Reader(source)
    left = MOST
    for number, line in enumerate(text.splitlines(), 1):
        for word in line.partition("#")[0].split():
            try:
                names = unfold(word)
            except ValueError as error:
                reader.fault(number, f"{word[:60]}: {error}")
                continue
            left -= len(names)
            if left < 0:
                reader.fault(number, f"more than {MOST:,} names up to here")
                return reader.done()
            for name in names:
                reader.add(number, name, {})
    return reader.done()


def read_csv(source: str, text: str) -> list[Entry]:
    """A table whose first line names its columns; separated by comma, semicolon or tab."""
    reader = _Reader(source)
    header = text.partition("\n")[0]
    rows = csv.reader(text.splitlines(), delimiter=max(",;\t", key=header.count))
    columns = [column.strip().lower() for column in next(rows, [])]
    reader.faults.extend(f"{source}:1: {fault}" for fault in _column_faults(columns))
    if reader.faults:
        return reader.done()
    for row in rows:
        values = [value.strip() for value in row]
        if not any(values):
            continue
        if len(values) > len(columns):
            reader.fault(rows.line_num, f"{len(values)} values for {len(columns)} columns")
            continue
        fields = dict(zip(columns, values, strict=False))
        data: dict[str, str | int] = {}
        for column, value in fields.items():
            if column == "name" or not value:
                continue
            if column != "port":
                data[_COLUMNS[column]] = value
            elif value.isascii() and value.isdigit() and 0 < int(value) < 65536:
                data[_COLUMNS[column]] = int(value)
            else:
                reader.fault(rows.line_num, f"{value!r} is not a port (1 to 65535)")
        reader.add(rows.line_num, fields["name"], data)
    return reader.done()


def _column_faults(columns: list[str]) -> Iterator[str]:
    for position, column in enumerate(columns):
        if column in columns[:position]:
            yield f"column {column!r} is there twice"
        elif column not in _COLUMNS:
            yield f"unknown column {column!r}{hint(column, _COLUMNS)}"
    if "name" not in columns:
        yield "there is no column 'name'"


def inventory(entries: Iterable[Entry], source: str, group: str = "metax") -> str:
    """The text of a pyinfra inventory file with all hosts in one group."""
    lines = [f"# Hosts of {source!r}, written by rackready inventory; edit as you like.", ""]
    lines.append(f"{group} = [")
    for entry in entries:
        name = _quote(entry.name)
        lines.append(f"    ({name}, {_mapping(entry.data)})," if entry.data else f"    {name},")
    return "\n".join([*lines, "]", ""])


def _mapping(data: dict[str, str | int]) -> str:
    return "{" + ", ".join(f"{_quote(key)}: {_quote(value)}" for key, value in data.items()) + "}"


def _quote(value: str | int) -> str:
    """A literal with double quotes, as formatters want it."""
    if isinstance(value, int):
        return str(value)
    text = repr(value)
    return text if '"' in value or "\\" in value else f'"{text[1:-1]}"'
