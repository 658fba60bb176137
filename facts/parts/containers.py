"""How a container is started: devices, network, limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Container:
    """
    A container as its engine, its command line or its pod describes it; None = it does not say.

    ``kind`` is "inspect", "run" or "pod". ``requests`` are devices that are asked for by another
    name than their node: a resource of a device plugin, a CDI name.
    """

    IDENTITY: ClassVar = (("name",),)

    name: str
    kind: str
    privileged: bool | None = None
    network: str | None = None  # "host", "bridge", "none", the name of another network
    ipc: str | None = None  # "host", "private", "shareable"
    shm: int | None = None  # bytes of /dev/shm
    memlock: int | None = None  # soft limit in bytes, -1 = unlimited
    devices: tuple[str, ...] = ()  # nodes and folders of the host that it may open
    rules: tuple[str, ...] = ()  # rules of the device cgroup: "c 231:* rwm"
    mounts: tuple[str, ...] = ()  # paths within the container
    capabilities: tuple[str, ...] = ()  # without CAP_
    requests: tuple[str, ...] = ()
