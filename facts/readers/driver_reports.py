"""What drivers, images and package managers say of versions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rackready.facts.parts.smi import (
    ContainerSdk,
    DriverLoaded,
    FabricManagerMismatch,
    FabricNotReady,
    ToolReport,
    Upgrade,
)
from rackready.facts.readers.reader import Output, reader

_NVRM = re.compile(r"NVRM version: .{1,80}?  ?(\d{2,4}\.\d{1,4}(?:\.\d{1,4})?)\s")
_FABRIC_MANAGER = re.compile(
    r"driver interface version (\d[\d.]*\d) don't match with driver version (\d[\d.]*\d)"
)
_BANNER = re.compile(r"(?:PPU )?SDK Version *: *v?(\d+(?:\.\d+){1,3}[\w-]*)")
_DRIVER = re.compile(r"Driver Version +: (\S+)")
_UPGRADED = re.compile(r"([a-z0-9][\w.+-]{1,80})(?::\w+)? \((\S+), (\S+?)\)")


def read_nvrm(output: Output) -> Iterator[DriverLoaded]:
    """``/proc/driver/nvidia/version``."""
    if not output.text.strip() or "No such file" in output.text:
        return
    if match := _NVRM.search(output.text + "\n"):
        yield DriverLoaded("nvidia", match[1])
    else:
        output.note("the driver's version file could not be understood")


def read_fabric_manager(output: Output) -> Iterator[FabricManagerMismatch]:
    """``journalctl -u nvidia-fabricmanager``: it refuses a driver of another version."""
    for line in output.lines():
        if match := _FABRIC_MANAGER.search(line):
            yield FabricManagerMismatch(match[1], match[2])


_NOT_READY = re.compile(
    r"[^\n]{0,160}(?:system not yet initialized|cudaErrorSystemNotReady"
    r"|CUDA_ERROR_SYSTEM_NOT_READY)[^\n]{0,80}"
)


def read_not_ready(output: Output) -> Iterator[FabricNotReady]:
    """``CUDA error: system not yet initialized``, in the words of whatever program met it."""
    if match := _NOT_READY.search(output.text):
        yield FabricNotReady(match[0].strip())


def read_banner(output: Output) -> Iterator[object]:
    """Start-up lines of an image with an SDK of its own."""
    if match := _BANNER.search(output.text):
        yield ContainerSdk(match[1])
    if match := _DRIVER.search(output.text):
        yield ToolReport("ppu-smi", driver=match[1])


def read_apt_history(output: Output) -> Iterator[Upgrade]:
    """``/var/log/apt/history.log``: what was upgraded, and by which command."""
    by = ""
    for line in output.lines():
        key, _, value = line.partition(": ")
        if key == "Commandline":
            by = value
        elif key == "Upgrade":
            for match in _UPGRADED.finditer(value):
                yield Upgrade(match[1], match[2], match[3], by)


READERS = (
    reader(
        "journalctl -u nvidia-fabricmanager",
        read_fabric_manager,
        command=r"journalctl\b[^\n]{0,80}fabricmanager|cat\s+\S{0,200}fabricmanager\S{0,80}\.log",
        shape=r"\bnv-fabricmanager\[\d+\]: |\bnvidia-fabricmanager\S{0,40}\[\d+\]: ",
    ),
    reader(
        "program that starts CUDA",
        read_not_ready,
        shape=r"system not yet initialized|cudaErrorSystemNotReady|CUDA_ERROR_SYSTEM_NOT_READY",
    ),
    reader("cat /proc/driver/nvidia/version", read_nvrm, shape=r"^NVRM version: "),
    reader(
        "cat /var/log/apt/history.log",
        read_apt_history,
        command=r"(?:cat|tail|head|zcat|grep)\s.*apt/history\.log",
        shape=r"^Start-Date: .*\nCommandline: ",
    ),
    reader(
        "docker logs",
        read_banner,
        command=r"docker logs\b",
        shape=r"^PPU SDK Version: ",
    ),
)
