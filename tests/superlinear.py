"""Which regular expressions take more than linear time, told from their structure alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

State = tuple[int, str]  # a place in the pattern, and the character that led there
Condition = Callable[[str, str], bool]  # of the characters before and behind; "" = none
_SAMPLE = [*map(chr, range(256)), "\u0661", "\u2003", "\u4e2d"]
_COPIES = 3  # of what is repeated a fixed number of times: more of them tell nothing new
_BOUND = 1000  # more repetitions than these count as without an end


class Automaton:
    """
    A pattern as an automaton whose states are told apart by the last character as well.

    A backtracking matcher takes more than linear time where one text leads from a loop both back
    to it and to another loop, from which the match can still fail: it then tries each place at
    which to pass from one to the other. With ``search``, where a match begins is a loop too.
    """

    def __init__(self, pattern: re.Pattern[str], method: str):
        self.flags = pattern.flags
        self.free: list[list[tuple[int, Condition | None]]] = []
        self.takes: dict[int, tuple[frozenset[str], int]] = {}
        self.sets: set[frozenset[str]] = {self._category(r"\w"), self._category(r"\n")}
        self.empty_loop = False
        first = self.node()
        self.scan = -1
        if method not in ("match", "fullmatch"):
            self.scan, take = self.node(), self.node()
            self.takes[take] = (frozenset(_SAMPLE), self.scan)
            self.free[self.scan] += [(take, None), (first, None)]
        self.last = self.node()
        self.add(parser.parse(pattern.pattern, pattern.flags), first, self.last)
        self.open = method != "fullmatch"
        # one character for all that no part of the pattern tells apart
        kinds = {tuple(char in one for one in self.sets): char for char in _SAMPLE}
        self.chars = sorted(kinds.values())
        self._steps: dict[tuple[int, str, str], frozenset[int]] = {}

    def node(self) -> int:
        self.free.append([])
        return len(self.free) - 1

    def _category(self, text: str) -> frozenset[str]:
        one = re.compile(text, self.flags & (re.ASCII | re.DOTALL))
        return frozenset(char for char in _SAMPLE if one.match(char))

    def _chars(self, op: Any, value: Any) -> frozenset[str] | None:
        """What a part that takes one character takes."""
        if op in (sre.LITERAL, sre.NOT_LITERAL):
            found = {chr(value)}
        elif op is sre.ANY:
            return self._category(".")
        elif op is sre.RANGE:
            found = {char for char in _SAMPLE if value[0] <= ord(char) <= value[1]}
        elif op is sre.CATEGORY:
            letter = {"DIGIT": "d", "SPACE": "s", "WORD": "w"}[str(value).rpartition("_")[2]]
            return self._category("\\" + (letter.upper() if "_NOT_" in str(value) else letter))
        elif op is sre.IN:
            parts = [self._chars(*item) or frozenset() for item in value]
            joined = frozenset[str]().union(*parts)
            return frozenset(_SAMPLE) - joined if value[0][0] is sre.NEGATE else joined
        else:
            return None
        if self.flags & re.IGNORECASE:
            found |= {char for each in found for char in (each.lower(), each.upper())}
        return frozenset(_SAMPLE) - found if op is sre.NOT_LITERAL else frozenset(found)

    def add(self, items: Any, start: int, end: int) -> None:
        for op, value in items:
            after = self.node()
            self.part(op, value, start, after)
            start = after
        self.free[start].append((end, None))

    def part(self, op: Any, value: Any, start: int, end: int) -> None:
        chars = self._chars(op, value)
        if chars is not None:
            self.sets.add(chars)
            self.takes[take := self.node()] = (chars, end)
            self.free[start].append((take, None))
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            least, most, body = value
            self.repeat(least, most, body, start, end)
        elif op is sre.SUBPATTERN:
            self.add(value[3], start, end)
        elif op is sre.ATOMIC_GROUP:
            self.add(value, start, end)
        elif op is sre.BRANCH:
            for branch in value[1]:
                self.add(branch, start, end)
        elif op is sre.AT:
            self.free[start].append((end, self._place(value)))
        elif op in (sre.ASSERT, sre.ASSERT_NOT):
            way, body = value
            self.look(op is sre.ASSERT, way, body, start, end)
        else:  # what a group matched stands here again
            self.free[start].append((end, lambda before, behind: True))

    def repeat(self, least: int, most: Any, items: Any, start: int, end: int) -> None:
        for _ in range(min(least, _COPIES)):
            after = self.node()
            self.add(items, start, after)
            start = after
        if most is not sre.MAXREPEAT and most <= _BOUND:
            for _ in range(min(most - least, _COPIES)):
                after = self.node()
                self.free[start].append((end, None))
                self.add(items, start, after)
                start = after
        else:
            self.empty_loop = self.empty_loop or items.getwidth()[0] == 0
            loop = self.node()
            self.free[start].append((loop, None))
            self.add(items, loop, loop)
            start = loop
        self.free[start].append((end, None))

    def look(self, wanted: bool, way: int, items: Any, start: int, end: int) -> None:
        chars = self._chars(*items[0]) if len(items) == 1 else None
        if chars is None:
            self.add(items, start, self.node())  # its own loops; it leads nowhere
            self.free[start].append((end, lambda before, behind: True))
            return
        self.sets.add(chars)
        self.free[start].append(
            (end, lambda before, behind: ((before if way < 0 else behind) in chars) is wanted)
        )

    def _place(self, at: Any) -> Condition:
        words = self._category(r"\w")
        lines = bool(self.flags & re.MULTILINE)
        if at in (sre.AT_BOUNDARY, sre.AT_NON_BOUNDARY):
            wanted = at is sre.AT_BOUNDARY
            return lambda before, behind: ((before in words) != (behind in words)) is wanted
        if at in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING):
            return lambda before, behind: not before or (lines and before == "\n")
        return lambda before, behind: not behind or behind == "\n"

    def closure(self, state: int, before: str, behind: str) -> set[int]:
        seen, todo = {state}, [state]
        while todo:
            for target, holds in self.free[todo.pop()]:
                if target not in seen and (holds is None or holds(before, behind)):
                    seen.add(target)
                    todo.append(target)
        return seen

    def step(self, state: int, before: str, char: str) -> frozenset[int]:
        """Where a character leads; ``before`` is the one that led here."""
        key = state, before, char
        if key not in self._steps:
            self._steps[key] = frozenset(
                self.takes[node][1]
                for node in self.closure(state, before, char)
                if node in self.takes and char in self.takes[node][0]
            )
        return self._steps[key]

    def fails(self, state: int, before: str) -> bool:
        """False where the match is sure to succeed, now or when the loop's characters end."""
        return not all(
            (self.last in self.closure(state, before, char) and (self.open or char in ("", "\n")))
            or (char != "" and state in self.step(state, before, char))
            for char in (*self.chars, "")
        )

    def edges(self) -> dict[State, set[State]]:
        """Where each state leads that lies in a loop or between two."""
        edges: dict[State, set[State]] = {}
        todo: list[State] = [(max(self.scan, 0), "")]
        while todo:
            at = todo.pop()
            if at not in edges:
                edges[at] = {(to, char) for char in self.chars for to in self.step(*at, char)}
                todo += edges[at]
        size = 0
        while size != len(edges):
            size = len(edges)
            entered = set().union(*edges.values())
            edges = {
                at: left
                for at, targets in edges.items()
                if at in entered and (left := targets & edges.keys())
            }
        return edges

    def reach(self) -> dict[State, set[State]]:
        """What each of them leads to, in one or more steps."""
        edges = self.edges()
        found: dict[State, set[State]] = {}
        for at in edges:
            found[at], todo = set(), [at]
            while todo:
                new = edges[todo.pop()] - found[at]
                found[at] |= new
                todo += new
        return found

    def slow(self) -> str:
        """A text that, many times over, takes more than linear time; "" = there is none."""
        if self.empty_loop:
            return "what may be empty is repeated without an end"
        reach = self.reach()
        loops = [at for at, targets in reach.items() if at in targets]
        for p, char in loops:
            for q, other in loops:
                apart = p != q and char == other and (q, char) in reach[p, char]
                if apart and self.fails(q, char) and (word := self.passed(p, q, char, reach)):
                    return word
        return ""

    def passed(self, p: int, q: int, char: str, reach: Any) -> str:
        """A text that leads from ``p`` to itself and to ``q``, and from there to itself."""
        todo = [(p, p, q, char, "")]
        seen = set()
        for x, y, z, last, word in todo:
            for c in self.chars:
                for x2 in self.step(x, last, c):
                    if (p, char) not in reach.get((x2, c), ()):
                        continue
                    for z2 in self.step(z, last, c):
                        if (q, char) not in reach.get((z2, c), ()):
                            continue
                        for y2 in self.step(y, last, c):
                            if (x2, y2, z2, c) == (p, q, q, char):
                                return word + c
                            if (x2, y2, z2, c) in seen or (q, char) not in reach.get((y2, c), ()):
                                continue
                            seen.add((x2, y2, z2, c))
                            todo.append((x2, y2, z2, c, word + c))
        return ""
