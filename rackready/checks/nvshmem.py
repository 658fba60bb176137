"""NVSHMEM's transport IBGDA: may accelerators drive the NICs themselves?"""

from __future__ import annotations

from rackready.check import Cases, Rack, case, rack_check
from rackready.checks.peer_module import is_loaded
from rackready.facts.model import Node
from rackready.facts.parts.device_memory import DeviceSkipped, TransportFailed
from rackready.facts.parts.host import Environment
from rackready.facts.parts.modules import DriverParameters
from rackready.finding import Verdict

_COPY = "gdrdrv"  # with it the CPU rings the doorbell, and the driver needs no options


@rack_check(
    "nvshmem.ibgda",
    ok=Verdict.OK,
    options=Verdict.FAIL,
    options_unset=Verdict.WARN,
    options_set=Verdict.FAIL,
    unknown=Verdict.FAIL,
)
def ibgda(seen: Rack) -> Cases:
    """The failure is in a job's log, its cause among the parameters of each node's driver."""
    failed = [facts for _, facts in seen.sources() if _failed(facts.each(TransportFailed))]
    wished = any(
        _is_on(values.get("NVSHMEM_IB_ENABLE_IBGDA"))
        for _, facts in seen.sources()
        for values in (item.values for item in facts.each(Environment))
    )
    if not failed and not wished:
        return
    skipped = [item.device for facts in failed for item in facts.each(DeviceSkipped)]
    names = ", ".join(dict.fromkeys(skipped)) or "no device"
    explained = False
    known, unsure = False, False
    for view in seen.views:
        missing = _missing(view.node)
        if missing is None:
            unsure = True
            continue
        known = True
        loaded = is_loaded(view.node, _COPY)
        words = {True: "is loaded", False: "is not loaded", None: "is not shown"}[loaded]
        if missing and (failed or loaded is False):
            explained = True
            kind = "options" if failed else "options-unset"
            yield case(
                kind,
                "IBGDA",
                host=view.node.name,
                missing=" and ".join(missing),
                copy=words,
                observed=", ".join(missing),
            )
        elif not failed:
            yield case("ok", "IBGDA", host=view.node.name)
    if failed and not explained:
        kind = "options-set" if known and not unsure else "unknown"
        yield case(kind, "IBGDA", names=names)


def _failed(transports: tuple[TransportFailed, ...]) -> bool:
    return any("IBGDA" in item.transport.upper() for item in transports)


def _is_on(value: str | None) -> bool:
    return value is not None and value.lower() in ("1", "true", "yes", "on", "y")


def _missing(node: Node) -> list[str] | None:
    """What the driver runs without; None when that is not known: a parameter is not shown."""
    driver = node.facts.first(DriverParameters, driver="nvidia")
    if driver is None:
        return None
    found = []
    operations = driver.values.get("EnableStreamMemOPs")
    if operations is not None and operations != "1":
        found.append(f"EnableStreamMemOPs: {operations}")
    words = driver.values.get("RegistryDwords")
    if words is not None and "PeerMappingOverride=1" not in words.replace(" ", ""):
        found.append("no PeerMappingOverride")
    return None if not found and None in (operations, words) else found
