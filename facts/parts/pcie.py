"""What tools say of PCI Express beside the functions themselves: accesses, IOMMU, firmware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar


def _empty() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True)
class RegisterRead:
    """
    A register as setpci printed it, a value for each function that the selector hit.

    ``register`` is written as setpci takes it: ``CAP_EXP+8``, ``ECAP_ACS+6``; a plain offset is
    lower case hex: ``f2a``. ``size`` is in bytes.
    """

    IDENTITY: ClassVar = ()

    selector: str
    register: str
    values: tuple[int, ...]
    offset: int | None = None  # where setpci -v found it
    size: int = 2


@dataclass(frozen=True)
class RegisterWrite:
    """A write that setpci was asked for, on a command line or in a script."""

    IDENTITY: ClassVar = ()

    selector: str  # "{}", "$dev": of a script
    register: str
    script: str = ""  # path of the script; "" = it was typed


@dataclass(frozen=True)
class AccessTrouble:
    """setpci reached nothing: ``kind`` says why, ``said`` is the line of the tool."""

    IDENTITY: ClassVar = (("selector", "kind"),)

    selector: str
    kind: str  # "none-selected", "unparsable", "no-capability", "cannot-open", "refused"
    said: str


@dataclass(frozen=True)
class AcsLines:
    """
    ACS control words of ``lspci | grep ACSCtl``, which names no functions.

    ``whole``: all such lines are there, none of them cut.
    """

    IDENTITY: ClassVar = ()

    controls: tuple[int, ...]
    whole: bool = True


@dataclass(frozen=True)
class DriversLeftOut:
    """Functions were listed without the drivers that they are bound to."""

    IDENTITY: ClassVar = ((),)

    told: bool = True


@dataclass(frozen=True)
class IommuGroup:
    """A group of the IOMMU; ``kind`` as the kernel writes it: identity, DMA, DMA-FQ, auto."""

    IDENTITY: ClassVar = (("number",),)

    number: int
    kind: str | None = None
    members: tuple[str, ...] = ()  # BDFs, as far as they are known


@dataclass(frozen=True)
class IommuKinds:
    """
    Types of groups that were listed without their numbers.

    ``whole``: none was held back; False without ``kinds``: other groups may have been.
    """

    IDENTITY: ClassVar = ()

    kinds: tuple[str, ...]
    whole: bool = True


@dataclass(frozen=True)
class IommuUnits:
    """``/sys/class/iommu``; no names: there is none, or it is off."""

    IDENTITY: ClassVar = ((),)

    names: tuple[str, ...] | None = None


@dataclass(frozen=True)
class FirmwareSetting:
    """A setting of a NIC's firmware; ``device`` as the tool was called or as it says itself."""

    IDENTITY: ClassVar = (("device", "name"),)

    device: str
    name: str
    next_boot: str  # "force_relax(1)"
    current: str | None = None


@dataclass(frozen=True)
class LinkFiles:
    """The link of a function as the files of sysfs tell it; speeds as PCIe generation."""

    IDENTITY: ClassVar = (("bdf",),)

    bdf: str
    speed: int | None = None
    width: int | None = None
    speed_max: int | None = None
    width_max: int | None = None


@dataclass(frozen=True)
class ErrorCounters:
    """Counters of Advanced Error Reporting of one function (``aer_dev_*`` of sysfs)."""

    IDENTITY: ClassVar = (("bdf", "severity"),)

    bdf: str
    severity: str  # "correctable", "fatal", "nonfatal"
    counts: Mapping[str, int] = field(default_factory=dict)
    whole: bool = True  # no counter was held back that is not zero


@dataclass(frozen=True)
class DeviceQuery:
    """
    A row of ``--query-gpu`` or the like: values by field, without units.

    What a device does not have stands as the tool writes it: ``[N/A]``, ``[Not Supported]``.
    """

    IDENTITY: ClassVar = (("bdf",), ("index",), ("uuid",))

    bdf: str | None = None
    index: int | None = None
    uuid: str | None = None
    values: Mapping[str, str] = field(default_factory=_empty)
