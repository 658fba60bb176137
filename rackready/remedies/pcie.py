"""PCIe settings: what puts them right and keeps them so after a reboot."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from rackready.change import Change, File, Link, Risk, Setting, Stage, Step
from rackready.check import View
from rackready.facts.model import ManagedFile
from rackready.finding import Finding

CHECK = "pcie.max-read-request"
SCRIPT = "/usr/local/lib/rackready/max-read-request"
CONFIGURATION = "/etc/rackready/max-read-request.conf"
RULE = "/etc/udev/rules.d/90-rackready-max-read-request.rules"
UNIT = "/etc/systemd/system/rackready-max-read-request.service"
WANTED_BY = "/etc/systemd/system/multi-user.target.wants/rackready-max-read-request.service"


def template(path: str) -> str:
    """Text of a template, by its path on the node."""
    return files("rackready.templates").joinpath(path.lstrip("/")).read_text(encoding="ascii")


def keep_max_read_request(view: View, findings: Sequence[Finding]) -> Stage | None:
    """
    MaxReadReq of the compute NICs, and the files that set it at boot, driver load and hot-plug.

    All of a node's compute NICs are written down, also those that are right by now or can't be
    read now. Where nothing is wrong and rackready keeps nothing, nothing is done: the driver of the
    accelerators does it.
    """
    wrong = [finding for finding in findings if finding.case in ("too-large", "too-small")]
    targets = [finding.data for finding in findings if finding.data and "bdf" in finding.data]
    kept = {item.path: item for item in view.node.managed or ()}
    if not targets or not (wrong or CONFIGURATION in kept):
        return None
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    configuration = environment.from_string(template(f"{CONFIGURATION}.j2"))
    contents = (
        File(SCRIPT, template(SCRIPT), 0o755),
        File(CONFIGURATION, configuration.render(targets=targets)),
        File(RULE, template(RULE)),
        File(UNIT, template(UNIT)),
    )
    changes = [
        Change(
            check=CHECK,
            subject=finding.subject,
            before=finding.observed,
            after=finding.expected,
            reason=finding.message,
        )
        for finding in wrong
    ]
    trigger = Link(WANTED_BY, f"../{UNIT.rpartition('/')[2]}")
    if CONFIGURATION in kept:
        for file in contents:
            changes += _rewritten(file, kept.get(file.path))
        changes += _linked(trigger, kept.get(trigger.path))
    if not changes:
        return None
    steps: list[Step] = [*contents, trigger]
    steps += [
        Setting(SCRIPT, str(data["bdf"]), str(data["after"]), str(data["device"]))
        for data in targets
        if data["known"]
    ]
    return Stage("pcie", CHECK, Risk.NONE, tuple(changes), tuple(steps))


def _rewritten(file: File, kept: ManagedFile | None) -> list[Change]:
    """The change of a file on a node that has the others, with the difference to what is there."""
    if kept is None or kept.found == "":
        return [Change(CHECK, file.path, "gone", "written again")]
    if kept.found is None:
        return []
    if kept.text == file.text:
        if kept.mode in (None, file.mode):
            return []
        return [Change(CHECK, file.path, f"mode {kept.mode:04o}", f"mode {file.mode:04o}")]
    before = "written by an earlier rackready" if kept.found == kept.written else "changed by hand"
    lines = unified_diff(
        (kept.text or "").splitlines(keepends=True),
        file.text.splitlines(keepends=True),
        f"{file.path} on the node",
        f"{file.path} as rackready writes it",
    )
    return [Change(CHECK, file.path, before, "as rackready writes it", diff="".join(lines))]


def _linked(link: Link, kept: ManagedFile | None) -> list[Change]:
    """The same of a link."""
    if kept is None or kept.found == "":
        return [Change(CHECK, link.path, "gone", f"link to {link.target}")]
    if kept.found in (None, link.target):
        return []
    return [Change(CHECK, link.path, f"link to {kept.found}", f"link to {link.target}")]
