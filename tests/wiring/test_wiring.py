"""Wiring of a node: distances, roles, names, and the GID that a connection should use."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import captures
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackready.emulator.description import describe, description_names, parse_faults
from rackready.emulator.machine import make_machine
from rackready.emulator.topology import distance as emulated_distance
from rackready.facts.model import Gid, NetDevice, Node, PciFunction, RdmaDevice, RdmaPort
from rackready.policy import Policy
from rackready.profile import Profile, detect
from rackready.wiring import Distance, Role, Wiring, distance, wanted_gid, wire
from rackready.wishes import wishes_of


def profile() -> Profile:
    return next(known for known in captures.profiles() if known.name == "MetaX C500")


def wired(node: Node, policy: Policy | None = None) -> Wiring:
    found = detect(node, captures.profiles()).profile
    return wire(node, found, wishes_of(policy or Policy(), found))


def roles(wiring: Wiring) -> dict[str, str]:
    return {port.name: port.role.value for port in wiring.ports}


@pytest.mark.parametrize("name", description_names())
def test_distances_are_those_of_the_description(name: str) -> None:
    node = captures.node(name)
    machine = make_machine("n", describe(name), parse_faults({}))
    assert node.pci is not None
    ends = [function for function in machine.functions if not function.buses]
    for one, other in product(machine.accelerators, ends):
        if one.bdf != other.bdf:
            found = distance(node.pci[one.bdf], node.pci[other.bdf])
            assert found is not None
            assert found.name == emulated_distance(one, other), (one.bdf, other.bdf)


@pytest.mark.parametrize(
    ("name", "compute", "others", "management"),
    [
        ("c500x8-4nic", "0 1 3 4", "2", ["eno1"]),
        ("c500x8-2dual", "0 1 3 4", "2", ["eno1"]),
        ("c500x8-two-domains", "0 2", "1", ["eno1"]),
        ("c588x16", "0 1 2 3 7 8 9 10", "4 5 6", []),
    ],
)
def test_roles(name: str, compute: str, others: str, management: list[str]) -> None:
    wiring = wired(captures.node(name))
    assert [port.rdma for port in wiring.compute] == [f"mlx5_{n}" for n in compute.split()]
    assert [port.rail for port in wiring.compute] == list(range(len(wiring.compute)))
    assert [p.name for p in wiring.ports if p.role is Role.OTHER] == [
        f"mlx5_{n}" for n in others.split()
    ]
    assert [p.name for p in wiring.ports if p.role is Role.MANAGEMENT] == management
    assert wiring.missing == ()


def test_nearest_accelerators() -> None:
    wiring = wired(captures.node("c500x8-4nic"))
    nic = wiring.ports[0]
    assert (nic.nearest, nic.distance) == (("0000:19:00.0", "0000:1a:00.0"), Distance.PIX)
    assert (nic.netdev, nic.numa_node, nic.virtual) == ("ens21f0np0", 0, False)
    assert nic.gid is not None
    assert nic.gid.index == 3
    (storage,) = (port for port in wiring.ports if port.name == "mlx5_2")
    assert (storage.distance, storage.rail) == (Distance.NODE, None)


def test_ports_of_accelerators() -> None:
    wiring = wired(captures.node("c600x8-mxrdma"))
    assert len(wiring.compute) == 8
    assert {port.accelerator_owned for port in wiring.compute} == {True}
    assert len(wiring.accelerators) == 8


def test_virtual_functions_are_on_no_rail() -> None:
    wiring = wired(captures.node("c500x8-vf"))
    virtual = [port for port in wiring.compute if port.virtual]
    assert len(virtual) == 8
    assert {port.rail for port in virtual} == {None}
    assert [port.rail for port in wiring.compute if not port.virtual] == [0, 1, 2, 3]


# --- Built by hand

GPU, NIC = "0000:19:00.0", "0000:1b:00.0"


def function(bdf: str, class_code: int, root: str = "pci0000:16", **fields: Any) -> PciFunction:
    made = PciFunction(
        bdf,
        0x9999 if class_code == 0x038000 else 0x15B3,
        0x4001,
        class_code,
        root=root,
        bridges=(),
        numa_node=0,
        driver="",
        physfn="",
    )
    return replace(made, **fields)


def gid(index: int, text: str, version: str | None = "v2", netdev: str | None = None) -> Gid:
    return Gid(index, text, version, netdev)


def ipv4(last: str) -> str:
    return f"0000:0000:0000:0000:0000:ffff:0a02:{last}"


LINK_LOCAL = "fe80:0000:0000:0000:a288:c2ff:fe12:3450"
GLOBAL = "2400:dd01:0000:0000:a288:c2ff:fe12:3450"


def node(gpu: PciFunction, nic: PciFunction, net: tuple[NetDevice, ...] = (), *gids: Gid) -> Node:
    port = RdmaPort(1, "Ethernet", gids=gids)
    return Node(
        "n",
        pci={gpu.bdf: gpu, nic.bdf: nic},
        rdma=(RdmaDevice("mlx5_0", nic.bdf, (port,)),),
        net=net,
    )


@pytest.mark.parametrize(
    ("gpu", "nic", "expected"),
    [
        # the NIC at the CPU, as on boards without a switch
        ({"bridges": ("a",)}, {"bridges": ("b",)}, Distance.PHB),
        ({"root": "pci0000:16"}, {"root": "pci0000:97"}, Distance.NODE),
        ({"numa_node": 0}, {"root": "pci0000:97", "numa_node": 1}, Distance.SYS),
        ({"numa_node": -1}, {"root": "pci0000:97", "numa_node": -1}, None),
        ({"numa_node": 0}, {"root": "pci0000:97", "numa_node": None}, None),
        ({"bridges": None}, {}, None),
        ({"root": None}, {}, None),
        ({"bridges": ("r", "u", "d1")}, {"bridges": ("r", "u", "d2")}, Distance.PIX),
        ({"bridges": ("r", "u", "d1", "v", "e")}, {"bridges": ("r", "u", "d2")}, Distance.PXB),
        ({"bridges": ("r",)}, {"bridges": ("r",)}, Distance.PIX),
    ],
)
def test_distance(gpu: dict[str, Any], nic: dict[str, Any], expected: Distance | None) -> None:
    one, other = function(GPU, 0x038000, **gpu), function(NIC, 0x020000, **nic)
    assert distance(one, other) == distance(other, one) == expected
    (port,) = wired(node(one, other)).ports
    near = expected in (Distance.PIX, Distance.PXB)
    assert port.role is (Role.COMPUTE if near else Role.OTHER)
    assert port.nearest == (() if expected is None else (GPU,))


def beside() -> tuple[PciFunction, PciFunction]:
    return (
        function(GPU, 0x038000, bridges=("r", "u", "d1")),
        function(NIC, 0x020000, bridges=("r", "u", "d2")),
    )


def test_bond() -> None:
    """The GID table names the bond; the interfaces of the card are not RDMA ports of their own."""
    net = (NetDevice("bond0", ""), NetDevice("ens1f0", NIC, port=0), NetDevice("lo", ""))
    wiring = wired(node(*beside(), net, gid(0, ipv4("0001"), netdev="bond0")))
    assert roles(wiring) == {"mlx5_0": "compute", "ens1f0": "management"}
    assert wiring.ports[0].netdev == "bond0"


def test_two_ports_on_one_function() -> None:
    """Without a GID table the port's number tells which interface is whose."""
    gpu, nic = beside()
    net = (NetDevice("p1p1", NIC, port=0), NetDevice("odd:name.100@x", NIC, port=1))
    device = RdmaDevice("mlx4_0", NIC, (RdmaPort(1), RdmaPort(2)))
    wiring = wired(Node("n", pci={GPU: gpu, NIC: nic}, rdma=(device,), net=net))
    assert [(port.port, port.netdev) for port in wiring.compute] == [
        (1, "p1p1"),
        (2, "odd:name.100@x"),
    ]


