"""What else a machine shows: /proc, /etc, /dev, the driver's tools and the other stand-ins."""

from __future__ import annotations

from rackready.emulator import identity, mx_smi
from rackready.emulator.description import Faults
from rackready.emulator.files import Files
from rackready.emulator.machine import Machine

# Folders that every machine has: those that our changes go into, and those that a running systemd
# and udev are recognised by.
_FOLDERS = (
    "etc/systemd/system/multi-user.target.wants",
    "etc/udev/rules.d",
    "root",
    "run/systemd/system",
    "tmp",
    "usr/local/lib",
    "var/lib",
)
_STAND_INS = {
    "sbin/dmesg": "dmesg",
    "sbin/ip": "ip",
    "sbin/modinfo": "modinfo",
    "bin/mlnx_qos": "mlnx_qos",
    "bin/systemctl": "systemctl",
    "bin/udevadm": "udevadm",
}
# What the kernel says where the driver may not have the symbol.
_PEER_MEMORY_REFUSED = (
    "failing symbol_get of non-GPLONLY symbol ib_register_peer_memory_client.",
    "failing symbol_get of non-GPLONLY symbol ib_register_peer_memory_client.",
    "failing symbol_get of non-GPLONLY symbol ib_unregister_peer_memory_client.",
    "failing symbol_get of non-GPLONLY symbol ib_unregister_peer_memory_client.",
    "MXCD.PEER.INFO Peer memory client interface was not detected",
)


def node_files(machine: Machine) -> Files:
    files = Files(folders=list(_FOLDERS))
    _proc(files, machine)
    _etc(files, machine)
    _dev(files, machine)
    _driver(files, machine)
    _stand_ins(files, machine)
    return files


def _proc(files: Files, machine: Machine) -> None:
    system = machine.description.system
    files.texts("proc/sys/kernel", hostname=machine.name, osrelease=system.kernel)
    files.text("proc/sys/kernel/random/boot_id", identity.uuid(machine.name, "boot"))
    files.text("proc/cmdline", _command_line(machine))
    files.text("proc/cpuinfo", "processor\t: 0\nmodel name\t: rackready emulated processor")
    files.text("proc/meminfo", f"MemTotal:       {system.memory_gib << 20} kB")
    # Whoever runs it: in the tree everybody may do what root may do on a node.
    files.text("proc/self/status", "Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff")
    modules = [
        ("metax", 6299648, 0, "-"),
        ("mlx5_ib", 442368, 0, "-"),
        ("mlx5_core", 2162688, 1, "mlx5_ib,"),
        ("ib_uverbs", 163840, 1, "mlx5_ib,"),
        ("ib_core", 442368, 2, "mlx5_ib,ib_uverbs,"),
    ]
    if any(f.device.driver == "metax_rdma" for f in machine.functions):
        modules[0] = ("metax", 6299648, 1, "metax_rdma,")
        modules.insert(0, ("metax_rdma", 262144, 0, "-"))
    files.text(
        "proc/modules",
        "\n".join(
            f"{name} {size} {references} {holders} Live 0x0000000000000000 (OE)"
            for name, size, references, holders in modules
        ),
    )


def _command_line(machine: Machine) -> str:
    root = identity.uuid(machine.name, "root")
    kernel = machine.description.system.kernel
    return f"BOOT_IMAGE=/boot/vmlinuz-{kernel} root=UUID={root} ro iommu=pt"


def _etc(files: Files, machine: Machine) -> None:
    system = machine.description.system
    files.text(
        "etc/os-release",
        f'PRETTY_NAME="{system.os_name}"\nVERSION_ID="{system.os_version}"\nID={system.os_id}',
    )
    files.text("etc/hostname", machine.name)


def _dev(files: Files, machine: Machine) -> None:
    count = len(machine.accelerators)
    nodes = ["mxcd", "dri/card0", "infiniband/rdma_cm"]
    nodes += [f"dri/card{number + 1}" for number in range(count)]
    nodes += [f"dri/renderD{number + 128}" for number in range(count)]
    nodes += [f"infiniband/uverbs{number}" for number in range(len(machine.rdma))]
    files.contents.update({f"dev/{node}": b"" for node in nodes})


def _driver(files: Files, machine: Machine) -> None:
    software = machine.description.software
    sdk = f"opt/maca-{software.sdk}"
    files.text(f"{sdk}/Version.txt", f"Version:{software.sdk}")
    files.link("opt/maca", sdk)
    files.text("opt/mxdriver/Version.txt", f"Version:{software.sdk}")
    hung = machine.faults.hung_tool == "mx-smi"
    files.tools["opt/mxdriver/bin/mx-smi"] = "hung" if hung else "mx-smi"
    for name, content in mx_smi.tables(machine).items():
        files.text(f".emulator/mx-smi/{name}", content)


def _stand_ins(files: Files, machine: Machine) -> None:
    faults = machine.faults
    files.tools.update(_STAND_INS)
    if faults.lockdown:
        files.tools["sbin/setpci"] = "setpci-locked-down"
    if login := _login(faults):
        files.tools[".emulator/login"] = login
    files.contents["run/udev/control"] = b""
    files.contents[".emulator/bytes"] = bytes(range(256))
    files.text(".emulator/dmesg", "\n".join(_kernel_log(machine)))
    files.text(".emulator/ip-addr", "\n".join(_addresses(machine)))
    software = machine.description.software
    files.texts(".emulator/modinfo/metax", version=software.driver, import_ns="DMA_BUF")
    files.text(".emulator/modinfo/mlx5_core/version", software.ofed)


def _login(faults: Faults) -> str:
    """What runs before each command, as a shell's start-up file does."""
    if faults.garbage:
        return "garbage"
    return "noise" if faults.noise else ""


def _kernel_log(machine: Machine) -> list[str]:
    kernel = machine.description.system.kernel
    lines = [
        f"Linux version {kernel} (rackready emulated kernel)",
        f"Command line: {_command_line(machine)}",
        "MXCD.PEER.INFO Try to initialize peer memory client support",
    ]
    if machine.faults.peer_memory == "refused":
        lines += _PEER_MEMORY_REFUSED
    return [f"[{12 + number / 1000:12.6f}] {line}" for number, line in enumerate(lines)]


def _addresses(machine: Machine) -> list[str]:
    forever = r"\       valid_lft forever preferred_lft forever"
    lines = [f"1: lo    inet 127.0.0.1/8 scope host lo{forever}"]
    for number, function in enumerate(machine.network, 2):
        assert function.port is not None
        netdev = function.port.netdev
        address = machine.address(function)
        if address is not None:
            broadcast = address.network.broadcast_address
            lines.append(
                f"{number}: {netdev}    inet {address} brd {broadcast} scope global {netdev}"
                f"{forever}"
            )
        link_local = identity.address_text(machine.link_local(function))
        lines.append(f"{number}: {netdev}    inet6 {link_local}/64 scope link {forever}")
    return lines
