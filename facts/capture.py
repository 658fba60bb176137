"""Captures: what one node printed, command by command, in a text that any output survives.

docs/captures.md describes the format and the packed form in which it travels.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
import string
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rackready.facts.model import Evidence, Gap

VERSION = 1
CUT = "cut"
PARTS = ("settings", "probe")  # the files that the probe is made of

# A node with 8 accelerators makes 300 KiB at most. What is much larger was made to fill our memory.
LARGEST = 4 << 20  # bytes
_MOST_LINES = 30_000
_MOST_SECTIONS = 5_000
_MOST_MISFITS = 50

_HEADER = re.compile(r"rackready-capture ([0-9]{1,9})$")
_PLAIN = frozenset(string.printable) - frozenset("\r\v\f")
_HEX_LINE = re.compile(r"( [0-9a-f]{2})+")
_STATUS = re.compile(r"[0-9]{1,3}")

_PACKED = re.compile(r"=== rackready probe ([0-9]{1,9}) (\S+) ([0-9]{1,9}) ([0-9a-f]{64}|-)$")
_PACKED_END = "=== rackready end"
_MOST_ATTEMPTS = 5  # at unpacking one answer
_ALPHABETS = {
    "gzip+base64": re.compile(r"[A-Za-z0-9+/]+=*"),
    "gzip+od": re.compile(r"[0-9a-f]+"),
    "od": re.compile(r"[0-9a-f]+"),
}


class ProbeLost(Exception):
    """The probe's output did not arrive, or not whole; the message says why."""


@dataclass(frozen=True)
class Capture:
    """All evidence of one host. With a gap it is not whole, or not as it was made."""

    host: str
    evidence: tuple[Evidence, ...]
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True)
class ProbeWishes:
    """What the probe is to look at beside what every node has; profiles know it."""

    tools: tuple[str, ...] = ()  # command lines
    modules: tuple[str, ...] = ()  # kernel modules whose parameters matter
    log: str = ""  # extended regular expression: the kernel messages that matter
    nodes: tuple[str, ...] = ()  # device nodes whose users matter: files or folders
    vendors: tuple[int, ...] = ()  # PCI vendors of accelerators

    def __post_init__(self) -> None:
        for text in (*self.tools, *self.modules, self.log, *self.nodes):
            if not text.isascii() or not (text + " ").isprintable():
                raise ValueError(f"not one line of printable ASCII: {text!r}")


def probe_script(wishes: ProbeWishes, transport: bool = True) -> str:
    """The probe as a script to run by ``sh -s``: packed for SSH, or a plain capture."""
    folder = Path(__file__).parent
    settings, probe = (folder.joinpath(f"{name}.sh").read_text("ascii") for name in PARTS)
    shebang, script = f"{settings}{probe}".split("\n", 1)
    values = {
        "TRANSPORT": "1" if transport else "",
        "TOOLS": "\n".join(wishes.tools),
        "MODULES": " ".join(wishes.modules),
        "LOG": wishes.log,
        "NODES": " ".join(wishes.nodes),
        "VENDORS": " ".join(f"{vendor:#06x}" for vendor in wishes.vendors),
    }
    assignments = [f"RACKREADY_{name}={shlex.quote(value)}" for name, value in values.items()]
    return "\n".join([shebang, *assignments, script])


def write_capture(evidence: Iterable[Evidence], whole: bool = True) -> str:
    """The capture of these; without its last line unless ``whole``."""
    lines = [f"rackready-capture {VERSION}"]
    sections = 0
    for item in evidence:
        sections += 1
        lines.append(f"$ {_one_line(item.command)}")
        lines.extend(_framed(item.text))
        if item.status is not None:
            lines.append(f"? {item.status}")
        elif item.lost not in ("", CUT):
            lines.append(f"? {_one_line(item.lost)}")
    if whole:
        lines.append(f". {sections}")
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in text)


def _framed(text: str) -> Iterator[str]:
    if not _PLAIN.issuperset(text):
        data = text.encode("utf-8", "surrogateescape")
        for start in range(0, len(data), 16):
            yield "x " + data[start : start + 16].hex(" ")
        return
    *lines, rest = text.split("\n")
    for line in lines:
        yield f"|{line}"
    if rest:
        yield f"\\{rest}"


def read_capture(text: str | bytes, host: str) -> Capture:
    """The capture in ``text``. Whatever is wrong with it becomes a gap; nothing is raised."""
    if len(text) > LARGEST:
        return Capture(host, (), (Gap("", f"this is no capture: {_too_large()}"),))
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    found = data.decode("latin-1").split("\n", _MOST_LINES)
    lines = enumerate((line.rstrip("\r") for line in found[:_MOST_LINES]), start=1)
    for _, line in lines:
        if header := _HEADER.search(line):
            break
    else:
        return Capture(
            host,
            (),
            (
                Gap(
                    "",
                    "this is no capture: no header line (pasted outputs: rackready diagnose)",
                ),
            ),
        )
    if int(header[1]) != VERSION:
        return Capture(host, (), (Gap("", f"capture format {header[1]} is not known"),))
    return _Reader(host).read(lines, unread="".join(found[_MOST_LINES:]))


