"""What a check is: one small pure function, from what a node is to findings.

A check yields cases (``yield case("too-large", bdf, observed=4096, expected=256)``). The verdict of
each case stands at the check, what it says to a person in ``checks/en.yaml``, to be translated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, TypeVar

import yaml

from rackready.facts.model import Node
from rackready.finding import Finding, Verdict
from rackready.profile import Profile
from rackready.wiring import Wiring
from rackready.wishes import Wishes


@dataclass(frozen=True)
class View:
    """What a check of one node looks at."""

    node: Node
    wiring: Wiring
    profile: Profile | None
    wishes: Wishes

    @property
    def product(self) -> str:
        """For people; an emulated node says that it is one."""
        name = self.profile.name if self.profile else ""
        return f"{name} (emulated)" if self.node.system.emulated else name


@dataclass(frozen=True)
class Rack:
    """The nodes of one run together; ``expected`` counts those that could not be seen as well."""

    views: tuple[View, ...]
    expected: int

    @property
    def whole(self) -> bool:
        return len(self.views) == self.expected


@dataclass(frozen=True)
class Case:
    """One outcome of a check for one subject; ``values`` fill the text, ``data`` feeds the plan."""

    name: str
    subject: str
    values: Mapping[str, object]
    data: Mapping[str, object] | None = None


def case(
    name: str, subject: str, data: Mapping[str, object] | None = None, **values: object
) -> Case:
    return Case(name, subject, values, data)


_LONGEST = 500  # characters of one text of a finding: whatever a node prints, people can read it

Cases = Iterator[Case]
Seen = TypeVar("Seen", View, Rack)


@dataclass(frozen=True)
class Check:
    id: str
    cases: Mapping[str, Verdict]
    function: Callable[..., Cases]

    @property
    def text(self) -> Mapping[str, Any]:
        return texts()[self.id]

    def run(self, seen: View | Rack, host: str) -> list[Finding]:
        """Findings of this check; never raises, whatever the node is like."""
        found: list[Finding] = []
        try:
            for item in self.function(seen):
                found.append(self._finding(item, host, terms(seen)))
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

    def _finding(self, item: Case, host: str, terms: Mapping[str, str]) -> Finding:
        text = self.text
        words = text["cases"][item.name]
        values = {**terms, "subject": item.subject, "host": host, **item.values}

        def fill(part: str) -> str:
            return _short(str(words.get(part, "")).format_map(values).strip())

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
) -> Callable[[Callable[[Seen], Cases]], Callable[[Seen], Cases]]:
    """Register a check; each keyword is a case (``too_large``: ``too-large``) and its verdict."""
    verdicts = {name.replace("_", "-"): verdict for name, verdict in cases.items()}

    def register(function: Callable[[Seen], Cases]) -> Callable[[Seen], Cases]:
        registry = RACK_CHECKS if identity.startswith("rack.") else NODE_CHECKS
        registry[identity] = Check(identity, verdicts, function)
        return function

    return register


_texts: dict[str, Mapping[str, Any]] = {}


def texts() -> Mapping[str, Mapping[str, Any]]:
    """What each check says, by its id; read once."""
    if not _texts:
        source = files("rackready.checks").joinpath("en.yaml").read_text(encoding="utf-8")
        _texts.update(yaml.safe_load(source))
    return _texts
