"""All readers, and which of them takes an output."""

from __future__ import annotations

from functools import lru_cache

from rackready.facts.readers import (
    collective,
    collective_log,
    connections,
    containers,
    copies,
    dcb,
    dcgm,
    device_memory,
    dmesg,
    driver_reports,
    gids,
    host,
    iommu,
    ip,
    launch,
    libfabric,
    limits,
    listing,
    lspci,
    lspci_tree,
    metax,
    metax_health,
    mlxconfig,
    module_files,
    modules,
    mpi_log,
    mxvs,
    networkd,
    nvidia_query,
    pci_files,
    perftest,
    port_counters,
    python,
    rdma_files,
    rdma_tools,
    roce_files,
    routing,
    services,
    setpci,
    smi,
    ssh,
    symbols,
    topology,
)
from rackready.facts.readers.reader import Reader

READERS: tuple[Reader, ...] = (
    *host.READERS,
    *launch.READERS,
    *mpi_log.READERS,
    *libfabric.READERS,
    *collective_log.READERS,
    *roce_files.READERS,
    *gids.READERS,
    *rdma_tools.READERS,
    *rdma_files.READERS,
    *ip.READERS,
    *connections.READERS,
    *lspci_tree.READERS,
    *lspci.READERS,
    *setpci.READERS,
    *iommu.READERS,
    *pci_files.READERS,
    *mlxconfig.READERS,
    *nvidia_query.READERS,
    *metax.READERS,
    *metax_health.READERS,
    *python.READERS,
    *limits.READERS,
    *listing.READERS,
    *containers.READERS,
    *ssh.READERS,
    *topology.READERS,
    *collective.READERS,
    *perftest.READERS,
    *mxvs.READERS,
    *dcgm.READERS,
    *copies.READERS,
    *modules.READERS,
    *module_files.READERS,
    *symbols.READERS,
    *dmesg.READERS,
    *device_memory.READERS,
    *smi.READERS,
    *driver_reports.READERS,
    *dcb.READERS,
    *port_counters.READERS,
    *routing.READERS,
    *services.READERS,
    *networkd.READERS,
)
"""In the order in which they are asked: the more special ones of a program first."""


@lru_cache(8192)
def by_command(command: str) -> Reader | None:
    """The reader of a simple command's output: ``/opt/mxdriver/bin/mx-smi -L``."""
    program, blank, rest = command.partition(" ")
    plain = program.rpartition("/")[2] + blank + rest
    return next((item for item in READERS if item.command.match(plain)), None)


@lru_cache(1024)
def by_line(line: str) -> Reader | None:
    """The reader of what a whole command line printed, such as a loop."""
    return next((item for item in READERS if item.line and item.line.search(line)), None)


def by_shape(text: str) -> tuple[Reader, ...]:
    """Readers whose kind of output a text holds; several, when outputs follow one another."""
    return tuple(item for item in READERS if item.shape and item.shape.search(text))
