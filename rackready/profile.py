"""Profiles: what a product is known by and what it should be, with the source of every value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import reduce
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    PlainValidator,
    StringConstraints,
    ValidationInfo,
    model_validator,
)

from rackready.document import Record, hint
from rackready.facts.model import Gap, Node, PciFunction
from rackready.version import SdkVersion, at_least

T = TypeVar("T")


def _cited(text: str, info: ValidationInfo) -> str:
    """``guide, MaxReadReq`` becomes the full name of the source and the place in it."""
    sources: Mapping[str, str] = (info.context or {}).get("sources", {})
    name, comma, place = text.partition(", ")
    if name not in sources:
        raise ValueError(f"unknown source {name!r}{hint(name, sources)}")
    return sources[name] + comma + place


Source = Annotated[str, AfterValidator(_cited)]


# what the probe's script takes
Line = Annotated[str, StringConstraints(pattern=r"^[ -~]+$")]
Word = Annotated[str, StringConstraints(pattern=r"^[!-~]+$")]

# as OFED has them
Release = Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)*$")]


class Claim(Record):
    """
    Something that a source says.

    ``certainty``: A = the vendor's document or code, or a real capture; B = working code of a third
    party; C = inferred or weak.
    """

    source: Source
    certainty: Literal["A", "B", "C"]
    condition: str = ""  # when it holds
    note: str = ""


class Conflict(Record, Generic[T]):
    """Another value for the same thing from another source."""

    value: T
    source: Source
    note: str = ""


class Sourced(Claim, Generic[T]):
    """A value with its source. One that has ``conflicts`` is no ground for more than ``warn``."""

    value: T
    conflicts: tuple[Conflict[T], ...] = ()


class Detection(Record):
    """How a product is known. A profile without devices and models is its vendor's generic one."""

    vendor: Sourced[int]  # PCI vendor id
    classes: Sourced[tuple[int, ...]]  # PCI base class and subclass: 0x0380
    devices: tuple[Sourced[int], ...] = ()  # PCI device ids
    models: Sourced[tuple[str, ...]] | None = None  # as the vendor's tool prints them; * and ?


class Probe(Record):
    """What the probe asks a node of this vendor for, beyond what it asks every node."""

    tools: tuple[Line, ...] = ()  # commands; each may take some seconds
    modules: tuple[Word, ...] = ()  # kernel modules whose parameters matter
    log: tuple[Line, ...] = ()  # lines of the kernel log, extended regular expressions


class Kernels(Sourced[tuple[str, ...]]):
    """Kernel releases of one operating system that a source names."""

    os: str
    machine: str = "x86_64"
    # listed: in the vendor's list; container: in it for a driver in a container; build: in it,
    # the driver is to be compiled; seen: worked somewhere
    support: Literal["listed", "container", "build", "seen"] = "listed"

    def has(self, release: str, machine: str | None) -> bool:
        if machine not in (None, self.machine):
            return False
        # some systems append the machine to the release, and some sources leave it out
        return release in self.value or release.removesuffix(f".{self.machine}") in self.value


class PeerMemory(Record):
    """
    Kernel releases on which the driver's peer memory registration is known to fail or work.

    Patterns with * and ?.
    """

    refused: Sourced[tuple[str, ...]]
    works: Sourced[tuple[str, ...]]  # exceptions from the refused ones as well

    def refuses(self, release: str) -> bool:
        return _matches(release, self.refused.value) and not _matches(release, self.works.value)


class Pcie(Record):
    max_read_request: Sourced[int] | None = None  # bytes, of compute NICs
    max_payload: Sourced[int] | None = None  # smallest good value on a path, bytes
    link_speed: Sourced[int] | None = None  # PCIe generation of the accelerators
    link_width: Sourced[int] | None = None


class Roce(Record):
    gid_version: Sourced[str] | None = None
    gid_family: Sourced[str] | None = None
    gid_index: Sourced[int] | None = None
    traffic_class: Sourced[int] | None = None


class Rdma(Record):
    """One kind of RDMA device that these products work with."""

    devices: Sourced[str]  # names: "mlx5_*"
    provider: Sourced[str] | None = None  # what DeepEP calls it
    gid_index: Sourced[int] | None = None
    ib_write_bw: Sourced[tuple[str, ...]] | None = None  # options that a test needs
    preparation: Sourced[str] | None = None  # a command


class IbWriteBw(Record):
    """What the vendor's ib_write_bw has beyond the common one."""

    accelerator: Sourced[str]  # option that takes the index of an accelerator
    dmabuf: Sourced[str] | None = None
    index_factor: Sourced[int] | None = None  # this option's index / the tool's index


class Range(Claim):
    """Versions of other software that a product works with, both ends among them."""

    first: Release
    last: Release


