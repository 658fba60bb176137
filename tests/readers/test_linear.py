"""Whatever is pasted is read in linear time: no regular expression of a reader or check is slow."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from superlinear import Automaton

from rackready import checks
from rackready.facts import paste
from rackready.facts.readers.registry import READERS

CHECKS = Path(str(checks.__file__)).parent
ROOTS = {"rackready.facts": Path(paste.__file__).parent, "rackready.checks": CHECKS}
METHODS = {"match", "fullmatch", "search", "finditer", "findall", "sub", "subn", "split"}
AT_START = {"match", "fullmatch"}
MODULES = sorted(
    ".".join((name, *path.relative_to(root).with_suffix("").parts))
    for name, root in ROOTS.items()
    for path in root.rglob("*.py")
    if path.stem != "__init__"
)


def slow(pattern: re.Pattern[str], method: str = "search") -> str:
    return Automaton(pattern, method).slow()


def within(value: object, depth: int = 0) -> Iterator[re.Pattern[str]]:
    """Patterns in what a module keeps: alone, in tables, in tables of tables."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (tuple, list, set, frozenset, dict)) and depth < 4:
        inner = (*value, *value.values()) if isinstance(value, dict) else tuple(value)
        for item in inner:
            yield from within(item, depth + 1)


def uses(module: Any) -> Iterator[tuple[re.Pattern[str], str]]:
    """Each pattern of a module, with how it is used; as ``search`` where that can't be told."""
    tree = ast.parse(Path(module.__file__).read_text())

    def value(node: ast.expr) -> object:
        try:
            return eval(ast.unparse(node), dict(vars(module)))
        except Exception:
            return None  # it is known only while the program runs

    told: set[int] = set()
    others = set()  # how patterns are used that come out of a table or from a caller
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and value(node.func) in map(re.__dict__.get, METHODS):
            flags = [value(word.value) for word in node.keywords if word.arg == "flags"]
            written = value(node.args[0])
            if isinstance(written, str):
                yield re.compile(written, *flags), node.func.attr  # type: ignore
        elif isinstance(node, ast.Attribute) and node.attr in METHODS:
            found = value(node.value)
            if isinstance(found, re.Pattern):
                told.add(id(found))
                yield found, node.attr
            elif found is None and node.attr != "split":  # of a text, not of a pattern
                others.add(node.attr)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("split_tagged"):
            for given in filter(None, map(value, node.args)):
                if isinstance(given, re.Pattern):
                    told.add(id(given))
                    yield given, "match"
    method = "match" if others and others <= AT_START else "search"
    defined = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)
               and isinstance(node.ctx, ast.Store)}  # fmt: skip
    for name in defined & vars(module).keys():
        for pattern in within(vars(module)[name]):
            if id(pattern) not in told:
                yield pattern, method


@pytest.mark.parametrize("name", MODULES)
def test_no_pattern_of_a_module_is_slow(name: str) -> None:
    found = dict.fromkeys(uses(importlib.import_module(name)))
    assert not {(p.pattern, method): text for p, method in found if (text := slow(p, method))}


def test_no_pattern_that_knows_an_output_is_slow() -> None:
    wanted = [
        (item.name, pattern, method)
        for item in READERS
        for pattern, method in (
            (item.command, "match"),
            (item.shape, "search"),
            (item.line, "search"),
        )
        if pattern
    ]
    assert not {(name, p.pattern): text for name, p, method in wanted if (text := slow(p, method))}


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"([A-Za-z][\w-]*?)([+-])(?=[\s,;]|$)", "finditer"),  # once read flags of lspci
        (r"\w+=", "search"),
        (r"foo.*bar", "search"),
        (r"(?m)^\s*foo", "search"),  # from each empty line to the next text
        (r"\d+\d+x", "match"),
        (r"(.*) (.*):", "match"),
        (r"(a+)+b", "match"),
        (r"(\w+\s*)*x", "match"),
        (r"-\w*v\w*", "fullmatch"),
        (r"a(?=.*b)", "search"),
        (r"\s*#?\s*size", "match"),
        (r"(?:a*|b)*c", "match"),
    ],
)
def test_slow_ones_are_found(pattern: str, method: str) -> None:
    assert slow(re.compile(pattern), method)


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"(?<![\w-])([A-Za-z][\w-]{0,24}?)([+-])(?=[\s,;]|$)", "finditer"),
        (r"\b\w+=", "search"),
        (r"\w+", "findall"),
        (r"foo.*bar", "match"),
        (r"foo.{0,200}bar", "search"),
        (r"(?m)^ *foo", "search"),
        (r"\s*(?:#\s*)?size", "match"),
        (r"-[^\Wv]*v\w*", "fullmatch"),
        (r"(\w+)\s*:\s*(.*)$", "match"),
    ],
)
def test_others_are_not(pattern: str, method: str) -> None:
    assert not slow(re.compile(pattern), method)
