"""Where everything sits on the PCI buses: a description, enumerated as firmware does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rackready.emulator.description import (
    Card,
    Description,
    DescriptionError,
    HostBridge,
    Port,
    Switch,
)
from rackready.emulator.devices import (
    CONNECTX_VIRTUAL,
    DEVICES,
    ROOT_PORT,
    SWITCH_PORT,
    Device,
)

ENDPOINT, ROOT, UPSTREAM, DOWNSTREAM = 0, 4, 5, 6  # port types of the PCI Express capability


@dataclass(frozen=True)
class Function:
    """One PCI function. ``bridges`` leads from the root port down to the bridge just above it."""

    bdf: str
    device: Device
    host_bridge: str  # "pci0000:16"
    bridges: tuple[str, ...]
    numa: int
    port_type: int = ENDPOINT
    buses: tuple[int, int, int] = (0, 0, 0)  # of a bridge: primary, secondary, subordinate
    slot: int = 0  # of an endpoint, from 1
    gpu: int | None = None
    card: Card | None = None
    port: Port | None = None
    port_index: int = 0
    physical: str = ""  # of a virtual function: the BDF of its physical one
    virtual: tuple[str, ...] = ()
    several: bool = False  # its device has more than one physical function

    @property
    def path(self) -> str:
        """Below ``/sys/devices``."""
        return "/".join((self.host_bridge, *self.bridges, self.bdf))


def enumerate_functions(description: Description) -> tuple[Function, ...]:
    """All functions of a node, sorted by BDF."""
    enumeration = _Enumeration(description)
    for bridge in description.pci:
        enumeration.host_bridge(bridge)
    return tuple(sorted(enumeration.functions, key=lambda function: function.bdf))


class _Enumeration:
    def __init__(self, description: Description) -> None:
        self.description = description
        self.functions: list[Function] = []
        self.last_bus: dict[int, int] = {}
        self.gpus = 0
        self.slots = 0

    def host_bridge(self, bridge: HostBridge) -> None:
        if bridge.bus <= self.last_bus.get(bridge.domain, -1):
            raise DescriptionError(
                [f"host bridge {bridge.bridge} starts at a bus that the one before it already uses"]
            )
        self.last_bus[bridge.domain] = bridge.bus
        above = Function("", ROOT_PORT, f"pci{bridge.bridge}", (), bridge.numa)
        for number, slot in enumerate(bridge.ports, 1):
            port = self._bridge(above, bridge.domain, bridge.bus, number, ROOT_PORT, ROOT)
            self._fill(port, bridge.domain, slot)

    def _fill(self, bridge: Function, domain: int, slot: str | Switch) -> None:
        """Plug a slot's content in below a bridge, which then knows its last bus."""
        position = self.functions.index(bridge)
        bus = bridge.buses[1]
        if isinstance(slot, Switch):
            upstream = self._bridge(bridge, domain, bus, 0, SWITCH_PORT, UPSTREAM)
            top = self.functions.index(upstream)
            for number, inner in enumerate(slot.switch):
                port = self._bridge(
                    upstream, domain, upstream.buses[1], number, SWITCH_PORT, DOWNSTREAM
                )
                self._fill(port, domain, inner)
            self._close(top, domain)
        else:
            self._plug(bridge, domain, bus, slot)
        self._close(position, domain)

    def _close(self, position: int, domain: int) -> None:
        bridge = self.functions[position]
        buses = (*bridge.buses[:2], self.last_bus[domain])
        self.functions[position] = replace(bridge, buses=buses)

    def _bridge(
        self, above: Function, domain: int, bus: int, number: int, device: Device, port_type: int
    ) -> Function:
        self.last_bus[domain] += 1
        secondary = self.last_bus[domain]
        if secondary > 0xFF:
            raise DescriptionError([f"domain {domain:04x} has more than 256 buses"])
        bridge = Function(
            bdf=f"{domain:04x}:{bus:02x}:{number:02x}.0",
            device=device,
            host_bridge=above.host_bridge,
            bridges=_below(above),
            numa=above.numa,
            port_type=port_type,
            buses=(bus, secondary, secondary),
        )
        self.functions.append(bridge)
        return bridge

    def _plug(self, bridge: Function, domain: int, bus: int, name: str) -> None:
        self.slots += 1
        common = Function(
            bdf="",
            device=DEVICES.get(name, ROOT_PORT),
            host_bridge=bridge.host_bridge,
            bridges=_below(bridge),
            numa=bridge.numa,
            slot=self.slots,
        )
        if name == "gpu":
            functions = self._accelerator(common)
        elif name in self.description.cards:
            functions = _card_functions(common, self.description.cards[name])
        else:
            functions = [common]
        functions = [
            replace(function, bdf=f"{domain:04x}:{bus:02x}:00.{number}", several=len(functions) > 1)
            for number, function in enumerate(functions)
        ]
        self.functions += _with_virtual(functions, f"{domain:04x}:{bus:02x}")

    def _accelerator(self, common: Function) -> list[Function]:
        accelerator = self.description.accelerator
        gpu = replace(common, device=DEVICES[accelerator.device], gpu=self.gpus)
        functions = [gpu]
        if accelerator.card is not None:
            ports = tuple(port.numbered(self.gpus) for port in accelerator.card.ports)
            card = accelerator.card.model_copy(update={"ports": ports})
            functions += _card_functions(common, card)
        self.gpus += 1
        return functions


def _below(bridge: Function) -> tuple[str, ...]:
    return (*bridge.bridges, bridge.bdf) if bridge.bdf else ()


def _card_functions(common: Function, card: Card) -> list[Function]:
    device = DEVICES[card.device]
    return [
        replace(common, device=device, card=card, port=port, port_index=index)
        for index, port in enumerate(card.ports)
    ]


_BARE = {"network": "", "virtual": ()}  # a virtual function waits for its container


def _with_virtual(functions: Sequence[Function], bus: str) -> list[Function]:
    """The virtual functions get the numbers after the physical ones, port by port."""
    physical: list[Function] = []
    virtual: list[Function] = []
    number = len(functions)
    for function in functions:
        names = []
        port = function.port
        for own in port.virtual if port else ():
            bdf = f"{bus}:{number >> 3:02x}.{number & 7}"
            names.append(bdf)
            virtual.append(
                replace(
                    function,
                    bdf=bdf,
                    device=CONNECTX_VIRTUAL,
                    port=port and port.model_copy(update={**own.model_dump(), **_BARE}),
                    physical=function.bdf,
                )
            )
            number += 1
        physical.append(replace(function, virtual=tuple(names)))
    return physical + virtual


def distance(one: Function, other: Function) -> str:
    """How far two functions are apart, in the words of ``mx-smi topo``."""
    if one.bdf == other.bdf:
        return "X"
    if one.numa != other.numa:
        return "SYS"
    if one.host_bridge != other.host_bridge:
        return "NODE"
    shared = [a for a, b in zip(one.bridges, other.bridges, strict=False) if a == b]
    if not shared:
        return "PHB"
    # A switch counts as one bridge: below the same one both paths have its upstream port, and at
    # most one downstream port each, after the last bridge that they share.
    deepest = max(len(one.bridges), len(other.bridges))
    return "PIX" if deepest - len(shared) <= 1 else "PXB"
