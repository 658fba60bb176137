"""A new vendor is a profile and a reader: nothing else of rackready changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import captures
import pytest

from rackready.catalog import load_profiles
from rackready.facts.capture import probe_script, read_capture, write_capture
from rackready.facts.model import Accelerator, AcceleratorStack, Evidence
from rackready.facts.parts.smi import Health
from rackready.facts.readers import registry
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.sysfs import bdf
from rackready.finding import NodeVerdict
from rackready.judge import Judgement, judge, probe_wishes
from rackready.policy import Policy

PROFILES = Path(__file__).parent / "profiles" / "toy"


def read_toy(output: Output) -> Iterator[AcceleratorStack | Health]:
    """``toy-smi``: lines ``0 ONE-80G 0000:01:00.0 ready``, ``errors ADDRESS 2``, ``driver 7.1``."""
    text = output.text
    found = tuple(
        Accelerator(int(index), model, bdf(address), "Available" if state == "ready" else state)
        for index, model, address, state in re.findall(r"^(\d) (\S+) (\S+) (.+)$", text, re.M)
    )
    driver = re.search(r"^driver (\S+)$", text, re.M)
    yield AcceleratorStack(accelerators=found or None, driver_version=driver[1] if driver else None)
    for address, count in re.findall(r"^errors (\S+) (\d+)$", text, re.M):
        yield Health(address, "toy-smi", uncorrected=int(count))


def toy(read_request: int = 1024, state: str = "ready") -> str:
    """A node with two toy accelerators and one NIC behind a switch."""
    config = bytearray(256)
    config[0:2], config[6], config[0x34], config[0x40] = b"\xb3\x15", 0x10, 0x40, 0x10
    config[0x49] = (read_request.bit_length() - 8) << 4
    dump = "".join(f"{at:06x} {config[at : at + 16].hex(' ')}\n" for at in range(0, 256, 16))
    functions = {"00": ("0x1af4", "0x0001", "0x120000"), "01": ("0x1af4", "0x0001", "0x120000")}
    functions["02"] = ("0x15b3", "0x1021", "0x020000")
    long = "lrwxrwxrwx 1 root root 0 Jan  1 00:00"
    path = "../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:{0}.0/0000:1{0}:00.0"
    listing = "".join(f"{long} 0000:1{n}:00.0 -> {path.format(n)}\n" for n in "012")
    values = "".join(
        f"0000:1{n}:00.0/{name}:{value}\n"
        for n, row in zip("012", functions.values(), strict=True)
        for name, value in zip(("vendor", "device", "class"), row, strict=True)
    )
    rdma = "cd /sys/class/infiniband && grep -s ''"
    outputs = {
        "ls -l /sys/bus/pci/devices": listing,
        "cd /sys/bus/pci/devices && grep -s '' */class": values,
        "cd /sys/bus/pci/devices && ls -ld */driver */physfn": "",
        "od -Ax -tx1 -N 4096 /sys/bus/pci/devices/0000:12:00.0/config": dump,
        "ls -l /sys/class/infiniband": f"{long} mlx5_0 -> {path.format(2)}/infiniband/mlx5_0\n",
        f"{rdma} */fw_ver */ports/*/link_layer": "mlx5_0/ports/1/link_layer:InfiniBand\n",
        "toy-smi": f"0 ONE-80G 0000:10:00.0 ready\n1 ONE-80G 0000:11:00.0 {state}\ndriver 7.1\n",
    }
    return write_capture(Evidence("n", command, text) for command, text in outputs.items())


@pytest.fixture(autouse=True)
def with_reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "READERS", (*registry.READERS, reader("toy-smi", read_toy)))
    registry.by_command.cache_clear()
    yield
    registry.by_command.cache_clear()


def judged(text: str) -> Judgement:
    capture = read_capture(text, "n")
    return judge("n", capture, load_profiles(PROFILES), Policy(), captures.TODAY)


def cases(judgement: Judgement) -> dict[tuple[str, str], str]:
    return {(f.check, f.subject): f.case for f in judgement.findings}


def test_right() -> None:
    result = judged(toy())
    assert result.verdict is NodeVerdict.CONFIGURED
    assert result.view.profile is not None
    assert result.view.profile.name == "Toy One"
    assert (
        cases(result).items()
        >= {
            ("accelerator.count", "accelerators"): "ok",
            ("accelerator.state", "0000:11:00.0"): "ok",
            ("accelerator.product", "accelerators"): "ok",
            ("node.facts", "facts"): "ok",
            ("node.compute-nics", "NICs"): "ok",
            ("pcie.max-read-request", "0000:12:00.0"): "ok",
            ("roce.gid-index", "mlx5_0"): "infiniband",
        }.items()
    )


def test_wrong() -> None:
    result = judged(toy(read_request=4096, state="on fire"))
    assert result.verdict is NodeVerdict.NOT_READY
    assert cases(result)["accelerator.state", "0000:11:00.0"] == "unavailable"
    (read_request,) = (f for f in result.findings if f.check == "pcie.max-read-request")
    assert (read_request.verdict.value, read_request.expected) == ("fail", "1024 B")


def test_memory_errors() -> None:
    errors = "errors 0000:10:00.0 0\n|errors 0000:11:00.0 2"
    text = toy().replace("|driver 7.1", f"|{errors}\n|driver 7.1")
    result = judged(text)
    assert cases(result)["gpu.errors", "0000:10:00.0"] == "ok"
    (found,) = (f for f in result.findings if f.case == "uncorrected")
    assert (found.subject, found.fix) == (
        "0000:11:00.0",
        "drain the node; reset the card with toy-smi (or reboot)",
    )
    assert not [f for f in result.findings if f.case == "internal"]


def test_unknown() -> None:
    lost = toy().replace("$ toy-smi\n", "$ something-else\n")
    result = judged(lost)
    assert result.verdict is NodeVerdict.INCONCLUSIVE
    assert cases(result)["node.facts", "stack.accelerators"] == "unknown"


def test_probe_asks_for_it() -> None:
    script = probe_script(probe_wishes(load_profiles(PROFILES)))
    assert "\ntoy-smi'\n" in script
    assert "\nRACKREADY_VENDORS='0x10de 0x1af4 0x1ded 0x9999'\n" in script
