"""Descriptions: those that we ship, wrong ones, and what is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rackready.emulator.description import (
    DescriptionError,
    Faults,
    describe,
    description_names,
    parse_description,
    parse_faults,
)
from rackready.emulator.machine import make_machine
from rackready.emulator.topology import distance, enumerate_functions

HERE = Path(__file__).parent
HEALTHY = files("rackready.emulator").joinpath("nodes").joinpath("c500x8-4nic.yaml")

# Name -> accelerators, ports with RDMA that are physical, virtual functions, PCI domains.
SHIPPED = {
    "c500x8-2dual": (8, 5, 0, 1),
    "c500x8-4nic": (8, 5, 0, 1),
    "c500x8-two-domains": (8, 3, 0, 2),
    "c500x8-vf": (8, 5, 8, 1),
    "c588x16": (8, 11, 0, 1),
    "c600x8-mxrdma": (8, 9, 0, 1),
}


def cases(name: str) -> list[dict[str, object]]:
    return yaml.safe_load(HERE.joinpath(name).read_text())


def test_no_description_is_forgotten_here() -> None:
    assert description_names() == sorted(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped(name: str) -> None:
    machine = make_machine(name, describe(name), Faults())
    bdfs = [function.bdf for function in machine.functions]
    assert len(set(bdfs)) == len(bdfs)
    assert SHIPPED[name] == (
        len(machine.accelerators),
        len([f for f in machine.rdma if not f.physical]),
        len([f for f in machine.functions if f.physical]),
        len({bdf[:4] for bdf in bdfs}),
    )
    # kernel and drivers number RDMA devices of one kind in the order of their BDFs
    physical = [f for f in machine.rdma if not f.physical and not f.gpu]
    assert [f.bdf for f in physical if f.port and f.port.rdma.startswith("mlx5")] == sorted(
        f.bdf for f in physical if f.port and f.port.rdma.startswith("mlx5")
    )


@pytest.mark.parametrize("name", SHIPPED)
def test_compute_nics_are_near_an_accelerator_and_the_others_are_not(name: str) -> None:
    description = describe(name)
    machine = make_machine(name, description, Faults())
    for function in machine.network:
        words = {distance(function, gpu) for gpu in machine.accelerators}
        others = (description.cards["storage"], description.cards["management"])
        assert bool(words & {"PIX", "PXB"}) == (function.card not in others)


@pytest.mark.parametrize("case", cases("wrong_descriptions.yaml"), ids=lambda case: case["new"])
def test_wrong_description(case: Mapping[str, str]) -> None:
    text = HEALTHY.read_text()
    assert case["old"] in text
    with pytest.raises(DescriptionError) as error:
        enumerate_functions(
            parse_description(text.replace(case["old"], case["new"], 1), HEALTHY.name)
        )
    assert case["error"] in str(error.value)


@pytest.mark.parametrize("case", cases("wrong_faults.yaml"), ids=lambda case: str(case["faults"]))
def test_wrong_faults(case: Mapping[str, object]) -> None:
    faults = case["faults"]
    assert isinstance(faults, dict)
    with pytest.raises(DescriptionError) as error:
        make_machine("node", describe("c500x8-4nic"), parse_faults(faults))
    assert str(case["error"]) in str(error.value)


def test_unknown_description_names_the_nearest() -> None:
    with pytest.raises(DescriptionError, match="did you mean 'c500x8-4nic'"):
        describe("c500x8-4nics")


@given(st.text())
def test_any_text_is_a_description_or_an_error(text: str) -> None:
    with pytest.raises(DescriptionError):
        parse_description(text, "node.yaml")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner)
)


@given(st.dictionaries(st.sampled_from(sorted(Faults.model_fields)) | st.text(), _JSON))
def test_any_faults_are_faults_or_an_error(data: Mapping[str, object]) -> None:
    try:
        assert isinstance(parse_faults(data), Faults)
    except DescriptionError as error:
        assert str(error)
