"""templates/usr/local/lib/rackready/max-read-request, with setpci and without."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_node import CARD, CONF, NIC, SCRIPT, TEMPLATES, SmallNode

CASES: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("max_read_request.yaml").read_text()
)
WRITERS = [
    pytest.param("", id="sysfs"),
    pytest.param(
        "setpci",
        id="setpci",
        marks=pytest.mark.skipif(shutil.which("setpci") is None, reason="setpci is not installed"),
    ),
]


def run(
    node: SmallNode, *words: str, shell: Iterable[str] = ("sh",), writer: str = ""
) -> subprocess.CompletedProcess[str]:
    installed = node.path(SCRIPT)
    installed.parent.mkdir(exist_ok=True)
    shutil.copy(TEMPLATES / SCRIPT.lstrip("/"), installed)
    return subprocess.run(
        [*shell, str(installed), *words],
        env=node.environment(RACKREADY_SETPCI=writer),
        capture_output=True,
        text=True,
        timeout=60,
    )


def configure(node: SmallNode, text: str) -> None:
    node.path(CONF).parent.mkdir(exist_ok=True)
    node.path(CONF).write_text(text)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("case", CASES)
def test_apply(node: SmallNode, shell: list[str], case: str, writer: str) -> None:
    wish = CASES[case]
    capability = wish.get("capability", 0x60)
    config = node.add_function(
        control=wish["control"], capability=capability, card=wish.get("card", "15b3:1021")
    )
    before = config.read_bytes()
    configure(node, "# head\n\n" + wish["line"] + ("\n" if wish.get("newline", True) else ""))

    done = run(node, "apply", shell=shell, writer=writer)

    assert (done.returncode, done.stdout) == (wish["status"], "")
    assert wish["says"] in done.stderr if wish["says"] else done.stderr == ""
    after = bytearray(before)
    after[capability + 8 : capability + 10] = wish["after"].to_bytes(2, "little")
    assert config.read_bytes() == bytes(after)

    written = config.stat().st_mtime_ns
    assert run(node, "apply", shell=shell, writer=writer).returncode == wish["status"]
    assert config.stat().st_mtime_ns == written  # a second time, nothing is written


@pytest.mark.parametrize("writer", WRITERS)
def test_every_line_or_one(node: SmallNode, shell: list[str], writer: str) -> None:
    node.add_function("0000:33:00.0")
    node.add_function("0000:33:00.1", capability=0x70)
    node.add_function("10000:01:00.0")
    configure(
        node,
        "0000:33:00.0 15b3:1021 256\n0000:33:00.1 15b3:1021 512\n10000:01:00.0 15b3:1021 1024\n",
    )

    assert run(node, "apply", "0000:33:00.1", shell=shell, writer=writer).returncode == 0
    assert node.control("0000:33:00.1", 0x70) == 0x2937
    assert node.control("0000:33:00.0") == node.control("10000:01:00.0") == 0x5937

    # udev asks for every network card: most are none of ours.
    other = run(node, "apply", "0000:99:00.0", shell=shell, writer=writer)
    assert (other.returncode, other.stderr) == (0, "")

    assert run(node, "apply", shell=shell, writer=writer).returncode == 0
    assert (node.control("0000:33:00.0"), node.control("10000:01:00.0")) == (0x1937, 0x3937)


def test_one_refused_line_does_not_stop_the_others(node: SmallNode) -> None:
    node.add_function("0000:33:00.1")
    configure(node, "0000:33:00.0 15b3:1021 256\n0000:33:00.1 15b3:1021 256\n")

    done = run(node, "apply")

    assert done.returncode == 1
    assert "0000:33:00.0: refused: no such PCI function" in done.stderr
    assert node.control("0000:33:00.1") == 0x1937


def test_without_configuration_nothing_is_wished(node: SmallNode) -> None:
    node.add_function()
    done = run(node, "apply")
    assert (done.returncode, done.stderr, node.control()) == (0, "", 0x5937)


@pytest.mark.parametrize("writer", WRITERS)
def test_read_and_restore(node: SmallNode, shell: list[str], writer: str) -> None:
    node.add_function(control=0x1937)
    assert run(node, "read", NIC, shell=shell).stdout == "256\n"
    assert run(node, "restore", NIC, "4096", CARD, shell=shell, writer=writer).returncode == 0
    assert run(node, "read", NIC, shell=shell).stdout == "4096\n"
    assert node.control() == 0x5937


@pytest.mark.parametrize("writer", WRITERS)
def test_another_card_is_not_restored(node: SmallNode, shell: list[str], writer: str) -> None:
    node.add_function(control=0x1937, card="8086:1572")
    done = run(node, "restore", NIC, "4096", CARD, shell=shell, writer=writer)
    assert (done.returncode, node.control()) == (1, 0x1937)
    assert f"{NIC}: refused: 8086:1572 sits there, not {CARD}" in done.stderr


@pytest.mark.parametrize("writer", WRITERS)
def test_only_network_cards_are_set(node: SmallNode, shell: list[str], writer: str) -> None:
    node.add_function(base_class=0x01)
    configure(node, f"{NIC} {CARD} 256\n")
    for words in (["apply"], ["restore", NIC, "256", CARD]):
        done = run(node, *words, shell=shell, writer=writer)
        assert (done.returncode, node.control()) == (1, 0x5937)
        assert f"{NIC}: refused: no network card: its class is 01xxxx" in done.stderr
    assert run(node, "read", NIC, shell=shell).stdout == "4096\n"


def test_a_virtual_function_is_never_touched(node: SmallNode, shell: list[str]) -> None:
    node.add_function()
    node.path(f"/sys/bus/pci/devices/{NIC}/physfn").symlink_to("../0000:33:00.9")
    configure(node, f"{NIC} 15b3:1021 256\n")
    for words in (["apply"], ["read", NIC], ["restore", NIC, "256", CARD]):
        done = run(node, *words, shell=shell)
        assert (done.returncode, done.stdout, node.control()) == (1, "", 0x5937)
        assert "virtual function" in done.stderr


@pytest.mark.parametrize(
    ("at", "value", "says"),
    [
        pytest.param(0x06, 0x00, "no PCI Express capability", id="no list"),
        pytest.param(0x41, 0x00, "no PCI Express capability", id="not in the list"),
        pytest.param(0x41, 0x40, "no PCI Express capability", id="ring"),
        pytest.param(0x34, 0x04, "no PCI Express capability", id="into the header"),
        pytest.param(0x34, 0xFC, "no PCI Express capability", id="at the end"),
    ],
)
def test_no_capability(node: SmallNode, shell: list[str], at: int, value: int, says: str) -> None:
    config = node.add_function()
    space = bytearray(config.read_bytes())
    space[at] = value
    config.write_bytes(bytes(space))
    done = run(node, "read", NIC, shell=shell)
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr


def test_what_the_kernel_shows_without_privilege(node: SmallNode, shell: list[str]) -> None:
    config = node.add_function()
    config.write_bytes(config.read_bytes()[:64])
    done = run(node, "read", NIC, shell=shell)
    assert done.returncode == 1
    assert "only 64 bytes of the configuration space can be read" in done.stderr


def test_setpci_that_writes_nothing_and_says_all_is_well(node: SmallNode, shell: list[str]) -> None:
    """So it is under lockdown: exit status 0, and only the read-back tells."""
    node.add_function()
    configure(node, f"{NIC} 15b3:1021 256\n")
    node.stand_in("setpci", "echo 'pcilib: sysfs_write: write failed: Operation not permitted' >&2")

    done = run(node, "apply", shell=shell, writer="setpci")
    assert (done.returncode, node.control()) == (1, 0x5937)
    assert "still 4096 B, not 256 B: pcilib: sysfs_write: write failed" in done.stderr

    security = node.path("/sys/kernel/security")
    security.mkdir(parents=True)
    (security / "lockdown").write_text("none [integrity] confidentiality\n")
    done = run(node, "apply", shell=shell, writer="setpci")
    assert (done.returncode, node.control()) == (1, 0x5937)
    assert "kernel lockdown (integrity) forbids the write: pcilib" in done.stderr


def test_how_setpci_is_called(node: SmallNode) -> None:
    node.add_function()
    configure(node, f"{NIC} 15b3:1021 256\n")
    node.stand_in("setpci", 'echo "$*" >"$RACKREADY_ROOT/called"')
    run(node, "apply", writer="setpci")
    assert node.path("/called").read_text() == (
        f"-A linux-sysfs -O sysfs.path={node.root}/sys/bus/pci -s {NIC} CAP_EXP+8.w=1000:7000\n"
    )


def test_bit_15_is_never_written(node: SmallNode) -> None:
    """It would start a Function Level Reset."""
    node.add_function(control=0xD937)
    configure(node, f"{NIC} 15b3:1021 256\n")
    assert run(node, "apply").returncode == 0
    assert node.control() == 0x1937


@pytest.mark.parametrize(
    "words", [[], ["read"], ["set", NIC], ["apply", NIC, "256"], ["restore", NIC, "256"]]
)
def test_usage(node: SmallNode, words: list[str]) -> None:
    done = run(node, *words)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")


def test_lost_variable_never_touches_the_machine(node: SmallNode, shell: list[str]) -> None:
    node.add_function()
    configure(node, f"{NIC} 15b3:1021 256\n")
    run(node, "read", NIC)  # installs the script
    environment = node.environment()
    del environment["RACKREADY_ROOT"]
    for emulated in ("1", ""):
        environment["RACKREADY_EMULATED"] = emulated
        done = subprocess.run(
            [*shell, str(node.path(SCRIPT)), "apply"], env=environment, capture_output=True
        )
        assert (done.returncode, node.control()) == (97, 0x5937)


def test_root_without_marker(node: SmallNode) -> None:
    node.add_function()
    configure(node, f"{NIC} 15b3:1021 256\n")
    node.path("/.rackready-emulated").unlink()
    done = run(node, "apply")
    assert (done.returncode, node.control()) == (97, 0x5937)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0")))
def test_no_configuration_makes_it_write_anything_else(node: SmallNode, text: str) -> None:
    config = node.path(f"/sys/bus/pci/devices/{NIC}/config")
    if not config.exists():
        node.add_function()
    before = config.read_bytes()
    configure(node, text + "\n")
    assert run(node, "apply").returncode in (0, 1)
    assert config.read_bytes() == before
