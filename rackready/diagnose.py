"""Diagnosis of what people paste: outputs of tools, in files and folders, of hosts and jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from rackready.check import NODE_CHECKS, case, terms
from rackready.facts.capture import Capture, read_capture
from rackready.facts.model import Evidence, Gap
from rackready.facts.paste import LARGEST, read_paste
from rackready.facts.readers.node import read_node
from rackready.finding import Finding
from rackready.judge import Judgement, judge, judge_rack
from rackready.policy import Policy
from rackready.profile import Profile

_MOST_FILES = 10_000
_CAPTURE = "rackready-capture "

# Which checks judge a wish of the policy, by how their ids begin.
_JUDGED_BY = {
    "max_read_request": ("pcie.max-read-request",),
    "max_payload": ("pcie.max-payload",),
    "gid_version": ("roce.gid",),
    "gid_family": ("roce.gid",),
    "gid_index": ("roce.gid",),
    "rdma_subnet": ("roce.gid",),
    "traffic_class": ("roce.traffic-class", "qos."),
    "dscp": ("roce.traffic-class", "qos."),
    "roce_priority": ("qos.",),
    "mtu": ("roce.mtu",),
    "accelerators": ("accelerator.count",),
    "compute_nics": ("node.compute-nics", "nccl.", "roce.", "pcie."),
}


@dataclass
class Host:
    """Evidence of one host, or of the job."""

    name: str
    evidence: list[Evidence] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    probed: bool = False

    def read(self, name: str, text: str) -> None:
        """Take in what a file holds: a capture of the probe, or pasted outputs."""
        if text.startswith(_CAPTURE):
            capture = read_capture(text.encode("utf-8", "surrogateescape"), self.name)
            self.evidence += capture.evidence
            self.gaps += capture.gaps
            self.probed = bool(capture.evidence)
        else:
            pasted = read_paste(text, self.name, name)
            self.evidence += pasted.evidence
            self.gaps += pasted.gaps


@dataclass(frozen=True)
class Pile:
    """All that was given: the hosts, and what belongs to the job that runs on them."""

    hosts: tuple[Host, ...]
    job: Host

    @property
    def readable(self) -> bool:
        return any(item.evidence for item in (*self.hosts, self.job))


def pile_of(texts: Iterable[tuple[str, str]]) -> Pile:
    """
    Hosts and job from pairs of a file's name and its text.

    ``hostA/show_gids.txt`` belongs to hostA. A name without a folder belongs to the job where
    other names have folders, else to one host without a name.
    """
    hosts: dict[str, Host] = {}
    for name, text in texts:
        folder, slash, rest = name.partition("/")
        host = folder if slash else ""
        hosts.setdefault(host, Host(host)).read(rest or name, text)
    job = hosts.pop("", Host(""))
    if hosts:
        return Pile(tuple(hosts.values()), job)
    return Pile((job,), Host(""))


def collect(paths: Sequence[Path]) -> Pile:
    """
    Hosts and job from files and folders.

    The sub-folders of a folder are hosts. Of several folders without sub-folders, each is a host.
    """
    return pile_of(_texts(paths))


def _texts(paths: Sequence[Path]) -> Iterator[tuple[str, str]]:
    folders = [path for path in paths if path.is_dir()]
    for path in paths:
        if not path.is_dir():
            yield path.name, _text(path)
            continue
        flat = len(folders) > 1 and not any(child.is_dir() for child in path.iterdir())
        files = (file for file in sorted(path.rglob("*")) if file.is_file())
        for count, file in enumerate(files):
            if count >= _MOST_FILES:
                raise OSError(0, f"holds more than {_MOST_FILES:,} files", str(path))
            name = file.relative_to(path).as_posix()
            if any(part.startswith(".") for part in name.split("/")):
                continue
            yield f"{path.resolve().name}/{name}" if flat else name, _text(file)


def _text(path: Path) -> str:
    """The text of a file; of one that is too large, both its ends."""
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            half = LARGEST // 2
            file.seek(-half, 2)
            middle = b"\n[rackready left out the middle of this file]\n"
            data = data[:half] + middle + file.read(half)
    return data.decode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class Diagnosis:
    """What is to be said of a pile. ``rack`` holds the findings of no single host."""

    judgements: tuple[Judgement, ...]
    rack: tuple[Finding, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (*(finding for item in self.judgements for finding in item.findings), *self.rack)


def diagnose(pile: Pile, profiles: Sequence[Profile], policy: Policy, today: date) -> Diagnosis:
    """Judge all hosts of a pile and the job. Raises nothing, whatever was pasted."""
    job = read_node("", pile.job.evidence, pile.job.gaps, probed=False)
    judgements = tuple(
        judge(
            host.name,
            Capture(host.name, tuple(host.evidence), tuple(host.gaps)),
            profiles,
            policy,
            today,
            host.probed,
            job.facts,
        )
        for host in pile.hosts
    )
    alone = len(pile.hosts) == 1 and not pile.hosts[0].name
    rack = judge_rack(judgements, len(pile.hosts), job.facts, host="" if alone else "job")
    told = [finding for item in judgements for finding in item.findings] + rack
    rack += _unanswered(policy, told, judgements)
    return Diagnosis(judgements, tuple(rack))


def _unanswered(
    policy: Policy, told: Sequence[Finding], judgements: Sequence[Judgement]
) -> Iterator[Finding]:
    """Wishes of the site of which nothing in the evidence tells: unknown is not ok."""
    for key, prefixes in _JUDGED_BY.items():
        if policy.is_wish(key) and not any(item.check.startswith(prefixes) for item in told):
            wish = case("no-evidence", key, wished=getattr(policy, key))
            words: Mapping[str, str] = terms(judgements[0].view)
            yield NODE_CHECKS["node.policy"].finding(wish, "", words)
