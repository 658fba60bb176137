"""Operating system, kernel, privileges, machine, from the listings of the probe."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rackready.facts.model import System
from rackready.facts.readers.sysfs import lines, number


def read_os_release(text: str) -> dict[str, str]:
    """``ID="ubuntu"`` -> {"ID": "ubuntu"}."""
    pairs = (line.partition("=") for _, line in lines(text))
    return {key.strip(): value.strip().strip("\"'") for key, equals, value in pairs if equals}


def read_lockdown(text: str) -> str | None:
    """``none [integrity] confidentiality`` -> ``integrity``."""
    match = re.search(r"\[(\w+)\]", text)
    return match[1] if match else None


def read_system(outputs: Mapping[str, str]) -> System:
    """
    Facts about the host; ``outputs`` maps each of the probe's commands to what it printed.

    A command that failed is not in it: its facts are unknown.
    """

    def line(command: str) -> str | None:
        return next((text for _, text in lines(outputs.get(command, ""))), None)

    def after_colon(command: str) -> str | None:
        text = line(command)
        return None if text is None else text.partition(":")[2].strip()

    def fields(command: str) -> dict[str, str]:
        pairs = (text.partition(":") for _, text in lines(outputs.get(command, "")))
        return {key: value.strip() for key, _, value in pairs}

    release = read_os_release(outputs.get("cat /etc/os-release", ""))
    ids, dmi = fields(PRIVILEGES), fields(DMI)
    uid = ids.get("Uid", "").split()  # real, effective, saved and file system
    memory = (after_colon("grep MemTotal /proc/meminfo") or "").split()
    lockdown = outputs.get("cat /sys/kernel/security/lockdown")
    return System(
        hostname=line("cat /proc/sys/kernel/hostname"),
        os_id=release.get("ID"),
        os_version=release.get("VERSION_ID"),
        os_name=release.get("PRETTY_NAME"),
        kernel=line("cat /proc/sys/kernel/osrelease"),
        machine=line("uname -m"),
        cmdline=line("cat /proc/cmdline"),
        boot_id=line("cat /proc/sys/kernel/random/boot_id"),
        uid=number(uid[1]) if len(uid) > 1 else None,
        capabilities=number(ids.get("CapEff"), 16),
        lockdown=None if lockdown is None else read_lockdown(lockdown),
        clock=number(line("date +%s")),
        cpu=after_colon("grep -m 1 '^model name' /proc/cpuinfo"),
        memory_kib=number(memory[0]) if memory else None,
        vendor=dmi.get("sys_vendor"),
        product=dmi.get("product_name"),
        serial=dmi.get("product_serial") or dmi.get("board_serial"),
        bios=dmi.get("bios_version"),
        emulated="emulated" in outputs.get(EMULATED, ""),
    )


PRIVILEGES = "grep -E '^(Uid|Gid|CapEff):' /proc/self/status"
DMI = (
    "cd /sys/class/dmi/id && "
    "grep -s '' sys_vendor product_name product_serial board_serial bios_version bios_date"
)
EMULATED = "test -e /.rackready-emulated && echo emulated"
