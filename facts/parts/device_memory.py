"""What libraries log about NICs that reach, or fail to reach, the memory of accelerators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class GpuDirect:
    """A collective library's word on one RDMA device; a later line is the newer one."""

    IDENTITY: ClassVar = ()

    library: str  # "NCCL", "MCCL", ...
    device: str
    enabled: bool


@dataclass(frozen=True)
class DeviceSkipped:
    """NVSHMEM found that a NIC can't take buffers in the accelerator's memory."""

    IDENTITY: ClassVar = (("device",),)

    device: str


@dataclass(frozen=True)
class TransportFailed:
    """A transport of NVSHMEM (or a library like it) that could not start."""

    IDENTITY: ClassVar = (("transport",),)

    transport: str  # "IBGDA", "IBRC", ...
    reason: str
