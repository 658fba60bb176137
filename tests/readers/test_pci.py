"""Config space and the tree of PCI functions."""

from __future__ import annotations

from pathlib import Path

import captures
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackready.facts.capture import read_capture
from rackready.facts.model import Node
from rackready.facts.readers.node import read_node
from rackready.facts.readers.pci import (
    function_of,
    path_of,
    read_dump,
    read_express,
    read_serial,
)

REAL = Path(__file__).parents[1] / "samples" / "captures"


def real(name: str) -> Node:
    capture = read_capture((REAL / f"h200-vm-{name}.capture").read_bytes(), name)
    assert capture.gaps == ()
    return read_node(name, capture.evidence)


def test_real_accelerator_as_root() -> None:
    pci = real("root").pci
    assert pci is not None
    assert len(pci) == 7
    gpu = pci["0000:00:06.0"]
    assert (gpu.vendor, gpu.device, gpu.class_code) == (0x10DE, 0x2335, 0x030200)
    assert (gpu.driver, gpu.numa_node, gpu.root, gpu.bridges) == ("nvidia", -1, "pci0000:00", ())
    assert (gpu.config_bytes, gpu.responds, gpu.physfn) == (4096, True, "")
    assert gpu.serial is not None
    express = gpu.express
    assert express is not None
    assert (express.offset, express.port_type) == (0x60, 0)
    assert (express.max_payload, express.max_read_request) == (256, 4096)
    assert (express.link_speed, express.link_width) == (5, 16)
    nic = pci["0000:00:03.0"]
    assert (nic.driver, nic.class_code, nic.config_bytes) == ("virtio-pci", 0x020000, 256)
    assert pci["0000:00:00.0"].driver == ""


def test_real_accelerator_as_an_ordinary_user() -> None:
    pci = real("nobody").pci
    assert pci is not None
    gpu = pci["0000:00:06.0"]
    assert (gpu.config_bytes, gpu.express, gpu.responds) == (64, None, True)
    assert gpu.driver == "nvidia"


def test_dump_with_repeated_lines() -> None:
    text = "000000 86 80 ff ff 00 00 00 00 00 00 00 00 00 00 00 00\n*\n000040 01 02\n000042\n"
    data = read_dump(text, pytest.fail)
    assert len(data) == 66
    assert data[16:20] == b"\x86\x80\xff\xff"
    assert data[64:] == b"\x01\x02"


@pytest.mark.parametrize("form", ["\t", "  ", "\r\n"])
def test_dump_in_other_spacing(form: str) -> None:
    text = "0000000 86 80\n0000002\n"
    text = text.replace("\n", form) if form == "\r\n" else text.replace(" ", form)
    assert read_dump(text, pytest.fail) == b"\x86\x80"


@pytest.mark.parametrize(
    ("text", "kept", "said"),
    [
        ("000000 86 80\n000010 00\n", 2, "address 0x10 follows byte 0x2"),
        ("000000 86 80\nroot@n1:~#\n", 2, "line 2 is no dump"),
        ("000000 86 80\n*\nffffffff\n", 2, "address 0xffffffff follows"),
        ("*\n000100 00\n", 0, "address 0x100 follows byte 0x0"),
        ("od: /sys/x: Permission denied\n", 0, "line 1 is no dump"),
    ],
)
def test_dump_that_is_damaged(text: str, kept: int, said: str) -> None:
    notes: list[str] = []
    assert len(read_dump(text, notes.append)) == kept
    assert len(notes) == 1
    assert said in notes[0]


def config(pointer: int = 0x40, capability: bytes = b"") -> bytes:
    data = bytearray(256)
    data[6] = 0x10
    data[0x34] = pointer
    data[0x40 : 0x40 + len(capability)] = capability
    return bytes(data)


def test_express_at_any_offset() -> None:
    for pci in (captures.node("c500x8-4nic").pci, captures.node("c500x8-vf").pci):
        assert pci is not None
        offsets = {f.express.offset for f in pci.values() if f.express}
        assert offsets >= {0x40, 0x60, 0x68, 0x70}


def test_walk_of_capabilities_ends() -> None:
    assert read_express(config(0x40, b"\x01\x40")) is None  # a ring
    assert read_express(config(0x40, b"\x01\x00")) is None  # no Express capability
    assert read_express(config(0xFC, b"")) is None
    assert read_express(config()[:64]) is None
    assert read_express(b"\xff" * 4096) is None
    ring = bytearray(4096)
    ring[0x100:0x104] = (0x0001 | 1 << 16 | 0x100 << 20).to_bytes(4, "little")
    assert read_serial(bytes(ring)) is None


@given(st.binary(max_size=4096))
def test_any_config_space(data: bytes) -> None:
    express = read_express(data)
    read_serial(data)
    if express is not None:
        assert express.max_payload in (None, 128, 256, 512, 1024, 2048, 4096)
        assert express.max_read_request in (None, 128, 256, 512, 1024, 2048, 4096)


def test_paths() -> None:
    target = "../../../devices/pci0001:c8/0001:c8:01.0/0001:c9:00.0"
    assert path_of(target) == ("pci0001:c8", ("0001:c8:01.0",))
    assert function_of(f"{target}/net/eth0") == "0001:c9:00.0"
    assert function_of("../../devices/virtual/net/lo") is None


def test_virtual_functions() -> None:
    pci = captures.node("c500x8-vf").pci
    assert pci is not None
    virtual = [f for f in pci.values() if f.is_virtual]
    assert len(virtual) == 8
    assert {f.physfn for f in virtual} == {f"0000:{bus}:00.0" for bus in ("1b", "4c", "9c", "cd")}
    assert all(f.responds and f.express and f.express.max_read_request == 128 for f in virtual)
    assert pci["0000:1b:00.0"].is_virtual is False


def test_device_that_is_gone() -> None:
    edit = {"command": "od -Ax -tx1 -N 4096 /sys/bus/pci/devices/0000:1b:00.0/config", "fill": 255}
    pci = captures.node("c500x8-4nic", edits=[edit]).pci
    assert pci is not None
    assert (pci["0000:1b:00.0"].responds, pci["0000:1b:00.0"].express) == (False, None)
    assert pci["0000:1b:00.0"].vendor == 0x15B3  # what the kernel remembers


def test_links_that_were_lost_are_unknown() -> None:
    edit = {"command": "cd /sys/bus/pci/devices && ls -ld", "lost": "cut"}
    pci = captures.node("c500x8-4nic", edits=[edit]).pci
    assert pci is not None
    assert {(f.driver, f.is_virtual) for f in pci.values()} == {(None, None)}
