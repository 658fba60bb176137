"""The capture format, and the packed form in which it travels."""

from __future__ import annotations

import base64
import gzip
import hashlib
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackready.facts.capture import (
    LARGEST,
    ProbeLost,
    ProbeWishes,
    decode_transport,
    read_capture,
    write_capture,
)
from rackready.facts.model import Evidence
from rackready.facts.readers.node import read_node

FRAMES = "rackready-capture 1\n$ cat x\n|y\n\\z\nx 00\n? 0\n. 1\n"
CAPTURE = (
    "rackready-capture 1\n$ cat a\n|one\n|two\n? 0\n$ mx-smi\n? late 4711\n$ b\n\\x\n? 1\n. 3\n"
)

commands = st.text(st.characters(min_codepoint=32, max_codepoint=126))
outputs = st.binary().map(lambda data: data.decode("utf-8", "surrogateescape"))
evidence = st.one_of(
    st.builds(Evidence, st.just("n"), commands, outputs, st.integers(0, 255)),
    st.builds(
        Evidence,
        st.just("n"),
        commands,
        outputs,
        st.none(),
        st.sampled_from(["late 4711", "absent", "skipped mx-smi was late", "cut"]),
    ),
)


def packed(text: str, form: str = "gzip+base64", checksum: str = "") -> list[str]:
    data = text.encode()
    checksum = checksum or hashlib.sha256(data).hexdigest()
    if form.startswith("gzip"):
        data = gzip.compress(data)
    payload = base64.b64encode(data).decode() if form.endswith("base64") else data.hex()
    lines = [payload[start : start + 76] for start in range(0, len(payload), 76)]
    header = f"=== rackready probe 1 {form} {len(payload)} {checksum}"
    return [header, *lines, "=== rackready end"]


@given(st.lists(evidence, max_size=4))
def test_what_is_written_is_read_again(items: list[Evidence]) -> None:
    text = write_capture(items)
    assert text.isascii()
    capture = read_capture(text, "n")
    assert (list(capture.evidence), capture.gaps) == (items, ())


@pytest.mark.parametrize(
    "output", ["", "\n", "x", "a\n\nb", FRAMES, FRAMES[:-1], "\r\n", "\t", "\0", "é"]
)
def test_output_cannot_break_the_frame(output: str) -> None:
    item = Evidence("n", "cat", output, 0)
    assert read_capture(write_capture([item]), "n").evidence == (item,)


def test_a_capture_says_what_became_of_each_command() -> None:
    a, late, b = read_capture(CAPTURE, "n").evidence
    assert a == Evidence("n", "cat a", "one\ntwo\n", 0)
    assert late == Evidence("n", "mx-smi", "", None, "late 4711")
    assert b == Evidence("n", "b", "x", 1)


def test_a_cut_capture_is_never_whole() -> None:
    whole = read_capture(CAPTURE, "n")
    for end in range(len(CAPTURE) - 1):
        cut = read_capture(CAPTURE[:end], "n")
        assert cut.gaps
        known = [item for item in cut.evidence if item.lost != "cut"]
        # A number that lost its last digit would be another: here all have one.
        assert known[:-1] == list(whole.evidence[: len(known[:-1])])


def test_a_section_without_its_end_is_cut() -> None:
    capture = read_capture("rackready-capture 1\n$ a\n|x\n$ b\n? 0\n. 2\n", "n")
    assert capture.evidence[0] == Evidence("n", "a", "x\n", None, "cut")
    assert capture.evidence[1].status == 0


@pytest.mark.parametrize(
    "disturb",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "Last login: today\n\n" + text,
        lambda text: "motd without end: " + text,
        lambda text: text + "logout\n",
        lambda text: text.replace("\n", "\n\n"),
        lambda text: b"\xff\xfe\x00 noise\n" + text.encode(),
        lambda text: text.encode(),
    ],
)
def test_what_surrounds_a_capture_does_not_matter(disturb) -> None:  # type: ignore[no-untyped-def]
    assert read_capture(disturb(CAPTURE), "n") == read_capture(CAPTURE, "n")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no header"),
        ("mx-smi  version: 2.2.9\n", "no header"),
        ("rackready-capture 2\n. 0\n", "format 2 is not known"),
        (CAPTURE.replace(". 3", ". 4"), "3 sections, but line 11 says 4"),
        (CAPTURE.replace("|two", "two"), "line 4 is not of the capture format"),
        (CAPTURE.replace("|two", "x 0"), "line 4 is not of the capture format"),
        (CAPTURE.replace("$ cat a", "cat a"), "line 2 is not of the capture format"),
        (CAPTURE + CAPTURE, "only the first of several"),
    ],
)
def test_what_is_wrong_with_a_capture_is_stated(text: str, reason: str) -> None:
    assert any(reason in gap.reason for gap in read_capture(text, "n").gaps)


@given(st.one_of(st.binary(), st.text(), st.binary().map(lambda b: CAPTURE.encode() + b)))
def test_reading_never_raises(text: str | bytes) -> None:
    read_capture(text, "n")


@pytest.mark.parametrize("form", ["gzip+base64", "gzip+od", "od"])
@pytest.mark.parametrize("checksum", ["", "-"])
@pytest.mark.parametrize("text", [CAPTURE, CAPTURE * 500, ""])
def test_every_packed_form_is_unpacked(form: str, checksum: str, text: str) -> None:
    assert decode_transport(packed(text, form, checksum)) == text


