"""From steps to a script, and from what it prints to answers: nothing a node says raises."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyinfra_testing.operations import make_operation_tests
from small_node import (
    CARD,
    CHECK,
    SCRIPT,
    SmallNode,
    max_read_request_steps,
    remove_steps,
    undo_steps,
)

from rackready.change import File, Link, Outcome, Setting, Step, Undo
from rackready.operations.converge import read_answers, render

DONE, SAME, REFUSED = Outcome.DONE, Outcome.SAME, Outcome.REFUSED

TestConverge = make_operation_tests(
    "rackready.operations", "converge.converge", Path(__file__).parent / "converge.converge"
)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_rendered_scripts_are_clean(node: SmallNode) -> None:
    node.add_function()
    node.converge(max_read_request_steps())
    for steps in (max_read_request_steps(), undo_steps(node) + remove_steps(node)):
        script = render(steps, run="r1", owner="Zoë Ann@desk 7", emulated=True, everything=True)
        done = subprocess.run(["shellcheck", "-"], input=script, capture_output=True, text=True)
        assert done.stdout == ""


@pytest.mark.parametrize(
    "step",
    [
        File("/etc/rackready/a", "no newline"),
        File("/etc/rackready/a", "bell\0\n"),
        File("/etc/rackready/a", "ä\n"),
        File("etc/a", "a\n"),
        File("/etc/../a", "a\n"),
        File("/etc/a b", "a\n"),
        Link("/etc/rackready/a", "b c"),
        Link("/etc/", "b"),
        Setting("/bin/sh", "x", "1", CARD),
        Setting(SCRIPT, "x", "1; reboot", CARD),
    ],
)
def test_a_step_that_no_plan_may_hold(step: Step) -> None:
    with pytest.raises(ValueError):
        render([(CHECK, step)], run="r1", owner="ann", emulated=True)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=st.text(st.characters(min_codepoint=1, max_codepoint=127), max_size=200))
def test_any_text_arrives_as_it_is(node: SmallNode, text: str) -> None:
    node.converge([(CHECK, File("/etc/rackready/a", f"{text}\n"))])
    assert node.path("/etc/rackready/a").read_bytes() == f"{text}\n".encode()


json_values = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
keys = st.sampled_from(["id", "kind", "subject", "before", "after", "backup", "script"])
kinds = st.sampled_from(["file", "link", "dir", "setting", "undo"])


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(entry=st.dictionaries(keys, json_values), kind=kinds | json_values)
def test_no_journal_of_a_node_stops_a_run(
    node: SmallNode, entry: dict[str, object], kind: object
) -> None:
    before = node.snapshot()
    (answer,) = node.converge([("undo", Undo({**entry, "kind": kind}))])
    assert answer.check == "undo"
    assert node.snapshot() == before


def test_answers_between_noise() -> None:
    answers, reason = read_answers(
        [
            "Welcome to node 7",
            "rackready item a.b /etc/x done",
            "\x00\udcff",
            "rackready item a.b /etc/y refused exists and was not written by rackready\r",
            "rackready end 2",
            "logout",
        ]
    )
    assert [(a.subject, a.outcome, a.reason) for a in answers] == [
        ("/etc/x", DONE, ""),
        ("/etc/y", REFUSED, "exists and was not written by rackready"),
    ]
    assert reason == ""


def test_answers_that_are_not_all() -> None:
    item = "rackready item a.b /etc/x done"
    assert read_answers([item])[1] == "the script did not come to its end (1 answers arrived)"
    assert read_answers([item, "rackready end 2"])[1] == "the script gave 2 answers and 1 arrived"
    assert read_answers([]) == ([], "the script did not come to its end (0 answers arrived)")


@given(st.lists(st.text()))
def test_answers_from_anything(lines: list[str]) -> None:
    answers, reason = read_answers(lines)
    assert answers == []
    assert reason
