"""Masking: a capture that tells what a node is, but not which one, and gives the same verdict.

The same secret becomes the same token wherever and however it is spelled: of a MAC address the
three bytes after the vendor's are replaced, and so they are in GUIDs, EUI-64 and GIDs made of it.
"""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from rackready.facts.capture import read_capture, write_capture
from rackready.facts.model import Evidence
from rackready.facts.readers.pci import read_dump, read_serial

HOSTNAME = "cat /proc/sys/kernel/hostname"
CMDLINE = "cat /proc/cmdline"
DMI = "cd /sys/class/dmi/id && "
LOCK = "cat /run/rackready.lock"
ADDRESSES = "ip -o addr show"
ROUTES = ("ip rule", "ip route")
MODES = "stat "

# Addresses that belong to nobody, or that the policies of a site name. None of these networks is
# longer than /16: addresses that share 16 bits or more are either all kept or all replaced.
_KEPT_IPV4 = [
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "224.0.0.0/3",
    )
]
_GLOBAL_IPV6 = IPv6Network("2000::/3")
_LINK_LOCAL = IPv6Network("fe80::/10")

_FILLERS = (b"\x03\x00", b"\xff\xfe")  # in the middle of a GUID or EUI-64 made of a MAC address
_INVERTED = 0x02  # bit of the first byte that EUI-64 inverts

