"""Small facts about a host that several domains look at: services, kernel settings, packages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Service:
    """A systemd unit; its name without ``.service``."""

    IDENTITY: ClassVar = (("name",),)

    name: str
    active: str | None = None  # "active", "inactive", "failed", ...
    enabled: str | None = None  # "enabled", "disabled", "masked", ...


@dataclass(frozen=True)
class Setting:
    """A kernel setting of ``/proc/sys``, by its dotted name: ``net.ipv4.conf.all.rp_filter``."""

    IDENTITY: ClassVar = (("name",),)

    name: str
    value: str


@dataclass(frozen=True)
class Package:
    """A package of the system's own package manager; ``version`` None = it is not installed."""

    IDENTITY: ClassVar = (("name",),)

    name: str
    version: str | None
    installed: bool


@dataclass(frozen=True)
class Environment:
    """Environment variables of a shell, a job or a container. ``command`` is what printed them."""

    IDENTITY: ClassVar = (("command",),)

    command: str
    values: Mapping[str, str]
