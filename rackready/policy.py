"""Policy: what a site wants, what it allows, and which known quirks it lives with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from fnmatch import fnmatchcase
from functools import lru_cache
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, ValidationError, model_validator

from rackready.change import Risk
from rackready.document import Document, DocumentError, Record, distance, hint, nearest
from rackready.fold import unfold

_HEXADECIMAL = re.compile(r"0x[0-9a-f]{1,8}", re.IGNORECASE)  # only a number is written so


class PolicyError(DocumentError):
    """All that is wrong with a policy."""


def _power_of_two(value: int) -> int:
    if value.bit_count() != 1:
        raise ValueError("should be a power of two")
    return value


def _read_request(value: int) -> int:
    if value == 128:
        raise ValueError(
            "128 is never written: the field of a virtual function reads so, whatever it does,"
            " and no product asks for less than 256"
        )
    return value


def _subnet(text: str) -> str:
    if "/" not in text:
        raise ValueError("should be a subnet such as 10.2.122.0/24")
    network = ip_network(text, strict=False)
    if str(network.network_address) != str(ip_address(text.partition("/")[0])):
        raise ValueError(f"is an address in a subnet; did you mean {network}?")
    return str(network)


def _pattern(text: str) -> str:
    if not text or any(character.isspace() for character in text):
        raise ValueError("should be node names, a node set or a pattern, without blanks")
    if _is_glob(text):
        if "[" in text:
            raise ValueError("is half a node set and half a pattern; use one of them")
        return text
    if not _names(text):
        raise ValueError("names no node")
    return text


def _plain(item: object) -> str:
    if isinstance(item, Waiver):
        return f"{item.check} on {item.hosts} until {item.until}"
    return item.value if isinstance(item, Risk) else str(item)


def _is_glob(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern


@lru_cache
def _names(pattern: str) -> frozenset[str]:
    return frozenset(unfold(pattern))


Word = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Waiver(Record):
    """A finding that the site lives with until a date: shown, but not counted."""

    check: Word
    reason: Word
    until: date  # the last day
    # node set, or patterns with * and ?
    hosts: Annotated[str, AfterValidator(_pattern)] = "*"

    def covers(self, check: str, host: str) -> bool:
        if check != self.check:
            return False
        if _is_glob(self.hosts):
            return any(fnmatchcase(host, pattern) for pattern in self.hosts.split(","))
        return host in _names(self.hosts)


class Policy(Record):
    """
    What a site wants. None = no wish of its own.

    A wish of the site wins over the product's profile; ``gid_version`` and ``gid_family`` are
    wanted everywhere.
    """

    accelerators: Annotated[int, Field(ge=1, le=1024)] | None = None  # in each node
    max_read_request: (
        Annotated[
            int,
            AfterValidator(_read_request),
            Field(ge=256, le=4096),
            AfterValidator(_power_of_two),
        ]
        | None
    ) = None
    max_payload: Annotated[int, Field(ge=128, le=4096), AfterValidator(_power_of_two)] | None = None
    gid_version: Literal["v1", "v2"] = "v2"
    gid_family: Literal["ipv4", "ipv6"] = "ipv4"
    gid_index: Annotated[int, Field(ge=0, le=255)] | None = None
    rdma_subnet: Annotated[str, AfterValidator(_subnet)] | None = None
    traffic_class: Annotated[int, Field(ge=0, le=255)] | None = None
    dscp: Annotated[int, Field(ge=0, le=63)] | None = None
    roce_priority: Annotated[int, Field(ge=0, le=7)] | None = None
    mtu: Annotated[int, Field(ge=1280, le=65520)] | None = None  # IPv6 at least, IPoIB at most
    compute_nics: tuple[Word, ...] | None = None
    # None: what traffic notices is allowed on an idle node only
    allow: tuple[Risk, ...] | None = None
    goal: Literal["configured", "ready"] = "configured"
    waive: tuple[Waiver, ...] = ()

    @model_validator(mode="after")
    def _traffic_class_holds_dscp(self) -> Policy:
        if self.traffic_class is not None and self.dscp not in (None, self.traffic_class >> 2):
            raise ValueError(
                f"traffic_class {self.traffic_class} holds DSCP {self.traffic_class >> 2},"
                f" not {self.dscp}"
            )
        return self

    @classmethod
    def from_file(cls, path: Path) -> Policy:
        """Raises PolicyError that names file and line; any unknown key is an error."""
        try:
            return cls._from_document(Document.from_file(path))
        except DocumentError as error:
            raise PolicyError(error.problems) from error

    @classmethod
    def from_data(cls, data: Mapping[str, Any], where: str) -> Policy:
        """
        The policy among the data of a host, which holds the site's own keys as well.

        Only a key that is very near to one of ours is an error, then. The key ``policy`` may name a
        file; what the data say themselves wins over it. Raises PolicyError.
        """
        ours = {key: _value(key, data[key]) for key in data if key in cls.model_fields}
        problems = [
            f"{where}: unknown key {key!r}; did you mean {meant!r}?"
            for key in data
            if key not in ours and (meant := _near_miss(key))
        ]
        document, named = Document(ours, where), data.get("policy")
        try:
            if isinstance(named, str) and named.endswith((".yaml", ".yml")):
                document = document.over(Document.from_file(Path(named)))
            policy = cls._from_document(document)
        except DocumentError as error:
            raise PolicyError([*problems, *error.problems]) from error
        if problems:
            raise PolicyError(problems)
        return policy

    @classmethod
    def _from_document(cls, document: Document) -> Policy:
        try:
            return cls.model_validate_json(document.as_json())
        except ValidationError as error:
            raise PolicyError(document.problems(error, cls)) from error
        except (TypeError, ValueError, RecursionError) as error:  # data that is no plain data
            raise PolicyError([f"{document.where}: {error}"]) from error

    def is_wish(self, key: str) -> bool:
        """True when the site itself says it: not a default of ours."""
        return key in self.model_fields_set and getattr(self, key) is not None

    def summary(self) -> str:
        """What the site itself says, in one line."""
        told = [
            f"{key} {', '.join(map(_plain, value)) if isinstance(value, tuple) else value}"
            for key in type(self).model_fields
            if self.is_wish(key) and (value := getattr(self, key)) != ()
        ]
        return "; ".join(told) or "the site wishes nothing, the profiles stand in"

    def allows(self, risk: Risk, idle: bool) -> bool:
        """Consent to a change; ``idle``: nothing on the node would notice it."""
        if self.allow is not None:
            return risk in self.allow
        return risk is Risk.NONE or (risk is Risk.TRAFFIC and idle)

    def waiver_for(self, check: str, host: str, today: date) -> Waiver | None:
        """The waiver in force for a finding, if there is one."""
        return next((w for w in self._waivers(check, host) if w.until >= today), None)

    def expired_waiver_for(self, check: str, host: str, today: date) -> Waiver | None:
        """A waiver that would have covered a finding, had it not run out."""
        if self.waiver_for(check, host, today):
            return None
        return next(self._waivers(check, host), None)

    def _waivers(self, check: str, host: str) -> Iterator[Waiver]:
        return (waiver for waiver in self.waive if waiver.covers(check, host))

    def require_checks(self, known: Iterable[str]) -> None:
        """Raises PolicyError for a waiver of a check that does not exist."""
        known = set(known)
        problems = [
            f"waive: no check {waiver.check!r}{hint(waiver.check, known)}"
            for waiver in self.waive
            if waiver.check not in known
        ]
        if problems:
            raise PolicyError(problems)


def _value(key: str, value: Any) -> Any:
    """What a command line gives as text: ``allow=none,traffic``, ``traffic_class=0xa0``."""
    if not isinstance(value, str):
        return value
    if key in ("allow", "compute_nics"):
        return [word.strip() for word in value.split(",") if word.strip()]
    return int(value, 16) if _HEXADECIMAL.fullmatch(value) else value


def _near_miss(key: object) -> str:
    """The key of ours that a key of a site was most likely meant to be; "" when it is its own."""
    # keys that begin so are pyinfra's
    if not isinstance(key, str) or key.startswith(("_", "ssh_")):
        return ""
    word = key.lower().replace("-", "_")
    meant = nearest(word, Policy.model_fields)
    # two letters make another word of a short one: ntp is no mtu
    limit = min(2, max(1, len(meant) // 3))
    return meant if meant and distance(word, meant, limit) <= limit else ""