# NAME/ATTRIBUTE:VALUE, where a PCI address may be part of the name.
_ATTRIBUTE = re.compile(
    r"^((?:[^\s/:]+/|[0-9a-f]+:[0-9a-f:]*\.[0-7]/)*[^\s/:]+:)(.*)$", re.MULTILINE
)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_IDENTIFIER = re.compile(
    rf"""
    (?P<uuid> (?<![0-9a-f]) {_UUID.pattern} (?![0-9a-f-]) )
  | (?P<mac> (?<![\w:.]) (?:[0-9a-f]{{2}}:){{5}} [0-9a-f]{{2}} (?![\w:])
    | (?<=\benx) [0-9a-f]{{12}} \b
    | (?<=\bBOOTIF=01-) (?:[0-9a-f]{{2}}-){{5}} [0-9a-f]{{2}} \b )
  | (?P<eui> (?<![\w:.]) (?:[0-9a-f]{{2}}:){{7}} [0-9a-f]{{2}} (?![\w:])
    | (?<![\w:.]) (?:[0-9a-f]{{4}}:){{3}} [0-9a-f]{{4}} (?![\w:.])
    | (?: (?<=\beui\.) | (?<=\bwwn-0x) ) (?:[0-9a-f]{{32}} | [0-9a-f]{{16}}) \b )
  | (?P<infiniband> (?<![\w:.]) (?:[0-9a-f]{{2}}:){{19}} [0-9a-f]{{2}} (?![\w:]) )
  | (?P<ipv6> (?<![\w:.]) [0-9a-f]{{0,4}} (?: :[0-9a-f]{{0,4}} ){{2,7}} (?![\w:]|\.[0-9]) )
  | (?P<ipv4> (?<![\w.]) (?:[0-9]{{1,3}}\.){{3}} [0-9]{{1,3}} (?!\w|\.[0-9]) )
  | (?P<other> (?<![\w.-]) (?:0x)? (?: [0-9a-f]{{12}} | [0-9a-f]{{16}}
    | (?:[0-9a-f]{{2}}-){{5}} [0-9a-f]{{2}} | (?:[0-9a-f]{{2}}-){{7}} [0-9a-f]{{2}}
    | (?:[0-9a-f]{{4}}\.){{2}} [0-9a-f]{{4}} ) (?![\w-]) )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_PARAMETER = re.compile(r"(?<!\S)([^\s=]+)=\S+")
_SECRET = re.compile(r"passw|secret|token", re.IGNORECASE)
_SERIAL = re.compile(r"(\b(?:serial(?: number)?|S/?N)\s*[:=]\s*)(\S+)", re.IGNORECASE)
_HOME = re.compile(r"(?<=/home/)[^/\s]+")
_OWNER = re.compile(r"^.+?(?= run )", re.MULTILINE)
_PART = re.compile(r"(?=.*[0-9]).{5,}")  # a serial number, not "None" or "Default string"
_NAMELESS = ("", "localhost", "localhost.localdomain", "(none)")


def mask(text: str, key: bytes = b"") -> str:
    """
    The capture without what identifies the host, its owner or its parts.

    With the same ``key`` captures of several hosts fit together; without, each has its own.
    """
    capture = read_capture(text, "")
    tokens = _Tokens(key or text.encode("utf-8", "surrogatepass"))
    masked = _Masker(tokens, capture.evidence).masked()
    return write_capture(masked, whole=not capture.gaps)


class _Tokens:
    """Replacements that depend on a key. Bits are permuted, so two secrets never become one."""

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.sha256(key).digest()

    def _digest(self, *parts: object) -> bytes:
        return hashlib.blake2b(repr(parts).encode(), key=self._key).digest()

    def bits(self, data: bytes) -> bytes:
        """As many other bytes: a Feistel network over the two halves of the bits."""
        width = len(data) * 4
        left, right = divmod(int.from_bytes(data, "big"), 1 << width)
        for turn in range(6):
            digest = int.from_bytes(self._digest("bits", width, turn, right), "big")
            left, right = right, left ^ digest % (1 << width)
        return (left << width | right).to_bytes(len(data), "big")

    def address(self, value: int, width: int, kept: int = 0) -> int:
        """Another number; numbers that begin with the same bits go on doing so."""
        flips = 0
        for position in range(kept, width):
            digest = self._digest("address", width, position, value >> width - position)
            flips = flips << 1 | digest[0] & 1
        return value ^ flips

    def letters(self, text: str) -> str:
        """Other digits for digits and other letters for letters."""
        digest = b"".join(self._digest("letters", text, i) for i in range(len(text) // 64 + 1))

        def other(character: str, byte: int) -> str:
            for kind in (string.digits, string.ascii_uppercase, string.ascii_lowercase):
                if character in kind:
                    return kind[byte % len(kind)]
            return character

        return "".join(map(other, text, digest))

    def word(self, kind: str, text: str) -> str:
        return f"{kind}-{self._digest(kind, text).hex()[:6]}"


class _Masker:
    """Replaces the secrets of one capture."""

    def __init__(self, tokens: _Tokens, evidence: tuple[Evidence, ...]) -> None:
        self._tokens = tokens
        self._evidence = evidence
        self._names: dict[str, str] = {}  # names of the host that may be any word
        self._words: dict[str, str] = {}  # names and serial numbers that mean nothing else
        self._known: set[bytes] = set()  # MAC addresses and identifiers
        self._known_ipv4: set[IPv4Address] = set()
        for item in evidence:
            self._learn(item)
        self._word = _any_of(self._words)
        self._name = _any_of(self._names | self._words)

    def masked(self) -> list[Evidence]:
        # Twice: a spelling that could be any number is an identifier only if it is known as one.
        for item in self._evidence:
            self._item(item)
        return [self._item(item) for item in self._evidence]

    def _learn(self, item: Evidence) -> None:
        if item.command == HOSTNAME and (full := item.text.strip()) not in _NAMELESS:
            short = full.partition(".")[0]
            token = self._tokens.word("host", short)
            self._names = {full: token, short: token}
            self._words |= {n: token for n in self._names if re.search(r"[0-9-]", n)}
        elif item.command.startswith(DMI):
            for line in item.text.splitlines():
                attribute, _, value = line.partition(":")
                if attribute.endswith("_serial") and _PART.fullmatch(value.strip()):
                    self._words[value.strip()] = self._tokens.letters(value.strip())

    def _item(self, item: Evidence) -> Evidence:
        command, text = item.command, item.text
        if command.startswith("od ") and command.endswith("/config"):
            return replace(item, text=self._dump(text))
        if command == LOCK:
            text = _OWNER.sub(lambda m: self._tokens.word("owner", m[0]), text)
        elif command in (HOSTNAME, CMDLINE):
            text = self._name.sub(lambda m: self._names.get(m[0]) or self._words[m[0]], text)
        elif command.startswith(MODES):
            home = partial(_HOME.sub, lambda m: self._tokens.word("user", m[0]))
            command, text = home(command), home(text)
        if command == CMDLINE:
            text = _PARAMETER.sub(self._parameter, text)
        else:
            text = _SERIAL.sub(lambda m: m[1] + self._tokens.letters(m[2]), text)
        addresses = command in (CMDLINE, ADDRESSES, *ROUTES)
        if command.startswith("cd ") and "grep -s" in command:
            # A value's colon would hide where an address begins.
            text = _ATTRIBUTE.sub(
                lambda m: self._text(m[1], addresses) + self._text(m[2], addresses), text
            )
        else:
            text = self._text(text, addresses)
        return replace(item, command=self._text(command), text=text)

    def _text(self, text: str, addresses: bool = False) -> str:
        def identifier(match: re.Match[str]) -> str:
            kind = match.lastgroup
            if kind == "ipv4":
                return self._ipv4_text(match[0], addresses)
            if kind == "ipv6":
                return self._ipv6_text(match[0])
            digits = re.sub(r"^0[xX]|[^0-9a-fA-F]", "", match[0])
            data = bytes.fromhex(digits)
            if kind == "other" and data not in self._known:
                return match[0]
            return _respelled(match[0], self._identifier(data).hex())

        text = self._word.sub(lambda m: self._words[m[0]], text)
        return _IDENTIFIER.sub(identifier, text)

    def _identifier(self, data: bytes) -> bytes:
        """A MAC address, an identifier of 8 bytes, or a longer one, in bytes."""
        if len(set(data)) == 1:
            return data  # all zeros: none; all ones: everybody
        if len(data) == 6:
            self._know_mac(data)
            return data[:3] + self._tokens.bits(data[3:])
        if len(data) == 8:
            self._known.add(data)
            return self._eui(data)
        if len(data) == 20:  # IP over InfiniBand: flags, queue pair, subnet prefix, port GUID
            return data[:12] + self._identifier(data[12:])
        return self._tokens.bits(data)

    def _know_mac(self, mac: bytes) -> None:
        inverted = bytes([mac[0] ^ _INVERTED]) + mac[1:]
        self._known.add(mac)
        self._known |= {m[:3] + filler + m[3:] for m in (mac, inverted) for filler in _FILLERS}

    def _eui(self, data: bytes) -> bytes:
        if data[3:5] in _FILLERS:
            return data[:5] + self._tokens.bits(data[5:])
        while True:  # until it does not look like one that is made of a MAC address
            data = self._tokens.bits(data)
            if data[3:5] not in _FILLERS:
                return data

    def _ipv4_text(self, text: str, certain: bool) -> str:
        try:
            address = IPv4Address(text)
        except ValueError:
            return text
        if certain:
            self._known_ipv4.add(address)
        # Elsewhere four numbers may be a version.
        return str(self._moved_ipv4(address)) if address in self._known_ipv4 else text

    def _moved_ipv4(self, address: IPv4Address) -> IPv4Address:
        if _is_kept(address):
            return address
        moved = IPv4Address(self._tokens.address(int(address), 32))
        while _is_kept(moved):  # it would no longer count as public
            moved = IPv4Address(self._tokens.address(int(moved), 32))
        return moved

    def _ipv6_text(self, text: str) -> str:
        try:
            address = IPv6Address(text)
        except ValueError:
            return text
        if address.ipv4_mapped:
            self._known_ipv4.add(address.ipv4_mapped)
            data = address.packed[:12] + self._moved_ipv4(address.ipv4_mapped).packed
        else:
            prefix, host = address.packed[:8], address.packed[8:]
            if address in _GLOBAL_IPV6:
                moved = self._tokens.address(int.from_bytes(prefix, "big"), 64, kept=3)
                prefix = moved.to_bytes(8, "big")
            elif address not in _LINK_LOCAL and host[3:5] not in _FILLERS:
                return text
            data = prefix + self._identifier(host)
        moved_address = IPv6Address(data)
        return moved_address.exploded if len(text) == 39 else str(moved_address)

    def _parameter(self, match: re.Match[str]) -> str:
        """A parameter of the kernel command line: ``root=UUID=...``, ``nfs.password=...``."""
        name, _, value = match[0].rpartition("=")
        if _UUID.fullmatch(value):
            return match[0]  # masked wherever it is
        if _SECRET.search(match[1]) or name.upper().endswith(("UUID", "LABEL")):
            return f"{name}={self._tokens.letters(value)}"
        return match[0]

    def _dump(self, text: str) -> str:
        damage: list[str] = []
        config = read_dump(text, damage.append)
        serial = read_serial(config)
        if serial is None:
            return text
        number = bytes.fromhex(serial.replace("-", ""))
        masked = self._identifier(number)
        # The capability holds it in reverse. What follows damage is left out, and seen to be so.
        return _dumped(config.replace(number[::-1], masked[::-1])) + ("...\n" if damage else "")


def _is_kept(address: IPv4Address) -> bool:
    return any(address in network for network in _KEPT_IPV4)


def _dumped(data: bytes) -> str:
    """As ``od -Ax -tx1`` prints it."""
    lines: list[str] = []
    for start in range(0, len(data), 16):
        row = data[start : start + 16]
        if start and row == data[start - 16 : start]:
            if lines[-1] != "*":
                lines.append("*")
        else:
            lines.append(f"{start:06x} {row.hex(' ')}")
    return "\n".join([*lines, f"{len(data):06x}", ""])


def _any_of(words: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted(words, key=len, reverse=True)
    alternatives = "|".join(map(re.escape, longest_first)) or r"(?!)"
    return re.compile(rf"(?<![A-Za-z0-9_-])(?:{alternatives})(?![A-Za-z0-9_-])")


def _respelled(text: str, digits: str) -> str:
    """``digits`` in the spelling of ``text``: separators, 0x, upper or lower case."""
    start = 2 if text[:2].lower() == "0x" else 0
    upper = text[start:].isupper()
    rest = iter(digits.upper() if upper else digits)
    return text[:start] + "".join(next(rest) if c in string.hexdigits else c for c in text[start:])
