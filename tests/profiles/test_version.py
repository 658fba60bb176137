from __future__ import annotations

import operator
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from rackready.version import Line, SdkVersion, at_least


def parsed(text: str) -> SdkVersion:
    version = SdkVersion.parse(text)
    assert version is not None
    return version


@pytest.mark.parametrize(
    ("text", "line", "shown"),
    [
        ("3.8.2", Line.RELEASE, "3.8.2"),
        ("3.3.0.15", Line.RELEASE, "3.3.0.15"),
        ("2.33.0.5", Line.RELEASE, "2.33.0.5"),
        ("Version:3.8.1.6\n", Line.RELEASE, "3.8.1.6"),
        ("release-2.32", Line.RELEASE, "2.32"),
        ("Release3.6.0", Line.RELEASE, "3.6.0"),
        ("MACA SDK Release 3.9.0", Line.RELEASE, "3.9.0"),
        ("20260806-1300", Line.MASTER, "20260806-1300"),
        ("#20260510-924", Line.MASTER, "20260510-924"),
        ("master(#20251225-915)", Line.MASTER, "20251225-915"),
        ("MASTER 20260817-271", Line.MASTER, "20260817-271"),
    ],
)
def test_what_is_a_version(text: str, line: Line, shown: str) -> None:
    version = parsed(text)
    assert version.line is line
    assert str(version) == shown


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "unknown",
        "Version:",
        "3",
        "3.5.x",
        "3.8.2-rc1",
        "20260806",  # a date without the number of the build
        "20261306-1",
        "20260832-1",
        "2026-08-06",
        "20260806.1300",
        "1.2.3.4.5.6",
        "٣.٨",
        "3.8\n3.9",
        "v" * 10_000,
    ],
)
def test_what_is_none(text: str | None) -> None:
    assert SdkVersion.parse(text) is None


def test_a_plain_comparison_would_be_wrong() -> None:
    # every date build would be newer than every release
    assert Version("20200101-1") > Version("3.9.0")
    old, new = parsed("20200101-1"), parsed("3.9.0")
    for compare in (operator.lt, operator.le, operator.gt, operator.ge):
        with pytest.raises(TypeError):
            compare(old, new)
    assert old != new
    # and text would put 3.10 before 3.9, build 1300 before 271
    assert parsed("3.10.0") > parsed("3.9.0")
    assert parsed("20260817-1300") > parsed("20260817-271")


def test_zeros_at_the_end_are_no_difference() -> None:
    assert parsed("3.8") == parsed("3.8.0")
    assert hash(parsed("3.8")) == hash(parsed("3.8.0"))
    assert parsed("3.8.0.1") > parsed("3.8")


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("3.8.2", True),
        ("3.8.2.1", True),
        ("3.8.1.6", False),
        ("20260806-1300", True),
        ("20260806-1299", False),
        ("20270101-1", True),
        ("unknown", None),
    ],
)
def test_at_least(version: str, expected: bool | None) -> None:
    first = parsed("3.8.2"), parsed("20260806-1300")
    assert at_least(SdkVersion.parse(version), *first) is expected


def test_at_least_without_a_first_one_of_the_line() -> None:
    assert at_least(parsed("20270101-1"), parsed("3.8.2"), None) is None
    assert at_least(parsed("3.8.2"), None, parsed("20260806-1300")) is None


numbers = st.integers(0, 999)
releases = st.lists(numbers, min_size=2, max_size=5).map(lambda parts: ".".join(map(str, parts)))
masters = st.builds(
    lambda day, build: f"{day:%Y%m%d}-{build}",
    st.dates(date(2000, 1, 1), date(2099, 12, 31)),
    st.integers(0, 999_999),
)


@given(st.lists(releases, min_size=3, max_size=3) | st.lists(masters, min_size=3, max_size=3))
def test_a_line_has_a_total_order(texts: list[str]) -> None:
    a, b, c = map(parsed, texts)
    assert (a < b) + (a == b) + (a > b) == 1
    assert (a <= b) == (a < b or a == b)
    assert (a < b) == (b > a)
    if a <= b and b <= c:
        assert a <= c
    assert parsed(str(a)) == a


@given(st.text())
def test_any_text_is_a_version_or_none(text: str) -> None:
    version = SdkVersion.parse(text)
    assert version is None or SdkVersion.parse(str(version)) == version
