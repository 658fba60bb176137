"""Logs of collective libraries: NCCL and those that print as it does (MCCL, PCCL)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from types import MappingProxyType

from rackready.facts.parts.collective_log import LogFailure, NetworkUse
from rackready.facts.parts.host import Environment
from rackready.facts.readers.reader import Output, reader

_MOST = 200  # failures of one log that differ; more are of no help
_LINE = re.compile(r"([NMPR])CCL (INFO|WARN|ERROR) ")
_HOST = re.compile(r"(?:^|[\s>])\[?([A-Za-z][\w.-]{0,62})(?::|\]\[)\d{1,8}:\d{1,8}")
_VERSION = re.compile(r"[NMPR]CCL version (\d[\w.+-]*)")
_USING = re.compile(r"(?:Using network (\S.{0,40}?)|NET/(OFI) Selected provider is .*)$")
_CHANNEL = re.compile(r"via ((?:P2P|SHM|NET|COLLNET|direct)[\w /]{0,60})")
# The others show their effect in the log itself.
_SET = re.compile(r"([NMPR]CCL_(?:IB_DISABLE|NET)) set(?: by environment)? to (\S{1,200}?)\.?$")
_TAKEN = re.compile(r"\[\d{1,4}\] ?([A-Za-z][\w.-]{0,62}):\d{1,3}/(?:RoCE|IB|iWARP|uverbs)")
_NODES = re.compile(r"\bnNodes (\d{1,6})\b")
_MISSING = re.compile(r"Could not find: (\S+?)[.,]?(?: |$)")

# kind of failure -> what its line holds
_FAILURES = (
    ("no-interface", re.compile(r"Bootstrap ?: no socket interface found")),
    ("rank-count", re.compile(r"mismatch in rank count from procs (\d+) : (\d+)")),
    ("refused", re.compile(r"Connect to (\S+) failed ?: Connection refused")),
    (
        "queue-pair",
        re.compile(
            r"ibv_modify_qp failed with (?:error )?(\d{1,4}|[A-Z][\w ]{2,40})"
            r"(?:[^,]{0,60}, on dev ([\w-]{1,64}):(\d{1,4}).{0,80}?local GID "
            r"(?:index \d{1,4}, local GID )?(\S{1,60}?), remote GID (\S+))?"
        ),
    ),
    ("registration", re.compile(r"ibv_reg_(?:dmabuf_)?mr\w{0,20} failed with error (.{2,60})")),
    ("registration", re.compile(r"NET/OFI Unable to register memory .{0,300}Error: (.{2,60})")),
    ("open-device", re.compile(r"Unable to open device (\S+)")),
    ("version", re.compile(r"Mismatched [NMPR]CCL version detected")),
    ("provider", re.compile(r"NET/OFI Only (\w+) provider is supported")),
    (
        "completion",
        # "Got completion with error 12, opcode ...", "... from peer n2 with status=12 opcode=0"
        re.compile(
            r"NET/IB ?: Got completion\b.{0,200}?\bwith (?:error|status)[ =]{0,2}(\d{1,3})\b"
        ),
    ),
    (
        "async",
        re.compile(r"NET/IB ?: Got (?:async event|completion .{0,200} with error) ?:? ?(.{2,80})"),
    ),
)


def read_log(output: Output) -> Iterator[object]:
    """
    One fact on the network, one for each kind of failure and its details, and the variables by
    which somebody chose the network.
    """
    library = ""
    versions: dict[str, None] = {}
    networks: dict[str, None] = {}
    missing: dict[str, None] = {}
    transports: Counter[str] = Counter()
    failures: dict[tuple[str, str, tuple[str, ...]], list[object]] = {}
    no_ib = no_verbs = False
    nodes: int | None = None
    devices: dict[str, None] = {}
    hosts: set[str] = set()
    given: dict[str, str] = {}
    for line in output.text.split("\n"):
        level = _LINE.search(line) if "CCL" in line else None
        if level is None:
            if "Mismatched NCCL" in line:
                failures.setdefault(("version", "", ()), [line.strip(), 0])
            continue
        library = library or f"{level[1]}CCL"
        said = line[level.end() :]
        if len(hosts) < 2 and (speaker := _HOST.search(line[: level.start()])):
            hosts.add(speaker[1])
        if level[2] == "INFO":
            if channel := _CHANNEL.search(said):
                transports[_transport(channel[1])] += 1
            elif match := _USING.search(said):
                networks[match[1] or match[2]] = None
            elif match := _VERSION.search(line):
                versions[match[1]] = None
            elif match := _MISSING.search(said):
                missing[match[1]] = None
            elif "NET/IB : Using" in said:
                devices.update(dict.fromkeys(_TAKEN.findall(said)))
            elif "NET/IB : No device found" in said:
                no_ib = True
            elif "Failed to open libibverbs" in said:
                no_verbs = True
            elif match := _SET.search(said):
                given.setdefault(match[1], match[2])
            elif match := _NODES.search(said):
                nodes = max(nodes or 0, int(match[1]))
            continue
        for kind, pattern in _FAILURES:
            if match := pattern.search(said):
                host = _HOST.search(line[: level.start()])
                key = (kind, host[1] if host else "", tuple(g or "" for g in match.groups()))
                if key in failures or len(failures) < _MOST:
                    entry = failures.setdefault(key, [said.strip()[:300], 0])
                    entry[1] = int(str(entry[1])) + 1
                break
    if library:
        yield NetworkUse(
            library,
            tuple(versions),
            tuple(networks),
            MappingProxyType(dict(transports)),
            tuple(missing),
            no_ib,
            no_verbs,
            nodes or (len(hosts) if len(hosts) > 1 else None),
            tuple(devices),
        )
    if given:
        yield Environment(f"{library} log", MappingProxyType(given))
    for (kind, named, values), (text, count) in failures.items():
        yield LogFailure(kind, named, values, str(text), max(1, int(str(count))))


def _transport(text: str) -> str:
    """``NET/IB/3/GDRDMA`` -> ``NET/IB/GDRDMA``."""
    return "/".join(part for part in text.strip().split("/") if not part.isdecimal())


READERS = (
    reader(
        "nccl log",
        read_log,
        shape=r"^[^\n]{0,200}?\b[NMPR]CCL (?:INFO|WARN|ERROR) ",
    ),
)
