"""Command lines as people paste them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackready.facts.commands import shared_out, simple_commands


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("lspci -vvv", ["lspci -vvv"]),
        ("sudo -n lspci -vvv | grep ACSCtl", ["lspci -vvv"]),
        ("sudo -u ops env A=1 mx-smi -L 2>/dev/null", ["mx-smi -L"]),
        ("env | grep NCCL", ["env"]),
        (
            "id -u; cat /proc/sys/kernel/kptr_restrict",
            ["id -u", "cat /proc/sys/kernel/kptr_restrict"],
        ),
        ("cd /sys && ls -l > out", ["cd /sys", "ls -l"]),
        (
            'for b in 2c:00.0 "33:00.0"; do setpci -s $b X; done',
            ["setpci -s 2c:00.0 X", "setpci -s 33:00.0 X"],
        ),
        (
            "for p in a b; do for i in 0 1; do cat $p/${i}; done; done",
            ["cat a/0", "cat a/1", "cat b/0", "cat b/1"],
        ),
        ("docker exec -it -u root job ls -l /dev/infiniband", ["ls -l /dev/infiniband"]),
        ("kubectl exec -n ai pod-0 -- mx-smi -L", ["mx-smi -L"]),
        ("ssh n1 'which orted; echo $PATH'", ["ssh n1 'which orted; echo $PATH'"]),
        ("echo 'not closed", ["echo 'not closed"]),
    ],
)
def test_simple_commands(line: str, commands: list[str]) -> None:
    assert [item.command for item in simple_commands(line)] == commands


def test_what_each_command_printed() -> None:
    shared = shared_out("uname -r; ls -l /usr/src; id -u", "5.10\ntotal 0\nx\n0\n")
    assert [(item.command, text) for item, text in shared] == [
        ("uname -r", "5.10\n"),
        ("ls -l /usr/src", "total 0\nx\n"),
        ("id -u", "0\n"),
    ]


def test_a_file_a_line() -> None:
    shared = shared_out("cat /sys/a /sys/b", "1\n2\n")
    assert [(item.command, text) for item, text in shared] == [
        ("cat /sys/a", "1\n"),
        ("cat /sys/b", "2\n"),
    ]
    # an error message more, and it can't be told which line is whose
    (whole,) = shared_out("cat /sys/a /sys/b", "1\n2\n3\n")
    assert whole[1] == "1\n2\n3\n"


def test_a_line_too_few_is_nobodys() -> None:
    assert shared_out("cat /sys/a /sys/b", "1\n") == ()
    assert shared_out("uname -r; id -u", "5.10\n") == ()
    assert len(shared_out("cat /sys/a /sys/b", "1\n2\n\n")) == 2  # a gap before the next prompt


@pytest.mark.parametrize(
    ("line", "quiet"),
    [
        ("ls x", False),
        ("ls x 2>/dev/null", True),
        ("ls x 2> /dev/null | wc -l", True),
        ("ls x &>/dev/null", True),
        ("ls x >/dev/null 2>&1", False),  # then nothing at all is shown
        ("ls x | grep y 2>/dev/null", False),  # those of grep
    ],
)
def test_errors_that_are_thrown_away(line: str, quiet: bool) -> None:
    assert simple_commands(line)[0].quiet is quiet


def test_loops_in_loops_are_written_out_as_far_as_needed() -> None:
    words = " ".join("abcdefghijklmnopqrstuvwxyz" * 2)
    line = (
        "".join(f"for {name} in {words}; do " for name in "xyz") + "cat $x $y $z; done; done; done"
    )
    assert len(simple_commands(line)) == 256


@given(st.text(max_size=200), st.text(max_size=100))
def test_any_line(line: str, text: str) -> None:
    assert len(simple_commands(line)) <= 256
    shared_out(line, text)
