"""SSH between the hosts: known keys, failures of the client, refusals of the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class KnownHost:
    """
    A line of a known_hosts file.

    ``source`` is "" where ``line`` is the line's number in the file, else the command that cut the
    file, and ``line`` counts in its output.
    """

    IDENTITY: ClassVar = (("source", "line", "names", "key_type", "key"),)

    source: str
    line: int
    names: str  # "node7,10.1.1.7", "|1|salt|hash", "[10.1.1.7]:2222", "*.cluster"
    key_type: str
    key: str  # base64
    marker: str | None = None  # "cert-authority", "revoked"
    file: str | None = None
    asked: str | None = None  # the name for which ssh-keygen -F found the line


@dataclass(frozen=True)
class ScannedKey:
    """A key that a host offered to ssh-keyscan."""

    IDENTITY: ClassVar = (("host", "key_type"),)

    host: str  # "[10.1.1.7]:2222" where the port is not 22
    key_type: str
    key: str


@dataclass(frozen=True)
class Fingerprint:
    """The fingerprint of a key file, as ``ssh-keygen -l`` prints it."""

    IDENTITY: ClassVar = (("fingerprint", "file"),)

    fingerprint: str  # "SHA256:..."
    key_type: str  # "ED25519"
    file: str


@dataclass(frozen=True)
class SshFailure:
    """
    Why the client could not log in.

    ``kind``: "changed", "revoked", "unknown-key" or "unverified" for the host's key, "denied",
    "too-open" private key, "unreachable", "closed" before the login, "no-common" algorithm,
    "too-many" keys.
    """

    IDENTITY: ClassVar = (("kind", "host", "path"),)

    kind: str
    host: str  # as the message or the command names it; "" = unknown
    path: str = ""  # known_hosts file, private key
    user: str | None = None
    key_type: str | None = None
    fingerprint: str | None = None
    line: int | None = None  # of the known_hosts file
    known_as: str | None = None  # what ssh-keygen -R wants
    mode: str | None = None  # of the private key, octal
    reason: str | None = None  # "Connection refused"; the methods that the server still offers


@dataclass(frozen=True)
class SshdRefusal:
    """
    Why the server refused a login, by its log.

    ``kind``: "modes" of a path, "not-allowed" user, "root", "no-keys" file, "algorithm".
    """

    IDENTITY: ClassVar = (("kind", "subject"),)

    kind: str
    subject: str  # path or user
    reason: str = ""


@dataclass(frozen=True)
class SshdOption:
    """A setting of the server, its name in small letters; the first of a file counts."""

    IDENTITY: ClassVar = (("name",),)

    name: str
    value: str
