"""Masked captures: nothing secret left, everything that matters still the same."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackready.facts.capture import read_capture, write_capture
from rackready.facts.mask import mask
from rackready.facts.model import Evidence, Node
from rackready.facts.readers.node import read_node
from rackready.facts.readers.pci import read_dump, read_serial

MAC = bytes.fromhex("9c63c0aabbcc")
UUID = "8d1c6c9e-0f0f-4a4a-9b9b-1234567890ab"
RDMA = "cd /sys/class/infiniband && grep -s"
SECTIONS = {
    "cat /proc/sys/kernel/hostname": "gpu-017.hall.example\n",
    "cat /etc/os-release": 'ID=ubuntu\nVERSION_ID="22.04"\n',
    "cat /proc/cmdline": f"root=UUID={UUID} quiet PARTUUID=abcd1234-02 BOOTIF=01-9c-63-c0-aa-bb-cc "
    "ip=8.8.4.17::8.8.4.1:255.255.255.0:gpu-017:eth0 nfs.password=hunter22 iommu=pt\n",
    "cat /proc/sys/kernel/random/boot_id": f"{UUID}\n",
    "cd /sys/class/dmi/id && grep -s '' sys_vendor product_name product_serial board_serial "
    "bios_version bios_date": "sys_vendor:Maker\nproduct_serial:J30A1B2\nboard_serial:None\n",
    "ls -l /sys/class/infiniband": "total 0\nlrwxrwxrwx 1 root root 0 Jan  1 00:00 mlx5_0 -> "
    "../../devices/pci0000:30/0000:30:01.0/0000:31:00.0/infiniband/mlx5_0\n",
    f"{RDMA} '' */fw_ver */board_id */node_guid */sys_image_guid */ports/*/state": "mlx5_0/fw_ver:"
    "28.39.1002\nmlx5_0/node_guid:9c63:c003:00aa:bbcc\nmlx5_0/ports/1/state:4: ACTIVE\n",
    f"{RDMA} '[1-9a-f]' */ports/*/gids/*": "mlx5_0/ports/1/gids/0:"
    "fe80:0000:0000:0000:9e63:c0ff:feaa:bbcc\n"
    "mlx5_0/ports/1/gids/1:fe80:0000:0000:0000:51f2:77aa:9d01:3344\n"
    "mlx5_0/ports/1/gids/2:0000:0000:0000:0000:0000:ffff:0a02:0105\n"
    "mlx5_0/ports/1/gids/3:0000:0000:0000:0000:0000:ffff:0808:0411\n",
    "ls -l /sys/class/net": "lrwxrwxrwx 1 root root 0 Jan  1 00:00 enx9c63c0aabbcc -> "
    "../../devices/pci0000:30/0000:30:01.0/0000:31:00.0/net/enx9c63c0aabbcc\n",
    "cd /sys/class/net && grep -s '' */address */mtu */operstate */speed */dev_port": "enx"
    "9c63c0aabbcc/address:9c:63:c0:aa:bb:cc\nenx9c63c0aabbcc/mtu:9000\nib0/address:80:00:00:48:"
    "fe:80:00:00:00:00:00:00:9c:63:c0:03:00:aa:bb:cc\nlo/address:00:00:00:00:00:00\n",
    "ip -o addr show": "2: enx9c63c0aabbcc    inet 8.8.4.17/24 brd 8.8.4.255\n"
    "2: enx9c63c0aabbcc    inet 10.2.1.5/24\n"
    "2: enx9c63c0aabbcc    inet6 2400:dd01:1:2:9e63:c0ff:feaa:bbcc/64\n"
    "2: enx9c63c0aabbcc    inet6 2400:dd01:1:2::7/64\n"
    "2: enx9c63c0aabbcc    inet6 fe80::9e63:c0ff:feaa:bbcc/64\n"
    "1: lo    inet6 ::1/128\n",
    "ip route": "8.8.4.0/24 dev enx9c63c0aabbcc proto kernel scope link src 8.8.4.17\n",
    "stat -L -c '%a %n' /home/joe /home/joe/.ssh": "755 /home/joe\n700 /home/joe/.ssh\n",
    "mx-smi": f"MXC500 0000:08:00.0 UUID: GPU-{UUID} Serial Number : J30A1B2\n"
    "BIOS 1.30.0.0 12:34:56 0xffffffffc0a00000\n"
    "0x9c63c00300aabbcc 9C63C0AABBCC 9c63.c0aa.bbcc 9c-63-c0-aa-bb-cc 8.8.4.17 gpu-017\n",
    "cat /run/rackready.lock": "joe@desk run 20261130 pid 7 since 2026-11-30T21:00:00Z\n",
}
SECRETS = re.compile(
    "gpu-017|hall|8d1c6c9e|1234567890ab|abcd1234|hunter22|J30A1B2|joe|desk|8[.]8[.]4|0808:04|"
    "aa.?bb.?cc|2400:dd01|51f2|9d01|::7/",
    re.IGNORECASE,
)


def capture_of(sections: dict[str, str]) -> str:
    return write_capture(Evidence("n", command, text) for command, text in sections.items())


def masked(sections: dict[str, str], key: bytes = b"") -> dict[str, str]:
    capture = read_capture(mask(capture_of(sections), key), "n")
    assert capture.gaps == ()
    return {item.command: item.text for item in capture.evidence}


def node_of(sections: dict[str, str]) -> Node:
    return read_node("n", (Evidence("n", command, text) for command, text in sections.items()))


def test_no_secret_is_left() -> None:
    assert SECRETS.search(capture_of(SECTIONS))
    assert SECRETS.findall(mask(capture_of(SECTIONS))) == []


def test_what_is_no_secret_stays() -> None:
    after = masked(SECTIONS)
    assert after["cat /etc/os-release"] == SECTIONS["cat /etc/os-release"]
    tool = after["mx-smi"]
    assert tool.startswith("MXC500 0000:08:00.0 UUID: GPU-")
    assert "BIOS 1.30.0.0 12:34:56 0xffffffffc0a00000\n" in tool
    assert "quiet" in after["cat /proc/cmdline"] and "iommu=pt" in after["cat /proc/cmdline"]
    assert "255.255.255.0" in after["cat /proc/cmdline"]


def test_the_same_secret_is_the_same_token() -> None:
    after = masked(SECTIONS)
    host = after["cat /proc/sys/kernel/hostname"].strip()
    assert f":{host}:eth0" in after["cat /proc/cmdline"]
    assert after["mx-smi"].endswith(f" {host}\n")
    boot = after["cat /proc/sys/kernel/random/boot_id"].strip()
    assert f"UUID={boot} " in after["cat /proc/cmdline"] and f"GPU-{boot} " in after["mx-smi"]
    serial = node_of(after).system.serial
    assert f"Serial Number : {serial}\n" in after["mx-smi"]


def test_addresses_of_one_card_stay_in_step() -> None:
    node = node_of(masked(SECTIONS))
    assert node.rdma and node.net and node.rdma[0].ports[0].gids
    (device,), gids = node.rdma, node.rdma[0].ports[0].gids
    mac = next(net.mac for net in node.net if net.name.startswith("enx"))
    assert mac and mac.startswith("9c:63:c0:")
    tail = mac.replace(":", "")[6:]
    assert device.node_guid == f"9c63:c003:00{tail[:2]}:{tail[2:]}"
    assert gids[0].gid == f"fe80:0000:0000:0000:9e63:c0ff:fe{tail[:2]}:{tail[2:]}"
    assert not re.search("ff:fe|03:00", gids[1].gid)
    assert gids[2].gid.endswith("ffff:0a02:0105")
    assert [net.name for net in node.net] == [f"enx9c63c0{tail}"]
    addresses = node.net[0].addresses
    assert addresses
    public, private, made, set_by_hand, link_local = addresses
    assert private == "10.2.1.5/24"
    assert gids[3].gid.endswith(bytes(map(int, public[:-3].split("."))).hex(":", 2))
    assert made.endswith(link_local.removeprefix("fe80::"))
    assert made.split(":")[:4] == set_by_hand.split(":")[:4]


def test_captures_masked_with_one_key_fit_together() -> None:
    first, second = masked(SECTIONS, b"rack"), masked(dict([*SECTIONS.items()][2:]), b"rack")
    assert first["ip -o addr show"] == second["ip -o addr show"]
    assert first["ip -o addr show"] != masked(SECTIONS, b"other")["ip -o addr show"]


def test_the_serial_number_of_a_card_is_masked_in_its_config_space() -> None:
    config = bytearray(4096)
    config[0x100:0x104] = (0x0001 | 1 << 16 | 0x140 << 20).to_bytes(4, "little")
    config[0x140:0x144] = (0x0003 | 1 << 16).to_bytes(4, "little")
    config[0x144:0x14C] = bytes.fromhex("9c63c00300aabbcc")[::-1]
    rows = [f"{at:06x} {config[at : at + 16].hex(' ')}\n" for at in (0, 0x100, 0x110, 0x140, 0x150)]
    dump = f"{rows[0]}*\n{rows[1]}{rows[2]}*\n{rows[3]}{rows[4]}*\n001000\n"
    command = "od -Ax -tx1 -N 4096 /sys/bus/pci/devices/0000:31:00.0/config"
    after = masked(SECTIONS | {command: dump})
    serial = read_serial(read_dump(after[command], pytest.fail))
    guid = next(text for name, text in after.items() if "node_guid" in name)
    assert serial and serial.replace("-", "") in guid.replace(":", "")
    assert [len(line) for line in after[command].splitlines()] == [
        len(line) for line in dump.splitlines()
    ]
    damage: list[str] = []
    broken = masked({command: f"{dump}garbage\n"})[command]
    assert read_serial(read_dump(broken, damage.append)) != read_serial(config) and damage


@pytest.mark.parametrize("name", ["localhost", "ubuntu", "metax"])
def test_a_host_name_that_is_a_word_leaves_other_text_alone(name: str) -> None:
    hostname = "cat /proc/sys/kernel/hostname"
    after = masked({hostname: f"{name}\n", "cat /etc/os-release": f"ID={name}\n"})
    assert after["cat /etc/os-release"] == f"ID={name}\n"
    assert (after[hostname] == f"{name}\n") is (name == "localhost")


def test_a_cut_capture_stays_cut() -> None:
    text = capture_of(SECTIONS)
    assert read_capture(mask(text[:-5]), "n").gaps
    cut = read_capture(mask("rackready-capture 1\n$ a\n|x\n$ b\n? late 7\n. 2\n"), "n")
    assert [item.lost for item in cut.evidence] == ["cut", "late 7"]


@given(st.integers(0, 2**32 - 1), st.integers(0, 31))
def test_addresses_with_a_common_prefix_keep_one(address: int, flipped: int) -> None:
    def text(value: int) -> str:
        return ".".join(map(str, value.to_bytes(4, "big")))

    def number(value: str) -> int:
        return int.from_bytes(bytes(map(int, value.split("."))), "big")

    other = address ^ 1 << 31 - flipped
    words = masked({"ip -o addr show": f"{text(address)} {text(other)}\n"}, b"key")[
        "ip -o addr show"
    ].split()
    assert words[0] != words[1]
    if flipped >= 16:
        assert (number(words[0]) ^ number(words[1])).bit_length() == 32 - flipped


@given(st.binary(min_size=6, max_size=6).filter(lambda mac: len(set(mac)) > 1))
def test_every_spelling_of_a_mac_address_gives_one(mac: bytes) -> None:
    eui = bytes([mac[0] ^ 2]) + mac[1:3] + b"\xff\xfe" + mac[3:]
    guid = mac[:3] + b"\x03\x00" + mac[3:]
    spellings = [
        mac.hex(":"),
        mac.hex("-"),
        mac.hex(),
        mac.hex(".", 2),
        eui.hex(":", 2),
        eui.hex(":"),
        guid.hex(":", 2),
        f"0x{guid.hex()}",
        f"fe80:0000:0000:0000:{eui.hex(':', 2)}",
        f"enx{mac.hex()}",
    ]
    after = masked({"ip": "\n".join(spellings)})["ip"].split()
    tails = {re.sub("[^0-9a-f]", "", spelling)[-6:] for spelling in after}
    assert len(tails) == 1
    assert [len(spelling) for spelling in after] == [len(spelling) for spelling in spellings]


@given(st.one_of(st.text(), st.binary().map(lambda b: b.decode("utf-8", "surrogateescape"))))
def test_masking_never_raises(output: str) -> None:
    for command in SECTIONS:
        mask(write_capture([Evidence("n", command, output)]))
    mask(output)