def test_noise_around_and_within_the_packed_form_is_ignored() -> None:
    header, *payload, end = packed(CAPTURE * 50)
    assert payload[1:]
    noise = ["Welcome!", "\udcff\0", "=== rackready end", "=== rackready probe"]
    lines = [*noise, f"no newline{header}\r", payload[0], "sh: warning: job 1", *payload[1:], end]
    assert decode_transport([*lines, *noise]) == CAPTURE * 50


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], "no output of the probe"),
        (["", "sh: not found"], "begins with 'sh: not found'"),
        (packed(CAPTURE)[:-1], "is cut"),
        ([packed(CAPTURE)[0], *packed(CAPTURE)[2:]], "is cut"),
        (packed(CAPTURE, checksum="0" * 64), "its checksum differs"),
        (packed(CAPTURE, "zip"), "unknown form"),
        ([packed(CAPTURE)[0].replace("probe 1", "probe 2"), packed(CAPTURE)[-1]], "unknown form"),
        (packed("é"), "damaged"),
        (["=== rackready probe 1 od 3 -", "abc", "=== rackready end"], "damaged"),
        (["=== rackready probe 1 gzip+base64 4 -", "abcd", "=== rackready end"], "damaged"),
    ],
)
def test_a_lost_probe_says_why(lines: list[str], reason: str) -> None:
    with pytest.raises(ProbeLost, match=reason):
        decode_transport(lines)


@pytest.mark.parametrize("form", ["gzip+base64", "od"])
def test_a_capture_that_is_too_large_is_lost(form: str) -> None:
    assert decode_transport(packed("\0" * LARGEST, form))
    with pytest.raises(ProbeLost, match="larger than 4 MiB"):
        decode_transport(packed("\0" * (LARGEST + 1), form))
    assert read_capture(CAPTURE.ljust(LARGEST), "n").evidence
    capture = read_capture(CAPTURE.ljust(LARGEST + 1), "n")
    assert [gap.reason for gap in capture.gaps] == ["this is no capture: it is larger than 4 MiB"]
    assert not capture.evidence


@pytest.mark.parametrize(
    ("unit", "reason"),
    [
        ("rackready-capture 1\n$ a\n", "only its first 5,000 sections were read"),
        ("$ a\n? late 1\n", "only its first 5,000 sections were read"),
        ("\n", "only its first 30,000 lines were read"),
        ("|\n", "only its first 30,000 lines were read"),
        ("garbage\n", "more lines are not of the capture format"),
        ("|" + "a" * 100_000, "its last line is missing"),
    ],
)
def test_a_small_answer_cannot_fill_the_memory(unit: str, reason: str) -> None:
    text = "rackready-capture 1\n" + unit * (LARGEST // len(unit))
    lines = packed(text[:LARGEST])
    del text
    tracemalloc.start()
    try:
        capture = read_capture(decode_transport(lines), "n")
        node = read_node("n", capture.evidence, capture.gaps)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * LARGEST
    assert any(reason in gap.reason for gap in capture.gaps)
    assert len(capture.evidence) <= 5000
    assert len(node.gaps) <= 51


def test_a_capture_of_many_sections_is_read_whole() -> None:
    items = [Evidence("n", f"cat {number}", "x\n") for number in range(5000)]
    capture = read_capture(write_capture(items), "n")
    assert (list(capture.evidence), capture.gaps) == (items, ())


def test_gaps_that_are_not_told_are_counted() -> None:
    capture = read_capture(CAPTURE.replace("|one\n", "one\n" * 60), "n")
    assert len(capture.gaps) == 51
    assert capture.gaps[-1].reason == "10 more lines are not of the capture format"
    node = read_node("n", capture.evidence, capture.gaps)
    assert len(node.gaps) == 51
    assert node.gaps[-1].reason == "2 more parts could not be read or understood"


def test_an_answer_is_unpacked_a_few_times_only() -> None:
    wrong = packed(CAPTURE, checksum="0" * 64)
    assert decode_transport([*wrong * 4, *packed(CAPTURE)]) == CAPTURE
    with pytest.raises(ProbeLost, match="checksum"):
        decode_transport([*wrong * 5, *packed(CAPTURE)])


def test_every_flipped_character_is_noticed() -> None:
    header, payload, *rest = packed(CAPTURE, "od")
    for position in range(len(payload)):
        flipped = "0" if payload[position] != "0" else "1"
        with pytest.raises(ProbeLost):
            decode_transport(
                [header, payload[:position] + flipped + payload[position + 1 :], *rest]
            )


@given(
    st.lists(
        st.one_of(
            st.text(),
            st.sampled_from(packed(CAPTURE)),
            st.sampled_from(packed(CAPTURE, "od", "-")),
            st.text("0123456789abcdef"),
        )
    )
)
def test_unpacking_raises_nothing_else(lines: list[str]) -> None:
    try:
        assert decode_transport(lines) == CAPTURE
    except ProbeLost as error:
        assert str(error).isprintable()


@pytest.mark.parametrize("text", ["two\nlines", "é", "bell\a"])
def test_wishes_cannot_break_a_frame(text: str) -> None:
    with pytest.raises(ValueError, match="printable"):
        ProbeWishes(tools=(text,))
