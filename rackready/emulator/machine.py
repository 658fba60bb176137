"""One emulated machine: a description, given a name, faults and so an identity of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Interface

from rackready.document import hint
from rackready.emulator import identity
from rackready.emulator.config_space import Registers
from rackready.emulator.description import Description, DescriptionError, Faults
from rackready.emulator.topology import Function, enumerate_functions

DEFAULT_READ_REQUEST, HEALTHY_PAYLOAD = 512, 256  # bytes


@dataclass(frozen=True)
class Gid:
    value: bytes
    type: str


@dataclass(frozen=True)
class Machine:
    name: str
    description: Description
    faults: Faults
    functions: tuple[Function, ...]

    @cached_property
    def accelerators(self) -> list[Function]:
        return [f for f in self.functions if f.gpu is not None and f.port is None]

    @cached_property
    def network(self) -> list[Function]:
        """Functions that are a port of a network card."""
        return [f for f in self.functions if f.port is not None]

    @cached_property
    def rdma(self) -> list[Function]:
        """Ports with RDMA, in the order of their devices' numbers."""
        with_rdma = [f for f in self.network if _port_names(f)[0]]
        return sorted(with_rdma, key=lambda f: _natural(_port_names(f)[0]))

    def mac(self, function: Function) -> bytes:
        return identity.mac(self.name, function.bdf)

    def address(self, function: Function) -> IPv4Interface | None:
        port = function.port
        return identity.interface(port.network, self.name) if port and port.network else None

    def link_local(self, function: Function) -> bytes:
        """The one that the interface has; the default GIDs come from the MAC address anyway."""
        if self.faults.gid == "extra-link-local":
            return identity.private_link_local(self.name, function.bdf)
        return identity.link_local(self.mac(function))

    def gids(self, function: Function) -> list[Gid]:
        """The GID table in the order in which the kernel fills it."""
        mac = self.mac(function)
        if function.port is not None and function.port.link_layer == "InfiniBand":
            return [Gid(b"\xfe\x80" + bytes(6) + identity.guid(mac), "IB/RoCE v1")]
        values = [identity.link_local(mac)]
        address = self.address(function)
        if address is not None:
            if self.faults.gid == "extra-link-local":
                values.append(self.link_local(function))
            values.append(bytes(10) + b"\xff\xff" + address.ip.packed)
        return [Gid(value, kind) for value in values for kind in ("IB/RoCE v1", "RoCE v2")]

    def registers(self, function: Function) -> Registers:
        card = function.card
        usual = card.max_read_request if card else DEFAULT_READ_REQUEST
        wrong = self.faults.max_read_request
        names = (function.bdf, *_port_names(function))
        return Registers(
            serial=int.from_bytes(identity.guid(self.mac(function)), "big"),
            max_payload=self.faults.max_payload or HEALTHY_PAYLOAD,
            max_read_request=next((wrong[name] for name in names if name in wrong), usual),
        )


def make_machine(name: str, description: Description, faults: Faults) -> Machine:
    """
    Put a machine together.

    Raises:
        DescriptionError: a fault names something that the description has not.
    """
    functions = enumerate_functions(description)
    physical = [f for f in functions if f.port is not None and not f.physical]
    names = {word for f in physical for word in (f.bdf, *_port_names(f)) if word}
    for word in faults.max_read_request:
        if word not in names:
            raise DescriptionError(
                [f"faults: max_read_request: no NIC function {word!r}{hint(word, names)}"]
            )
    count = description.slots().count("gpu")
    for key in ("accelerator_missing", "accelerator_unavailable"):
        index = getattr(faults, key)
        if index is not None and index >= count:
            raise DescriptionError([f"faults: {key}: there are {count} accelerators, from 0"])
    if faults.accelerator_missing is not None:
        gone = {f.slot for f in functions if f.gpu == faults.accelerator_missing}
        functions = tuple(f for f in functions if not f.slot or f.slot not in gone)
    return Machine(name, description, faults, functions)


def _port_names(function: Function) -> tuple[str, str]:
    return (function.port.rdma, function.port.netdev) if function.port else ("", "")


def _natural(name: str) -> tuple[str, int]:
    """mlx5_2 comes before mlx5_10."""
    match = re.fullmatch(r"(.*?)(\d*)", name)
    assert match is not None  # it matches every name
    return match[1], int(match[2] or 0)
