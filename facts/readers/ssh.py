"""SSH: known_hosts, ssh-keygen, ssh-keyscan, messages of the client, log and settings of sshd."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackready.facts.parts.ssh import (
    Fingerprint,
    KnownHost,
    ScannedKey,
    SshdOption,
    SshdRefusal,
    SshFailure,
)
from rackready.facts.readers.reader import Output, reader

_KEY = r"((?:ssh|ecdsa|sk)-[\w.@-]{3,60}) (AAAA[\w+/]{8,4000}={0,3})"
_ENTRY = re.compile(
    r"(?:([^\s:]{0,200}known_hosts\d?):)?(?:(\d{1,7}):)?"
    r"(?:@(cert-authority|revoked)\s+)?([^\s@#]\S{0,2000})\s+" + _KEY.replace(" ", r"\s+", 1)
)
_FOUND = re.compile(r"# Host (\S{1,300}) found: line (\d{1,7})")
_BANNER = re.compile(r"[#;] ?\S{1,260} SSH-2\.0-", re.MULTILINE)
_HASHED = re.compile(r"(\d{2,5}) ((?:SHA256|MD5):\S{10,100}) (.{0,300}?) ?\(([\w-]{2,20})\)$")
_FILE = re.compile(r"(?:^|\s)-f ?(\S+)")


def _known_hosts_file(output: Output) -> str | None:
    """The file that the command names by its full path."""
    words = [match[1]] if (match := _FILE.search(output.command)) else output.arguments()
    files = [word for word in words if "known_hosts" in word]
    return files[0] if len(files) == 1 and files[0][0] in "/~" else None


def read_known_hosts(output: Output) -> Iterator[KnownHost | ScannedKey]:
    """A known_hosts file, whole or cut; without its command, ssh-keyscan's output looks alike."""
    if _BANNER.search(output.text[:4000]):
        yield from read_scan(output)
        return
    whole = output.program == "cat" and not output.filters
    file = _known_hosts_file(output)
    for number, line in enumerate(output.text.split("\n"), 1):
        match = _ENTRY.match(line)
        if match is None:
            continue
        # A file without its command is whole, too; what grep numbers stands at that line.
        numbered = whole or match[2] is not None
        source = "" if numbered else " ".join([output.command, *output.filters])
        yield KnownHost(
            source,
            int(match[2] or number),
            match[4],
            match[5],
            match[6],
            match[3],
            match[1] or file,
        )


def read_found(output: Output) -> Iterator[KnownHost]:
    """``ssh-keygen -F HOST``: a comment with host and line before each line of the file."""
    found = None
    for line in output.lines():
        if match := _FOUND.match(line):
            found = match
        elif found and (match := _ENTRY.match(line)):
            yield KnownHost(
                "", int(found[2]), match[4], match[5], match[6], match[3],
                _known_hosts_file(output), found[1],
            )  # fmt: skip
            found = None


def read_scan(output: Output) -> Iterator[ScannedKey]:
    """``ssh-keyscan``: the keys that hosts offer; hashed names can't be told."""
    for line in output.lines():
        match = _ENTRY.match(line)
        if match and not match[3] and not match[4].startswith("|1|"):
            for host in match[4].split(","):
                yield ScannedKey(host, match[5], match[6])


def read_fingerprints(output: Output) -> Iterator[Fingerprint]:
    """``ssh-keygen -lf FILE``: bits, fingerprint, comment, type."""
    files = [word for word in output.command.split() if word.startswith(("/", "~", "."))]
    for line in output.lines():
        if match := _HASHED.match(line):
            yield Fingerprint(match[2], match[4], files[0] if len(files) == 1 else "")


# --- The client ---------------------------------------------------------------------------------

