"""How a healthy machine is set up for RDMA: limits, logins, routes, lossless queue, IOMMU."""

from __future__ import annotations

from rackready.emulator.files import Files
from rackready.emulator.machine import Machine
from rackready.emulator.topology import Function

_LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max locked memory         unlimited            unlimited            bytes"""
_RULES = """\
0:\tfrom all lookup local
32766:\tfrom all lookup main
32767:\tfrom all lookup default"""
_SYMBOLS = """\
ffffffffc0a1b2c0 T ib_register_peer_memory_client\t[ib_core]
ffffffffc0a1b440 T ib_unregister_peer_memory_client\t[ib_core]"""


def settings(machine: Machine) -> Files:
    files = Files()
    files.text("proc/sys/kernel/kptr_restrict", 1)
    files.text("proc/self/limits", _LIMITS)
    files.text("proc/kallsyms", _SYMBOLS)
    _login(files)
    _network(files, machine)
    _iommu(files, machine)
    for function in machine.rdma:
        # Only that driver has these files, and a virtual function has the queues of its parent.
        if function.device.driver == "mlx5_core" and not function.physical:
            _queues(files, function)
    return files


def _login(files: Files) -> None:
    files.contents["root/.ssh/authorized_keys"] = b""
    files.modes.update({"root": 0o700, "root/.ssh": 0o700, "root/.ssh/authorized_keys": 0o600})


def _network(files: Files, machine: Machine) -> None:
    names, routes = ["all"], []
    for function in machine.network:
        assert function.port is not None
        netdev, address = function.port.netdev, machine.address(function)
        names.append(netdev)
        if address is not None:
            routes.append(
                f"{address.network} dev {netdev} proto kernel scope link src {address.ip}"
            )
    files.text(".emulator/ip-rule", _RULES)
    files.text(".emulator/ip-route", "\n".join(routes))
    for name in names:
        files.texts(f"proc/sys/net/ipv4/conf/{name}", arp_announce=0, arp_ignore=0, rp_filter=0)


def _iommu(files: Files, machine: Machine) -> None:
    files.folders.append("sys/class/iommu/dmar0")
    for number, function in enumerate((*machine.accelerators, *machine.network)):
        group = f"sys/kernel/iommu_groups/{number}"
        files.text(f"{group}/type", "identity")
        files.link(f"{group}/devices/{function.bdf}", f"sys/devices/{function.path}")


def _queues(files: Files, function: Function) -> None:
    """PFC on the priority that the table, as the driver makes it, gives to the traffic class."""
    assert function.port is not None and function.card is not None
    netdev, tclass = function.port.netdev, function.card.traffic_class
    lossless = None if tclass is None else tclass >> 5
    rows = [
        f"\tprio:{priority} dscp:" + "".join(f"{8 * priority + 7 - n:02}," for n in range(8))
        for priority in range(8)
    ]
    flags = "   ".join("1" if priority == lossless else "0" for priority in range(8))
    files.text(
        f".emulator/mlnx_qos/{netdev}",
        "\n".join(
            [
                "DCBX mode: OS controlled",
                "Priority trust state: dscp",
                "dscp2prio mapping:",
                *rows,
                "PFC configuration:",
                "\tpriority    0   1   2   3   4   5   6   7",
                f"\tenabled     {flags}   ",
            ]
        ),
    )
    folder = f"sys/devices/{function.path}/net/{netdev}/ecn"
    for side in ("roce_np", "roce_rp"):
        files.texts(f"{folder}/{side}/enable", **{str(priority): 1 for priority in range(8)})
