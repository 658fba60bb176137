"""How right a diagnosis is, by what a case's expected.json asks for.

``worst`` is the verdict of the report (a list: any of these). For each of ``findings`` there is one
finding with that verdict, that host when one is named, and all words. ``never``: no finding has
that verdict (and host) and all words in what it judges: its check and subject. ``fix_words``: for
each group one finding has all of it in its fixes. ``fix_never`` stands in no fix. A nested list of
words means any of them; words match in any case, and a digit at their edge touches no other digit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rackready.finding import Finding, worst

Words = Sequence[str | list[str]]


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def has_word(text: str, word: str) -> bool:
    head = r"(?<!\d)" if word[:1].isdigit() else ""
    tail = r"(?!\d)" if word[-1:].isdigit() else ""
    return re.search(head + re.escape(word.lower()) + tail, text.lower()) is not None


def has_all(text: str, words: Words) -> bool:
    return all(any(has_word(text, word) for word in _as_list(item)) for item in words)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    else:
        yield str(value)


def _fixes(finding: Finding) -> str:
    return f"{finding.fix}\n{finding.persistent_fix}"


def _fits(rule: Mapping[str, Any], finding: Finding, fields: Iterable[str] = ()) -> bool:
    if finding.verdict.value not in _as_list(rule["verdict"]):
        return False
    if "host" in rule and finding.host != rule["host"]:
        return False
    told = {key: value for key, value in finding.as_dict().items() if key != "sources"}
    if fields:
        told = {key: value for key, value in told.items() if key in fields}
    text = json.dumps(told, ensure_ascii=False) + "\n" + "\n".join(_strings(told))
    return has_all(text, rule.get("words", []))


def score(findings: Sequence[Finding], expected: Mapping[str, Any]) -> list[str]:
    """What is wrong with a diagnosis; empty when it is right."""
    wrong = []
    if worst(findings).value not in _as_list(expected["worst"]):
        wrong.append(f"worst is {worst(findings).value}, expected {expected['worst']}")
    for rule in expected.get("findings", []):
        if not any(_fits(rule, finding) for finding in findings):
            wrong.append(f"missing: {rule}")
    for rule in expected.get("never", []):
        for finding in findings:
            judged = ("check", "verdict", "host", "subject") if finding.subject else ()
            if _fits(rule, finding, judged):
                wrong.append(f"forbidden: {rule}: {finding.subject}: {finding.message}")
    for group in expected.get("fix_words", []):
        if not any(has_all(_fixes(finding), group) for finding in findings):
            wrong.append(f"no fix has {group}")
    for word in expected.get("fix_never", []):
        wrong += [f"{f.check} advises {word}" for f in findings if has_word(_fixes(f), word)]
    return wrong
