"""systemd-networkd: ``networkctl`` and its .network files."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackready.facts.parts.network import LinksListed, NetworkFile, NetworkLink
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.search import keeps_settings

_ROW = re.compile(r"[●*]?\s*(\d{1,6})\s+(\S{1,64})\s+(\S{1,32})\s+(\S{1,32})\s+(\S{1,32})$")
_COUNT = re.compile(r"(\d{1,6}) links? listed\.?$")
_STATUS = re.compile(r"[●○*]?\s*\d{1,6}: (\S{1,64})$")
_FIELD = re.compile(r"(Network File|Type|State):\s+(\S.*)$")
_STATE = re.compile(r"(\S+)\s+\((\S+)\)$")

_SECTION = re.compile(r"\[(\w{1,40})\]$")
_ENTRY = re.compile(r"(\w{1,60})\s*=\s*(.*)$")
_PATH = re.compile(r"(/\S{1,200}\.(?:network|link|netdev|conf))")
_TAGGED = re.compile(r"(/\S{1,200}\.network):(?:\d{1,5}:)?(.*)$")


def read_links(output: Output) -> Iterator[NetworkLink | LinksListed]:
    """``networkctl``, ``networkctl list``."""
    rows = 0
    for line in output.lines():
        if match := _ROW.match(line):
            rows += 1
            yield NetworkLink(match[2], match[3], match[4], match[5])
        elif (match := _COUNT.match(line)) and int(match[1]) == rows and not output.filters:
            names = [word for word in output.arguments() if word != "list"]
            if not names:
                yield LinksListed()


def read_status(output: Output) -> Iterator[NetworkLink]:
    """``networkctl status NIC``."""
    name, found = "", dict[str, str]()
    for line in [*output.lines(), "● 0: end"]:
        if match := _STATUS.match(line):
            if name:
                yield _link(name, found)
            name, found = match[1], {}
        elif match := _FIELD.match(line):
            found.setdefault(match[1], match[2].strip())


def _link(name: str, found: dict[str, str]) -> NetworkLink:
    state = _STATE.match(found.get("State", ""))
    file = found.get("Network File")
    return NetworkLink(
        name,
        found.get("Type"),
        state[1] if state else None,
        state[2] if state else None,
        None if file is None else file if file.startswith("/") else "",
    )


def read_files(output: Output) -> Iterator[NetworkFile]:
    """``cat X.network``, ``networkctl cat``, ``grep -r . /etc/systemd/network``: one or several."""
    paths = [word for word in output.arguments() if word.endswith(".network")]
    path = paths[0] if len(paths) == 1 and "*" not in paths[0] else ""
    if not keeps_settings(output):
        return  # without all of [Match] it can't be told what the file is for
    section = ""
    match_: dict[str, tuple[str, ...]] = {}
    settings: dict[str, tuple[str, ...]] = {}
    for line in [*output.lines(), "[Match]"]:
        here = path
        if tagged := _TAGGED.match(line):
            here, line = tagged[1], tagged[2].strip()
        heading = _PATH.search(line) if line.startswith(("#", "==>")) else None
        header = _SECTION.match(line)
        new = heading is not None or here != path or (header is not None and header[1] == "Match")
        if new and (match_ or settings):
            if _is_network(path, settings):
                yield NetworkFile(path, dict(match_), dict(settings))
            match_, settings = {}, {}
        path = heading[1] if heading else here
        if header:
            section = header[1]
        elif not line.startswith(("#", ";")) and (entry := _ENTRY.match(line)):
            words = tuple(entry[2].split())
            if section == "Match":
                match_[entry[1]] = match_.get(entry[1], ()) + words
            elif section:
                name = f"{section}.{entry[1]}"
                settings[name] = settings.get(name, ()) + words


def _is_network(path: str, settings: dict[str, tuple[str, ...]]) -> bool:
    """A .link or .netdev file has a [Match] too."""
    if path:
        return path.endswith(".network")
    return any(name.startswith(("Network.", "Address.", "Route.", "DHCP")) for name in settings)


READERS = (
    reader("networkctl status", read_status, command=r"networkctl(?:\s+-\S+)*\s+status\b"),
    reader(
        "networkctl cat",
        read_files,
        command=r"networkctl(?:\s+-\S+)*\s+cat\b|(?:cat|grep|head|tail|more)\b.*systemd/network\b"
        r"|cat\s+\S+\.network$",
        shape=r"^\[Match\]$",
    ),
    reader(
        "networkctl list",
        read_links,
        command=r"networkctl(?:\s+-\S+)*(?:\s+list\b|$)",
        shape=r"^IDX LINK +TYPE +OPERATIONAL +SETUP",
    ),
)
