"""All checks. Each module holds those of one domain; they register themselves when imported."""

from __future__ import annotations

from collections.abc import Mapping

from rackready.check import NODE_CHECKS, RACK_CHECKS, Check, Rack, View
from rackready.checks import (
    accelerator,
    accelerator_health,
    container,
    gpu,
    kernel_log,
    kernel_modules,
    limits,
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
    roce,
    roce_marks,
    sdk,
    ssh,
)
from rackready.finding import Finding

__all__ = [
    "accelerator",
    "accelerator_health",
    "container",
    "gpu",
    "kernel_log",
    "kernel_modules",
    "limits",
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
    "roce",
    "roce_marks",
    "sdk",
    "ssh",
]


def all_checks() -> Mapping[str, Check]:
    """By id, those of single nodes first."""
    return {**NODE_CHECKS, **RACK_CHECKS}


def check_node(view: View) -> list[Finding]:
    return [finding for item in NODE_CHECKS.values() for finding in item.run(view, view.node.name)]


def check_rack(seen: Rack, host: str = "rack") -> list[Finding]:
    """Findings of all nodes together; ``host`` is what they stand under."""
    return [finding for item in RACK_CHECKS.values() for finding in item.run(seen, host)]