_DESTINATION = re.compile(
    r"\bssh(?:\s{1,9}-[1246AaCfGgKkMNnqsTtVvXxYy]{1,12}"
    r"|\s{1,9}-[BbcDEeFIiJLlmOopQRSWw]\s{0,9}[^\s-]\S{0,200}){0,30}"
    r"\s{1,9}(?:([\w.-]{1,64})@)?(\[?[\w.:-]{1,200}\]?)(?:\s|$)"
)
_CHANGED = re.compile(r"The fingerprint for the ([\w-]{2,20}) key sent by the remote host is")
_PRINT = re.compile(r"((?:SHA256|MD5):[\w+/:=]{10,100}|(?:[0-9a-f]{2}:){15}[0-9a-f]{2})\.?$")
_OFFENDING = re.compile(r"Offending (?:([\w-]{2,20}) )?key (?:for IP )?in (\S{1,300}?):(\d{1,7})")
_REMOVE = re.compile(r"ssh-keygen .{0,300}?-R ['\"]?([^'\"\s]{1,260})")
_HOST_CHANGED = re.compile(r"(?:\w{2,10} )?[Hh]ost key for (\S{1,260}) has changed and you have")
_REVOKED = re.compile(
    r"(?:WARNING: REVOKED HOST KEY DETECTED|host key for (\S{1,260}) is revoked)", re.I
)
_UNKNOWN = re.compile(r"No ([\w-]{2,20}) host key is known for (\S{1,260}) and you have requested")
_DENIED = re.compile(
    r"(?:([\w.-]{1,64})@(\[?[\w.:-]{1,200}\]?): )?Permission denied \(([a-z,-]{4,200})\)"
)
_OPEN_KEY = re.compile(r"Permissions (\d{3,5}) for ['\"]([^'\"]{1,300})['\"] are too open")
_UNREACHABLE = re.compile(
    r"ssh: connect to host (\S{1,260}) port (\d{1,5}): (Connection refused|Connection timed out"
    r"|No route to host|Network is unreachable|Operation timed out)"
)
_UNRESOLVED = re.compile(r"ssh: Could not resolve hostname (\S{1,260}): (.{4,80})$")
_CLOSED = re.compile(
    r"(?:kex_exchange_identification|ssh_exchange_identification): "
    r"((?:read: )?Connection (?:closed by remote host|reset by peer))"
)
_NO_COMMON = re.compile(
    r"Unable to negotiate with (\S{1,260}) port \d{1,5}: (no matching .{4,60} found)"
)
_TOO_MANY = re.compile(r"Too many authentication failures")


def read_client(output: Output) -> Iterator[SshFailure]:
    """The messages with which ``ssh`` ends, wherever they stand: in its output or in a job's."""
    asked = _DESTINATION.search(output.line or output.command)
    user, host = (asked[1], asked[2]) if asked else (None, "")
    changed: dict[str, str] | None = None
    told = re.search(r"HOST IDENTIFICATION HAS|REVOKED HOST KEY|host key is known for", output.text)
    for line in output.lines():
        line = line[:1000]
        if "REMOTE HOST IDENTIFICATION HAS CHANGED" in line:
            if changed:
                yield _changed(changed, host)
            changed = {}
        elif changed is not None and _collect(line, changed):
            if "host" in changed:
                yield _changed(changed, host)
                changed = None
        elif match := _REVOKED.search(line):
            yield SshFailure("revoked", match[1] or host)
        elif match := _UNKNOWN.search(line):
            yield SshFailure("unknown-key", match[2], key_type=match[1])
        elif not told and "Host key verification failed" in line:
            yield SshFailure("unverified", host)
        elif match := _OPEN_KEY.search(line):
            yield SshFailure("too-open", "", match[2], mode=match[1])
        elif match := _DENIED.search(line):
            yield SshFailure("denied", match[2] or host, user=match[1] or user, reason=match[3])
        elif match := _UNREACHABLE.search(line):
            yield SshFailure("unreachable", match[1], reason=f"port {match[2]}: {match[3]}")
        elif match := _UNRESOLVED.search(line):
            yield SshFailure("unreachable", match[1], reason=match[2])
        elif match := _CLOSED.search(line):
            yield SshFailure("closed", host, reason=match[1])
        elif match := _NO_COMMON.search(line):
            yield SshFailure("no-common", match[1], reason=match[2])
        elif _TOO_MANY.search(line):
            yield SshFailure("too-many", host, user=user)
    if changed:
        yield _changed(changed, host)


def _collect(line: str, found: dict[str, str]) -> bool:
    """Take what a line of the message on a changed key says; False when it is not of it."""
    if match := _CHANGED.search(line):
        found["key_type"] = match[1]
    elif match := _PRINT.search(line):
        found["fingerprint"] = match[1].rstrip(".")
    elif match := _OFFENDING.search(line):
        found.update(path=match[2], line=match[3])
        found.setdefault("key_type", match[1] or "")
    elif match := _REMOVE.search(line):
        found["known_as"] = match[1]
    elif match := _HOST_CHANGED.search(line):
        found["host"] = match[1]
    else:
        return False
    return True


def _changed(found: dict[str, str], asked: str) -> SshFailure:
    host = found.get("host") or found.get("known_as") or asked
    return SshFailure(
        "changed",
        host,
        found.get("path", ""),
        key_type=found.get("key_type") or None,
        fingerprint=found.get("fingerprint"),
        line=int(found["line"]) if "line" in found else None,
        known_as=found.get("known_as") or host,
    )


# --- The server ---------------------------------------------------------------------------------