def _too_large() -> str:
    return f"it is larger than {LARGEST >> 20} MiB"


class _Reader:
    """Collects sections line by line."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._evidence: list[Evidence] = []
        self._gaps: list[Gap] = []
        self._misfits: list[Gap] = []  # lines that are not of the format
        self._command: str | None = None  # of the open section
        self._output = bytearray()

    def read(self, lines: Iterator[tuple[int, str]], unread: str) -> Capture:
        """The capture in ``lines``; ``unread`` is what follows them, too much to be read."""
        for number, line in lines:
            if line.startswith(("$ ", ". ")):
                self._close(None, CUT)
            if line.startswith(". "):
                if (said := line[2:]) != (count := str(len(self._evidence))):
                    self._gap(f"{count} sections, but line {number} says {said[:20]}")
                break
            if line.startswith("$ ") and len(self._evidence) == _MOST_SECTIONS:
                self._gap(f"only its first {_MOST_SECTIONS:,} sections were read")
                break
            if not self._take(line) and line:
                reason = f"line {number} is not of the capture format"
                self._misfits.append(Gap(self._command or "", reason))
        else:
            self._close(None, CUT)
            if unread:
                self._gap(f"only its first {_MOST_LINES:,} lines were read")
            else:
                self._gap("the capture is cut: its last line is missing")
        if any(_HEADER.search(line) for _, line in lines):
            self._gap("only the first of several captures was read")
        if (more := len(self._misfits) - _MOST_MISFITS) > 0:
            reason = f"{more:,} more lines are not of the capture format"
            self._misfits[_MOST_MISFITS:] = [Gap("", reason)]
        return Capture(self._host, tuple(self._evidence), (*self._gaps, *self._misfits))

    def _take(self, line: str) -> bool:
        """Take one line; False when it fits nowhere."""
        kind, rest = line[:1], line[1:]
        if kind == "$" and rest.startswith(" "):
            self._command = rest[1:]
        elif self._command is None:
            return False
        elif kind == "|":
            self._output += rest.encode("latin-1") + b"\n"
        elif kind == "\\":
            self._output += rest.encode("latin-1")
        elif kind == "x" and _HEX_LINE.fullmatch(rest):
            self._output += bytes.fromhex(rest)
        elif kind == "?" and rest.startswith(" "):
            if _STATUS.fullmatch(rest[1:]):
                self._close(int(rest[1:]), "")
            else:
                self._close(None, rest[1:])
        else:
            return False
        return True

    def _close(self, status: int | None, lost: str) -> None:
        if self._command is None:
            return
        text = self._output.decode("utf-8", "surrogateescape")
        self._evidence.append(Evidence(self._host, self._command, text, status, lost))
        self._command = None
        self._output = bytearray()

    def _gap(self, reason: str) -> None:
        self._gaps.append(Gap("", reason))


def decode_transport(lines: Iterable[str]) -> str:
    """
    The capture that the probe sent, among whatever else the node printed.

    Raises ProbeLost, and nothing else, when it is absent, cut or damaged.
    """
    packed: re.Match[str] | None = None
    payload: list[str] = []
    reason = ""
    first = ""
    attempts = 0
    for line in lines:
        line = line.strip()
        first = first or line
        if start := _PACKED.search(line):
            packed, payload = start, []
            reason = "the probe's output is cut"
        elif packed and line.endswith(_PACKED_END):
            try:
                return _unpack(packed, payload)
            except ProbeLost as error:
                reason = str(error)
            packed = None
            attempts += 1
            if attempts == _MOST_ATTEMPTS:
                break
        elif packed:
            payload.append(line)
    if not reason:
        reason = "no output of the probe" + (f"; it begins with {first[:60]!a}" if first else "")
    raise ProbeLost(reason)


def _unpack(packed: re.Match[str], lines: Iterable[str]) -> str:
    version, form, length, checksum = packed.groups()
    alphabet = _ALPHABETS.get(form)
    if version != "1" or not alphabet:
        raise ProbeLost(f"the probe's output has an unknown form: {version} {form!a}")
    # Other lines are noise: a message of the shell or of a process in the background.
    payload = "".join(line for line in lines if alphabet.fullmatch(line))
    if len(payload) != int(length):
        raise ProbeLost(f"the probe's output is cut: {len(payload)} of {length} characters")
    try:
        data = base64.b64decode(payload) if form.endswith("base64") else bytes.fromhex(payload)
        if form.startswith("gzip"):
            data = _gunzip(data)
        if len(data) > LARGEST:
            raise ValueError(_too_large())
        text = data.decode("ascii")
    except (ValueError, zlib.error) as error:
        raise ProbeLost(f"the probe's output is damaged: {error}") from error
    if checksum not in ("-", hashlib.sha256(data).hexdigest()):
        raise ProbeLost("the probe's output is damaged: its checksum differs")
    return text


def _gunzip(data: bytes) -> bytes:
    gunzip = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    unpacked = gunzip.decompress(data, LARGEST + 1)
    if not gunzip.eof and len(unpacked) <= LARGEST:
        raise ValueError("its end is missing")
    return unpacked
