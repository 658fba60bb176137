"""Containers: device nodes that can be opened, the host's network, locked and shared memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rackready.check import Case, Cases, Rack, View, case, rack_check
from rackready.checks.limits import TOO_LOW
from rackready.facts.parts.containers import Container
from rackready.facts.parts.devices import DeviceNode, Folder, OpenError, SharedMemory
from rackready.facts.parts.store import Facts
from rackready.finding import Verdict

_VERBS = "/dev/infiniband"
_CLASS = "/sys/class/infiniband"
_DEFAULT_SHM = 64 << 20
_SMALL_SHM = 1 << 30

# Nodes that say nothing about accelerators or RDMA: who may not open these is right so.
_SYSTEM = re.compile(
    r"/dev/(?:mem|kmem|port|kmsg|null|zero|full|tty\S*|pts|console|std\w+|fd|u?random|loop\S*|sd\w+"
    r"|nvme\S*|vd\w+|dm-\S+|mapper|disk|fuse|kvm|net|shm|mqueue|hugepages|sr\d|input|watchdog\S*"
    r"|rtc\S*|hpet|ipmi\S*|cpu\S*|core|log|snd)(?:/|$)"
)


def _places(rack: Rack) -> Iterator[tuple[str, Facts, View | None]]:
    """Facts of the job, and those of each host with its view."""
    yield "", rack.job, None
    for view in rack.views:
        yield view.node.name, view.node.facts, view


def _at(host: str) -> dict[str, Any]:
    return {"host": host} if host else {}


def _rdma_names(facts: Facts, view: View | None) -> tuple[str, ...]:
    """RDMA devices that sysfs shows, by whatever means they were seen."""
    folder = facts.first(Folder, path=_CLASS)
    if folder:
        return folder.names
    return tuple(device.name for device in (view.node.rdma or ())) if view else ()


@rack_check(
    "container.devices",
    each_node=True,
    ok=Verdict.OK,
    missing=Verdict.FAIL,
    absent=Verdict.WARN,
    accelerator=Verdict.FAIL,
    partial=Verdict.WARN,
    denied=Verdict.FAIL,
    forbidden=Verdict.FAIL,
    stale=Verdict.FAIL,
    not_allowed=Verdict.FAIL,
    bind_mount=Verdict.WARN,
    without_rdma=Verdict.WARN,
)
def devices(rack: Rack) -> Cases:
    denied = any(item.errno == "EPERM" for _, f, _ in _places(rack) for item in f.each(OpenError))
    for host, facts, view in _places(rack):
        told = [*_missing(rack, facts, view, host), *_errors(facts, host)]
        if not denied:
            told += _mounted(facts, host)
            told += _without(rack, facts, view, host)
        nodes = facts.first(Folder, path=_VERBS)
        if nodes and not told:
            told += _counted(nodes, _rdma_names(facts, view), host)
        yield from told


def _missing(rack: Rack, facts: Facts, view: View | None, host: str) -> Iterator[Case]:
    near = [other for other in rack.views if other is view or host == "container"]
    wanted = next((v.profile.device_nodes for v in near if v.profile), None)
    seen = any(v.wiring.accelerators or v.node.stack.accelerators for v in near)
    for item in facts.each(DeviceNode):
        if item.exists:
            continue
        if item.path == _VERBS or item.path.startswith(f"{_VERBS}/uverbs"):
            names = ", ".join(_rdma_names(facts, view)[:16])
            yield case("missing" if names else "absent", _VERBS, seen=names, **_at(host))
        elif wanted and seen and item.path in wanted.value:
            yield case("accelerator", item.path, **_at(host))


def _errors(facts: Facts, host: str) -> Iterator[Case]:
    for item in facts.each(OpenError):
        if _SYSTEM.match(item.path) or not item.errno:
            continue
        node = facts.first(DeviceNode, path=item.path)
        number = f" {node.major}:{node.minor}" if node and node.major is not None else ""
        rule = f"c {node.major}:* rwm" if node and node.major is not None else "c MAJOR:* rwm"
        mode = f"{node.mode} {node.owner}:{node.group}" if node and node.mode else "unknown"
        open_to_all = bool(node and node.mode and node.mode[7:9] == "rw")
        name = {"EPERM": "denied", "EACCES": "forbidden"}.get(item.errno, "stale")
        folder = _VERBS if item.path.startswith(f"{_VERBS}/") else item.path
        yield case(
            name,
            item.path,
            errno=item.errno,
            number=number,
            rule=rule,
            mode=mode,
            folder=folder,
            reason="its mode lets everybody in: SELinux or AppArmor forbids it"
            if open_to_all
            else "its mode or SELinux forbids it",
            **_at(host),
        )


def _mounted(facts: Facts, host: str) -> Iterator[Case]:
    """Containers that see the nodes by a mount alone: the device cgroup does not allow them."""
    if any(not item.errno for item in facts.each(OpenError)):
        return
    for item in facts.each(Container):
        if item.name == "pod":  # a piece of one: what is not in it may stand elsewhere
            continue
        mounted = any(path == _VERBS or path.startswith(f"{_VERBS}/") for path in item.mounts)
        allowed = item.privileged or item.rules or any(_VERBS in path for path in item.devices)
        asked = any(re.search(r"rdma|hca|roce|infiniband", name) for name in item.requests)
        if mounted and not allowed and not asked:
            name = "bind-mount" if item.kind == "pod" else "not-allowed"
            yield case(name, item.name, **_at(host))


def _without(rack: Rack, facts: Facts, view: View | None, host: str) -> Iterator[Case]:
    """Containers that get accelerators, and nothing of the RDMA devices that the host has."""
    sources: list[tuple[Facts, View | None]] = [(v.node.facts, v) for v in rack.views]
    if host or not sources:
        sources = [(facts, view)]
    names = next((found for f, v in sources if (found := _rdma_names(f, v))), ())
    for item in facts.each(Container):
        shown = bool(item.devices or item.requests) and item.kind != "pod"
        rdma = _uses_rdma(item) or item.privileged or item.rules
        if names and shown and not rdma:
            yield case("without-rdma", item.name, seen=", ".join(names[:16]), **_at(host))


def _counted(nodes: Folder, names: tuple[str, ...], host: str) -> Iterator[Case]:
    verbs = [name for name in nodes.names if name.startswith("uverbs")]
    if names and len(verbs) < len(names):
        values: dict[str, Any] = {
            "observed": len(verbs),
            "expected": len(names),
            "seen": ", ".join(names[:16]),
        }
        yield case("partial", _VERBS, **values, **_at(host))
    elif verbs:
        yield case("ok", _VERBS, observed=len(verbs), **_at(host))


def _uses_rdma(item: Container) -> bool:
    return any(path.startswith(_VERBS) for path in (*item.devices, *item.mounts)) or any(
        "rdma" in name for name in item.requests
    )


@rack_check("container.network", each_node=True, ok=Verdict.OK, bridge=Verdict.WARN)
def network(rack: Rack) -> Cases:
    """Networks by another name may be macvlan or SR-IOV: nothing is said of them."""
    for host, facts, view in _places(rack):
        layers = {p.link_layer for d in (view.node.rdma or () if view else ()) for p in d.ports}
        for item in facts.each(Container):
            if not _uses_rdma(item) or item.kind == "pod" or layers == {"InfiniBand"}:
                continue
            if item.network == "host":
                yield case("ok", item.name, observed="host", **_at(host))
            elif item.network in ("bridge", "none"):
                yield case("bridge", item.name, observed=item.network, **_at(host))


@rack_check(
    "container.memlock", each_node=True, ok=Verdict.OK, small=Verdict.FAIL, default=Verdict.WARN
)
def memlock(rack: Rack) -> Cases:
    for host, facts, _ in _places(rack):
        for item in facts.each(Container):
            free = item.privileged or {"IPC_LOCK", "ALL"} & set(item.capabilities)
            if item.kind == "pod" or not (_uses_rdma(item) or item.memlock is not None):
                continue
            if free or item.memlock == -1 or (item.memlock or 0) >= TOO_LOW:
                observed = "IPC_LOCK" if free else item.memlock
                yield case("ok", item.name, observed=observed, **_at(host))
            elif item.memlock is not None:
                observed = f"{item.memlock // 1024} KiB ({item.memlock} bytes)"
                yield case("small", item.name, observed=observed, expected=-1, **_at(host))
            elif item.kind == "run":
                yield case("default", item.name, **_at(host))


@rack_check("container.shm", each_node=True, ok=Verdict.OK, small=Verdict.WARN)
def shared_memory(rack: Rack) -> Cases:
    """Of containers that get accelerators or RDMA, and of /dev/shm where it has Docker's size."""
    for host, facts, _ in _places(rack):
        for item in facts.each(Container):
            if item.shm is None or not (item.devices or item.requests):
                continue
            if item.ipc == "host" or item.shm >= _SMALL_SHM:
                yield case("ok", item.name, observed=item.ipc or _mib(item.shm), **_at(host))
            else:
                yield case("small", item.name, observed=_mib(item.shm), **_at(host))
        seen = facts.first(SharedMemory)
        if seen and seen.size <= _DEFAULT_SHM:
            yield case("small", "/dev/shm", observed=_mib(seen.size), **_at(host))


def _mib(size: int) -> str:
    return f"{size >> 20} MiB"