_MODES = re.compile(
    r"Authentication refused: bad owner(?:ship)? or modes for (?:file |directory )?(/\S{0,400})"
)
_NOT_ALLOWED = re.compile(r"User (\S{1,64}) from \S{1,260} not allowed because (.{4,120})$")
_ROOT = re.compile(r"ROOT LOGIN REFUSED FROM")
_NO_KEYS = re.compile(
    r"Could not open (?:user '[^']{1,64}' )?authorized keys '?(/[^':]{1,300})'?: (.{4,80})$"
)
_ALGORITHM = re.compile(r"key type (\S{2,60}) not in Pubkey(?:AcceptedAlgorithms|AcceptedKeyTypes)")
_OPTION = re.compile(
    r"(?:/\S{1,200}?:)?(?:\d{1,6}:)?\s*(StrictModes|PubkeyAuthentication|UsePAM|AuthorizedKeysFile"
    r"|PermitRootLogin|AllowUsers|DenyUsers|AllowGroups|DenyGroups|MaxStartups"
    r"|PasswordAuthentication)[\s=]+(\S.{0,300})$",
    re.IGNORECASE,
)


def read_server_log(output: Output) -> Iterator[SshdRefusal]:
    """Lines of sshd, bare or with what syslog and the journal put before them."""
    for line in output.lines():
        line = line[:1000]
        if match := _MODES.search(line):
            yield SshdRefusal("modes", match[1].rstrip("/") or "/")
        elif match := _NOT_ALLOWED.search(line):
            yield SshdRefusal("not-allowed", match[1], match[2])
        elif _ROOT.search(line):
            yield SshdRefusal("root", "root", "ROOT LOGIN REFUSED")
        elif match := _NO_KEYS.search(line):
            yield SshdRefusal("no-keys", match[1], match[2])
        elif match := _ALGORITHM.search(line):
            yield SshdRefusal("algorithm", match[1])


def read_server_options(output: Output) -> Iterator[SshdOption]:
    """``sshd -T`` and sshd_config up to its first Match block; the first of a name counts."""
    seen = set()
    for line in output.lines():
        if line.lower().startswith("match "):
            return
        if (match := _OPTION.match(line)) and (name := match[1].lower()) not in seen:
            seen.add(name)
            yield SshdOption(name, match[2].partition(" #")[0].strip())


READERS = (
    reader(
        "ssh-keygen -F node",
        read_found,
        command=r"ssh-keygen\s[^\n]{0,300}?-F\b",
        shape=r"^# Host \S{1,300} found: line \d",
    ),
    reader(
        "ssh-keygen -lf key.pub",
        read_fingerprints,
        command=r"ssh-keygen\s[^\n]{0,300}?-[a-zA-Z]{0,3}l[a-zA-Z]{0,3}\b",
        shape=r"^\d{3,5} (?:SHA256|MD5):\S{10,100} .{0,300}\([\w-]{2,20}\)$",
    ),
    reader("ssh-keyscan", read_scan, command=r"ssh-keyscan\b"),
    reader(
        "cat known_hosts",
        read_known_hosts,
        command=r"(?:cat|head|tail|grep|egrep|sed|awk)\s[^\n]{0,300}?known_hosts",
        shape=r"^(?:@(?:cert-authority|revoked)[ \t]+)?(?!#|\d{2,5} )\S{1,2000}[ \t]+"
        r"(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-nistp\d{3}|sk-\S{5,50}) AAAA",
    ),
    reader(
        "ssh node true",
        read_client,
        command=r"ssh(?:\s+-[1246AaCfGgKkMNnqsTtVvXxYy]{1,12}"
        r"|\s+-[BbcDEeFIiJLlmOopQRSWw]\s*[^\s-]\S{0,200})*\s+[^\s-]\S*"
        r"(?:\s+(?:true|hostname|date|uptime|id|whoami|echo|exit)\b[^\n]{0,60})?$",
        shape=r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED"
        r"|REVOKED HOST KEY DETECTED"
        r"|Permission denied \((?:publickey|password|keyboard|gssapi)|^ssh: connect to host "
        r"|ssh: Could not resolve hostname|Permissions \d{3,5} for '[^']{1,300}' are too open"
        r"|host key is known for \S{1,260} and you have|Too many authentication failures"
        r"|^(?:kex|ssh)_exchange_identification: |Unable to negotiate with \S{1,260} port",
    ),
    reader(
        "journalctl -u sshd",
        read_server_log,
        command=r"journalctl\s[^\n]{0,200}?(?:-u|--unit)[ =]?sshd?\b"
        r"|(?:cat|tail|grep|head)\s[^\n]{0,300}?/var/log/(?:auth\.log|secure)",
        shape=r"Authentication refused: bad owner|not allowed because |ROOT LOGIN REFUSED FROM"
        r"|Could not open (?:user '[^']{1,64}' )?authorized keys|not in PubkeyAccepted",
    ),
    reader(
        "sshd -T",
        read_server_options,
        command=r"sshd\s[^\n]{0,100}?-T\b|(?:cat|grep|egrep)\s[^\n]{0,300}?sshd_config",
        shape=r"^(?:StrictModes|PubkeyAuthentication|UsePAM|AuthorizedKeysFile)[ \t]+\S",
    ),
)
