"""All checks. Each module holds those of one domain; they register themselves when imported."""

from __future__ import annotations

from collections.abc import Mapping

from rackready.check import NODE_CHECKS, RACK_CHECKS, Check, Rack, View
from rackready.checks import (
    accelerator,
    accelerator_health,
    bandwidth,
    collective_log,
    container,
    gpu,
    kernel_log,
    kernel_modules,
    limits,
    mpi,
    nccl_hca,
    network,
    node,
    nvshmem,
    pcie,
    pcie_health,
    pcie_routing,
    peer_memory,
    peer_module,
    qos,
    rack,
    rdma,
    roce,
    roce_job,
    roce_marks,
    sdk,
    ssh,
)
from rackready.finding import Finding

__all__ = [
    "accelerator",
    "accelerator_health",
    "bandwidth",
    "collective_log",
    "container",
    "gpu",
    "kernel_log",
    "kernel_modules",
    "limits",
    "mpi",
    "nccl_hca",
    "network",
    "node",
    "nvshmem",
    "pcie",
    "pcie_health",
    "pcie_routing",
    "peer_memory",
    "peer_module",
    "qos",
    "rack",
    "rdma",
    "roce",
    "roce_job",
    "roce_marks",
    "sdk",
    "ssh",
]


def all_checks() -> Mapping[str, Check]:
    """By id, those of single nodes first."""
    return {**NODE_CHECKS, **RACK_CHECKS}


def check_node(view: View, live: bool = False) -> list[Finding]:
    """Findings of one node; of a ``live`` one, with those of the checks for nodes and jobs."""
    host = view.node.name
    found = [finding for item in NODE_CHECKS.values() for finding in item.run(view, host)]
    if live:
        alone = Rack((view,), 1)
        checks = (item for item in RACK_CHECKS.values() if item.each_node)
        found += [finding for item in checks for finding in item.run(alone, host)]
    return found


def check_rack(seen: Rack, host: str = "rack", live: bool = False) -> list[Finding]:
    """
    Findings of all nodes together; ``host`` is what they stand under.

    ``live``: the nodes were looked at, and those checks are done that ``check_node`` does then.
    """
    checks = (item for item in RACK_CHECKS.values() if not (live and item.each_node))
    return [finding for item in checks for finding in item.run(seen, host)]
