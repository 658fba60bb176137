"""YAML documents that know their lines, so that an error names file, line and the right word."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

_LARGEST = 4 << 20  # bytes of a document
Location = tuple[str | int, ...]

_DEPTH = 32  # levels of nesting; more is a mistake or malice


class DocumentError(ValueError):
    """All that is wrong with a document; ``problems`` holds one line of text for each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__("\n".join(self.problems))


class Record(BaseModel):
    """
    Base of what is read from a document.

    Strict: text is no number, and ``true`` is not 1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


@dataclass(frozen=True)
class Document:
    """The mapping that a YAML text holds, and the place (``policy.yaml:3``) of each value in it."""

    data: Mapping[str, Any]
    where: str
    places: Mapping[Location, str] = field(default_factory=dict)

    @classmethod
    def from_file(cls, path: Path) -> Document:
        try:
            with path.open("rb") as file:
                data = file.read(_LARGEST + 1)
            if len(data) > _LARGEST:
                raise DocumentError([f"{path}: larger than {_LARGEST >> 20} MiB"])
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DocumentError([f"{path}: not UTF-8: {error.reason}"]) from error
        except OSError as error:
            raise DocumentError([f"{path}: {error.strerror}"]) from error
        return cls.from_text(text, str(path))

    @classmethod
    def from_text(cls, text: str, where: str) -> Document:
        """Raises DocumentError for whatever is no plain YAML mapping."""
        reader = _Reader(where)
        data = reader.read(text)
        if reader.problems:
            raise DocumentError(reader.problems)
        return cls(data, where, reader.places)

    def place(self, location: Location) -> str:
        """Of the value there, or of the nearest thing around it."""
        return self.places.get(self._known(location), self.where)

    def _known(self, location: Location) -> Location:
        while location and location not in self.places:
            location = location[:-1]
        return location

    def over(self, base: Document) -> Document:
        """Both in one; where both say something this one wins."""
        return Document(_merged(base.data, self.data), self.where, {**base.places, **self.places})

    def problems(self, error: ValidationError, model: type[BaseModel]) -> Iterator[str]:
        """What pydantic found, in the order of the text and in words for who wrote it."""
        order = {location: position for position, location in enumerate(self.places)}
        found = error.errors(include_url=False, include_context=False)
        for item in sorted(found, key=lambda item: order.get(self._known(item["loc"]), -1)):
            location = item["loc"]
            name = ".".join(str(part) for part in location)
            if item["type"] == "extra_forbidden":
                word = str(location[-1])
                text = f"unknown key {word!r}{hint(word, _keys(model, location[:-1]))}"
            elif item["type"] == "missing":
                text = f"{name} is missing"
            else:
                reason = item["msg"].removeprefix("Value error, ")
                of = f"{name}: " if name else ""
                text = f"{of}{_short(item['input'])}: {reason[:1].lower()}{reason[1:]}"
            yield f"{self.place(location)}: {text}"

    def as_json(self) -> str:
        """For pydantic, whose JSON mode is strict and yet reads a list where a tuple is due."""
        return json.dumps(self.data, default=str)


def _merged(base: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in new.items():
        old = result.get(key)
        # a sourced value is replaced as a whole: the old note or condition is not the new one's
        if isinstance(old, dict) and isinstance(value, dict) and "value" not in value:
            value = _merged(old, value)
        result[key] = value
    return result


class _Loader(yaml.SafeLoader):
    """Plain YAML only: aliases can make a small text huge, and tags can make constructors fail."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None) is not None:
            raise yaml.composer.ComposerError(
                problem="aliases and tags are not understood here", problem_mark=event.start_mark
            )
        if self.depth >= _DEPTH:
            raise yaml.composer.ComposerError(
                problem="nested too deeply", problem_mark=event.start_mark
            )
        self.depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


class _Reader:
    """Turns nodes into values and keeps their places."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.places: dict[Location, str] = {}
        self.problems: list[str] = []

    def read(self, text: str) -> dict[str, Any]:
        try:
            loader = _Loader(text)
            root = loader.get_single_node()
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            self.problems.append(f"{self.where}:{line}: {error.problem}")
            return {}
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            self.problems.append(f"{self.where}:{line}: {error.reason}")
            return {}
        if root is None:  # an empty file
            return {}
        if not isinstance(root, yaml.MappingNode):
            self._problem(root, "should be keys with their values")
            return {}
        value: dict[str, Any] = self._value(loader, root, ())
        return value

    def _value(self, loader: _Loader, node: yaml.Node, location: Location) -> Any:
        self.places[location] = self._place(node)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(loader, node, location)
        if isinstance(node, yaml.SequenceNode):
            return [
                self._value(loader, item, (*location, index))
                for index, item in enumerate(node.value)
            ]
        try:
            return loader.construct_object(node)
        except (yaml.constructor.ConstructorError, ValueError, OverflowError):
            # 2026-13-45 looks like a date to YAML and is none
            self._problem(node, f"{_short(node.value)} is not understood")
            return None

    def _mapping(
        self, loader: _Loader, node: yaml.MappingNode, location: Location
    ) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag != "tag:yaml.org,2002:str":
                self._problem(key_node, "this key is no plain word; put it in quotes")
                continue
            key = str(key_node.value)
            if key in result:
                self._problem(key_node, f"{key!r} is there twice")
                continue
            inner = (*location, key)
            result[key] = self._value(loader, value_node, inner)
            # for a person the place of a value is where its key stands
            self.places[inner] = self._place(key_node)
        return result

    def _place(self, node: yaml.Node) -> str:
        return f"{self.where}:{node.start_mark.line + 1}"

    def _problem(self, node: yaml.Node, text: str) -> None:
        self.problems.append(f"{self._place(node)}: {text}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _keys(model: type[BaseModel], location: Location) -> set[str]:
    """The keys that are right at a location of a document of ``model``."""
    models = {model}
    for part in location:
        inner = {
            found
            for outer in models
            if isinstance(part, str) and part in outer.model_fields
            for found in _models(outer.model_fields[part].annotation)
        }
        models = inner or models  # a position in a list, a key of the document's own
    return {key for found in models for key in found.model_fields}


def _models(annotation: Any) -> set[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation}
    return {found for part in get_args(annotation) for found in _models(part)}


def distance(left: str, right: str, limit: int) -> int:
    """
    Damerau-Levenshtein distance (each pair of letters swapped once at most).

    Any number above ``limit`` when it is more than that.
    """
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    before: list[int] = []
    above = list(range(len(right) + 1))
    for row, letter in enumerate(left, start=1):
        current = [row]
        for column, other in enumerate(right, start=1):
            cost = min(above[column] + 1, current[-1] + 1, above[column - 1] + (letter != other))
            if row > 1 and column > 1 and letter == right[column - 2] and left[row - 2] == other:
                cost = min(cost, before[column - 2] + 1)
            current.append(cost)
        before, above = above, current
    return above[-1]


def nearest(word: str, known: Collection[str]) -> str:
    """The known word that was most likely meant; "" when none is near."""
    limit = max(2, len(word) // 2)
    ranked = sorted((distance(word, other, limit), other) for other in known)
    return ranked[0][1] if ranked and ranked[0][0] <= limit else ""


def hint(word: str, known: Collection[str]) -> str:
    """The end of a sentence about a wrong word."""
    if found := nearest(word, known):
        return f"; did you mean {found!r}?"
    return f"; known: {', '.join(sorted(known))}"
