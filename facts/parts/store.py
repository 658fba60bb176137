"""All that readers found out about one host or job, merged where outputs tell of one thing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, TypeVar


class Fact(Protocol):
    """
    A frozen dataclass that a reader yields.

    ``IDENTITY`` names the fields that tell one thing from another of its kind, as alternatives:
    ``(("index",), ("bdf",))`` means that an equal index or an equal BDF makes two facts speak of
    one accelerator. Facts of one thing are merged; what one leaves open (None, an empty tuple or
    mapping) the other fills. ``((),)`` is for what a host has one of; ``()`` for what just happened
    and is kept as it is, such as a line of a log.

    A field with ``join`` in its metadata says itself what two different values of it make together:
    that function returns None where they disagree.
    """

    IDENTITY: ClassVar[tuple[tuple[str, ...], ...]]
    __dataclass_fields__: ClassVar[dict[str, Any]]


F = TypeVar("F")
Conflict = Callable[[str], None]
"""Takes one sentence about two outputs that do not agree."""
_MOST_PARTS = 1024  # accelerators, ports, GIDs of one thing: no node has so many
_Field = tuple[str, object, Callable[[Any, Any], Any] | None]  # name, default, join


class Facts:
    """Facts by their type. Readers fill it, then it is only looked at."""

    def __init__(self, found: Iterable[object] = ()) -> None:
        self._kept: dict[type, list[Any]] = {}
        self._places: dict[tuple[type, tuple[str, ...], tuple[object, ...]], int] = {}
        for fact in found:
            self.add(fact)

    def add(self, fact: Any, conflict: Conflict = lambda _: None) -> None:
        """Take a fact in; the first of two that disagree wins, and the disagreement is told."""
        kind = type(fact)
        kept = self._kept.setdefault(kind, [])
        keys = [
            (kind, names, values)
            for names in kind.IDENTITY
            if None not in (values := tuple(getattr(fact, name) for name in names))
        ]
        if not keys and not kind.IDENTITY and kept and kept[-1] == fact:
            return
        # Several, when a fact shows that two which were kept apart speak of one thing.
        known = sorted({self._places[key] for key in keys if key in self._places})
        if not known:
            known = [len(kept)]
            kept.append(fact)
        else:
            for other in known[1:]:
                kept[known[0]] = merged(kept[known[0]], kept[other], conflict)
                kept[other] = None
            kept[known[0]] = merged(kept[known[0]], fact, conflict)
        for key in keys:
            self._places[key] = known[0]

    def kinds(self) -> tuple[type, ...]:
        return tuple(self._kept)

    def each(self, kind: type[F]) -> tuple[F, ...]:
        """All facts of a kind, in the order in which they were found."""
        return tuple(fact for fact in self._kept.get(kind, ()) if fact is not None)

    def first(self, kind: type[F], **values: object) -> F | None:
        """The first fact of a kind whose fields have these values."""
        for fact in self.each(kind):
            if all(getattr(fact, name) == value for name, value in values.items()):
                return fact
        return None

    def __bool__(self) -> bool:
        return bool(self._kept)


def merged(one: F, other: F, conflict: Conflict) -> F:
    """Two facts about one thing as one; where both say something and differ, ``one`` wins."""
    values: dict[str, Any] = {}
    for name, default, join in _fields_of(one):
        left, right = getattr(one, name), getattr(other, name)
        if left == right or _is_open(right, default):
            continue
        if _is_open(left, default):
            values[name] = right
        elif join and (joined := join(left, right)) is not None:
            values[name] = joined
        else:
            values[name] = _both(one, name, left, right, conflict)
    if not values:
        return one
    kept = {name: getattr(one, name) for name, _, _ in _fields_of(one)}
    return type(one)(**{**kept, **values})


def _both(one: object, name: str, left: Any, right: Any, conflict: Conflict) -> Any:
    if is_dataclass(left) and type(left) is type(right):
        return merged(left, right, conflict)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in left.keys() & right.keys():
            if left[key] != right[key]:
                _tell(one, f"{name} {key}", left[key], right[key], conflict)
        return MappingProxyType({**right, **left})
    if _is_keyed(left) and _is_keyed(right):
        if len(left) >= _MOST_PARTS:
            conflict(
                f"{type(one).__name__}: more than {_MOST_PARTS} of {name}: the others are left"
            )
            return left
        parts = Facts(left)
        for part in right:
            parts.add(part, conflict)
        return parts.each(type(left[0]))
    _tell(one, name, left, right, conflict)
    return left


def _tell(one: object, name: str, left: object, right: object, conflict: Conflict) -> None:
    identity = [
        str(value)
        for names in type(one).IDENTITY[:1]  # type: ignore[attr-defined]
        for key in names
        if (value := getattr(one, key)) is not None
    ]
    thing = " ".join([type(one).__name__, *identity])
    conflict(f"{thing}: {name} is {str(left)[:60]!r} in one output, {str(right)[:60]!r} in another")


def _is_open(value: object, default: object) -> bool:
    """True when a field says nothing: it is as it is where nobody fills it."""
    return value is None or value == default or (isinstance(value, (tuple, Mapping)) and not value)


def _is_keyed(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and bool(getattr(value[0], "IDENTITY", ()))


def _fields_of(fact: object) -> tuple[_Field, ...]:
    return _fields(type(fact))  # type: ignore[arg-type] # mypy takes classes for unhashable


@cache
def _fields(kind: type) -> tuple[_Field, ...]:
    return tuple(
        (f.name, None if f.default is MISSING else f.default, f.metadata.get("join"))
        for f in fields(kind)
    )
