"""Facts of one thing are merged, and what does not agree is told."""

from __future__ import annotations

from types import MappingProxyType

from rackready.facts.model import (
    Accelerator,
    Gid,
    KernelLog,
    NetDevice,
    PciFunction,
    RdmaDevice,
    RdmaPort,
)
from rackready.facts.parts.host import Environment
from rackready.facts.parts.store import Facts, merged


def test_what_one_leaves_open_the_other_fills() -> None:
    facts = Facts([PciFunction("0000:33:00.0", vendor=0x15B3), PciFunction("0000:33:00.0")])
    facts.add(PciFunction("0000:33:00.0", driver="mlx5_core"))
    facts.add(PciFunction("0000:34:00.0"))
    assert facts.each(PciFunction) == (
        PciFunction("0000:33:00.0", vendor=0x15B3, driver="mlx5_core"),
        PciFunction("0000:34:00.0"),
    )


def test_the_first_of_two_that_disagree_wins() -> None:
    told: list[str] = []
    one, other = PciFunction("0000:33:00.0", numa_node=0), PciFunction("0000:33:00.0", numa_node=1)
    assert merged(one, other, told.append) == one
    assert told == [
        "PciFunction 0000:33:00.0: numa_node is '0' in one output, '1' in another",
    ]


def test_parts_are_merged_by_their_own_keys() -> None:
    facts = Facts()
    facts.add(RdmaDevice("mlx5_0", ports=(RdmaPort(1, rate="400"), RdmaPort(2))))
    facts.add(RdmaDevice("mlx5_0", ports=(RdmaPort(1, gids=(Gid(0, "fe80::1"),)),)))
    (device,) = facts.each(RdmaDevice)
    assert device.ports == (RdmaPort(1, rate="400", gids=(Gid(0, "fe80::1"),)), RdmaPort(2))


def test_a_fact_joins_what_was_kept_apart() -> None:
    facts = Facts([Accelerator(index=3, model="X"), Accelerator(bdf="0000:1b:00.0", uuid="u")])
    assert len(facts.each(Accelerator)) == 2
    facts.add(Accelerator(index=3, bdf="0000:1b:00.0"))
    assert facts.each(Accelerator) == (Accelerator(3, "X", "0000:1b:00.0", uuid="u"),)
    assert facts.first(Accelerator, uuid="u") == facts.each(Accelerator)[0]


def test_lists_of_addresses_are_joined_unless_they_disagree() -> None:
    told: list[str] = []
    facts = Facts([NetDevice("lo", addresses=("127.0.0.1/8",))])
    facts.add(NetDevice("lo", addresses=("::1/128",)), told.append)
    facts.add(NetDevice("lo", addresses=("127.0.0.1/8", "10.0.0.1/32")), told.append)
    assert facts.each(NetDevice)[0].addresses == ("127.0.0.1/8", "::1/128", "10.0.0.1/32")
    assert not told
    facts.add(NetDevice("lo", addresses=("127.0.0.2/8",)), told.append)
    assert facts.each(NetDevice)[0].addresses == ("127.0.0.1/8", "::1/128", "10.0.0.1/32")
    assert len(told) == 1


def test_mappings_are_joined() -> None:
    told: list[str] = []
    facts = Facts([Environment("env", MappingProxyType({"A": "1", "B": "2"}))])
    facts.add(Environment("env", MappingProxyType({"B": "3", "C": "4"})), told.append)
    assert dict(facts.each(Environment)[0].values) == {"A": "1", "B": "2", "C": "4"}
    assert len(told) == 1


def test_what_happened_is_kept_as_it_is() -> None:
    facts = Facts([KernelLog(("a",)), KernelLog(("a",)), KernelLog(("b",)), KernelLog(("a",))])
    assert [log.lines for log in facts.each(KernelLog)] == [("a",), ("b",), ("a",)]
    assert facts.kinds() == (KernelLog,)
    assert not Facts()


def test_parts_without_end_are_left_out() -> None:
    told: list[str] = []
    facts = Facts()
    for number in range(1100):
        facts.add(RdmaDevice("mlx5_0", ports=(RdmaPort(number),)), told.append)
    assert len(facts.each(RdmaDevice)[0].ports or ()) == 1024
    assert "more than 1024 of ports" in told[0]
