"""What of a paste is evidence, and what is said of the rest."""

from __future__ import annotations

import pytest

from rackready.facts import paste
from rackready.facts.paste import read_paste

CLASS = "cat /sys/class/infiniband/mlx5_0/tc/1/traffic_class"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"# {CLASS} | wc -l\n1\n", "only counted"),
        ("# lsmod | grep -c metax\n0\n", "only counted"),
        ("# ls /sys/class/iommu 2>/dev/null\n", "errors were thrown away"),
        (f"# {CLASS}\nKilled\n", "did not run to its end"),
        (f"# {CLASS}\nConnection to n1 closed.\n", "did not run to its end"),
        (f"# {CLASS}\n...\n", "did not run to its end"),
        ("# cat /sys/module/a/version /sys/module/b/version\n1\n", "can't be told"),
        ("well, it hangs\n", "nothing here is known"),
    ],
)
def test_no_evidence(text: str, why: str) -> None:
    pasted = read_paste(text, "host", "file")
    assert pasted.evidence == ()
    (gap,) = pasted.gaps
    assert why in gap.reason


@pytest.mark.parametrize(
    "text",
    [
        f"# {CLASS}\nGlobal tclass=160\n",
        f"# {CLASS} 2>/dev/null\nGlobal tclass=160\n",
        "# lsmod | grep metax\n",
    ],
)
def test_evidence(text: str) -> None:
    pasted = read_paste(text, "host", "file")
    assert len(pasted.evidence) == 1
    assert pasted.gaps == ()


def test_both_ends_of_very_many_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paste, "_MOST_ROWS", 10)
    text = f"# {CLASS}\nGlobal tclass=160\n" + "\n" * 50 + "# ulimit -l\n64\n"
    pasted = read_paste(text, "host", "file")
    assert [item.command for item in pasted.evidence] == [CLASS, "ulimit -l"]
    assert "only both ends" in pasted.gaps[0].reason
