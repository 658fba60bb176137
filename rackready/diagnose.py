"""Diagnosis of what people paste: outputs of tools, in files and folders, of hosts and jobs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path

from rackready.check import NODE_CHECKS, case, terms
from rackready.facts.capture import Capture, read_capture
from rackready.facts.model import Evidence, Gap
from rackready.facts.paste import LARGEST, read_paste
from rackready.facts.readers.node import read_node
from rackready.finding import Finding, Verdict, worst
from rackready.judge import Judgement, judge, judge_rack
from rackready.policy import Policy
from rackready.profile import Profile

_MOST_FILES = 100_000
_LEFT_OUT = "[rackready left out the middle of this file]"
_CAPTURE = re.compile(r"^rackready-capture \d", re.MULTILINE)
# As they begin when they are read as UTF-8.
_PACKED = (("\x1f\udc8b", "gzip"), ("PK\x03\x04", "zip"), ("\udcfd7zXZ", "xz"), ("BZh", "bzip2"))

_GID = ("roce.gid-index", "roce.gid-empty")
_MARKS = ("roce.traffic-class", "qos.marking", "qos.variables", "qos.cma")
# Which checks judge a wish of the policy.
JUDGED_BY: Mapping[str, tuple[str, ...]] = {
    "max_read_request": ("pcie.max-read-request",),
    "max_payload": ("pcie.max-payload",),
    "gid_version": _GID,
    "gid_family": _GID,
    "gid_index": (*_GID, "roce.environment"),
    "rdma_subnet": _GID,
    "traffic_class": (*_MARKS, "qos.mapping"),
    "dscp": (*_MARKS, "qos.mapping"),
    "roce_priority": ("qos.pfc", "qos.mapping", "qos.ecn"),
    "mtu": ("roce.mtu",),
    "accelerators": ("accelerator.count",),
    "compute_nics": (
        "node.compute-nics",
        "nccl.hca",
        "pcie.max-read-request",
        "rdma.port-state",
        "roce.gid-index",
        "roce.mtu",
    ),
}


@dataclass(frozen=True)
class Host:
    """The files of one host, or of the job; read when its turn comes, since racks are large."""

    name: str
    files: list[tuple[str, Callable[[], str]]] = field(default_factory=list)

    def read(self) -> tuple[Capture, bool]:
        """Its evidence, and whether that is the probe's."""
        evidence: list[Evidence] = []
        gaps: list[Gap] = []
        probed = False
        for name, read in self.files:
            try:
                text = read()
            except OSError as error:
                gaps.append(Gap(name, f"it can't be read: {error.strerror or error}"))
                continue
            if len(text) > LARGEST >> 2 and _LEFT_OUT in text:
                size = f"{LARGEST >> 20} MiB"
                gaps.append(Gap(name, f"it is larger than {size}: only both its ends were read"))
            if _CAPTURE.search(text[:4096]):
                capture = read_capture(text.encode("utf-8", "surrogateescape"), self.name)
                evidence += capture.evidence
                gaps += capture.gaps
                probed = probed or bool(capture.evidence)
            elif packed := next((kind for start, kind in _PACKED if text.startswith(start)), ""):
                gaps.append(Gap(name, f"it is compressed ({packed}): unpack it first"))
            else:
                pasted = read_paste(text, self.name, name)
                evidence += pasted.evidence
                gaps += pasted.gaps
        return Capture(self.name, tuple(evidence), tuple(gaps)), probed


@dataclass(frozen=True)
class Pile:
    """All that was given: the hosts, and what belongs to the job that runs on them."""

    hosts: tuple[Host, ...]
    job: Host


def pile_of(files: Iterable[tuple[str, Callable[[], str]]]) -> Pile:
    """
    Hosts and job from pairs of a file's name and what reads its text.

    ``hostA/show_gids.txt`` belongs to hostA. A name without a folder belongs to the job where
    other names have folders, else to one host without a name.
    """
    hosts: dict[str, Host] = {}
    for name, read in files:
        folder, slash, rest = name.partition("/")
        host = folder if slash else ""
        hosts.setdefault(host, Host(host)).files.append((rest or name, read))
    job = hosts.pop("", Host(""))
    if hosts:
        return Pile(tuple(hosts.values()), job)
    return Pile((job,), Host(""))


def collect(paths: Sequence[Path], leave_out: Path | None = None) -> Pile:
    """
    Hosts and job from files and folders; ``leave_out`` is a file that is no evidence: the policy.

    The sub-folders of a folder are hosts. Of several folders without sub-folders, each is a host.
    """
    return pile_of(_files(paths, leave_out))


