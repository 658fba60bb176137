"""What is read from the trees that the real lspci draws, of machines of any shape."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from rackready.emulator.description import describe, description_names
from rackready.emulator.topology import enumerate_functions
from rackready.emulator.tree import build
from rackready.facts.model import PciFunction
from rackready.facts.paste import read_paste
from rackready.facts.readers.lspci_tree import read_tree
from rackready.facts.readers.node import read_node
from rackready.facts.readers.reader import Output

pytestmark = pytest.mark.skipif(not shutil.which("lspci"), reason="no pciutils")

OPTIONS = ("-t", "-tv", "-tvv", "-tn", "-tvn", "-tvnn", "-D -vt")
Place = tuple[str | None, tuple[str, ...] | None, tuple[int, int] | None]


def drawn(options: str, *source: str) -> str:
    command = ["lspci", *source, *options.split()]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def places(text: str) -> dict[str, Place]:
    pasted = read_paste(text, "host", "lspci.txt")
    node = read_node("host", pasted.evidence, pasted.gaps, probed=False)
    assert not node.gaps
    return {bdf: (f.root, f.bridges, f.buses) for bdf, f in (node.pci or {}).items()}


@pytest.mark.parametrize("name", description_names())
def test_trees_of_emulated_nodes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RACKREADY_EMULATOR_DIR", str(tmp_path))
    described: dict[str, Place] = {
        f.bdf: (f.host_bridge, f.bridges, f.buses[1:] if f.buses[1] else None)
        for f in enumerate_functions(describe(name))
    }
    devices = f"sysfs.path={build('node', name, {})}/sys/bus/pci"
    for options in OPTIONS:
        text = drawn(options, "-A", "linux-sysfs", "-O", devices)
        assert places(f"[root@c1 ~]# lspci {options}\n{text}") == described
        assert places(text) == described  # by its shape
        labelled = "".join(f"0: {line}\n" for line in text.splitlines())
        assert places(labelled) == described


class Machine:
    """A random tree: ``places`` says what was planted, ``dump`` is for ``lspci -F``."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.places: dict[str, Place] = {}
        self.dump = ""
        for domain in sorted(self.random.sample(("0000", "0001", "ffff", "10000"), 2)):
            self.bus = self.random.randrange(64)
            for _ in range(self.random.randrange(1, 4)):
                root = f"pci{domain}:{self.bus:02x}"
                self.fill(domain, self.bus, root, (), self.random.randrange(2, 9))
                self.bus += self.random.randrange(1, 9)

    def fill(self, domain: str, bus: int, root: str, bridges: tuple[str, ...], depth: int) -> None:
        numbers = range(self.random.randrange(1, 4)) if bridges else (0, 1, 31)
        for device in numbers:
            for function in range(self.random.choice((1, 1, 1, 2, 8))):
                bdf = f"{domain}:{bus:02x}:{device:02x}.{function}"
                if depth and self.bus < 100 and self.random.random() < 0.5:
                    self.bus += 1
                    first = self.bus
                    self.places[bdf] = root, bridges, None
                    self.fill(domain, first, root, (*bridges, bdf), depth - 1)
                    if self.random.random() < 0.2:  # a bus of virtual functions
                        self.bus += 1
                        self.add(f"{domain}:{self.bus:02x}:00.1", root, (*bridges, bdf))
                    self.add(bdf, root, bridges, (bus, first, self.bus))
                else:
                    self.add(bdf, root, bridges)

    def add(
        self,
        bdf: str,
        root: str,
        bridges: tuple[str, ...],
        buses: tuple[int, int, int] | None = None,
    ) -> None:
        self.places[bdf] = root, bridges, buses and buses[1:]
        config = bytearray(64)
        config[:4] = bytes.fromhex("b3151021")
        config[0x0B] = 2
        if buses:
            config[0x0A], config[0x0B], config[0x0E] = 4, 6, 1
            config[0x18:0x1B] = bytes(buses)
        rows = (f"{at:02x}: {config[at : at + 16].hex(' ')}" for at in range(0, 64, 16))
        self.dump += "\n".join((f"{bdf} x", *rows, "", ""))


@pytest.mark.parametrize("seed", range(6))
def test_trees_of_any_shape(seed: int, tmp_path: Path) -> None:
    machine = Machine(seed)
    dump = tmp_path / "dump"
    dump.write_text(machine.dump)
    for options in OPTIONS:
        assert places(drawn(options, "-F", str(dump))) == machine.places


@pytest.mark.parametrize("seed", range(3))
def test_what_is_left_of_a_tree_is_never_wrong(seed: int, tmp_path: Path) -> None:
    """Lines that are missing leave functions out; none gets another's place."""
    machine = Machine(seed)
    dump = tmp_path / "dump"
    dump.write_text(machine.dump)
    lines = drawn("-t", "-F", str(dump)).splitlines()
    for gone in machine.random.sample(range(1, len(lines)), min(12, len(lines) - 1)):
        text = "\n".join((*lines[:gone], *lines[gone + 1 :], ""))
        for function in read_tree(Output("lspci -t", text, lambda _: None)):
            place = function.root, function.bridges, function.buses
            assert machine.places[function.bdf] == place, lines[gone]


def test_a_search_keeps_what_its_line_draws_from_the_root_on() -> None:
    text = (
        " +-[0000:80]---01.0-[81]----00.0  Mellanox Technologies MT2892 Family [ConnectX-6 Dx]\n"
        " |           \\-02.0-[1b]----00.0  Mellanox Technologies MT2910 Family [ConnectX-7]\n"
        " \\-[0000:c8]---01.0-[c9]----00.0  Mellanox Technologies MT2910 Family [ConnectX-7]\n"
    )
    pasted = read_paste(f"# lspci -tv | grep Mellanox\n{text}", "host", "lspci.txt")
    node = read_node("host", pasted.evidence, pasted.gaps, probed=False)
    bridge = PciFunction("0000:c8:01.0", class_code=0x060400, root="pci0000:c8", bridges=())
    found = node.pci or {}
    assert sorted(found) == ["0000:80:01.0", "0000:81:00.0", "0000:c8:01.0", "0000:c9:00.0"]
    assert (found[bridge.bdf].root, found[bridge.bdf].bridges) == (bridge.root, bridge.bridges)
    assert found["0000:c9:00.0"].bridges == (bridge.bdf,)
