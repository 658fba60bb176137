"""Trees: that they stay, that they go, and that real tools find in them what was described."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from rackready.emulator import tree as trees
from rackready.emulator.description import (
    DescriptionError,
    Faults,
    describe,
    description_names,
    parse_description,
)
from rackready.emulator.machine import make_machine
from rackready.emulator.mx_smi import tables
from rackready.emulator.topology import enumerate_functions
from rackready.emulator.tree import MARKER, build, folder, reset

SAMPLES = Path(__file__).parents[1] / "samples" / "metax"
pciutils = pytest.mark.skipif(not shutil.which("setpci"), reason="no pciutils")


def snapshot(tree: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of every file: nothing is touched without changing one of them."""
    return {str(path): (path.lstat().st_ino, path.lstat().st_mtime_ns) for path in tree.rglob("*")}


def pci(tool: str, tree: Path, *arguments: str) -> str:
    # linux-sysfs alone: without a tree pciutils would turn to the devices of this machine
    command = [tool, "-A", "linux-sysfs", "-O", f"sysfs.path={tree}/sys/bus/pci", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def stand_in(tree: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(tree / name), *arguments],
        env={"RACKREADY_ROOT": str(tree), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )


def test_equal_tree_is_left_alone() -> None:
    tree = build("node", "c500x8-4nic", {})
    (tree / "etc/changed-by-a-run").write_text("state")
    before = snapshot(tree)
    assert build("node", "c500x8-4nic", {}) == tree
    assert snapshot(tree) == before


def test_another_fault_or_description_builds_anew(work_folder: Path) -> None:
    tree = build("node", "c500x8-4nic", {})
    for description, faults in (
        ("c500x8-4nic", {"max_payload": 128}),
        ("c500x8-2dual", {"max_payload": 128}),
        ("c500x8-4nic", {}),
    ):
        (tree / "etc/changed-by-a-run").write_text("state")
        build("node", description, faults)
        assert not (tree / "etc/changed-by-a-run").exists()
    assert {path.name for path in work_folder.iterdir()} == {"node", ".lock"}


def test_a_build_that_dies_leaves_the_old_tree(
    monkeypatch: pytest.MonkeyPatch, work_folder: Path
) -> None:
    tree = build("node", "c500x8-4nic", {})
    before = snapshot(tree)

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trees, "_write", no_space)
    with pytest.raises(OSError, match="No space"):
        build("node", "c500x8-2dual", {})
    assert snapshot(tree) == before
    assert {path.name for path in work_folder.iterdir()} == {"node", ".lock"}


def test_links_stay_inside() -> None:
    tree = build("node", "c500x8-vf", {}).resolve()
    for path in tree.rglob("*"):
        if path.is_symlink():
            assert tree in path.resolve(strict=True).parents


def test_reset() -> None:
    for name in ("one", "two", "three"):
        build(name, "c500x8-4nic", {})
    with pytest.raises(LookupError, match=r"no emulated node 'four'; .*one"):
        reset(["two", "four"])
    left_behind = folder() / ".one.abc/new/sys"
    left_behind.mkdir(parents=True)
    assert reset(["two"]) == ["two"]
    assert not left_behind.exists()
    assert reset() == ["one", "three"]
    assert reset() == []


@pytest.mark.parametrize("name", ["", "..", "../node", "a/b", ".hidden", "a b"])
def test_names_that_are_no_folder(name: str) -> None:
    with pytest.raises(DescriptionError):
        build(name, "c500x8-4nic", {})