def test_ambiguous_interface_is_unknown() -> None:
    net = (NetDevice("a", NIC), NetDevice("b", NIC))
    (port, *_) = wired(node(*beside(), net)).ports
    assert (port.name, port.netdev, port.addresses) == ("mlx5_0", None, None)


def test_names_of_the_site() -> None:
    net = (NetDevice("ens1f0", NIC),)
    for name in ("mlx5_0", "ens1f0", NIC, NIC.upper(), NIC.removeprefix("0000:")):
        wiring = wired(node(*beside(), net), Policy(compute_nics=(name,)))
        assert [port.rdma for port in wiring.compute] == ["mlx5_0"]
        assert wiring.missing == ()
    wiring = wired(node(*beside(), net), Policy(compute_nics=("mlx5_7", "1C:00.0")))
    assert (wiring.compute, wiring.missing) == ((), ("1C:00.0", "mlx5_7"))


def test_nothing_known() -> None:
    assert wired(Node("n")) == Wiring((), ())
    soft = Node("n", pci={}, rdma=(RdmaDevice("rxe0", None, (RdmaPort(1),)),), net=())
    (port,) = wired(soft, Policy(compute_nics=("rxe0",))).ports
    assert (port.role, port.distance, port.virtual) == (Role.COMPUTE, None, None)


TABLE = (
    gid(0, LINK_LOCAL, "v1"),
    gid(1, LINK_LOCAL),
    gid(2, ipv4("7ae1"), "v1"),
    gid(3, ipv4("7ae1")),
    gid(4, GLOBAL, "v1"),
    gid(5, GLOBAL),
    gid(7, ipv4("0105")),
    gid(8, ipv4("0106"), None),
)


@pytest.mark.parametrize(
    ("version", "family", "subnet", "expected"),
    [
        ("v2", "ipv4", None, 3),
        ("v1", "ipv4", None, 2),
        ("v2", "ipv6", None, 5),
        ("v1", "ipv6", "2400:dd01::/32", 4),
        ("v2", "ipv4", "10.2.1.0/24", 7),
        ("v2", "ipv4", "10.2.0.0/16", 3),
        ("v2", "ipv4", "10.9.0.0/16", None),
        ("v2", "ipv4", "2400:dd01::/32", None),
        ("v2", "ipv6", "2400:dd02::/32", None),
    ],
)
def test_wanted_gid(version: str, family: str, subnet: str | None, expected: int | None) -> None:
    found = wanted_gid(TABLE, version, family, subnet)
    assert (found and found.index) == expected


@given(st.permutations(TABLE), st.integers(0, len(TABLE)))
def test_any_part_of_a_table(table: list[Gid], size: int) -> None:
    part = tuple(table[:size])
    found = wanted_gid(part, "v2", "ipv4")
    assert (found in part) if found else not {TABLE[3], TABLE[6]} & set(part)
