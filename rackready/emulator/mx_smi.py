"""What the stand-in for mx-smi prints, in the layout of mx-smi 2.2.9."""

from __future__ import annotations

from collections.abc import Sequence

from rackready.emulator import identity
from rackready.emulator.machine import Machine
from rackready.emulator.topology import Function, distance

_IDLE_MIB = 826  # what driver and firmware keep for themselves
_RULE = "+------------------+-----------------+---------------------+----------------------+"
_UNAVAILABLE = "Not Available(MetaX Sysfs File Unaccessible)"


def tables(machine: Machine) -> dict[str, str]:
    """Parts of the output by name; tools/mx-smi puts them together."""
    gpus, nics = machine.accelerators, machine.rdma
    return {
        "version": f"mx-smi  version: {machine.description.software.tool}",
        "attached": f"{'Attached GPUs':50}: {len(gpus)}",
        "list": "\n".join(_list_row(machine, *gpu) for gpu in enumerate(gpus)),
        "table": "\n".join(_table(machine)),
        "topo-m": "\n".join(_matrix(machine, gpus, [])),
        "topo-n": "\n".join(_matrix(machine, gpus, nics)),
        "nics": "\n".join(f"  NIC{i}: {f.port.rdma}" for i, f in enumerate(nics) if f.port),
    }


def _available(machine: Machine, function: Function) -> bool:
    return function.gpu != machine.faults.accelerator_unavailable


def _list_row(machine: Machine, index: int, function: Function) -> str:
    uuid = identity.uuid(machine.name, function.bdf)
    state = f"Available (UUID: GPU-{uuid})" if _available(machine, function) else _UNAVAILABLE
    return f"GPU#{index:<5}{machine.description.accelerator.model:<12}{function.bdf}   {state}"


def _table(machine: Machine) -> list[str]:
    software = machine.description.software
    version, driver = f"MX-SMI {software.tool}", f"Kernel Mode Driver Version: {software.driver}"
    sdk, firmware = f"MACA Version: {software.sdk}", f"BIOS Version: {software.firmware}"
    lines = [
        "+---------------------------------------------------------------------------------+",
        f"| {version:35}{driver:45}|",
        f"| {sdk:35}{firmware:45}|",
        "|------------------+-----------------+---------------------+----------------------|",
        "| Board       Name | GPU   Persist-M | Bus-id              | GPU-Util      sGPU-M |",
        "| Pwr:Usage/Cap    | Temp       Perf | Memory-Usage        | GPU-State            |",
        "|==================+=================+=====================+======================|",
    ]
    for index, function in enumerate(machine.accelerators):
        lines += _rows(machine, index, function)
    return lines


def _rows(machine: Machine, index: int, function: Function) -> list[str]:
    accelerator = machine.description.accelerator
    power = f"{55 + identity.number(2, machine.name, function.bdf)}W / {accelerator.power_cap_w}W"
    temperature = f"{33 + identity.number(2, function.bdf, machine.name)}C"
    memory = f"{_IDLE_MIB}/{accelerator.memory_mib} MiB"
    state = "Available" if _available(machine, function) else "Not Available"
    return [
        f"| {index:<4}{accelerator.name:>12} | {index:<4}{'Off':>11} "
        f"| {function.bdf:<19} | {'0%':<4}{'Disabled':>16} |",
        f"| {power:<16} | {temperature:<4}{'P0':>11} | {memory:<19} | {state:<20} |",
        _RULE,
    ]


def _matrix(machine: Machine, gpus: Sequence[Function], nics: Sequence[Function]) -> list[str]:
    names = [f"GPU{number}" for number in range(len(gpus))]
    names += [f"NIC{number}" for number in range(len(nics))]
    columns = "".join(f"{name:8}" for name in ("", *names))
    lines = [f"{columns}Node Affinity  CPU Affinity"]
    for name, one in zip(names, (*gpus, *nics), strict=True):
        cells = [name, *(_link(machine, one, other) for other in (*gpus, *nics))]
        line = "".join(f"{cell:8}" for cell in cells)
        if one in gpus:
            line += f"{one.numa:<15}{machine.description.system.numa_cpus[one.numa]}"
        lines.append(line.rstrip())
    return lines


def _link(machine: Machine, one: Function, other: Function) -> str:
    groups = machine.description.accelerator.scale_up
    accelerators = one.port is None and other.port is None and one != other
    if accelerators and any({one.gpu, other.gpu} <= set(group) for group in groups):
        return "MX"
    return distance(one, other)
