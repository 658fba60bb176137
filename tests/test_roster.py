"""Host lists -> inventory files."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackready import roster

CSV = """\
name,address,user,port,rack
c500-001,10.0.0.1,ops,22,r1

c500-002,,,2222,r1
"""


def groups(text: str) -> dict[str, list[object]]:
    """The inventory file as pyinfra reads it."""
    names: dict[str, object] = {}
    exec(compile(text, "inventory.py", "exec"), names)
    return {key: value for key, value in names.items() if isinstance(value, list)}


def faults(text: str) -> list[str]:
    with pytest.raises(roster.RosterError) as error:
        roster.read_csv("rack.csv", text)
    return str(error.value).splitlines()


def test_csv() -> None:
    text = roster.inventory(roster.read_csv("rack.csv", CSV), "rack.csv")
    assert groups(text) == {
        "metax": [
            (
                "c500-001",
                {"ssh_hostname": "10.0.0.1", "ssh_user": "ops", "ssh_port": 22, "rack": "r1"},
            ),
            ("c500-002", {"ssh_port": 2222, "rack": "r1"}),
        ]
    }


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_and_byte_order_mark(separator: str, tmp_path: Path) -> None:
    path = tmp_path / "rack.csv"
    path.write_text("\ufeff" + CSV.replace(",", separator), encoding="utf-8")
    assert roster.read(str(path), io.StringIO()) == roster.read_csv("rack.csv", CSV)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["rack.csv:1: there is no column 'name'"]),
        ("name\n", ["rack.csv: no host in it"]),
        ("name,adress\n", ["rack.csv:1: unknown column 'adress'; did you mean 'address'?"]),
        ("name,name\n", ["rack.csv:1: column 'name' is there twice"]),
        ("name\na\nb\na\n", ["rack.csv:4: a is already in line 2"]),
        ("name,port\na,x\n", ["rack.csv:2: 'x' is not a port (1 to 65535)"]),
        ("name,user\n,ops\n", ["rack.csv:2: the name is empty"]),
        ("name\n@local\n", ["rack.csv:2: '@local' is not a host name"]),
        ("name\na,b\n", ["rack.csv:2: 2 values for 1 columns"]),
        (
            "name,port\n,0\nb,65536\n",
            [
                "rack.csv:2: '0' is not a port (1 to 65535)",
                "rack.csv:2: the name is empty",
                "rack.csv:3: '65536' is not a port (1 to 65535)",
            ],
        ),
    ],
)
def test_faults_name_file_and_line(text: str, expected: list[str]) -> None:
    assert faults(text) == expected


def test_unknown_column_without_a_near_one_lists_all() -> None:
    assert faults("name,zzzz\n") == [
        "rack.csv:1: unknown column 'zzzz'; known: address, key, known_hosts, name, port, "
        "rack, slot, user"
    ]


def test_node_set() -> None:
    entries = roster.read("c500-[001-003],x1", io.StringIO())
    assert [entry.name for entry in entries] == ["c500-001", "c500-002", "c500-003", "x1"]


@pytest.mark.parametrize(
    ("text", "size"),
    [("c[1-100000]", 100_000), ("c[0-299]x[0-299]", 90_000), ("c[0-9000000/1000]-[1,2]n", 18_002)],
)
def test_large_node_sets(text: str, size: int) -> None:
    assert len(roster.read_names("node set", text)) == size


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("c[0-9999999999/1000]", "more than 100,000 names"),
        ("c[0-9999999999/1000000]", "no node set: range too large"),
        ("c" + "1" * 5000, "no node set: "),
        ("c[1-" + "9" * 5000 + "]", "no node set: "),
    ],
)
def test_node_sets_of_huge_numbers(text: str, reason: str) -> None:
    with pytest.raises(roster.RosterError, match=f": {reason}"):
        roster.read_names("hosts", text)


def test_many_node_sets_are_not_more_than_one() -> None:
    with pytest.raises(roster.RosterError, match=r"^hosts:3: more than 100,000 names up to here$"):
        roster.read_names("hosts", "a[1-50000]\nb[1-50000]\nc1\n" + "d[1-90000]\n" * 1000)


def test_names_as_slurm_prints_them() -> None:
    text = "c500-001\nc500-002\n"
    expected = [roster.Entry("c500-001"), roster.Entry("c500-002")]
    assert roster.read("-", io.StringIO(text)) == expected
    assert groups(roster.inventory(expected, "-")) == {"metax": ["c500-001", "c500-002"]}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("c500-[001-", "node set:1: "),
        (r"c[1-99999999]", r"node set:1: c\[1-99999999\]: more than 100,000 names"),
        ("c[0-9999]x[0-9999]", r"node set:1: c\[0-9999\]x\[0-9999\]: more than 100,000 names"),
        ("c[1-60000],c[1-60000]", ".*more than 100,000 names"),
        ("c99999[9-10]", ".*more than 100,000 names"),  # from 999999 to 9999910
        ("c[-99999999--1]", ".*no node set: '-99999999--1' is no range"),
        ("c[1-9_999_999]", ".*no node set: '1-9_999_999' is no range"),
        ("gone/rack", "gone/rack: no such file"),
        ("rack.csv", "rack.csv: no such file"),
        ("", "node set: no host in it"),
    ],
)
def test_unreadable_sources(source: str, expected: str) -> None:
    with pytest.raises(roster.RosterError, match=f"^{expected}"):
        roster.read(source, io.StringIO())


@given(st.text(max_size=200))
def test_any_text_is_a_roster_or_a_stated_fault(text: str) -> None:
    for reader in (roster.read_csv, roster.read_names):
        try:
            entries = reader("hosts", text)
        except roster.RosterError:
            continue
        assert groups(roster.inventory(entries, "hosts"))["metax"]


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_values_survive_quoting(value: str) -> None:
    entry = roster.Entry("a", {"rack": value})
    assert groups(roster.inventory([entry], "x"))["metax"] == [("a", {"rack": value})]


def test_file_that_is_no_host_list_is_told_in_a_few_lines() -> None:
    faults = str(roster.RosterError(f"README.md:{line}: no host" for line in range(600)))
    assert faults.count("\n") == 10
    assert faults.endswith("... and 590 more: is this a list of hosts?")
