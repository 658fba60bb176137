"""PCI devices that an emulated node is made of, as far as software can tell them apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Capability identifiers (PCI Code and ID Assignment Specification).
POWER_MANAGEMENT, VITAL_DATA, VENDOR_SPECIFIC, SUBSYSTEM, EXPRESS, MSI_X = 1, 3, 9, 13, 16, 17
ERROR_REPORTING, SERIAL_NUMBER, ACCESS_CONTROL, ROUTING_ID, VIRTUALIZATION = 1, 3, 13, 14, 16


@dataclass(frozen=True)
class Device:
    """
    One kind of PCI function.

    ``capabilities`` and ``extended`` map capability to offset, in the order of the linked list. The
    offsets differ from device to device as they do in real ones: none of them may be hard-coded.
    """

    vendor: int
    device: int
    class_code: int
    driver: str
    capabilities: Mapping[int, int]
    extended: Mapping[int, int] = field(default_factory=dict)
    subsystem: tuple[int, int] = (0, 0)
    revision: int = 0
    link_speed: int = 5  # PCIe generation
    link_width: int = 16

    @property
    def config_size(self) -> int:
        """Bytes of config space: only PCI Express has the extended part."""
        return 4096 if EXPRESS in self.capabilities else 256


_CONNECTX = {EXPRESS: 0x60, MSI_X: 0x9C, VENDOR_SPECIFIC: 0xC0, POWER_MANAGEMENT: 0x40}
_CONNECTX_EXTENDED = {
    ERROR_REPORTING: 0x100,
    ROUTING_ID: 0x150,
    SERIAL_NUMBER: 0x1C0,
    VIRTUALIZATION: 0x180,
}
_METAX = {POWER_MANAGEMENT: 0x40, EXPRESS: 0x70, MSI_X: 0xB0}
_METAX_EXTENDED = {ERROR_REPORTING: 0x100, SERIAL_NUMBER: 0x14C}


def _connectx(device: int, subsystem: int, speed: int, width: int) -> Device:
    return Device(
        vendor=0x15B3,
        device=device,
        class_code=0x020000,
        driver="mlx5_core",
        capabilities=_CONNECTX,
        extended=_CONNECTX_EXTENDED,
        subsystem=(0x15B3, subsystem),
        link_speed=speed,
        link_width=width,
    )


def _metax(device: int, class_code: int = 0x038000, driver: str = "METAX") -> Device:
    return Device(
        vendor=0x9999,
        device=device,
        class_code=class_code,
        driver=driver,
        capabilities=_METAX,
        extended=_METAX_EXTENDED,
        subsystem=(0x9999, device),
        revision=1,
    )


ROOT_PORT = Device(
    vendor=0x8086,
    device=0x352A,
    class_code=0x060400,
    driver="pcieport",
    capabilities={EXPRESS: 0x40, POWER_MANAGEMENT: 0x80, SUBSYSTEM: 0x88},
    extended={ERROR_REPORTING: 0x100, ACCESS_CONTROL: 0x148},
    subsystem=(0x8086, 0),
    revision=4,
)

SWITCH_PORT = Device(
    vendor=0x1000,
    device=0xC030,
    class_code=0x060400,
    driver="pcieport",
    capabilities={POWER_MANAGEMENT: 0x40, EXPRESS: 0x68, SUBSYSTEM: 0xA4},
    extended={SERIAL_NUMBER: 0x100, ERROR_REPORTING: 0x148, ACCESS_CONTROL: 0x4A0},
    subsystem=(0x1000, 0xA064),
    revision=0xB0,
)

CONNECTX_VIRTUAL = Device(
    vendor=0x15B3,
    device=0x101E,
    class_code=0x020000,
    driver="mlx5_core",
    capabilities={EXPRESS: 0x60, MSI_X: 0x9C},
    extended={ROUTING_ID: 0x150},
    subsystem=(0x15B3, 0x0041),
)

# What a node description may name. Device numbers of the C588 and the C600 are published nowhere:
# theirs are made up, out of a range that no known product uses.
DEVICES: Mapping[str, Device] = {
    "metax-c500": _metax(0x4001),
    "metax-c550": _metax(0x4000),
    "metax-c588": _metax(0xF588),
    "metax-c600": _metax(0xF600),
    "metax-ethernet": _metax(0xF6E0, 0x020000, "metax_rdma"),
    "connectx-7": _connectx(0x1021, 0x0041, speed=5, width=16),
    "connectx-6-dx": _connectx(0x101D, 0x0016, speed=4, width=16),
    "connectx-6-lx": _connectx(0x101F, 0x0001, speed=4, width=8),
    "i350": Device(
        vendor=0x8086,
        device=0x1521,
        class_code=0x020000,
        driver="igb",
        capabilities={POWER_MANAGEMENT: 0x40, MSI_X: 0x70, EXPRESS: 0xA0},
        extended={ERROR_REPORTING: 0x100, SERIAL_NUMBER: 0x140},
        subsystem=(0x8086, 0x0001),
        revision=1,
        link_speed=2,
        link_width=4,
    ),
    "nvme": Device(
        vendor=0x144D,
        device=0xA80A,
        class_code=0x010802,
        driver="nvme",
        capabilities={POWER_MANAGEMENT: 0x40, EXPRESS: 0x70, MSI_X: 0xB0},
        extended={ERROR_REPORTING: 0x100, SERIAL_NUMBER: 0x148},
        subsystem=(0x144D, 0xA801),
        link_speed=4,
        link_width=4,
    ),
    "bmc-vga": Device(
        vendor=0x1A03,
        device=0x2000,
        class_code=0x030000,
        driver="ast",
        capabilities={POWER_MANAGEMENT: 0x40},
        subsystem=(0x1A03, 0x2000),
        revision=0x52,
    ),
}
