"""Listings, numbers, addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackready.facts.readers.sysfs import attributes, bdf, links, mode_of, number


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("33:00.0", "0000:33:00.0"),
        ("0001:C9:1F.7", "0001:c9:1f.7"),
        ("00000000:00:06.0", "0000:00:06.0"),
        ("10000:01:00.0", "10000:01:00.0"),
        ("33:20.0", None),
        ("33:00.8", None),
        ("33:00", None),
        ("", None),
    ],
)
def test_bdf(text: str, expected: str | None) -> None:
    assert bdf(text) == expected


@pytest.mark.parametrize(
    ("text", "base", "expected"),
    [
        ("42\n", 10, 42),
        ("-1", 10, -1),
        ("0x020000", 16, 0x20000),
        ("1_000", 10, None),
        ("²", 10, None),
        ("", 10, None),
        (None, 10, None),
        ("9" * 5000, 10, None),
        ("f" * 5000, 16, None),
        ("0xzz", 16, None),
    ],
)
def test_number(text: str | None, base: int, expected: int | None) -> None:
    assert number(text, base) == expected


LINK = "lrwxrwxrwx 1 root root 0 Jan  1 00:00 0000:33:00.0 -> ../../../devices/pci0000:30/x"


@pytest.mark.parametrize(
    "line",
    [
        LINK,
        LINK + "\r",
        LINK.replace(" root", "\troot"),
        LINK.replace("lrwxrwxrwx", "lrwxrwxrwx."),
        LINK.replace("Jan  1 00:00", "2026-01-01 00:00"),
        LINK.replace("Jan  1 00:00", "2026-01-01 00:00:00.000000000 +0800"),
        LINK.replace("Jan  1 00:00", "Jan  1  2025"),
    ],
)
def test_links(line: str) -> None:
    notes: list[str] = []
    found = list(
        links(f"total 0\n{line}\ndrwxr-xr-x 2 root root 0 Jan  1 00:00 power\n", notes.append)
    )
    assert found == [("0000:33:00.0", "../../../devices/pci0000:30/x")]
    assert notes == []


@pytest.mark.parametrize(
    "line",
    [
        "ls: cannot access '/sys/class/infiniband': No such file or directory",
        "lrwxrwxrwx 1 root root 0 Jan  1 00:00 0000:33:00.0",
        "root@n1:~# ls",
        "\x1b[0m" + LINK,
    ],
)
def test_other_lines_of_a_listing_are_said(line: str) -> None:
    notes: list[str] = []
    assert list(links(f"{line}\n{LINK}\n", notes.append)) != []
    assert len(notes) == 1
    assert notes[0].startswith("line 1 ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-rw-r--r-- 1 root root 120 Nov 30 21:00 /etc/x", 0o644),
        ("drwxr-xr-x. 2 root root 4096 Nov 30 21:00 /etc/x", 0o755),
        ("-rwsr-sr-t 1 root root 120 Nov 30 21:00 /etc/x", 0o7755),
        ("-rwSr-Sr-T 1 root root 120 Nov 30 21:00 /etc/x", 0o7644),
        ("", None),
        ("-rw-r--r-- /etc/x", None),
    ],
)
def test_mode(text: str, expected: int | None) -> None:
    assert mode_of(text) == expected


def test_attributes() -> None:
    notes: list[str] = []
    text = "0000:33:00.0/class:0x020000\r\neth0/mtu: 4200\neth0/address:02:fc:00:00:00:01\nnoise\n"
    assert attributes(text, notes.append) == {
        "0000:33:00.0": {"class": "0x020000"},
        "eth0": {"mtu": "4200", "address": "02:fc:00:00:00:01"},
    }
    assert notes == ["line 4 is no attribute: 'noise'"]


@given(st.text())
def test_any_text(text: str) -> None:
    notes: list[str] = []
    list(links(text, notes.append))
    attributes(text, notes.append)
    bdf(text)
    number(text)
    number(text, 16)
    mode_of(text)
    assert all("\n" not in note for note in notes)
