"""Plans: what is to be done, and what the site has not consented to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import captures
import pytest

from rackready.change import Change, File, Link, Risk, Setting, Stage
from rackready.check import View
from rackready.facts.model import Node, Process
from rackready.finding import Finding, Verdict
from rackready.judge import Judgement, judge
from rackready.plan import Plan, Remedy, idle, make_plan
from rackready.policy import Policy
from rackready.remedies import pcie

REMEDIES: dict[str, Remedy] = {pcie.CHECK: pcie.keep_max_read_request}
WRONG = {"max_read_request": {"mlx5_1": 4096}}


def judged(
    faults: dict[str, Any] | None = None,
    policy: Policy | None = None,
    edits: Sequence[dict[str, Any]] = (),
    description: str = "c500x8-2dual",
) -> Judgement:
    made = captures.capture(description, faults, edits)
    return judge("node", made, captures.profiles(), policy or Policy(), captures.TODAY)


def planned(judgement: Judgement, remedies: dict[str, Remedy] = REMEDIES) -> Plan:
    return make_plan(judgement.view, judgement.findings, judgement.policy, remedies)


def test_nothing_wrong_nothing_to_do() -> None:
    assert planned(judged()) == Plan()


def test_max_read_request() -> None:
    (stage,) = planned(judged(WRONG)).stages
    assert [str(change) for change in stage.changes] == [
        "pcie.max-read-request: 0000:2d:00.1: 4096 B -> 256 B"
    ]
    assert stage.risk is Risk.NONE
    files = [step for step in stage.steps if isinstance(step, File)]
    assert [file.path for file in files] == [
        pcie.SCRIPT,
        pcie.CONFIGURATION,
        pcie.RULE,
        pcie.UNIT,
    ]
    assert all(f.text.splitlines()[f.text.startswith("#!")].startswith("# Managed") for f in files)
    # all functions of both cards, each with its domain; never the storage NIC
    assert files[1].text.splitlines()[2:] == [
        f"0000:{bus}:00.{number} 15b3:1021 256" for bus in ("2d", "ad") for number in (0, 1)
    ]
    assert [step for step in stage.steps if isinstance(step, Link)] == [
        Link(pcie.WANTED_BY, "../rackready-max-read-request.service")
    ]
    settings = [step for step in stage.steps if isinstance(step, Setting)]
    assert [(step.subject, step.value) for step in settings] == [
        (f"0000:{bus}:00.{number}", "256") for bus in ("2d", "ad") for number in (0, 1)
    ]


def test_a_virtual_function_is_never_written() -> None:
    (stage,) = planned(
        judged({"max_read_request": {"mlx5_0": 512}}, description="c500x8-vf")
    ).stages
    written = [step.subject for step in stage.steps if isinstance(step, Setting)]
    assert written == ["0000:1b:00.0", "0000:4c:00.0", "0000:9c:00.0", "0000:cd:00.0"]


def test_128_is_never_written_and_a_nic_that_cannot_be_read_stays_in_the_file() -> None:
    gone = {"command": "od -Ax -tx1 -N 4096 /sys/bus/pci/devices/0000:ad:00.1/config", "fill": 255}
    faults = {"max_read_request": {"mlx5_0": 128, "mlx5_1": 4096}}
    (stage,) = planned(judged(faults, edits=[gone])).stages
    written = [step.subject for step in stage.steps if isinstance(step, Setting)]
    assert written == ["0000:2d:00.1", "0000:ad:00.0"]
    (configuration,) = (
        step for step in stage.steps if isinstance(step, File) and step.path == pcie.CONFIGURATION
    )
    assert len(configuration.text.splitlines()) == 2 + 4


def test_waived_check_is_left_alone() -> None:
    waiver = {"check": pcie.CHECK, "reason": "test", "until": "2099-12-31"}
    policy = Policy.from_data({"waive": [waiver]}, "policy")
    assert planned(judged(WRONG, policy)) == Plan()


# --- What rackready keeps on a node


def kept(*changed: dict[str, Any]) -> list[dict[str, Any]]:
    """Edits of a capture after which everything that a run wrote is there, but for ``changed``."""
    (stage,) = planned(judged(WRONG)).stages
    manifest = ""
    edits: list[dict[str, Any]] = []
    for step in stage.steps:
        if isinstance(step, File):
            manifest += f"file {step.path} {'a' * 64} 0{step.mode:o}\n"
            edits += [
                {"add": True, "command": f"sha256sum {step.path}", "text": "a" * 64},
                {"add": True, "command": f"cat {step.path}", "text": step.text},
            ]
        elif isinstance(step, Link):
            manifest += f"link {step.path} {step.target}\n"
            edits.append({"add": True, "command": f"readlink {step.path}", "text": step.target})
    record = {"command": "cat /var/lib/rackready/manifest", "text": manifest, "status": 0}
    return [record, *edits, *changed]


def test_second_run_does_nothing() -> None:
    assert planned(judged(edits=kept())) == Plan()


@pytest.mark.parametrize(
    ("edit", "subject", "before"),
    [
        ({"command": f"sha256sum {pcie.RULE}", "status": 1}, pcie.RULE, "gone"),
        ({"command": f"readlink {pcie.WANTED_BY}", "status": 1}, pcie.WANTED_BY, "gone"),
        (
            {"command": f"readlink {pcie.WANTED_BY}", "text": "/dev/null\n"},
            pcie.WANTED_BY,
            "link to /dev/null",
        ),
        (
            {
                "add": True,
                "command": f"ls -ld {pcie.SCRIPT}",
                "text": "-rwxrwxrwx 1 root root 9 Nov 30 21:00 x",
            },
            pcie.SCRIPT,
            "mode 0777",
        ),
        (
            {"command": f"cat {pcie.UNIT}", "text": "[Unit]\n"},
            pcie.UNIT,
            "written by an earlier rackready",
        ),
    ],
)
def test_what_keeps_a_setting_is_kept(edit: dict[str, Any], subject: str, before: str) -> None:
    (stage,) = planned(judged(edits=kept(edit))).stages
    assert [(change.subject, change.before) for change in stage.changes] == [(subject, before)]


def test_file_of_which_the_manifest_knows_nothing_is_written_again() -> None:
    """A run that was killed half-way may have left the first files only."""
    manifest, *others = kept()
    lines = manifest["text"].splitlines(keepends=True)
    (stage,) = planned(judged(edits=[manifest | {"text": "".join(lines[:2])}, *others])).stages
    assert [change.subject for change in stage.changes] == [pcie.RULE, pcie.UNIT, pcie.WANTED_BY]


def test_change_of_a_person_is_shown() -> None:
    edits = kept(
        {"command": f"cat {pcie.CONFIGURATION}", "text": "0000:2d:00.0 15b3:1021 512\n"},
        {"command": f"sha256sum {pcie.CONFIGURATION}", "text": "b" * 64},
    )
    (stage,) = planned(judged(edits=edits)).stages
    (change,) = stage.changes
    assert (change.subject, change.before) == (pcie.CONFIGURATION, "changed by hand")
    assert "\n-0000:2d:00.0 15b3:1021 512\n" in change.diff
    assert "\n+0000:2d:00.0 15b3:1021 256\n" in change.diff


def test_kept_file_that_was_not_read_is_left_alone() -> None:
    manifest, *_ = kept()
    assert planned(judged(edits=[manifest | {"text": f"file {pcie.CONFIGURATION} a 0644\n"}]))
    lines = "".join(
        line for line in manifest["text"].splitlines(keepends=True) if line.startswith("file")
    )
    link = f"link {pcie.WANTED_BY} ../rackready-max-read-request.service\n"
    assert planned(judged(edits=[manifest | {"text": lines + link}])) == Plan()


# --- Consent


def busy(node: Node) -> Node:
    return replace(node, users=(Process(1, "python3", "/dev/mxcd"),))


def moving(node: Node) -> Node:
    assert node.rdma is not None
    device = node.rdma[0]
    port = replace(device.ports[0], octets=(0, 4096))
    return replace(node, rdma=(replace(device, ports=(port,)), *node.rdma[1:]))


def silent(node: Node) -> Node:
    assert node.rdma is not None
    device = node.rdma[0]
    port = replace(device.ports[0], octets=None)
    return replace(node, rdma=(replace(device, ports=(port,)), *node.rdma[1:]))


def unseen(node: Node) -> Node:
    return replace(node, users=None)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda node: node, True),
        (busy, False),
        (moving, False),
        (silent, None),
        (unseen, None),
        (lambda node: replace(node, rdma=None), None),
        (lambda node: busy(silent(node)), False),
    ],
)
def test_idle(change: Any, expected: bool | None) -> None:
    assert idle(change(captures.node("c500x8-2dual"))) is expected


def stage(risk: Risk) -> Stage:
    change = Change("toy.check", "subject", "a", "b", risk)
    return Stage("toy", "toy.check", risk, (change,), ())


def plan_of(risk: Risk, policy: Policy, change: Any = lambda node: node) -> Plan:
    view = judged().view
    view = replace(view, node=change(view.node))
    finding = Finding("toy.check", Verdict.FAIL, "node", "subject", "wrong")
    return make_plan(view, [finding], policy, {"toy.check": lambda *_: stage(risk)})


@pytest.mark.parametrize(
    ("risk", "allow", "change", "allowed"),
    [
        (Risk.NONE, None, busy, True),
        (Risk.TRAFFIC, None, lambda node: node, True),
        (Risk.TRAFFIC, None, busy, False),
        (Risk.TRAFFIC, None, unseen, False),
        (Risk.TRAFFIC, (Risk.NONE, Risk.TRAFFIC), busy, True),
        (Risk.SERVICE, None, lambda node: node, False),
        (Risk.SERVICE, (Risk.SERVICE,), busy, True),
        (Risk.REBOOT, (Risk.NONE, Risk.TRAFFIC, Risk.SERVICE), lambda node: node, False),
        (Risk.NONE, (), lambda node: node, False),
    ],
)
def test_consent(risk: Risk, allow: tuple[Risk, ...] | None, change: Any, allowed: bool) -> None:
    plan = plan_of(risk, Policy(allow=allow), change)
    assert bool(plan.stages) is allowed
    assert bool(plan.held) is not allowed


@pytest.mark.parametrize(
    ("risk", "allow", "change", "expected"),
    [
        (
            Risk.TRAFFIC,
            None,
            busy,
            "it can disturb: traffic, and the node is in use; --data allow=none,traffic allows it",
        ),
        (
            Risk.TRAFFIC,
            None,
            unseen,
            "it can disturb: traffic, and the node is not known to be idle;"
            " --data allow=none,traffic allows it",
        ),
        (
            Risk.REBOOT,
            (Risk.SERVICE,),
            busy,
            "it can disturb: reboot; --data allow=none,service,reboot allows it",
        ),
        (
            Risk.NONE,
            (),
            busy,
            "it disturbs nothing, but the policy's allow leaves that out; "
            "--data allow=none allows it",
        ),
    ],
)
def test_reason_names_the_flag(
    risk: Risk, allow: tuple[Risk, ...] | None, change: Any, expected: str
) -> None:
    (held,) = plan_of(risk, Policy(allow=allow), change).held
    assert held.reason == expected


def test_mildest_first() -> None:
    view = judged().view
    order = [Risk.FIRMWARE, Risk.NONE, Risk.SERVICE]
    remedies: dict[str, Remedy] = {}
    for risk in order:
        remedies[risk.value] = _always(risk)
    plan = make_plan(view, [], Policy(allow=tuple(Risk)), remedies)
    assert [one.risk for one in plan.stages] == [Risk.NONE, Risk.SERVICE, Risk.FIRMWARE]


def _always(risk: Risk) -> Remedy:
    def remedy(view: View, findings: Sequence[Finding]) -> Stage:
        return stage(risk)

    return remedy
