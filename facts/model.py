"""The typed picture of one host: what the readers make out of evidence.

Every class is frozen. ``None`` always means *unknown*: the evidence does not say, which is neither
right nor wrong. A known absence has a value of its own (an empty tuple, ``""``, ``False``).
Addresses of PCI functions (BDFs) are domain-qualified lower case, as in sysfs: ``0000:33:00.0``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from rackready.facts.parts.store import Facts


def _empty() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Evidence:
    """The output of one command on one host, as it was printed.

    ``text`` holds bytes that are not UTF-8 as surrogates (``surrogateescape``).
    ``status`` is the exit status; None when there is none, and ``lost`` then says why
    (``late 4711``: abandoned with that pid; ``absent``: no such command; ``skipped ...``; ``cut``).
    Of a paste there is also the whole ``line`` that was typed, and ``filters``: the commands that
    the output went through, so that what is missing in it proves nothing.
    """

    host: str
    command: str
    text: str
    status: int | None = 0
    lost: str = ""
    filters: tuple[str, ...] = ()
    line: str = ""


@dataclass(frozen=True, slots=True)
class Gap:
    """A piece of evidence that could not be had or not be understood: stated, never guessed."""

    command: str
    reason: str


@dataclass(frozen=True, slots=True)
class System:
    """Operating system, kernel, privileges and the machine it runs on."""

    IDENTITY: ClassVar = ((),)

    hostname: str | None = None
    os_id: str | None = None  # ID of os-release: "ubuntu"
    os_version: str | None = None  # VERSION_ID: "22.04"
    os_name: str | None = None  # PRETTY_NAME
    kernel: str | None = None  # release: "5.15.0-72-generic"
    machine: str | None = None  # "x86_64"
    cmdline: str | None = None
    boot_id: str | None = None
    uid: int | None = None
    capabilities: int | None = None  # effective set, a bit mask
    lockdown: str | None = None  # "none", "integrity", "confidentiality"; "" = no such kernel
    clock: int | None = None  # seconds since 1970 on the node
    cpu: str | None = None
    memory_kib: int | None = None
    vendor: str | None = None
    product: str | None = None
    serial: str | None = None
    bios: str | None = None
    emulated: bool = False


@dataclass(frozen=True, slots=True)
class Express:
    """PCI Express capability of one function (PCIe Base Specification, chapter 7.5.3)."""

    IDENTITY: ClassVar = ((),)

    offset: int | None = None
    port_type: int | None = None  # 0 endpoint, 4 root port, 5 switch upstream, 6 switch downstream
    device_capabilities: int | None = None
    device_control: int | None = None
    link_capabilities: int | None = None
    link_status: int | None = None
    width_reduced: bool | None = None  # lspci's own mark "(downgraded)" or "(ok)"
    speed_reduced: bool | None = None

    @property
    def max_read_request(self) -> int | None:
        """Bytes; None for the two reserved encodings."""
        return _size(self.device_control, 12)

    @property
    def max_payload(self) -> int | None:
        """Bytes, as set."""
        return _size(self.device_control, 5)

    @property
    def max_payload_supported(self) -> int | None:
        """Bytes, as the function is able to."""
        return _size(self.device_capabilities, 0)

    @property
    def link_speed(self) -> int | None:
        """Current link speed as PCIe generation (1 = 2.5 GT/s ... 6 = 64 GT/s); 0 = no link."""
        return None if self.link_status is None else self.link_status & 0xF

    @property
    def link_width(self) -> int | None:
        return None if self.link_status is None else self.link_status >> 4 & 0x3F

    @property
    def link_speed_max(self) -> int | None:
        return None if self.link_capabilities is None else self.link_capabilities & 0xF

    @property
    def link_width_max(self) -> int | None:
        return None if self.link_capabilities is None else self.link_capabilities >> 4 & 0x3F


def _size(register: int | None, shift: int) -> int | None:
    """128 << the three bits at ``shift``."""
    encoding = 7 if register is None else register >> shift & 7
    return 128 << encoding if encoding <= 5 else None


@dataclass(frozen=True, slots=True)
class AccessControl:
    """Access Control Services of a function (PCIe Base Specification, chapter 7.7.11)."""

    IDENTITY: ClassVar = ((),)

    offset: int | None = None
    control: int | None = None  # bits: SV 0, TB 1, RR 2, CR 3, UF 4, EC 5, DT 6

    @property
    def redirects(self) -> bool | None:
        """Peer-to-peer requests, completions or upstream traffic are sent to the root complex."""
        return None if self.control is None else bool(self.control & 0x1C)


@dataclass(frozen=True, slots=True)
class ErrorStatus:
    """Status words of Advanced Error Reporting: what happened since they were last cleared."""

    IDENTITY: ClassVar = ((),)

    uncorrectable: int | None = None
    correctable: int | None = None


@dataclass(frozen=True, slots=True)
class PciFunction:
    """One PCI function. ``bridges`` leads from the root port down to the bridge just above it."""

    IDENTITY: ClassVar = (("bdf",),)

    bdf: str
    vendor: int | None = None
    device: int | None = None
    class_code: int | None = None  # 24 bits: 0x020000
    root: str | None = None  # host bridge: "pci0000:c8"
    bridges: tuple[str, ...] | None = None
    numa_node: int | None = None  # -1: the firmware names none
    driver: str | None = None  # "" = none bound
    physfn: str | None = None  # "" = this is no virtual function
    express: Express | None = None
    config_bytes: int = 0  # how much of the config space could be read
    responds: bool | None = None  # False: it reads all ones, as of a device that is gone
    serial: str | None = None  # Device Serial Number capability, hex
    slot: str | None = None
    name: str | None = None  # as lspci prints it: "Mellanox ... MT2910 Family [ConnectX-7]"
    buses: tuple[int, int] | None = None  # of a bridge: first and last bus below it
    access_control: AccessControl | None = None
    errors: ErrorStatus | None = None

    @property
    def is_virtual(self) -> bool | None:
        if self.physfn is None and self.name and "Virtual Function" in self.name:
            return True
        return None if self.physfn is None else bool(self.physfn)


@dataclass(frozen=True, slots=True)
class Gid:
    """One entry of a GID table. ``gid`` in full: eight groups of four hex digits."""

    IDENTITY: ClassVar = (("index",),)

    index: int
    gid: str
    version: str | None = None  # "v1", "v2"; "ib" on InfiniBand; "" = its driver tells none
    netdev: str | None = None


@dataclass(frozen=True, slots=True)
class RdmaPort:
    IDENTITY: ClassVar = (("number",),)

    number: int
    link_layer: str | None = None  # "Ethernet", "InfiniBand"
    state: str | None = None  # "ACTIVE", "DOWN", "INIT", ...
    physical_state: str | None = None  # "LinkUp", ...
    rate: str | None = None  # "400 Gb/sec (4X NDR)"
    gids: tuple[Gid, ...] | None = None
    traffic_class: int | None = None  # -1: the file is there, but no class is set
    traffic_class_file: bool | None = None  # False: this driver has no such file
    octets: tuple[int, int] | None = None  # bytes moved: at the start, at the end of the probe
    netdev: str | None = None  # its interface, as a tool names it
    active_mtu: int | None = None  # bytes of an RDMA packet: 256, 512, 1024, 2048, 4096
    gids_cut: bool = False  # the GID table may have more entries than were shown


@dataclass(frozen=True, slots=True)
class RdmaDevice:
    IDENTITY: ClassVar = (("name",),)

    name: str
    bdf: str | None = None
    ports: tuple[RdmaPort, ...] = ()
    firmware: str | None = None
    board_id: str | None = None
    node_guid: str | None = None


def _join_addresses(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...] | None:
    """The longer list of each family: ``ip -4 addr`` and old tools show a part of what there is."""
    for family in (False, True):
        left, right = ({item for item in both if (":" in item) is family} for both in (one, other))
        if not (left <= right or right <= left):
            return None
    return tuple(dict.fromkeys((*one, *other)))


@dataclass(frozen=True, slots=True)
class NetDevice:
    IDENTITY: ClassVar = (("name",),)

    name: str
    bdf: str | None = None  # "" = not a PCI device
    mac: str | None = None
    mtu: int | None = None
    state: str | None = None  # operstate: "up", "down"
    speed: int | None = None  # Mb/s
    port: int | None = None  # dev_port: which port of the card, from 0
    addresses: tuple[str, ...] | None = field(  # "10.2.1.5/24"
        default=None, metadata={"join": _join_addresses}
    )
    kind: str | None = None  # "bond", "vlan", "veth", "loopback"
    master: str | None = None  # the bond or bridge it belongs to
    members: tuple[str, ...] | None = None  # of a bond
    bond_mode: int | None = None  # 0 balance-rr ... 4 802.3ad ... 6 balance-alb
    enabled: bool | None = None  # set up by its administrator


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One accelerator as its own management tool shows it."""

    IDENTITY: ClassVar = (("index",), ("bdf",), ("uuid",))

    index: int | None = None
    model: str | None = None
    bdf: str | None = None
    state: str | None = None  # "Available", or else
    reason: str | None = None  # why it is not
    uuid: str | None = None
    numa_node: int | None = None


