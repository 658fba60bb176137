"""What a node of a given build looks like: the vocabulary of ``nodes/*.yaml``.

A description says nothing of how a node is emulated: files, virtual machines or anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from ipaddress import IPv4Network
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    Discriminator,
    Field,
    Tag,
    ValidationError,
    field_validator,
)

from rackready.document import Document, DocumentError, Record, hint
from rackready.emulator.devices import DEVICES

Size = Literal[128, 256, 512, 1024, 2048, 4096]  # of a PCI Express request or payload, bytes


class DescriptionError(DocumentError):
    """A description, or a fault, that makes no sense."""


class VirtualFunction(Record):
    netdev: str
    rdma: str


class Port(Record):
    """One port of a network card: a PCI function of its own. In the ports of an accelerator
    ``{gpu}`` stands for its index."""

    netdev: str
    rdma: str = ""  # "": a port without RDMA
    network: str = ""  # the node takes an address of it; "" = none
    rate: Literal[1, 25, 100, 200, 400]  # Gb/s
    link_layer: Literal["Ethernet", "InfiniBand"] = "Ethernet"
    virtual: tuple[VirtualFunction, ...] = ()

    @field_validator("network")
    @classmethod
    def _is_network(cls, network: str) -> str:
        if network:
            IPv4Network(network.format(gpu=0))
        return network

    def numbered(self, gpu: int) -> Port:
        """The port of that accelerator."""
        names = ("netdev", "rdma", "network")
        return self.model_copy(update={name: getattr(self, name).format(gpu=gpu) for name in names})


class Card(Record):
    device: str
    ports: tuple[Port, ...]
    max_read_request: Size = 512
    mtu: int = Field(1500, ge=68, le=9978)
    traffic_class: int | None = Field(None, ge=0, le=255)

    @field_validator("device")
    @classmethod
    def _is_device(cls, device: str) -> str:
        return _known(device, DEVICES, "device")


class Switch(Record):
    """A PCI Express switch and what is plugged below it."""

    switch: tuple[Slot, ...]


# What sits below a bridge: "gpu", the name of a card or of a device, or a switch.
Slot = Annotated[
    Annotated[str, Tag("name")] | Annotated[Switch, Tag("switch")],
    Discriminator(lambda value: "name" if isinstance(value, str) else "switch"),
]
Switch.model_rebuild()


class HostBridge(Record):
    bridge: str = Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}$")  # domain and first bus
    numa: int = Field(ge=0)
    ports: tuple[Slot, ...]  # each below a root port of its own

    @property
    def domain(self) -> int:
        return int(self.bridge[:4], 16)

    @property
    def bus(self) -> int:
        return int(self.bridge[5:], 16)


class Accelerator(Record):
    """``dies`` per board: the tools of the vendor number boards, the runtime numbers dies."""

    device: str
    model: str  # short form: "MXC500"
    name: str  # "MetaX C500"
    memory_mib: int
    power_cap_w: int
    dies: Literal[1, 2] = 1
    scale_up: tuple[tuple[int, ...], ...] = ()  # groups of accelerators with direct links
    card: Card | None = None  # network ports that the accelerator itself has

    @field_validator("device")
    @classmethod
    def _is_device(cls, device: str) -> str:
        return _known(device, DEVICES, "device")


class System(Record):
    kernel: str
    os_id: str
    os_version: str
    os_name: str
    memory_gib: int
    numa_cpus: tuple[str, ...]  # of each NUMA node, as the kernel lists them


class Software(Record):
    driver: str
    sdk: str
    firmware: str
    tool: str
    ofed: str  # NVIDIA network driver


class Description(Record):
    title: str
    product: str
    system: System
    software: Software
    accelerator: Accelerator
    cards: Mapping[str, Card]
    pci: tuple[HostBridge, ...]

    def contradictions(self) -> Iterator[str]:
        """What does not fit together, though each part of it is right."""
        slots = self.slots()
        words = {"gpu", *self.cards, *DEVICES}
        for name in slots:
            if name not in words:
                yield f"pci: unknown slot {name!r}{hint(name, words)}"
        for card in self.cards:
            if slots.count(card) != 1:
                yield f"cards: {card} sits in {slots.count(card)} slots instead of one"
        gpus = range(slots.count("gpu"))
        if any(gpu not in gpus for group in self.accelerator.scale_up for gpu in group):
            yield f"accelerator.scale_up: there are {len(gpus)} accelerators, from 0"
        if any(bridge.numa >= len(self.system.numa_cpus) for bridge in self.pci):
            yield "pci: a host bridge is on a NUMA node that system.numa_cpus has not"

    def slots(self) -> list[str]:
        """Names of everything that is plugged in."""
        return [name for bridge in self.pci for slot in bridge.ports for name in _names(slot)]


class Faults(Record):
    """What is wrong with one node. A NIC function goes by BDF, RDMA device or netdev."""

    max_read_request: Mapping[str, Size] = {}
    max_payload: Size | None = None  # of the whole node: as a BIOS sets it
    peer_memory: Literal["refused"] | None = None
    gid: Literal["extra-link-local"] | None = None  # pushes the IPv4 GIDs to 4 and 5
    traffic_class: Literal["missing"] | None = None
    lockdown: Literal["integrity", "confidentiality"] | None = None
    hung_tool: Literal["mx-smi"] | None = None
    accelerator_missing: int | None = Field(None, ge=0)  # index: it is gone from the bus
    accelerator_unavailable: int | None = Field(None, ge=0)  # index: its tool can't use it
    unreachable: bool = False
    garbage: bool = False  # whatever is run prints nothing but bytes 0x00-0xff
    noise: bool = False  # such bytes come before the output of each command


def _names(slot: str | Switch) -> list[str]:
    if isinstance(slot, str):
        return [slot]
    return [name for inner in slot.switch for name in _names(inner)]


def _known(word: str, words: Iterable[str], what: str) -> str:
    known = set(words)
    if word not in known:
        raise ValueError(f"unknown {what} {word!r}{hint(word, known)}")
    return word


def parse_description(text: str, where: str) -> Description:
    """
    Read a description; ``where`` names its file in errors.

    Raises:
        DescriptionError: with all problems, one a line.
    """
    try:
        document = Document.from_text(text, where)
    except DocumentError as error:
        raise DescriptionError(error.problems) from None
    description = _parse(Description, document)
    if problems := [f"{where}: {text}" for text in description.contradictions()]:
        raise DescriptionError(problems)
    return description


def parse_faults(data: Mapping[str, Any]) -> Faults:
    """Read the faults of a node from its host data."""
    return _parse(Faults, Document(data, "faults"))


_Model = TypeVar("_Model", bound=Record)


def _parse(model: type[_Model], document: Document) -> _Model:
    try:
        return model.model_validate_json(document.as_json())
    except ValidationError as error:
        raise DescriptionError(document.problems(error, model)) from None


def description_names() -> list[str]:
    nodes = files("rackready.emulator").joinpath("nodes")
    return sorted(
        entry.name.removesuffix(".yaml")
        for entry in nodes.iterdir()
        if entry.name.endswith(".yaml")
    )


@cache
def describe(name: str) -> Description:
    """The description of that name."""
    names = description_names()
    if name not in names:
        raise DescriptionError([f"no description of a node {name!r}{hint(name, names)}"])
    file = files("rackready.emulator").joinpath("nodes").joinpath(f"{name}.yaml")
    return parse_description(file.read_text(encoding="utf-8"), file.name)
