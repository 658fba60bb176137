"""Names that lspci prints instead of numbers: classes and makers of PCI functions."""

from __future__ import annotations

# Names of pci.ids; the upper 16 bits of the class code.
CLASSES = {
    "SATA controller": 0x0106,
    "RAID bus controller": 0x0104,
    "Serial Attached SCSI controller": 0x0107,
    "Non-Volatile memory controller": 0x0108,
    "Ethernet controller": 0x0200,
    "Infiniband controller": 0x0207,
    "Fabric controller": 0x0208,
    "Network controller": 0x0280,
    "VGA compatible controller": 0x0300,
    "3D controller": 0x0302,
    "Display controller": 0x0380,
    "Audio device": 0x0403,
    "Host bridge": 0x0600,
    "ISA bridge": 0x0601,
    "PCI bridge": 0x0604,
    "Bridge": 0x0680,
    "Communication controller": 0x0780,
    "System peripheral": 0x0880,
    "Co-processor": 0x0B40,
    "USB controller": 0x0C03,
    "SMBus": 0x0C05,
    "InfiniBand": 0x0C06,
    "Signal processing controller": 0x1180,
    "Processing accelerators": 0x1200,
}
_BY_NAME = {name.casefold(): code for name, code in CLASSES.items()}

# How the names of these makers begin in pci.ids.
VENDORS = (
    ("Mellanox Technologies", 0x15B3),
    ("NVIDIA Corporation", 0x10DE),
    ("Broadcom / LSI", 0x1000),
    ("LSI Logic", 0x1000),
    ("Broadcom", 0x14E4),
    ("PLX Technology", 0x10B5),
    ("Intel Corporation", 0x8086),
    ("Advanced Micro Devices, Inc. [AMD/ATI]", 0x1002),
    ("Advanced Micro Devices", 0x1022),
    ("Alibaba (China)", 0x1DED),
    ("Amazon.com", 0x1D0F),
    ("ASPEED Technology", 0x1A03),
    ("Microsemi", 0x11F8),
    ("Microchip", 0x11F8),
    ("MetaX", 0x9999),
)

# Virtual functions by vendor and device, for outputs that print numbers alone.
VIRTUAL = frozenset(
    {(0x15B3, device) for device in (0x1014, 0x1016, 0x1018, 0x101A, 0x101C, 0x101E)}
    | {(0x8086, device) for device in (0x10ED, 0x1515, 0x154C, 0x1889)}
)

NETWORK, DISPLAY, BRIDGE, ACCELERATOR = 0x02, 0x03, 0x06, 0x12


def class_of(name: str) -> int | None:
    """``PCI bridge`` -> 0x060400, ``0200`` -> 0x020000."""
    if len(name) == 4 and all(char in "0123456789abcdef" for char in name):
        return int(name, 16) << 8
    code = _BY_NAME.get(name.casefold())
    return None if code is None else code << 8


def vendor_of(name: str) -> int | None:
    return next((code for start, code in VENDORS if name.startswith(start)), None)


# NICs that know RDMA, by vendor and a part of the name ("" = all of this vendor), or by device.
_RDMA_NAMES = (
    (0x15B3, ""),
    (0x14E4, "NetXtreme-E"),
    (0x14E4, "BCM576"),
    (0x8086, "E810"),
    (0x8086, "E830"),
    (0x1D0F, "Elastic Fabric Adapter"),
)
_RDMA_DEVICES = frozenset(
    {(0x14E4, device) for device in (0x1750, 0x1751, 0x1752, 0x1760)}
    | {(0x8086, device) for device in (0x1591, 0x1592, 0x1593)}
    | {(0x1D0F, device) for device in (0xEFA0, 0xEFA1, 0xEFA2, 0xEFA3)}
)


def knows_rdma(vendor: int | None, device: int | None, name: str | None) -> bool:
    """True for a NIC of a kind that carries RDMA; those for management alone are none."""
    return (vendor, device) in _RDMA_DEVICES or any(
        vendor == maker and part in (name or "") for maker, part in _RDMA_NAMES
    )