@dataclass(frozen=True, slots=True)
class AcceleratorStack:
    """Accelerators and the software that drives them."""

    IDENTITY: ClassVar = ((),)

    accelerators: tuple[Accelerator, ...] | None = None
    attached: int | None = None  # the tool's own count
    tool_version: str | None = None
    driver_version: str | None = None  # kernel module
    sdk_version: str | None = None  # by the SDK's own file
    firmware_version: str | None = None
    peer_memory: bool | None = None  # what the driver itself says of its registration
    sdk_shown: str | None = None  # by the tool, which may shorten it
    vendor: str | None = None  # of this software, as the profiles name it


@dataclass(frozen=True, slots=True)
class Module:
    """A loaded kernel module."""

    IDENTITY: ClassVar = (("name",),)

    name: str
    references: int | None = None  # None: this kernel does not count them
    holders: tuple[str, ...] = ()
    version: str | None = None
    parameters: Mapping[str, str] = field(default_factory=_empty)


@dataclass(frozen=True, slots=True)
class KernelLog:
    """Messages of the kernel, oldest first, without time stamps."""

    IDENTITY: ClassVar = ()

    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ManagedFile:
    """A file, link or folder that rackready put on the node, as its manifest and the disk say."""

    path: str
    kind: str  # "file", "link", "dir"
    written: str  # SHA-256 of what rackready wrote; the target of a link; "" for a folder
    found: str | None  # the same as it is now; "" = gone; None = could not be read
    text: str | None = None  # content now
    written_mode: int = 0  # permissions that rackready gave a file
    mode: int | None = None  # permissions as they are now


