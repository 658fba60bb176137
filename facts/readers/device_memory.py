"""Lines of logs that tell whether NICs reach the memory of accelerators: NCCL and NVSHMEM."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackready.facts.parts.device_memory import DeviceSkipped, GpuDirect, TransportFailed
from rackready.facts.readers.reader import Output, reader

_GPU_DIRECT = re.compile(
    r"\b([A-Z]CCL) INFO NET/IB ?: GPU Direct RDMA (?:\([^)]{1,40}\) )?(Enabled|Disabled) for HCA "
    r"\d{1,4} '([^']{1,64})'",
    re.IGNORECASE,
)
_SKIPPED = re.compile(r"device (\S{1,64}) cannot allocate buffer on the specified memory type")
_FAILED = re.compile(r"init failed for (?:remote )?transport: (\w{1,20})")


def read_device_memory(output: Output) -> Iterator[object]:
    """The few lines of a log that tell of it; each kind only once for a device."""
    last: dict[tuple[str, str], bool] = {}
    for line in output.lines():
        if match := _GPU_DIRECT.search(line):
            last[match[1].upper(), match[3]] = match[2].lower() == "enabled"
        elif match := _SKIPPED.search(line):
            yield DeviceSkipped(match[1])
        elif match := _FAILED.search(line):
            yield TransportFailed(match[1], line[:200])
    for (library, device), enabled in last.items():
        yield GpuDirect(library, device, enabled)


READERS = (
    reader(
        "grep 'GPU Direct RDMA'",
        read_device_memory,
        command=r"[ef]?grep\s.*GPU Direct RDMA",
        shape=r"[A-Z]CCL INFO NET/IB ?: GPU Direct RDMA|init failed for (?:remote )?transport: \w"
        r"|cannot allocate buffer on the specified memory type",
    ),
)
