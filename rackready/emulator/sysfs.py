"""What the kernel shows of a machine below /sys."""

from __future__ import annotations

from rackready.emulator import identity
from rackready.emulator.config_space import config_space
from rackready.emulator.files import Files
from rackready.emulator.machine import Machine
from rackready.emulator.topology import ENDPOINT, Function

_GID_SLOTS = 16
_SPEEDS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}  # GT/s
_RATES = {1: "1X SDR", 25: "1X EDR", 100: "4X EDR", 200: "4X HDR", 400: "4X NDR"}


def sysfs(machine: Machine) -> Files:
    files = Files()
    for function in machine.functions:
        _pci(files, machine, function)
    for function in machine.network:
        _net(files, machine, function)
    for function in machine.rdma:
        _rdma(files, machine, function)
    _loopback(files)
    _accelerators(files, machine)
    _modules(files, machine)
    _firmware(files, machine)
    lockdown = machine.faults.lockdown or "none"
    states = ("none", "integrity", "confidentiality")
    files.text(
        "sys/kernel/security/lockdown",
        " ".join(f"[{state}]" if state == lockdown else state for state in states),
    )
    return files


def _folder(function: Function) -> str:
    return f"sys/devices/{function.path}"


def _pci(files: Files, machine: Machine, function: Function) -> None:
    folder = _folder(function)
    device = function.device
    files.contents[f"{folder}/config"] = config_space(function, machine.registers(function))
    files.texts(
        folder,
        vendor=f"0x{device.vendor:04x}",
        device=f"0x{device.device:04x}",
        subsystem_vendor=f"0x{device.subsystem[0]:04x}",
        subsystem_device=f"0x{device.subsystem[1]:04x}",
        revision=f"0x{device.revision:02x}",
        numa_node=function.numa,
        local_cpulist=machine.description.system.numa_cpus[function.numa],
        irq=0,
        enable=1,
        resource="\n".join(["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 7),
    )
    files.text(f"{folder}/class", f"0x{device.class_code:06x}")
    if device.config_size > 256:
        speed = f"{_SPEEDS[device.link_speed]} GT/s PCIe"
        files.texts(folder, current_link_speed=speed, max_link_speed=speed)
        width = device.link_width
        files.texts(folder, current_link_width=width, max_link_width=width)
    files.link(f"{folder}/subsystem", "sys/bus/pci")
    files.link(f"{folder}/driver", f"sys/bus/pci/drivers/{device.driver}")
    files.link(f"sys/bus/pci/drivers/{device.driver}/{function.bdf}", folder)
    files.link(f"sys/bus/pci/devices/{function.bdf}", folder)
    if function.port_type == ENDPOINT and not function.physical:
        files.text(f"sys/bus/pci/slots/{function.slot}/address", function.bdf[:10])
    if function.physical:
        files.link(f"{folder}/physfn", folder.replace(function.bdf, function.physical))
    elif function.port is not None and function.virtual:
        files.texts(folder, sriov_totalvfs=8, sriov_numvfs=len(function.virtual))
        for number, bdf in enumerate(function.virtual):
            files.link(f"{folder}/virtfn{number}", folder.replace(function.bdf, bdf))


def _net(files: Files, machine: Machine, function: Function) -> None:
    port = function.port
    assert port is not None and function.card is not None
    folder = f"{_folder(function)}/net/{port.netdev}"
    files.texts(
        folder,
        address=machine.mac(function).hex(":"),
        mtu=function.card.mtu,
        operstate="up",
        carrier=1,
        speed=port.rate * 1000,
        dev_port=0,
        phys_port_name=f"p{function.port_index}",
    )
    files.link(f"{folder}/device", _folder(function))
    files.link(f"sys/class/net/{port.netdev}", folder)


def _loopback(files: Files) -> None:
    folder = "sys/devices/virtual/net/lo"
    files.texts(folder, address="00:00:00:00:00:00", mtu=65536, operstate="unknown", dev_port=0)
    files.link("sys/class/net/lo", folder)


def _rdma(files: Files, machine: Machine, function: Function) -> None:
    port = function.port
    assert port is not None and function.card is not None
    folder = f"{_folder(function)}/infiniband/{port.rdma}"
    guid = identity.grouped(identity.guid(machine.mac(function)))
    files.texts(
        folder,
        fw_ver="28.39.1002",
        board_id="EMU0000000001",
        node_guid=guid,
        sys_image_guid=guid,
        node_type="1: CA",
    )
    files.link(f"{folder}/device", _folder(function))
    files.link(f"sys/class/infiniband/{port.rdma}", folder)

    one = f"{folder}/ports/1"
    files.texts(
        one,
        state="4: ACTIVE",
        phys_state="5: LinkUp",
        rate=f"{port.rate} Gb/sec ({_RATES[port.rate]})",
        link_layer=port.link_layer,
    )
    files.texts(f"{one}/counters", port_xmit_data=0, port_rcv_data=0)
    gids = machine.gids(function)
    for index in range(_GID_SLOTS):
        value = gids[index].value if index < len(gids) else bytes(16)
        files.text(f"{one}/gids/{index}", identity.grouped(value))
    # The kernel answers EINVAL for the attributes of an empty slot; here they are absent.
    for index, gid in enumerate(gids):
        files.text(f"{one}/gid_attrs/types/{index}", gid.type)
        files.text(f"{one}/gid_attrs/ndevs/{index}", port.netdev)

    if function.device.driver == "mlx5_core":  # only that driver knows a default traffic class
        tclass = function.card.traffic_class
        missing = tclass is None or function.physical or machine.faults.traffic_class == "missing"
        line = "" if missing else f"Global tclass={tclass}\n"
        files.contents[f"{folder}/tc/1/traffic_class"] = line.encode()


def _accelerators(files: Files, machine: Machine) -> None:
    for number, function in enumerate(machine.accelerators):
        folder = f"{_folder(function)}/drm"
        card, render = f"card{number + 1}", f"renderD{number + 128}"  # card0 is that of the BMC
        files.text(f"{folder}/{card}/dev", f"226:{number + 1}")
        files.text(f"{folder}/{render}/dev", f"226:{number + 128}")
        files.link(f"sys/class/drm/{card}", f"{folder}/{card}")
        files.link(f"sys/class/drm/{render}", f"{folder}/{render}")
    peer_memory = 0 if machine.faults.peer_memory == "refused" else 1
    files.text("sys/class/mxcd/mxcd/layout/properties", f"peer_mem {peer_memory}")


def _modules(files: Files, machine: Machine) -> None:
    software = machine.description.software
    module = "sys/module/metax"
    files.text(f"{module}/version", software.driver)
    files.texts(f"{module}/parameters", pri_mem_sz=16, ib_reg_addr=0, ib_unreg_addr=0)
    files.link(f"{module}/drivers/pci:METAX", "sys/bus/pci/drivers/METAX")
    for name in ("mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs"):
        files.text(f"sys/module/{name}/version", software.ofed)
    if any(f.device.driver == "metax_rdma" for f in machine.functions):
        files.text("sys/module/metax_rdma/version", software.driver)


def _firmware(files: Files, machine: Machine) -> None:
    serial = f"EMU-{identity.number(32, machine.name):08x}"
    files.texts(
        "sys/class/dmi/id",
        sys_vendor="rackready",
        product_name="rackready emulated server",
        product_serial=serial,
        board_serial=serial,
        bios_version="emulated",
        bios_date="01/01/2026",
    )
