"""SSH between the hosts: host keys, authorized keys, private keys, logins."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from rackready.check import Case, Cases, Rack, case, rack_check
from rackready.facts.parts.devices import PathMode
from rackready.facts.parts.ssh import (
    Fingerprint,
    KnownHost,
    ScannedKey,
    SshdOption,
    SshdRefusal,
    SshFailure,
)
from rackready.facts.parts.store import Facts
from rackready.finding import Verdict

_HASHES = 200_000  # pairs of a hashed line and a name that are tried


def _at(host: str) -> dict[str, Any]:
    return {"host": host} if host else {}


def hashed_name(names: str, host: str) -> bool:
    """True when ``|1|salt|hash`` stands for a host: the hash is HMAC-SHA1(salt, name)."""
    _, _, salt, digest = names.split("|", 3)
    try:
        made = hmac.new(base64.b64decode(salt), host.encode(), hashlib.sha1).digest()
        return hmac.compare_digest(made, base64.b64decode(digest))
    except ValueError:
        return False


def _stands_for(item: KnownHost, host: str) -> bool:
    """Whether a line speaks of a host: by hash, by a name of its list, by a pattern."""
    if item.asked == host:
        return True
    if item.names.startswith("|"):
        return item.names.count("|") == 3 and hashed_name(item.names, host)
    names = item.names.lower().split(",")
    if any(name[:1] == "!" and fnmatchcase(host.lower(), name[1:]) for name in names):
        return False
    return any(fnmatchcase(host.lower(), name.replace("[", "[[]")) for name in names)


def _hosts(facts: Facts, rack: Rack) -> list[str]:
    """Names that a hashed line may stand for, and those that stand in clear."""
    found = [item.asked for item in facts.each(KnownHost) if item.asked]
    for _, other in rack.sources():
        found += [item.host for item in other.each(ScannedKey)]
        found += [name for f in other.each(SshFailure) for name in (f.host, f.known_as) if name]
    found += [view.node.name for view in rack.views if view.node.name]
    clear = (item.names for item in facts.each(KnownHost) if not item.names.startswith("|"))
    found += [name for names in clear for name in names.split(",") if not set(name) & set("*?!")]
    return list(dict.fromkeys(found))


@rack_check(
    "ssh.known-hosts",
    each_node=True,
    ok=Verdict.OK,
    duplicate=Verdict.WARN,
    conflict=Verdict.WARN,
    stale=Verdict.FAIL,
    revoked=Verdict.FAIL,
)
def known_hosts(rack: Rack) -> Cases:
    """Lines are compared by host, type and key: the salt makes each hashed line another text."""
    scanned = {
        (item.host, item.key_type): item.key
        for _, facts in rack.sources()
        for item in facts.each(ScannedKey)
    }
    for place, facts in rack.sources():
        lines = facts.each(KnownHost)
        hosts = _hosts(facts, rack)
        if len(lines) * len(hosts) > _HASHES:
            hosts = hosts[: _HASHES // len(lines)]
        for host in hosts:
            own = [item for item in lines if _stands_for(item, host)]
            yield from _judged(host, own, scanned, place)


def _judged(
    host: str, lines: list[KnownHost], scanned: dict[tuple[str, str], str], place: str
) -> Iterator[Case]:
    plain = [item for item in lines if item.marker is None]
    signed = any(item.marker == "cert-authority" for item in lines)
    for kind in sorted({item.key_type for item in plain}):
        same = [item for item in plain if item.key_type == kind]
        offered = scanned.get((host, kind))
        own = [item for item in same if not _is_part(item.key, offered, same)]
        if any(_is_part(offered, item.key, ()) for item in own):
            offered = None
        if not own:
            continue
        file = next((item.file for item in own if item.file), "known_hosts")
        values: dict[str, Any] = {"kind": kind, "file": file, **_at(place)}
        keys = {item.key for item in own}
        if offered and any(item.marker == "revoked" and item.key == offered for item in lines):
            yield case("revoked", host, **values)
        elif offered and offered not in keys and not signed:
            numbers = _numbers(own)
            yield case("stale", host, lines=numbers, new=fingerprint(offered), **values)
        elif len(keys) > 1:
            other = [item for item in own if offered and item.key != offered] or own
            yield case("conflict", host, lines=_numbers(other), observed=len(keys), **values)
        elif (count := _times(own)) > 1:
            yield case("duplicate", host, lines=_numbers(own), observed=count, **values)
        elif offered or (not scanned and any(item.source == "" for item in own)):
            # Of a file that was cut, other lines may be missing, and of a scan this host's.
            yield case("ok", host, **values)


def _is_part(key: str | None, offered: str | None, lines: Iterable[KnownHost]) -> bool:
    """Whether a key was cut: another one goes on where it ends."""
    if key is None:
        return False
    others = {offered or "", *(item.key for item in lines)}
    return any(other.startswith(key) and other != key for other in others)


def fingerprint(key: str) -> str:
    """``SHA256:...`` of a key in base64."""
    try:
        digest = hashlib.sha256(base64.b64decode(key)).digest()
    except ValueError:
        return "unknown"
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def _numbers(lines: Iterable[KnownHost]) -> str:
    return ", ".join(str(item.line) for item in lines)


def _times(lines: list[KnownHost]) -> int:
    """How often one file holds a key; lines of different files or cuts are no doubles."""
    files: set[tuple[str, str | None]] = {(i.source, i.file) for i in lines if i.file}
    files = files or {(lines[0].source, None)}
    most = 0
    for source, file in files:
        own = [item for item in lines if (item.source, item.file or file) == (source, file)]
        # ssh-keygen -F names all lines of a host; what else shows the file may count otherwise.
        found = [item for item in own if item.asked] or own
        most = max(most, len({item.line for item in found}))
    return most


@rack_check(
    "ssh.host-key",
    each_node=True,
    changed=Verdict.FAIL,
    unknown=Verdict.FAIL,
    unverified=Verdict.FAIL,
    revoked=Verdict.FAIL,
)
def host_key(rack: Rack) -> Cases:
    prints = {
        item.fingerprint: item.file
        for _, facts in rack.sources()
        for item in facts.each(Fingerprint)
    }
    # The message alone says less than those that come with it.
    known = any(
        item.kind in ("changed", "unknown-key", "revoked")
        for _, facts in rack.sources()
        for item in facts.each(SshFailure)
    )
    for place, facts in rack.sources():
        for item in facts.each(SshFailure):
            kind = item.key_type or "ED25519"
            values: dict[str, Any] = {
                "kind": kind,
                "file": f"/etc/ssh/ssh_host_{kind.lower()}_key.pub",
            }
            if item.kind == "changed":
                values["cause"] = (
                    "a key file that was read has this fingerprint: the node was installed again"
                    if item.fingerprint in prints
                    else "the node was installed again, its address went to another machine, or"
                    " somebody stands between"
                )
                yield case(
                    "changed",
                    item.host,
                    observed=item.fingerprint or "a fingerprint that was not pasted",
                    known=f"{item.path or 'known_hosts'} line {item.line or '?'}",
                    known_as=item.known_as or item.host,
                    known_file=item.path or "~/.ssh/known_hosts",
                    **values,
                    **_at(place),
                )
            elif item.kind == "unknown-key":
                yield case("unknown", item.host, **values, **_at(place))
            elif item.kind == "unverified" and not known:
                yield case("unverified", item.host or "a host", **values, **_at(place))
            elif item.kind == "revoked":
                yield case("revoked", item.host or "the host", **values, **_at(place))


_KEYS_FILE = ("/authorized_keys", "/authorized_keys2")


def key_paths(paths: Iterable[str]) -> list[str]:
    """The paths that StrictModes looks at: authorized_keys and its folders up to the home."""
    seen = list(paths)
    found = []
    for path in seen:
        files = [other for other in seen if other.endswith(_KEYS_FILE) or other.endswith("/.ssh")]
        below = any(
            other.startswith(f"{path}/") and "/.ssh" in other[len(path) :] for other in files
        )
        home = path.count("/") == 2 and path.startswith("/home/")
        own = path in files or (below and path not in ("/", "/home"))
        if own or path == "/root" or home:
            found.append(path)
    return found


def _owner_of(path: str) -> str | None:
    """Whose home a path lies in, by the usual names."""
    parts = path.split("/")
    return parts[2] if parts[1] == "home" and len(parts) > 2 else None


@rack_check(
    "ssh.authorized-keys",
    each_node=True,
    ok=Verdict.OK,
    modes=Verdict.FAIL,
    owner=Verdict.FAIL,
    refused=Verdict.FAIL,
    no_file=Verdict.FAIL,
)
def authorized_keys(rack: Rack) -> Cases:
    """Modes of the whole path, by what sshd said and by what a listing shows."""
    for place, facts in rack.sources():
        option = facts.first(SshdOption, name="strictmodes")
        if option and option.value.lower() == "no":
            continue
        modes = {item.path: item for item in facts.each(PathMode)}
        refused = [f.subject for f in facts.each(SshdRefusal) if f.kind == "modes"]
        for path in dict.fromkeys([*refused, *key_paths(modes)]):
            seen = modes.get(path)
            if seen is None:
                yield case("refused", path, right=_right(path), **_at(place))
                continue
            values: dict[str, Any] = {
                "observed": f"{seen.mode:o}",
                "right": _right(path),
                **_at(place),
            }
            owner = _owner_of(path)
            if seen.mode & 0o022:
                yield case("modes", path, **values)
            elif owner and seen.owner not in (None, "root", owner):
                yield case("owner", path, owner=seen.owner, expected=owner, **_at(place))
            else:
                yield case("ok", path, **values)
        for item in facts.each(SshdRefusal):
            if item.kind == "no-keys":
                yield case("no-file", item.subject, reason=item.reason, **_at(place))


def _right(path: str) -> str:
    """The command that gives a path the permissions sshd accepts."""
    if path.endswith("/.ssh"):
        return f"chmod 700 {path}"
    return f"chmod 600 {path}" if path.endswith(_KEYS_FILE) else f"chmod go-w {path}"


@rack_check("ssh.private-key", each_node=True, ok=Verdict.OK, too_open=Verdict.FAIL)
def private_key(rack: Rack) -> Cases:
    for place, facts in rack.sources():
        told = set()
        for item in facts.each(SshFailure):
            if item.kind == "too-open":
                told.add(item.path)
                observed = (item.mode or "").lstrip("0") or "too open"
                yield case("too-open", item.path, observed=observed, **_at(place))
        for seen in facts.each(PathMode):
            name = seen.path.rpartition("/")[2]
            key = "/.ssh/id_" in seen.path and not name.endswith((".pub", "-cert"))
            if key and seen.path not in told:
                name = "too-open" if seen.mode & 0o077 else "ok"
                yield case(name, seen.path, observed=f"{seen.mode:o}", **_at(place))


@rack_check(
    "ssh.login",
    each_node=True,
    denied=Verdict.ERROR,
    no_keys_offered=Verdict.FAIL,
    server=Verdict.FAIL,
    unreachable=Verdict.FAIL,
    closed=Verdict.ERROR,
    no_common=Verdict.FAIL,
    too_many=Verdict.FAIL,
)
def login(rack: Rack) -> Cases:
    """A refusal whose cause another finding tells is not told again."""
    explained = False
    for found in (authorized_keys(rack), private_key(rack), host_key(rack)):
        explained |= any(item.name not in ("ok", "changed") for item in found)
    for place, facts in rack.sources():
        for reason in _refusals(facts):
            explained = True
            yield case("server", place or "sshd", reason=reason, **_at(place))
    for place, facts in rack.sources():
        for item in facts.each(SshFailure):
            values: dict[str, Any] = {
                "reason": item.reason or "",
                "user": item.user or "the user",
                **_at(place),
            }
            subject = item.host or "the host"
            if item.kind in ("unreachable", "closed", "no-common", "too-many"):
                yield case(item.kind, subject, **values)
            elif item.kind == "denied" and not explained:
                offered = "publickey" in (item.reason or "")
                yield case("denied" if offered else "no-keys-offered", subject, **values)


def _refusals(facts: Facts) -> Iterator[str]:
    """What the server's log and settings say against logins with a key."""
    for item in facts.each(SshdRefusal):
        if item.kind == "not-allowed":
            yield f"user {item.subject} is not allowed: {item.reason}"
        elif item.kind == "root":
            yield "root may not log in (PermitRootLogin)"
        elif item.kind == "algorithm":
            yield f"keys of the type {item.subject} are not accepted (PubkeyAcceptedAlgorithms)"
    option = facts.first(SshdOption, name="pubkeyauthentication")
    if option and option.value.lower() == "no":
        yield "PubkeyAuthentication no: keys are not accepted at all"