class Figure(Sourced[float]):
    """A bandwidth. ``floor``: at least; ``typical``: about; ``measured``: seen once."""

    unit: Literal["GB/s", "Gb/s"]
    kind: Literal["floor", "typical", "measured"]


def _sdk_version(value: object) -> SdkVersion:
    version = SdkVersion.parse(value) if isinstance(value, str) else None
    if version is None:
        raise ValueError("should be a version such as 3.8.2 or 20260806-1300, in quotes")
    return version


Version = Annotated[SdkVersion, PlainValidator(_sdk_version)]


class Milestone(Claim):
    """The first SDK version of each line that has something."""

    release: Version | None = None
    master: Version | None = None

    def reached(self, version: SdkVersion | None) -> bool | None:
        """None: cannot be told."""
        return at_least(version, self.release, self.master)


class Rename(Claim):
    """Environment variables whose names begin otherwise from a milestone on."""

    before: str
    after: str
    since: str  # a milestone


class State(Claim):
    """A reason that the vendor's tool gives for a device that can't be used, and what helps."""

    reason: str
    cause: str
    fix: str  # {index}: the device in the tool; {image}: its firmware in the driver package


class Health(Record):
    """What accelerators show that are well."""

    idle_memory: Sourced[int] | None = None  # MiB in use that driver and firmware keep
    temperature: Sourced[float] | None = None  # degrees C at the hottest spot, below which
    retired_pages: Sourced[int] | None = None  # of one device, at most


class Exclusive(Claim):
    """Python packages of which an environment may have one only."""

    packages: tuple[Word, ...]


class Variables(Sourced[dict[str, str]]):
    """
    Environment variables that belong together.

    In braces stands what only the wiring and the site know: ``{rdma_devices}``, ``{rdma_ports}``,
    ``{socket_interface}``, ``{gid_index}``, ``{traffic_class}``.
    """

    since: str = ""  # the first milestone that has them
    before: str = ""  # the first milestone that has them no more
    fixed: bool = False  # another value does not fit this product


class Profile(Record):
    """What one product, or an unknown product of a vendor, is known by and should be."""

    name: str
    vendor: str
    sources: dict[str, str]
    detection: Detection
    probe: Probe = Probe()
    accelerators_per_node: Sourced[int] | None = None
    device_nodes: Sourced[tuple[Word, ...]] | None = None
    group: Sourced[str] | None = None  # whose members may use the accelerators
    paths: dict[str, Sourced[tuple[str, ...]]] = Field(
        default_factory=dict
    )  # where a thing may lie, likeliest first
    kernels: dict[str, Kernels] = Field(default_factory=dict)
    peer_memory: PeerMemory | None = None
    pcie: Pcie = Pcie()
    roce: Roce = Roce()
    rdma: dict[str, Rdma] = Field(default_factory=dict)
    ib_write_bw: IbWriteBw | None = None
    ofed: dict[str, Range] = Field(default_factory=dict)  # by purpose
    links: Sourced[tuple[str, ...]] | None = None  # link classes as the tool prints them
    mesh: Sourced[str] | None = None  # the class that joins each two accelerators of a group
    states: tuple[State, ...] = ()
    health: Health = Health()
    bandwidth: dict[str, dict[str, Figure]] = Field(
        default_factory=dict
    )  # by tool, then by what it measures
    milestones: dict[str, Milestone] = Field(default_factory=dict)
    renames: tuple[Rename, ...] = ()
    exclusive: tuple[Exclusive, ...] = ()
    environment: dict[str, dict[str, Variables]] = Field(default_factory=dict)  # by purpose
    arguments: dict[str, Sourced[tuple[str, ...]]] = Field(default_factory=dict)  # by test
    unsupported: dict[str, Sourced[str]] = Field(
        default_factory=dict
    )  # what does not work, and how far
    requires: tuple[str, ...] = ()  # facts without which there is no verdict

    @model_validator(mode="after")
    def _names_are_known(self) -> Profile:
        used = [rename.since for rename in self.renames]
        for group in self.environment.values():
            for variables in group.values():
                used += [name for name in (variables.since, variables.before) if name]
        for name in used:
            if name not in self.milestones:
                raise ValueError(f"unknown milestone {name!r}{hint(name, self.milestones)}")
        for fact in self.requires:
            _check_fact(fact)
        return self

    @property
    def generic(self) -> bool:
        return not self.detection.devices and self.detection.models is None

    def is_accelerator(self, function: PciFunction) -> bool:
        return (
            function.vendor == self.detection.vendor.value
            and function.class_code is not None
            and function.class_code >> 8 in self.detection.classes.value
        )

    def has_model(self, model: str) -> bool:
        models = self.detection.models
        return models is not None and _matches(model, models.value)

    def has_device(self, function: PciFunction) -> bool:
        return function.vendor == self.detection.vendor.value and any(
            function.device == known.value for known in self.detection.devices
        )

    def kernel(self, release: str, machine: str | None = None) -> tuple[Kernels, ...]:
        """
        What the sources say of a kernel release; empty when none names it.

        ``machine``: as ``uname -m`` prints it; without it those of all machines.
        """
        return tuple(found for found in self.kernels.values() if found.has(release, machine))

    def applies(self, variables: Variables, version: SdkVersion | None) -> bool | None:
        """Whether an SDK of this version takes these variables; None: cannot be told."""
        since = self.milestones[variables.since].reached(version) if variables.since else True
        gone = self.milestones[variables.before].reached(version) if variables.before else False
        if since is False or gone is True:
            return False
        return None if since is None or gone is None else True

    def missing_facts(self, node: Node) -> tuple[str, ...]:
        """Facts without which there is no verdict on the node, and which its evidence lacks."""
        return tuple(fact for fact in self.requires if _fact(node, fact) is None)

    def default(self, key: str) -> Sourced[Any] | None:
        """What the product wants where the site has no wish of its own; ``key`` as in a policy."""
        if key == "accelerators":
            return self.accelerators_per_node
        for part in (self.pcie, self.roce):
            if key in type(part).model_fields:
                found: Sourced[Any] | None = getattr(part, key)
                return found
        return None

    def sourced(self) -> Iterator[Claim]:
        """Every value that has a source."""
        return _claims(self)


