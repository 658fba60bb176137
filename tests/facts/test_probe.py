"""facts/probe.sh on small trees and on this machine, in every shell that it is written for."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from rackready.facts import capture as capture_module
from rackready.facts.capture import (
    Capture,
    ProbeWishes,
    decode_transport,
    probe_script,
    read_capture,
)
from rackready.facts.model import Evidence, Records
from rackready.facts.parts.host import Setting
from rackready.facts.parts.limits import UNLIMITED, MemLock
from rackready.facts.readers.node import read_node

SHELLS = [["dash"], ["bash"], ["busybox", "ash"]]
WISHES = ProbeWishes(
    tools=("mx-smi", "mx-smi -L", "cat /opt/maca/Version.txt", "mx-none"),
    modules=("metax",),
    log="metax|MXCD",
    nodes=("/dev/mxcd", "/dev/dri"),
    vendors=(0x9999,),
)
NIC, GPU, BRIDGE, DISK = "0000:31:00.0", "0000:32:00.0", "0000:30:01.0", "0000:01:00.0"
# All that a node needs beside a shell.
NEEDED = [
    *["awk", "cat", "date", "grep", "head", "ls", "mktemp", "od", "rm", "sed", "sleep", "sort"],
    *["tail", "tr", "uname", "wc"],
]


@pytest.fixture(params=SHELLS, ids=lambda shell: shell[-1])
def shell(request: pytest.FixtureRequest) -> list[str]:
    words: list[str] = request.param
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {words[0]} here")
    return words


def write(path: Path, text: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def tool(root: Path, name: str, script: str, folder: str = "sbin") -> None:
    folder = "opt/mxdriver/bin" if name == "mx-smi" else folder
    write(root / folder / name, f"#!/bin/sh\n{script}\n")
    (root / folder / name).chmod(0o755)


def function(root: Path, path: str, class_code: str, vendor: str, config: bytes) -> Path:
    """A PCI function at ``path`` below /sys/devices."""
    folder = root / "sys/devices" / path
    bdf = folder.name
    for name, value in {"class": class_code, "vendor": vendor, "device": "0x4001"}.items():
        write(folder / name, f"{value}\n")
    write(folder / "numa_node", "0\n")
    write(folder / "config", config)
    devices = root / "sys/bus/pci/devices"
    devices.mkdir(parents=True, exist_ok=True)
    devices.joinpath(bdf).symlink_to(f"../../../devices/{path}")
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    write(root / ".rackready-emulated", "test\n")
    write(root / "proc/sys/kernel/hostname", "n1\n")
    write(root / "proc/cmdline", "quiet\n")
    write(root / "proc/modules", "metax 100 1 - Live 0x0\n")
    write(root / "proc/self/status", "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n")
    write(root / "sys/module/metax/parameters/ib_reg_addr", "0\n")
    write(root / "sys/module/metax/version", "3.4.4\n")
    bridge = function(root, f"pci0000:30/{BRIDGE}", "0x060400", "0x1000", bytes(4096))
    for bdf, class_code, vendor in ((NIC, "0x020000", "0x15b3"), (GPU, "0x038000", "0x9999")):
        config = bytes(range(256)) + bytes(3840)
        function(root, f"pci0000:30/{bridge.name}/{bdf}", class_code, vendor, config)
    function(root, f"pci0000:00/{DISK}", "0x010802", "0x144d", bytes(4096))
    hca = f"devices/pci0000:30/{BRIDGE}/{NIC}/infiniband/mlx5_0"
    port = root / "sys" / hca / "ports/1"
    write(port / "state", "4: ACTIVE\n")
    write(port / "gids/0", "fe80:0000:0000:0000:9e63:c0ff:feaa:bbcc\n")
    write(port / "gids/1", "0000:0000:0000:0000:0000:0000:0000:0000\n")
    write(port / "counters/port_xmit_data", "7\n")
    write(port / "counters/port_rcv_data", "8\n")
    write(port.parents[1] / "tc/1/traffic_class", "")
    (port.parents[1] / "device").symlink_to("../..")
    (root / "sys/class/infiniband").mkdir(parents=True)
    (root / "sys/class/infiniband/mlx5_0").symlink_to(f"../../{hca}")
    write(root / "sys/class/net/lo/address", "00:00:00:00:00:00\n")
    write(root / "opt/maca/Version.txt", "Version:3.3.0.15\n")
    tool(root, "mx-smi", 'echo "mx-smi  version: 2.2.9 $*"; echo oops >&2; exit 3')
    tool(root, "dmesg", "echo '[1.0] metax up'; echo '[2.0] other'")
    tool(root, "ip", 'case $* in -o*) echo "1: lo    inet 127.0.0.1/8" ;; *) exit 1 ;; esac')
    for pid, name, device in (("7", "python3", "/dev/mxcd"), ("9", "slurmd", "/dev/null")):
        write(root / f"proc/{pid}/comm", f"{name}\n")
        (root / f"proc/{pid}/fd").mkdir()
        (root / f"proc/{pid}/fd/3").symlink_to(device)
    return root


def run(shell: list[str], script: str, root: Path | str, **values: str) -> str:
    environment = {"RACKREADY_ROOT": str(root), "RACKREADY_COUNTER_SECONDS": "0", **values}
    done = subprocess.run(
        [*shell, "-s"],
        input=script.encode(),
        capture_output=True,
        env=environment,
        timeout=40,
        check=True,
    )
    assert done.stderr == b""
    return done.stdout.decode("ascii")


def probe(
    shell: list[str], root: Path | str, wishes: ProbeWishes = WISHES, **values: str
) -> Capture:
    text = run(shell, probe_script(wishes), root, **values)
    return read_capture(decode_transport(text.split("\n")), "n")


def sections(capture: Capture) -> dict[str, Evidence]:
    assert capture.gaps == ()
    return {item.command: item for item in capture.evidence}


def state(root: Path) -> Mapping[str, tuple[int, int, bytes]]:
    return {
        str(path): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in root.rglob("*")
    }


def test_what_a_tree_holds_is_in_the_capture(shell: list[str], tree: Path) -> None:
    capture = probe(shell, tree)
    found = sections(capture)
    assert found["cat /proc/sys/kernel/hostname"].text == "n1\n"
    assert found["cat /sys/kernel/security/lockdown"].status == 1
    assert found["mx-smi -L"] == Evidence("n", "mx-smi -L", "mx-smi  version: 2.2.9 -L\noops\n", 3)
    assert found["mx-none"].lost == "absent"
    assert found["cat /opt/maca/Version.txt"].text == "Version:3.3.0.15\n"
    assert found["dmesg | grep -E 'metax|MXCD' | tail -n 400"].text == "[1.0] metax up\n"
    assert found["users of /dev/mxcd /dev/dri"].text == "7 python3 /dev/mxcd\n"
    gids = "cd /sys/class/infiniband && grep -s '[1-9a-f]' */ports/*/gids/*"
    assert found[gids].text == "mlx5_0/ports/1/gids/0:fe80:0000:0000:0000:9e63:c0ff:feaa:bbcc\n"
    first, *_, last = capture.evidence
    assert first == last and "mlx5_0/ports/1/counters/port_xmit_data:7\n" in first.text


def test_how_a_node_is_set_up(shell: list[str], tree: Path) -> None:
    functions = tree / "sys/bus/pci/devices"
    write(functions / NIC / "net/eth1/address", "9c:63:c0:aa:bb:cc\n")
    write(functions / NIC / "aer_dev_fatal", "Undefined 0\nSDES 10\nTOTAL_ERR_FATAL 10\n")
    write(tree / "proc/sys/net/ipv4/conf/eth1/arp_ignore", "1\n")
    write(tree / "proc/self/limits", "Max open files 1 1 files\nMax locked memory 8192 1 bytes\n")
    write(tree / "proc/9/limits", "Max locked memory unlimited unlimited bytes\n")
    write(tree / "proc/19/comm", "slurmd\n")
    write(tree / "proc/19/limits", "Max locked memory 1 1 bytes\n")
    write(tree / "proc/kallsyms", "ffffffff81000000 T ib_register_peer_memory_client\n")
    write(tree / "sys/module/metax/parameters/ib_reg_addr", "0\n")
    write(tree / "etc/modprobe.d/a.conf", "options metax pri_mem_sz=16\noptions wifi secret=1\n")
    write(tree / "sys/kernel/iommu_groups/7/type", "identity\n")
    write(tree / f"sys/kernel/iommu_groups/7/devices/{GPU}", "")
    write(tree / f"sys/kernel/iommu_groups/8/devices/{DISK}", "")
    write(tree / "root/.ssh/authorized_keys", "ssh-ed25519 AAAA joe@desk\n")
    (tree / "root/.ssh").chmod(0o700)
    (tree / "root/.ssh/authorized_keys").chmod(0o620)
    tool(tree, "mlnx_qos", 'echo "Priority trust state: dscp of $2"')
    capture = probe(shell, tree)
    found = sections(capture)
    assert found["mlnx_qos -i eth1"].text == "Priority trust state: dscp of eth1\n"
    slurmd = found["grep 'Max locked memory' /proc/$(pidof slurmd)/limits"]
    assert slurmd.text == "Max locked memory unlimited unlimited bytes\n"
    texts = "".join(item.text for item in capture.evidence)
    assert "/etc/modprobe.d/a.conf:options metax pri_mem_sz=16\n" in texts
    assert f"/sys/bus/pci/devices/{NIC}/aer_dev_fatal:SDES 10\n" in texts
    assert f"/sys/kernel/iommu_groups/7/devices/{GPU}\n" in texts
    assert "620 /root/.ssh/authorized_keys\n" in texts
    assert not [word for word in ("secret", "joe", "Undefined", "8/devices") if word in texts]
    facts = read_node("n", capture.evidence).facts
    limits = {(item.place, item.name): item.soft for item in facts.each(MemLock)}
    assert limits == {("shell", ""): 8192, ("service", "slurmd"): UNLIMITED}
    assert Setting("net.ipv4.conf.eth1.arp_ignore", "1") in facts.each(Setting)


def test_tools_of_this_machine_are_not_those_of_a_tree(shell: list[str], tree: Path) -> None:
    found = sections(probe(shell, tree))
    for program in ("mlnx_qos", "dcb", "sshd", "systemctl"):
        assert not [command for command in found if command.startswith(program)]


def test_without_the_settings_the_rest_is_a_capture(shell: list[str], tree: Path) -> None:
    script = Path(capture_module.__file__).with_name("probe.sh").read_text()
    found = sections(read_capture(run(shell, script, tree), "n"))
    assert "ls -l /sys/bus/pci/devices" in found and "ip rule" not in found


def test_the_readers_understand_it(shell: list[str], tree: Path) -> None:
    node = read_node("n", probe(shell, tree).evidence)
    assert node.system.emulated and node.system.uid == 0
    assert node.pci and {bdf: f.config_bytes for bdf, f in node.pci.items()} == {
        DISK: 256,
        BRIDGE: 4096,
        NIC: 4096,
        GPU: 4096,
    }
    assert node.pci[GPU].bridges == (BRIDGE,)
    assert node.modules and node.modules["metax"].version == "3.4.4"
    assert node.modules["metax"].parameters == {"ib_reg_addr": "0"}
    assert node.rdma and node.rdma[0].bdf == NIC
    assert node.rdma[0].ports[0].octets == (60, 60)
    assert (node.rdma[0].ports[0].traffic_class, node.rdma[0].ports[0].traffic_class_file) == (
        -1,
        True,
    )
    assert node.users and node.schedulers == ("slurmd",)


def test_nothing_is_written(shell: list[str], tree: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    tool(tree, "mktemp", f'PATH=/usr/bin:/bin mktemp "$@" | tee -a {log}')
    before = state(tree)
    probe(shell, tree)
    assert state(tree) == before
    (scratch,) = log.read_text().split()
    assert not Path(scratch).exists()


def test_any_bytes_arrive(shell: list[str], tree: Path) -> None:
    contents = [
        bytes(range(256)),
        b"\0",
        b"\1\n",
        b"",
        b"\n\n",
        b"no newline",
        b"a\nno newline",
        b"cr\r\n",
        b"a?1",
        b"\\n %s $HOME `id` *",
        b"rackready-capture 1\n$ cat\n|\n? 0\n. 1\n",
    ]
    for number, content in enumerate(contents):
        write(tree / f"etc/rackready/{number}", content)
    names = [f"/etc/rackready/{number}" for number in range(len(contents))]
    write(tree / "var/lib/rackready/manifest", "".join(f"file {name} 0 0644\n" for name in names))
    wishes = ProbeWishes(tools=tuple(f"head -c 999 {name}" for name in names))
    found = sections(probe(shell, tree, wishes))
    for name, content in zip(names, contents, strict=True):
        text = content.decode("utf-8", "surrogateescape")
        for command in (f"cat {name}", f"head -c 999 {name}"):
            assert (found[command].text, found[command].status) == (text, 0)


def test_a_hung_tool_is_abandoned(shell: list[str], tree: Path) -> None:
    # Ignores TERM, and its child holds its output.
    tool(tree, "mx-smi", "trap '' TERM; echo begun; sleep 300 & echo $!; wait; sleep 300")
    found = sections(probe(shell, tree, RACKREADY_TOOL_LIMIT="1"))
    hung = found["mx-smi"]
    begun, child = hung.text.split()
    late, pid = hung.lost.split()
    try:
        assert (begun, late, hung.status) == ("begun", "late", None)
        assert (
            pid
            in subprocess.run(
                ["ps", "-o", "ppid=", "-p", child], capture_output=True, text=True, check=True
            ).stdout
        )
        assert found["mx-smi -L"].lost == "skipped mx-smi was late"
        assert found["cat /opt/maca/Version.txt"].status == 0
    finally:
        os.kill(int(pid), signal.SIGKILL)
        os.kill(int(child), signal.SIGKILL)


def test_a_driver_that_does_not_answer_is_abandoned(shell: list[str], tree: Path) -> None:
    state = tree / f"sys/devices/pci0000:30/{BRIDGE}/{NIC}/infiniband/mlx5_0/ports/1/state"
    state.unlink()
    os.mkfifo(state)  # reading blocks
    capture = probe(shell, tree, RACKREADY_TOOL_LIMIT="1")
    os.close(os.open(state, os.O_RDWR))
    found = sections(capture)
    assert capture.evidence[0].status == 0  # the counters
    lost = {item.lost.split(" ")[0] for item in found.values() if "/infiniband &&" in item.command}
    assert lost == {"late", "skipped"}
    assert found["ls -l /sys/class/net"].status == found["mx-smi -L"].status - 3 == 0


def test_a_function_that_cannot_be_read_is_abandoned(shell: list[str], tree: Path) -> None:
    config = tree / f"sys/devices/pci0000:30/{BRIDGE}/{NIC}/config"
    config.unlink()
    os.mkfifo(config)  # reading blocks
    capture = probe(shell, tree, RACKREADY_TOOL_LIMIT="1")
    os.close(os.open(config, os.O_RDWR | os.O_NONBLOCK))
    found = sections(capture)
    command = f"od -Ax -tx1 -N 4096 /sys/bus/pci/devices/{NIC}/config"
    assert found[command].lost.startswith("late ")
    node = read_node("n", capture.evidence)
    assert node.pci and [node.pci[bdf].config_bytes for bdf in (BRIDGE, NIC, GPU)] == [4096, 0, 0]
    assert found["mx-smi -L"].status == 3


def test_all_tools_together_have_a_limit(tree: Path) -> None:
    found = sections(probe(["sh"], tree, RACKREADY_TOOLS_LIMIT="0"))
    assert found["mx-smi"].lost == found["ip -o addr show"].lost == "skipped no time left"
    assert found["cat /proc/cmdline"].status == 0


def test_too_much_output_is_cut_visibly(shell: list[str], tree: Path) -> None:
    tool(tree, "mx-smi", "while :; do echo '0123456789012345678901234567890123456789'; done")
    found = sections(probe(shell, tree))
    assert found["mx-smi"].lost == "cut at 65536 bytes"
    assert len(found["mx-smi"].text) == 65536


def test_without_a_place_for_their_output_tools_are_skipped(tree: Path) -> None:
    tool(tree, "mktemp", "exit 1")
    found = sections(probe(["sh"], tree))
    assert found["mx-smi"].lost == "skipped no place for output"
    assert found["ls -l /sys/class/infiniband"].status == 0


def test_managed_files(shell: list[str], tree: Path) -> None:
    text = "# Managed by rackready\n"
    write(tree / "etc/rackready/a.conf", text)
    write(tree / "etc/rackready/large", "x" * 70000)
    (tree / "etc/rackready/link").symlink_to("a.conf")
    manifest = [
        "dir /etc/rackready",
        "file /etc/rackready/a.conf 0 0644",
        "file /etc/rackready/a.conf 1 0644",
        "file /etc/rackready/large 0 0644",
        "file /etc/rackready/link 0 0644",
        "file /etc/rackready/missing 0 0644",
        "link /etc/rackready/link a.conf",
        "file /etc/rackready/gone 0 0644",
        "gone /etc/rackready/gone",
        "file /etc/\x01 0 0644",
        "garb\xe4ge",
    ]
    write(tree / "var/lib/rackready/manifest", "\n".join(manifest).encode("latin-1"))
    capture = probe(shell, tree)
    found = sections(capture)
    checksum = hashlib.sha256(text.encode()).hexdigest()
    assert found["sha256sum /etc/rackready/a.conf"].text == f"{checksum}  /etc/rackready/a.conf\n"
    assert found["cat /etc/rackready/a.conf"].text == text
    assert found["ls -ld /etc/rackready/a.conf"].text.startswith("-rw-")
    assert sum("a.conf" in item.command for item in capture.evidence) == 3
    assert found["sha256sum /etc/rackready/large"].status == 0
    assert found["cat /etc/rackready/large"].lost == "skipped over 65536 bytes"
    assert found["readlink /etc/rackready/link"].text == "a.conf\n"
    missing = "/etc/rackready/missing"
    assert found[f"sha256sum {missing}"].status == found[f"cat {missing}"].status == 1
    assert found["ls -ld /etc/rackready"].status == 0
    assert not any("gone" in command or "\x01" in command for command in found)


def test_a_link_in_place_of_a_managed_file_is_not_followed(tree: Path) -> None:
    (tree / "etc/rackready").mkdir(parents=True)
    (tree / "etc/rackready/a").symlink_to("/etc/shadow")
    write(tree / "var/lib/rackready/manifest", "file /etc/rackready/a 0 0644\n")
    found = sections(probe(["sh"], tree))
    for command in ("sha256sum /etc/rackready/a", "cat /etc/rackready/a"):
        assert found[command].lost == "skipped not a regular file"


def test_a_manifest_that_names_secrets_shows_none(shell: list[str], tree: Path) -> None:
    paths = [
        "/root/.ssh/id_rsa",
        "/etc/rackready/../shadow",
        "/etc/*",
        "/var/lib/rackready/backup/a",
    ]
    for path in paths:
        if "*" not in path:
            write(tree / path[1:], "secret\n")
    (tree / "outside").mkdir()
    write(tree / "outside/rackready-key", "secret\n")
    (tree / "etc/modprobe.d").symlink_to("../outside")
    (tree / "home").mkdir()
    paths.append("/etc/modprobe.d/rackready-key")
    lines = [f"file {path} 0 0644\n" for path in paths] + ["dir /home\n", "link /etc/key secret\n"]
    write(tree / "var/lib/rackready/manifest", "".join(lines))
    text = run(shell, probe_script(WISHES, transport=False), tree)
    assert "|secret" not in text
    capture = read_capture(text, "n")
    found = sections(capture)
    for path in [*paths, "/home", "/etc/key"]:
        assert found[f"ls -ld {path}"].lost == "skipped not a path of rackready's"
        assert not {f"cat {path}", f"sha256sum {path}", f"readlink {path}"} & found.keys()
    node = read_node("n", capture.evidence)
    assert node.managed and {item.found for item in node.managed} == {None}
    assert len([gap for gap in node.gaps if "rackready's" in gap.reason]) == len(lines)


def test_no_program_of_a_vendor_takes_the_place_of_the_system_s(tree: Path) -> None:
    for folder in ("opt/maca/bin", "opt/mxdriver/bin"):
        for name in ("od", "sha256sum", "cat", "grep"):
            tool(tree, name, f'echo "$0" >>"{tree}/run"', folder)
    before = sections(probe(["sh"], tree))
    assert before["cat /proc/cmdline"].text == "quiet\n"
    assert not (tree / "run").exists()
    assert before["mx-smi -L"].status == 3


def test_torn_records(shell: list[str], tree: Path) -> None:
    line = '{"id":"r1:1","run":"r1","kind":"dir","subject":"/etc/rackready"}\n'
    for name, whole in (("journal.jsonl", line), ("manifest", "dir /etc/rackready\n")):
        write(tree / "var/lib/rackready" / name, whole.encode() + bytes(50))
    write(tree / "run/rackready.lock", "")
    node = read_node("n", probe(shell, tree).evidence)
    assert node.records is not None
    assert node.records.there == (
        "/var/lib/rackready/manifest",
        "/var/lib/rackready/journal.jsonl",
        "/run/rackready.lock",
    )
    assert node.records.manifest_damage.startswith("line 2 of the manifest is damaged: '\\x00")
    assert node.records.journal_damage.startswith("line 2 of the journal is damaged: '\\x00")
    assert not node.records.journal_cut


def test_a_long_journal(tree: Path) -> None:
    entry = '{{"id":"{0}:1","run":"{0}","kind":"dir","subject":"/etc/rackready"}}\n'
    text = "".join(entry.format(f"r{number:04}") for number in range(3000))
    write(tree / "var/lib/rackready/journal.jsonl", text)
    node = read_node("n", probe(["sh"], tree).evidence)
    assert node.records == Records(there=("/var/lib/rackready/journal.jsonl",), journal_cut=True)
    assert node.journal and node.journal[-1]["run"] == "r2999"
    oldest = node.journal[0]["run"]
    (gap,) = node.gaps[-1:]
    assert gap.reason == f"only its end was read: runs before {oldest} can't be taken back"


@pytest.mark.parametrize(
    ("extra", "form"),
    [
        (["gzip", "base64", "sha256sum"], "gzip+base64"),
        (["gzip"], "gzip+od"),
        (["base64"], "od"),
        ([], "od"),
    ],
)
def test_a_node_may_lack_the_tools_that_pack(
    tree: Path, tmp_path: Path, extra: list[str], form: str
) -> None:
    places = tmp_path / "bin"
    places.mkdir()
    for name in [*NEEDED, *extra]:
        (places / name).symlink_to(str(shutil.which(name)))
    script = probe_script(WISHES).replace("    PATH=$path\n", f"    PATH={places}\n")
    assert str(places) in script
    text = run(["sh"], script, tree)
    header = text.split("\n")[1].split()
    assert header[4] == form and (header[6] == "-") is ("sha256sum" not in extra)
    found = sections(read_capture(decode_transport(text.split("\n")), "n"))
    assert found["cat /proc/sys/kernel/hostname"].text == "n1\n"


def test_busybox_is_enough(tree: Path, tmp_path: Path) -> None:
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("no busybox here")
    places = tmp_path / "bin"
    places.mkdir()
    for name in [*NEEDED, "gzip", "base64", "sha256sum", "readlink"]:
        (places / name).symlink_to(busybox)
    script = probe_script(WISHES).replace("    PATH=$path\n", f"    PATH={places}\n")
    text = run([busybox, "ash"], script, tree)
    small = sections(read_capture(decode_transport(text.split("\n")), "n"))
    usual = sections(probe(["bash"], tree))
    assert small.keys() == usual.keys()
    for command in usual:
        if command.startswith(("od ", "cd ", "cat /proc", "users of")):
            assert small[command].text == usual[command].text, command


@pytest.mark.parametrize("user", ["root", "nobody"])
def test_this_machine(shell: list[str], user: str) -> None:
    words = shell
    if os.geteuid() == 0 and user == "nobody":
        words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *shell]
    elif os.geteuid() != 0 and user == "root":
        pytest.skip("needs root")
    found = sections(probe(words, ""))
    release = Path("/proc/sys/kernel/osrelease").read_text()
    assert found["cat /proc/sys/kernel/osrelease"].text == release
    uid = found["grep -E '^(Uid|Gid|CapEff):' /proc/self/status"].text.split()[1]
    assert (uid == "0") is (user == "root")


def test_by_hand_it_prints_a_plain_capture(tree: Path) -> None:
    script = Path(__file__).parents[2] / "facts/probe.sh"
    assert sections(read_capture(run(["sh"], script.read_text(), tree), "n"))


def test_a_script_that_was_cut_off_does_nothing(tree: Path) -> None:
    lines = probe_script(WISHES, transport=False).splitlines(keepends=True)
    for end in range(0, len(lines) - 1, 5):
        done = subprocess.run(
            ["dash", "-s"],
            input="".join(lines[:end]).encode(),
            capture_output=True,
            env={"RACKREADY_ROOT": str(tree)},
        )
        assert done.stdout == b""


def test_shellcheck() -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("no shellcheck here")
    script = probe_script(WISHES)
    subprocess.run(["shellcheck", "-"], input=script.encode(), check=True)


def test_a_large_node_makes_a_small_capture(tmp_path: Path) -> None:
    bytes_of = random.Random(1).randbytes
    full = bytes_of(256) + bytes(64) + bytes_of(1024) + bytes(4096 - 1344)
    plain = bytes_of(64) + bytes(32) + bytes_of(96) + bytes(4096 - 192)
    for number in range(12):
        path = f"pci0000:{number:02x}/0000:{number:02x}:01.0"
        function(tmp_path, path, "0x060400", "0x1000", full)
        kind, vendor = ("0x020000", "0x15b3") if number < 4 else ("0x038000", "0x9999")
        function(tmp_path, f"{path}/0000:{number + 32:02x}:00.0", kind, vendor, full)
    for number in range(176):
        bdf = f"0000:80:{number // 8:02x}.{number % 8}"
        function(tmp_path, f"pci0000:80/{bdf}", "0x088000", "0x8086", plain)
    text = run(["dash"], probe_script(WISHES, transport=False), tmp_path)
    assert (
        len([item for item in read_capture(text, "n").evidence if "od -Ax" in item.command]) == 200
    )
    assert len(text) <= 300 * 1024