@pciutils
@pytest.mark.parametrize("name", description_names())
def test_lspci_sees_what_was_described(name: str) -> None:
    tree = build("node", name, {})
    functions = enumerate_functions(describe(name))
    seen = dict(re.findall(r"^(\S+) \w{4}: (\w{4}:\w{4})", pci("lspci", tree, "-D", "-n"), re.M))
    assert seen == {f.bdf: f"{f.device.vendor:04x}:{f.device.device:04x}" for f in functions}
    details = pci("lspci", tree, "-D", "-vvv")
    assert details.count("MaxReadReq") == len([f for f in functions if f.device.config_size > 256])
    # the addresses of a tree say the same as its registers
    shown = pci("lspci", tree, "-D", "-PP")
    for function in functions:
        first, *rest = (*function.bridges, function.bdf)
        path = "/".join((first, *(bdf.partition(":")[2] for bdf in rest)))
        assert re.search(rf"^{re.escape(path)} ", shown, re.M)


@pciutils
def test_setpci_writes_two_bytes() -> None:
    tree = build("node", "c500x8-4nic", {"max_read_request": {"mlx5_0": 4096}})
    [nic] = [f.bdf for f in make_machine("node", describe("c500x8-4nic"), Faults()).rdma[:1]]
    config = tree / "sys/bus/pci/devices" / nic / "config"
    before = config.read_bytes()
    assert len(before) == 4096
    assert pci("setpci", tree, "-s", nic, "CAP_EXP+8.w") == "5937\n"
    pci("setpci", tree, "-s", nic, "CAP_EXP+8.w=1000:7000")
    assert pci("setpci", tree, "-s", nic, "CAP_EXP+8.w") == "1937\n"
    changed = [
        at
        for at, pair in enumerate(zip(before, config.read_bytes(), strict=True))
        if pair[0] != pair[1]
    ]
    assert changed == [0x69]


@pciutils
def test_bdf_without_domain_is_two_devices() -> None:
    tree = build("node", "c500x8-two-domains", {})
    assert pci("setpci", tree, "-s", "21:00.0", "VENDOR_ID") == "15b3\n15b3\n"
    assert pci("setpci", tree, "-s", "0001:21:00.0", "VENDOR_ID") == "15b3\n"


def test_faults_show() -> None:
    gid = "sys/class/infiniband/mlx5_0/ports/1"
    healthy = build("healthy", "c500x8-4nic", {})
    pushed = build("gid", "c500x8-4nic", {"gid": "extra-link-local"})
    assert ":ffff:" in (healthy / gid / "gids/3").read_text()
    assert (healthy / gid / "gid_attrs/types/3").read_text() == "RoCE v2\n"
    assert (pushed / gid / "gids/3").read_text().startswith("fe80:")
    assert ":ffff:" in (pushed / gid / "gids/5").read_text()

    tclass = "sys/class/infiniband/mlx5_0/tc/1/traffic_class"
    assert (healthy / tclass).read_text() == "Global tclass=160\n"
    missing = build("tclass", "c500x8-4nic", {"traffic_class": "missing"})
    assert (missing / tclass).read_text() == ""

    refused = build("peer", "c500x8-4nic", {"peer_memory": "refused"})
    lines = [
        line.split("] ", 1)[1] for line in (stand_in(refused, "sbin/dmesg").stdout).splitlines()
    ]
    sample = (SAMPLES / "dmesg_peer_mem_failed.txt").read_text().splitlines()
    assert lines[-len(sample) :] == [line.split("] ", 1)[1] for line in sample]
    properties = "sys/class/mxcd/mxcd/layout/properties"
    assert (healthy / properties).read_text() == "peer_mem 1\n"
    assert (refused / properties).read_text() == "peer_mem 0\n"

    gone = build("gone", "c500x8-4nic", {"accelerator_missing": 2})
    assert len(stand_in(gone, "opt/mxdriver/bin/mx-smi", "-L").stdout.splitlines()) == 1 + 7
    assert not (gone / "sys/bus/pci/devices/0000:4a:00.0").is_symlink()
    sick = build("sick", "c500x8-4nic", {"accelerator_unavailable": 2})
    rows = stand_in(sick, "opt/mxdriver/bin/mx-smi", "-L").stdout.splitlines()
    assert rows[3] == (
        "GPU#2    MXC500      0000:4a:00.0   Not Available(MetaX Sysfs File Unaccessible)"
    )