@dataclass(frozen=True, slots=True)
class Records:
    """The state of rackready's own records on the node: manifest, journal and lock."""

    there: tuple[str, ...] = ()  # paths of those that exist, be they empty
    manifest_damage: str = ""  # "line 3 of the manifest is damaged: ..."; "" = none
    journal_damage: str = ""
    journal_cut: bool = False  # only its end was read


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    command: str
    device: str  # the device node it holds open


@dataclass(frozen=True, slots=True)
class Node:
    """One host, as far as its evidence tells."""

    name: str
    system: System = field(default_factory=System)
    pci: Mapping[str, PciFunction] | None = None
    rdma: tuple[RdmaDevice, ...] | None = None
    net: tuple[NetDevice, ...] | None = None
    stack: AcceleratorStack = field(default_factory=AcceleratorStack)
    modules: Mapping[str, Module] | None = None
    kernel_log: tuple[str, ...] | None = None
    managed: tuple[ManagedFile, ...] | None = None
    journal: tuple[Mapping[str, object], ...] | None = None
    records: Records | None = None
    users: tuple[Process, ...] | None = None  # processes that hold an accelerator open
    schedulers: tuple[str, ...] | None = None  # slurmd, kubelet, ... that run
    gaps: tuple[Gap, ...] = ()
    facts: Facts = field(default_factory=Facts)  # all else that readers found, by its type
    probed: bool = True  # the probe looked at all there is; else somebody pasted what he had
