"""From evidence to a node: what is known, what is known to be absent, and what is unknown."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import captures
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rackready.facts.capture import read_capture, write_capture
from rackready.facts.model import Evidence, ManagedFile, Node, Process, Records
from rackready.facts.readers.node import JOURNAL, MANIFEST, read_node
from rackready.judge import judge
from rackready.policy import Policy

SAMPLES = Path(__file__).parents[1] / "samples"
RDMA = "cd /sys/class/infiniband && grep -s "


def real(name: str) -> Node:
    capture = read_capture((SAMPLES / "captures" / f"h200-vm-{name}.capture").read_bytes(), name)
    return read_node(name, capture.evidence, capture.gaps)


def altered(*edits: dict[str, Any]) -> Node:
    return captures.node("c500x8-4nic", edits=edits)


def test_real_machine_as_root() -> None:
    node = real("root")
    system = node.system
    assert (system.os_id, system.os_version, system.kernel) == ("ubuntu", "24.04", "6.18.44")
    assert (system.uid, system.machine, system.memory_kib) == (0, "x86_64", 131981020)
    assert system.cpu == "Intel(R) Xeon(R) Processor"
    assert (system.lockdown, system.vendor, system.emulated) == (None, None, False)
    assert (node.users, node.schedulers, node.managed, node.journal) == ((), (), (), ())
    assert node.rdma == ()
    assert node.modules is not None
    module = node.modules["nvidia"]
    # this kernel can't unload modules, so it counts no references
    assert (module.version, module.references, module.holders) == ("580.159.04", None, ())
    assert node.net is not None
    interfaces = {item.name: item for item in node.net}
    assert (interfaces["eth0"].bdf, interfaces["eth0"].mtu) == ("0000:00:03.0", 1400)
    assert interfaces["eth0"].speed is None  # virtio: the file says -1
    assert (interfaces["lo"].bdf, interfaces["lo"].addresses) == ("", None)
    assert node.gaps == ()


def test_real_machine_as_an_ordinary_user() -> None:
    """What it may not see is unknown: neither idle nor without messages."""
    node = real("nobody")
    assert (node.system.uid, node.system.capabilities) == (65534, 0)
    assert (node.users, node.kernel_log) == (None, None)
    assert real("root").kernel_log


def test_emulated_node() -> None:
    node = captures.node("c500x8-4nic")
    assert node.gaps == ()
    assert node.system.emulated
    assert node.system.lockdown == "none"
    assert node.rdma is not None
    nic = node.rdma[0]
    assert (nic.name, nic.bdf, nic.firmware) == ("mlx5_0", "0000:1b:00.0", "28.39.1002")
    (port,) = nic.ports
    assert (port.number, port.link_layer, port.state) == (1, "Ethernet", "ACTIVE")
    assert (port.traffic_class, port.traffic_class_file, port.octets) == (160, True, (0, 0))
    assert port.gids is not None
    assert [(gid.index, gid.version, gid.netdev) for gid in port.gids] == [
        (0, "v1", "ens21f0np0"),
        (1, "v2", "ens21f0np0"),
        (2, "v1", "ens21f0np0"),
        (3, "v2", "ens21f0np0"),
    ]
    assert node.modules is not None
    assert node.modules["mlx5_core"].holders == ("mlx5_ib",)
    assert node.modules["metax"].parameters["pri_mem_sz"] == "16"
    assert node.net is not None
    assert {item.name for item in node.net} >= {"lo", "eno1", "ens21f0np0"}


def test_kernel_log_of_a_real_refusal() -> None:
    log = (SAMPLES / "metax" / "dmesg_peer_mem_failed.txt").read_text()
    node = altered({"command": "dmesg | ", "text": log})
    assert node.kernel_log is not None
    assert node.kernel_log[1].startswith("failing symbol_get of non-GPLONLY symbol ib_register")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mlx5_0/tc/1/traffic_class:160\nmlx5_0/tc/1/traffic_class\n", (160, True)),
        ("mlx5_0/tc/1/traffic_class:Global tclass=160\n", (160, True)),
        ("mlx5_0/tc/1/traffic_class\n", (-1, True)),
        ("mlx5_0/tc/1/traffic_class:a lot\n", (None, True)),
        ("mlx5_0/tc/1/traffic_class:" + "9" * 5000, (None, True)),
        ("", (None, False)),
    ],
)
def test_traffic_class(text: str, expected: tuple[int | None, bool]) -> None:
    node = altered({"command": f"{RDMA}'' */tc/", "text": text, "status": 2})
    assert node.rdma is not None
    port = node.rdma[0].ports[0]
    assert (port.traffic_class, port.traffic_class_file) == expected


MANAGED = (
    ("file", "/etc/a", "a" * 64, " 0644"),
    ("link", "/etc/b", "../c", ""),
    ("dir", "/etc/d", "", ""),
)


def managed(*edits: dict[str, Any]) -> dict[str, ManagedFile]:
    manifest = "".join(f"{kind} {path} {what}{mode}\n" for kind, path, what, mode in MANAGED)
    node = altered({"command": MANIFEST, "text": manifest, "status": 0}, *edits)
    assert node.managed is not None
    return {item.path: item for item in node.managed}


def added(command: str, text: str = "", status: int = 0) -> dict[str, Any]:
    return {"add": True, "command": command, "text": text, "status": status}


def test_managed_things_that_are_there() -> None:
    things = managed(
        added("sha256sum /etc/a", f"{'a' * 64}  /etc/a\n"),
        added("cat /etc/a", "no newline at its end"),
        added("ls -ld /etc/a", "-rw-r----- 1 root root 21 Nov 30 21:00 /etc/a\n"),
        added("readlink /etc/b", "../c\n"),
        added("ls -ld /etc/d", "drwxr-xr-x 2 root root 4096 Nov 30 21:00 /etc/d\n"),
    )
    file = things["/etc/a"]
    assert (file.found, file.text) == ("a" * 64, "no newline at its end")
    assert (file.written_mode, file.mode) == (0o644, 0o640)
    assert (things["/etc/b"].written, things["/etc/b"].found) == ("../c", "../c")
    assert things["/etc/d"].found == "there"


def test_managed_things_that_are_gone() -> None:
    things = managed(
        added("sha256sum /etc/a", status=1),
        added("cat /etc/a", status=1),
        added("readlink /etc/b", status=1),
        added("ls -ld /etc/d", status=2),
    )
    assert {item.found for item in things.values()} == {""}


def test_managed_things_that_were_not_looked_at() -> None:
    assert {item.found for item in managed().values()} == {None}


def test_manifest() -> None:
    text = "file /a 1 0644\nfile /a 2 0600\nlink /b c\ngone /b\nfile /cut 3\nfile /e f 0999\n"
    node = altered({"command": MANIFEST, "text": text, "status": 0})
    assert node.managed == (ManagedFile("/a", "file", "2", None, written_mode=0o600),)
    assert [gap.reason for gap in node.gaps] == [
        "line 5 of the manifest is damaged: 'file /cut 3'",
        "line 6 of the manifest is damaged: 'file /e f 0999'",
    ]


def test_journal() -> None:
    text = '{"id":"r:1","kind":"file"}\n{"id":"r:2","kin\n[1]\n{"id":7}\n' + "[" * 100_000
    node = altered({"command": JOURNAL, "text": text, "status": 0})
    assert node.journal == ({"id": "r:1", "kind": "file"},)
    assert len(node.gaps) == 4
    assert node.records is not None
    assert node.records.journal_damage == 'line 2 of the journal is damaged: \'{"id":"r:2","kin\''


def test_records() -> None:
    assert captures.node("c500x8-4nic").records == Records()
    lost = {"command": JOURNAL, "lost": "late 4711"}
    assert altered(lost).records is None
    lock = {"command": "cat /run/rackready.lock", "text": "", "status": 0}
    assert altered(lock).records == Records(there=("/run/rackready.lock",))


def test_a_journal_whose_first_line_is_damaged() -> None:
    """Only where its end alone was read, the first line may be the rest of one."""
    line = '{"id":"r:1","run":"r"}\n'
    for text, damaged in (('r:0"}\n' + line, True), ('r:0"}\n' + line * 6000, False)):
        node = altered({"command": JOURNAL, "text": text, "status": 0})
        assert node.records is not None
        assert bool(node.records.journal_damage) is damaged
        assert node.records.journal_cut is not damaged


def test_users() -> None:
    text = "4711 python3 /dev/mxcd\n4712 my job /dev/dri/card1\n² odd /dev/mxcd\n"
    node = altered({"command": "users of ", "text": text, "status": 1})
    assert node.users == (
        Process(4711, "python3", "/dev/mxcd"),
        Process(4712, "my job", "/dev/dri/card1"),
    )
    assert [gap.command for gap in node.gaps] == ["users of the accelerators"]


Unknown = Callable[[Node], object]


@pytest.mark.parametrize(
    ("command", "fact"),
    [
        ("ls -l /sys/bus/pci/devices", lambda node: node.pci),
        ("cat /proc/modules", lambda node: node.modules),
        ("ls -l /sys/class/net", lambda node: node.net),
        ("dmesg | ", lambda node: node.kernel_log),
        ("users of ", lambda node: node.users),
        ("ip -o addr show", lambda node: node.net[0].addresses),
        (f"{RDMA}'[1-9a-f]'", lambda node: node.rdma[0].ports[0].gids),
        (f"{RDMA}'' */ports/*/counters", lambda node: node.rdma[0].ports[0].octets),
        ("uname -m", lambda node: node.system.machine),
        ("grep MemTotal", lambda node: node.system.memory_kib),
    ],
)
def test_a_command_that_fails_in_silence_leaves_its_fact_unknown(
    command: str, fact: Unknown
) -> None:
    assert fact(captures.node("c500x8-4nic")) is not None
    assert fact(altered({"command": command, "text": "", "status": 2})) is None
    assert fact(altered({"command": command, "lost": "late 4711"})) is None


def test_no_rdma_driver_is_known() -> None:
    gone = {"command": "ls -l /sys/class/infiniband", "text": "", "status": 2}
    assert altered(gone).rdma == ()
    assert altered(gone, {"command": "ls -l /sys/bus/pci/devices", "lost": "cut"}).rdma is None


def test_garbage_makes_a_short_list_of_gaps() -> None:
    node = altered({"command": "cat /proc/modules", "text": "garbage\n" * 10_000})
    assert [gap.reason for gap in node.gaps][-1] == "9996 more lines like these"
    assert len(node.gaps) == 5


# --- Hostile input

NOISE = st.sampled_from(
    [
        "\r\n",
        "\r",
        "\t",
        "\x1b[31m",
        "root@n1:~# ",
        "\x00",
        "\udcff",
        "²",
        "9" * 5000,
        "| ",
        "\u2028",
    ]
)


def mutate(data: st.DataObject, text: str) -> str:
    size = len(text)
    for _ in range(data.draw(st.integers(1, 4))):
        at, end = sorted(data.draw(st.tuples(*[st.integers(0, size)] * 2)))
        kind = data.draw(st.sampled_from(["cut", "drop", "noise", "twice", "crlf", "tabs"]))
        if kind == "cut":
            text = text[:at]
        elif kind == "drop":
            text = text[:at] + text[end:]
        elif kind == "noise":
            text = text[:at] + data.draw(NOISE) + text[at:]
        elif kind == "twice":
            text = text[:end] + text[at:end][:2000] + text[end:]
        elif kind == "crlf":
            text = text.replace("\n", "\r\n")
        else:
            text = text.replace(" ", "\t")
    return text


def small(description: str) -> list[Evidence]:
    """Evidence of which hypothesis can alter a good part: few of the many config spaces."""
    evidence = captures.capture(description).evidence
    dumps = [item for item in evidence if item.command.startswith("od ")]
    return [item for item in evidence if item not in dumps[3:]]


def judged(evidence: Sequence[Evidence]) -> None:
    capture = read_capture(write_capture(evidence), "n")
    result = judge("n", capture, captures.profiles(), Policy(), captures.TODAY)
    assert not [finding for finding in result.findings if finding.case == "internal"]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_mutated_evidence(data: st.DataObject) -> None:
    evidence = small("c500x8-vf")
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(evidence) - 1))
        item = evidence[at]
        status = data.draw(st.sampled_from([0, 1, 2, item.status]))
        evidence[at] = Evidence("n", item.command, mutate(data, item.text), status)
    judged(evidence)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_interleaved_evidence(shuffled: random.Random) -> None:
    """Outputs of other commands, whole or half of them, in the place of each output."""
    evidence = small("c500x8-4nic")
    texts = [item.text for item in evidence]
    shuffled.shuffle(texts)
    mixed = []
    for item, other in zip(evidence, texts, strict=True):
        at = shuffled.randrange(len(item.text) + 1)
        text = item.text[:at] + other + item.text[at:] if shuffled.random() < 0.5 else other
        mixed.append(Evidence("n", item.command, text, shuffled.choice([0, 1, None])))
    judged(mixed)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text(max_size=300))
def test_any_text_for_every_command(text: str) -> None:
    judged([Evidence("n", item.command, text, 0) for item in small("c500x8-4nic")])


def test_reading_takes_linear_time() -> None:
    """Garbage of twice the size takes about twice as long, whatever the garbage is."""
    evidence = small("c500x8-4nic")
    commands = [item.command for item in evidence if not item.command.startswith("od ")]

    def seconds(pattern: str, size: int) -> float:
        text = f"GPU#0 M 0:0 Not Available{pattern * (size // len(pattern))}."
        started = time.process_time()
        read_node("n", [Evidence("n", command, text, 0) for command in commands])
        return time.process_time() - started

    for pattern in (" ", "9", "GPU#0 ", "0000:33:00.0/", "a -> b", "(UUID: ", "| ", "[", "x\n"):
        small_time = min(seconds(pattern, 20_000) for _ in range(3))
        large_time = min(seconds(pattern, 160_000) for _ in range(3))
        # quadratic time would make it 64 times as long
        assert large_time < 24 * small_time + 0.05, pattern