@pciutils
def test_lockdown_refuses_writes_only() -> None:
    tree = build("node", "c500x8-4nic", {"lockdown": "integrity"})
    assert (tree / "sys/kernel/security/lockdown").read_text() == (
        "none [integrity] confidentiality\n"
    )
    option = f"sysfs.path={tree}/sys/bus/pci"
    register = ("-O", option, "-s", "0000:1b:00.0", "CAP_EXP+8.w")
    assert stand_in(tree, "sbin/setpci", *register).stdout == "1937\n"
    before = snapshot(tree)
    refused = stand_in(tree, "sbin/setpci", *register[:-1], "CAP_EXP+8.w=2000:7000")
    assert (refused.returncode, refused.stdout) == (0, "")
    assert "Operation not permitted" in refused.stderr
    assert snapshot(tree) == before


def same_layout(text: str) -> str:
    """The text with what differs from machine to machine made equal, without moving anything."""
    text = re.sub(r"(Timestamp +: ).*", r"\1", text)
    text = re.sub(r"0000:\w\w:00\.0", "0000:bb:00.0", text)
    text = re.sub(r"GPU-[0-9a-f-]{36}", "GPU-uuid", text)
    return re.sub(r"\b\d\dW|\b\d\dC", lambda match: "00" + match[0][-1], text)


@pytest.mark.parametrize(
    ("arguments", "sample"),
    [
        ((), "mx-smi_default_2.2.9_c500x8.txt"),
        (("-L",), "mx-smi_L_2.2.9.txt"),
        (("topo", "-m"), "mx-smi_topo_m_2.2.9.txt"),
        (("topo", "-n"), "mx-smi_topo_n_2.2.9.txt"),
    ],
)
def test_mx_smi_has_the_layout_of_the_real_one(arguments: tuple[str, ...], sample: str) -> None:
    """On a machine of the same build the output differs in names and temperatures alone."""
    tree = build("node", "c500x8-2dual", {})
    if "topo" in arguments:
        _rewire_as_in_samples(tree)
    output = stand_in(tree, "opt/mxdriver/bin/mx-smi", *arguments).stdout
    assert same_layout(output) == same_layout((SAMPLES / sample).read_text())


def _rewire_as_in_samples(tree: Path) -> None:
    """Accelerators on one NUMA node, storage with two ports on the other, devices in order."""
    text = files("rackready.emulator").joinpath("nodes").joinpath("c500x8-2dual.yaml").read_text()
    for old, new in (
        ('"0000:a6"\n    numa: 1', '"0000:a6"\n    numa: 0'),
        ("mlx5_2", "mlx5_x"),
        ("mlx5_3", "mlx5_2"),
        ("mlx5_4", "mlx5_3"),
        (
            "- {rdma: mlx5_x, netdev: ens5f0np0, network: 10.200.0.0/16, rate: 100}",
            "- {rdma: mlx5_4, netdev: a, rate: 100}\n      - {rdma: mlx5_5, netdev: b, rate: 100}",
        ),
    ):
        assert old in text
        text = text.replace(old, new)
    machine = make_machine("node", parse_description(text, "sample"), Faults())
    for name, content in tables(machine).items():
        (tree / ".emulator/mx-smi" / name).write_text(f"{content}\n")


def test_stand_ins_do_nothing_without_a_root() -> None:
    tree = build("node", "c500x8-4nic", {})
    for name in ("opt/mxdriver/bin/mx-smi", "sbin/dmesg", "sbin/ip", "sbin/modinfo"):
        result = subprocess.run([str(tree / name)], env={"PATH": "/bin"}, capture_output=True)
        assert result.returncode != 0
        assert result.stdout == b""


def test_marker_says_what_it_is() -> None:
    text = (build("node", "c500x8-4nic", {}) / MARKER).read_text()
    assert re.fullmatch(r"Emulated node node: c500x8-4nic, [0-9a-f]{64}\n", text)