def _matches(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def _claims(value: object) -> Iterator[Claim]:
    if isinstance(value, Claim):
        yield value
    if isinstance(value, BaseModel):
        value = {name: getattr(value, name) for name in type(value).model_fields}
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple):
        for part in value:
            yield from _claims(part)


def _fact(node: Node, dotted: str) -> object:
    return reduce(getattr, dotted.split("."), node)


def _check_fact(dotted: str) -> None:
    part: Any = Node("")
    for name in dotted.split("."):
        known = (
            [item.name for item in fields(part)] if hasattr(part, "__dataclass_fields__") else []
        )
        if name not in known:
            raise ValueError(f"unknown fact {dotted!r}{hint(name, known)}")
        part = getattr(part, name)


@dataclass(frozen=True)
class Detected:
    """The profile of a node, by what it was found, and what speaks against it."""

    profile: Profile | None
    by: str = ""  # "model", "device", "vendor", "software"
    gaps: tuple[Gap, ...] = ()


def detect(node: Node, profiles: Iterable[Profile]) -> Detected:
    """
    The profile of a node: by the model that its tool prints, else by PCI device id, else by vendor,
    and where no device is known at all, by the vendor of the software that answered.

    Where accelerators differ the most frequent product wins, and the others are stated.
    """
    profiles = tuple(profiles)
    accelerators = node.stack.accelerators
    if node.pci is None and not accelerators and node.stack.vendor is None:
        # of a paste that is about something else there is nothing to say
        gaps = [_gap("neither PCI functions nor accelerators are known")] if node.probed else []
        return Detected(None, "", tuple(gaps))
    gaps = []
    functions = (node.pci or {}).values()
    by_model: Counter[str] = Counter()
    for model, count in sorted(
        Counter(item.model for item in accelerators or () if item.model).items()
    ):
        name = next((p.name for p in profiles if p.has_model(model)), None)
        if name is None:
            gaps.append(_gap(f"no profile for model {model!r}"))
        else:
            by_model[name] += count
    by_device = Counter(p.name for p in profiles for f in functions if p.has_device(f))
    by_vendor = Counter(
        p.name for p in profiles if p.generic for f in functions if p.is_accelerator(f)
    )
    # A whole capture without such a device is no node of this vendor, whatever is installed.
    software = None if node.probed else node.stack.vendor
    by_software = Counter(p.name for p in profiles if p.generic and p.vendor == software)
    found_by = {"model": by_model, "device": by_device, "vendor": by_vendor}
    for by, votes in {**found_by, "software": by_software}.items():
        if not votes:
            continue
        ranked = sorted(votes.items(), key=lambda item: (-item[1], item[0]))
        if len(ranked) > 1:
            found = ", ".join(f"{count} x {name}" for name, count in ranked)
            gaps.append(_gap(f"different products in one node: {found}"))
        if by == "model" and by_device and set(by_device).isdisjoint(by_model):
            others = ", ".join(sorted(by_device))
            gaps.append(_gap(f"the tool says {ranked[0][0]}, the PCI device ids say {others}"))
        profile = next(p for p in profiles if p.name == ranked[0][0])
        return Detected(profile, by, tuple(gaps))
    return Detected(None, "", tuple(gaps))


def _gap(reason: str) -> Gap:
    return Gap("product", reason)
