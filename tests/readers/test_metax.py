"""MetaX tools: three generations of mx-smi."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackready.facts.model import AcceleratorStack
from rackready.facts.readers.metax import (
    PROPERTIES,
    read_list,
    read_stack,
    read_table,
    read_topology,
    read_version_file,
)

SAMPLES = Path(__file__).parents[1] / "samples" / "metax"


def sample(name: str) -> str:
    return (SAMPLES / name).read_text()


def stack(**outputs: str) -> tuple[AcceleratorStack, list[str]]:
    """From samples by tool: ``mx_smi``, ``mx_smi_L``, ``topo``."""
    commands = {"mx_smi": "mx-smi", "mx_smi_L": "mx-smi -L", "topo": "mx-smi topo -m"}
    notes: list[str] = []
    texts = {commands.get(name, name): text for name, text in outputs.items()}
    return read_stack(texts, notes.append), notes


def test_table_of_2_2_9() -> None:
    devices = read_table(sample("mx-smi_default_2.2.9_c500x8.txt"))
    assert [item.index for item in devices] == list(range(8))
    assert {item.model for item in devices} == {"MetaX C500"}
    first, last = devices[0], devices[7]
    assert (first.bdf, last.bdf) == ("0000:0e:00.0", "0000:38:00.0")
    assert (first.power_w, first.temperature_c) == (57, 35)
    assert (first.memory_used_mib, first.memory_mib) == (826, 65536)
    assert {item.state for item in devices} == {"Available"}


@pytest.mark.parametrize(
    ("file", "model", "bdf", "state", "memory", "power", "temperature"),
    [
        ("2.2.4_c500x1", "MetaX C500", "0000:01:00.0", "Available", 858, 48, 45),
        ("2.1.12_c550x1_nosdk", "MetaX C550", "0000:2a:00.0", None, 858, 97, 34),
        ("2.1.6_c550", "MXC550", "0000:2a:00.0", None, 810, 44, 31),
    ],
)
def test_older_tables(
    file: str,
    model: str,
    bdf: str,
    state: str | None,
    memory: int,
    power: int,
    temperature: int,
) -> None:
    first = read_table(sample(f"mx-smi_default_{file}.txt"))[0]
    assert (first.index, first.model, first.bdf, first.state) == (0, model, bdf, state)
    assert (first.memory_used_mib, first.power_w, first.temperature_c) == (
        memory,
        power,
        temperature,
    )


@pytest.mark.parametrize(
    ("file", "tool", "driver", "sdk", "firmware", "attached"),
    [
        ("2.2.9_c500x8", "2.2.9", "3.4.4", "3.3.0.15", "1.30.0.0", 8),
        ("2.2.4_c500x1", "2.2.4", "2.14.8", "2.33.0.5", "1.24.4.0", 1),
        ("2.1.12_c550x1_nosdk", "2.1.12", "2.12.13", None, "1.13.4.0", 1),
        ("2.1.6_c550", "2.1.6", "2.5.014", "2.23.0.1018", "1.13.4.0", 2),
    ],
)
def test_versions(
    file: str, tool: str, driver: str, sdk: str | None, firmware: str, attached: int
) -> None:
    found, notes = stack(mx_smi=sample(f"mx-smi_default_{file}.txt"))
    assert notes == []
    assert (found.tool_version, found.driver_version) == (tool, driver)
    assert (found.sdk_version, found.firmware_version) == (sdk, firmware)
    assert found.attached == attached == len(found.accelerators or ())


def test_list() -> None:
    devices = read_list(sample("mx-smi_L_2.2.9.txt"))
    assert len(devices) == 8
    assert (devices[7].index, devices[7].model, devices[7].bdf) == (7, "MXC500", "0000:3c:00.0")
    assert devices[7].uuid == "GPU-0a1b0007-0000-4000-8000-000000000007"
    without = read_list(sample("mx-smi_L_2.2.8_nouuid.txt"))
    assert [item.bdf for item in without] == [
        f"0000:{bus}:00.0" for bus in ["06", "07", "0a", "0d"]
    ]
    assert {(item.state, item.uuid) for item in without} == {("Available", None)}


def test_reason_of_an_unavailable_device() -> None:
    devices = read_list(sample("mx-smi_L_unavailable.txt"))
    assert devices[1].state == "Not Available(MetaX Sysfs File Unaccessible)"
    assert (devices[0].state, devices[1].uuid) == ("Available", None)


def test_topology() -> None:
    for file in ("m", "n"):
        rows = read_topology(sample(f"mx-smi_topo_{file}_2.2.9.txt"))
        assert sorted(rows) == list(range(8))
        assert rows[0] == ("X", "MX", "MX", "MX", "NODE", "NODE", "NODE", "NODE")
        assert rows[7] == ("NODE", "NODE", "NODE", "NODE", "MX", "MX", "MX", "X")


def test_version_file() -> None:
    assert read_version_file(sample("version_txt.txt")) == "3.8.1.6"
    assert read_version_file("") is None
    assert read_version_file("cat: /opt/maca/Version.txt: No such file or directory") is None


def test_stack_puts_the_tools_together() -> None:
    table = sample("mx-smi_default_2.2.9_c500x8.txt")
    found, notes = stack(mx_smi=table, topo=sample("mx-smi_topo_m_2.2.9.txt"))
    assert notes == []
    assert found.accelerators is not None
    assert found.accelerators[4].links == ("NODE",) * 4 + ("X",) + ("MX",) * 3
    # the list of another host: each address differs from that in the table
    _, notes = stack(mx_smi=table, mx_smi_L=sample("mx-smi_L_2.2.9.txt"))
    assert notes[0] == "GPU 0 is 0000:0e:00.0 in the table and 0000:08:00.0 in the list"


@pytest.mark.parametrize(("text", "expected"), [("peer_mem 1\n", True), ("peer_mem 0\n", False)])
@pytest.mark.parametrize("path", PROPERTIES)
def test_peer_memory(path: str, text: str, expected: bool) -> None:
    found, _ = stack(**{f"cat {path}": text})
    assert found.peer_memory is expected


def test_silence_is_unknown() -> None:
    assert stack() == (AcceleratorStack(), [])
    found, notes = stack(mx_smi="mx-smi: cannot open /dev/mxcd\n")
    assert found.accelerators is None
    assert notes == ["mx-smi printed no device that could be understood"]


def test_no_device_is_known_when_the_tool_says_so() -> None:
    found, notes = stack(mx_smi="Attached GPUs                                     : 0\n")
    assert (found.accelerators, found.attached, notes) == ((), 0, [])


def test_a_table_that_is_cut_is_said() -> None:
    table = sample("mx-smi_default_2.2.9_c500x8.txt")
    found, notes = stack(mx_smi=table[: table.index("| 5     MetaX")])
    assert len(found.accelerators or ()) == 5
    assert notes == ["mx-smi counts 8 devices and shows 5"]


@pytest.mark.parametrize(
    "text",
    [
        "GPU#" + "9" * 5000 + "  MXC500  0000:08:00.0  Available",
        "Attached GPUs : " + "9" * 5000,
        "| 0 MetaX C500 | 0 | 0000:0e:00.0 |\n| " + "9" * 5000 + "/1 MiB |",
        "GPU0 GPU1 Node\nGPU" + "1" * 5000 + " X X X",
    ],
)
def test_numbers_of_any_length(text: str) -> None:
    stack(mx_smi=text, mx_smi_L=text, topo=text)
