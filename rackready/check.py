"""What a check is: one small pure function, from what a node is to findings.

A check yields cases (``yield case("too-large", bdf, observed=4096, expected=256)``). The verdict of
each case stands at the check, what it says to a person in ``checks/en/DOMAIN.yaml``, to be
translated; the domain is the part of the check's id before the dot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

import yaml

from rackready.facts.model import Node
from rackready.facts.parts.store import Facts
from rackready.finding import Finding, Verdict
from rackready.profile import Profile
from rackready.wiring import Wiring
from rackready.wishes import Wishes


@dataclass(frozen=True)
class View:
    """
    What a check of one node looks at.

    ``node.probed`` is False when somebody pasted what he had: then what is not there proves
    nothing, and no finding says that it is missing. ``job`` holds what was pasted beside the hosts:
    launch command, environment, log.
    """

    node: Node
    wiring: Wiring
    profile: Profile | None
    wishes: Wishes
    job: Facts = field(default_factory=Facts)

    @property
    def product(self) -> str:
        """For people; an emulated node says that it is one."""
        name = self.profile.name if self.profile else ""
        return f"{name} (emulated)" if self.node.system.emulated else name


@dataclass(frozen=True)
class Rack:
    """
    The nodes of one run together; ``expected`` counts those that could not be seen as well.

    ``job`` holds facts that belong to no single node: launch command, environment, log.
    """

    views: tuple[View, ...]
    expected: int
    job: Facts = field(default_factory=Facts)

    def sources(self) -> Iterator[tuple[str, Facts]]:
        """Facts of the job, then those of each node, with the host's name ("" = the job)."""
        yield "", self.job
        for view in self.views:
            yield view.node.name, view.node.facts

    @property
    def whole(self) -> bool:
        return len(self.views) == self.expected


@dataclass(frozen=True)
class Case:
    """
    One outcome of a check for one subject; ``values`` fill the text, ``data`` feeds the plan.

    A check of the rack names the ``host`` among the values where one node alone is at fault.
    """

    name: str
    subject: str
    values: Mapping[str, object]
    data: Mapping[str, object] | None = None


def case(
    name: str, subject: str, data: Mapping[str, object] | None = None, /, **values: object
) -> Case:
    return Case(name, subject, values, data)


class Command(str):
    """Part of a command that a check or a profile wrote; any other value may be a node's words."""


# What a shell would act on. A name that a node printed goes into a fix that people copy, into their
# root shell: whatever stands in it, it stays a word.
_ACTIVE = re.compile(r"[;&|`$<>\\\n]")


def harmless(value: object) -> object:
    """A value without what a shell acts on, for use in a command."""
    return _ACTIVE.sub("?", value) if isinstance(value, str) else value


_LONGEST = 500  # characters of one text of a finding: whatever a node prints, people can read it

Cases = Iterator[Case]
Seen = TypeVar("Seen", View, Rack)


@dataclass(frozen=True)
class Check:
    id: str
    cases: Mapping[str, Verdict]
    function: Callable[..., Cases]
    each_node: bool = False

    @property
    def text(self) -> Mapping[str, Any]:
        return texts(self.id.partition(".")[0])[self.id]

    def run(self, seen: View | Rack, host: str) -> list[Finding]:
        """Findings of this check; never raises, whatever the node is like."""
        found: list[Finding] = []
        try:
            for item in self.function(seen):
                found.append(self.finding(item, host, terms(seen)))
        except Exception as error:
            # One node's oddity must not stop the others: it becomes a finding of that node.
            found.append(
                Finding(
                    check=self.id,
                    verdict=Verdict.ERROR,
                    host=host,
                    subject=host,
                    case="internal",
                    message=_short(f"the check itself failed: {type(error).__name__}: {error}"),
                    fix="report this with the node's capture",
                )
            )
        return found

    def finding(self, item: Case, host: str, terms: Mapping[str, str]) -> Finding:
        host = str(item.values.get("host", host))
        text = self.text
        words = text["cases"][item.name]
        values = {"subject": item.subject, "host": host, **item.values}
        copied = {
            name: value if isinstance(value, Command) else harmless(value)
            for name, value in values.items()
        }

        def fill(part: str) -> str:
            used = copied if part.endswith("fix") else values
            return _short(str(words.get(part, "")).format_map({**terms, **used}).strip())

        return Finding(
            check=self.id,
            verdict=self.cases[item.name],
            host=host,
            subject=_short(item.subject),
            case=item.name,
            message=fill("message"),
            observed=_short(str(item.values.get("observed", ""))),
            expected=_short(str(item.values.get("expected", ""))),
            cause=fill("cause"),
            fix=fill("fix"),
            persistent_fix=fill("persistent_fix"),
            sources=tuple(text.get("sources", ())),
            data=item.data,
        )


def _short(text: str) -> str:
    text = text.replace("\n", " ")  # one line each: a name must not look like another finding
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 6]} [...]"


def terms(seen: View | Rack) -> dict[str, str]:
    """The vendor's words for the texts: tool, kernel module and SDK, as the profile names them."""
    profile = seen.profile if isinstance(seen, View) else None
    if profile is None:
        return {"tool": "the vendor's tool", "module": "the driver", "sdk": "the SDK"}
    sdk = profile.paths.get("sdk")
    return {
        "tool": next(iter(profile.probe.tools), "the vendor's tool"),
        "module": next(iter(profile.probe.modules), "the driver"),
        "sdk": sdk.value[0] if sdk else "the SDK",
    }


NODE_CHECKS: dict[str, Check] = {}
RACK_CHECKS: dict[str, Check] = {}


def check(
    identity: str, **cases: Verdict
) -> Callable[[Callable[[View], Cases]], Callable[[View], Cases]]:
    """
    Register a check of single nodes.

    Each keyword is a case (``too_large``: ``too-large``) and its verdict.
    """
    return _registered(NODE_CHECKS, identity, cases)


def rack_check(
    identity: str, *, each_node: bool = False, **cases: Verdict
) -> Callable[[Callable[[Rack], Cases]], Callable[[Rack], Cases]]:
    """
    Register a check that looks at all nodes, or at a job that runs on them.

    ``each_node``: what it looks at may be a job's or a node's. Where there is no job, each node is
    judged by itself, as a rack of one, and the findings count for its verdict.
    """
    return _registered(RACK_CHECKS, identity, cases, each_node)


def _registered(
    registry: dict[str, Check],
    identity: str,
    cases: Mapping[str, Verdict],
    each_node: bool = False,
) -> Callable[[Callable[[Seen], Cases]], Callable[[Seen], Cases]]:
    verdicts = {name.replace("_", "-"): verdict for name, verdict in cases.items()}

    def register(function: Callable[[Seen], Cases]) -> Callable[[Seen], Cases]:
        registry[identity] = Check(identity, verdicts, function, each_node)
        return function

    return register


_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def texts(domain: str) -> Mapping[str, Mapping[str, Any]]:
    """What the checks of a domain say, by their ids."""
    source = files("rackready.checks").joinpath(f"en/{domain}.yaml").read_text(encoding="utf-8")
    found: dict[str, Mapping[str, Any]] = yaml.load(source, _Loader)
    return found