def _files(
    paths: Sequence[Path], leave_out: Path | None
) -> Iterator[tuple[str, Callable[[], str]]]:
    folders = [path for path in paths if path.is_dir()]
    flat = {path for path in folders if len(folders) > 1 and _is_flat(path)}
    names = _names(folders)
    for path in paths:
        if path not in folders:
            named = (path.name, partial(_text, path)) if str(path) != "-" else ("input", _input)
            yield named
            continue
        for name, file in _below(path):
            if leave_out is not None and isinstance(file, Path) and file.samefile(leave_out):
                continue
            read = partial(_text, file) if isinstance(file, Path) else partial(_failed, file)
            yield f"{names[path]}/{name}" if path in flat else name, read


def _is_flat(folder: Path) -> bool:
    with suppress(OSError):
        return not any(child.is_dir() for child in folder.iterdir())
    return True


def _names(folders: Sequence[Path]) -> dict[Path, str]:
    """By what a folder is called; by its whole path where two are called alike."""
    short = [path.resolve().name for path in folders]
    return {
        path: name if short.count(name) == 1 else str(path).strip("/").replace("/", "_")
        for path, name in zip(folders, short, strict=True)
    }


def _below(folder: Path) -> Iterator[tuple[str, Path | OSError]]:
    """Names and regular files below a folder, hidden ones left out; and what can't be read."""
    failed: list[OSError] = []
    count = 0
    for place, folders, files in os.walk(folder, onerror=failed.append, followlinks=False):
        # A host's folder may be a link; what is linked further below is not followed.
        linked = [name for name in folders if os.path.islink(os.path.join(place, name))]
        folders[:] = sorted(n for n in folders if n[0] != "." and n not in linked)
        for name in sorted(linked) if Path(place) == folder else ():
            target = Path(place, name)
            files += [f"{name}/{child.name}" for child in target.iterdir() if child.is_file()]
        for name in sorted(files):
            path = Path(place, name)
            if name.startswith(".") or not path.is_file():
                continue
            count += 1
            if count > _MOST_FILES:
                raise OSError(0, f"holds more than {_MOST_FILES:,} files", str(folder))
            yield path.relative_to(folder).as_posix(), path
        for error in failed:
            where = Path(os.fsdecode(error.filename or place)).relative_to(folder).as_posix()
            yield f"{where}/", error
        failed.clear()


def _failed(error: OSError) -> str:
    raise error


def _input() -> str:
    return sys.stdin.buffer.read(LARGEST).decode("utf-8", "surrogateescape")


def _text(path: Path) -> str:
    """The text of a file; of one that is too large, both its ends."""
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
        if len(data) > LARGEST and file.seekable():
            half = LARGEST // 2
            file.seek(-half, 2)
            middle = f"\n{_LEFT_OUT}\n".encode()
            data = data[:half] + middle + file.read(half)
    return data.decode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class Diagnosis:
    """
    What is to be said of a pile. ``rack`` holds the findings of no single host.

    ``unread`` says why, where nothing of the pile could be read; then there is no verdict.
    """

    judgements: tuple[Judgement, ...]
    rack: tuple[Finding, ...]
    unread: tuple[Gap, ...] = ()

    @property
    def verdict(self) -> Verdict:
        return worst(self.findings)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (*(finding for item in self.judgements for finding in item.findings), *self.rack)


def diagnose(pile: Pile, profiles: Sequence[Profile], policy: Policy, today: date) -> Diagnosis:
    """Judge all hosts of a pile and the job. Raises nothing, whatever was pasted."""
    paste, _ = pile.job.read()
    job = read_node("", paste.evidence, paste.gaps, probed=False)
    readable, gaps = bool(paste.evidence), list(paste.gaps)
    judgements = []
    for host in pile.hosts:
        capture, probed = host.read()
        readable = readable or bool(capture.evidence)
        gaps += capture.gaps[:3]
        judgements.append(judge(host.name, capture, profiles, policy, today, probed, job.facts))
    if not readable:
        return Diagnosis((), (), tuple(gaps) or (Gap("", "no text at all"),))
    alone = len(pile.hosts) == 1 and not pile.hosts[0].name
    rack = judge_rack(judgements, len(pile.hosts), job.facts, host="" if alone else "job")
    told = [finding for item in judgements for finding in item.findings] + rack
    rack += _unanswered(policy, told, judgements)
    return Diagnosis(tuple(judgements), tuple(rack))


def _unanswered(
    policy: Policy, told: Sequence[Finding], judgements: Sequence[Judgement]
) -> Iterator[Finding]:
    """Wishes of the site of which nothing in the evidence tells: unknown is not ok."""
    for key, checks in JUDGED_BY.items():
        if policy.is_wish(key) and not any(item.check in checks for item in told):
            wish = case("no-evidence", key, wished=getattr(policy, key))
            words: Mapping[str, str] = terms(judgements[0].view)
            yield NODE_CHECKS["node.policy"].finding(wish, "", words)
