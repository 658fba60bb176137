"""What a grep let through: which lines would have been shown, had they been there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from rackready.facts.parts.modules import Search
from rackready.facts.readers.reader import Output

_GREP = re.compile(r"(?:\S*/)?(?:e|f)?grep\s")
_PLAIN = re.compile(r"(?:[\w/:, -]|\.(?!\*)|\\[.\-]|\[[\w-]{1,8}\])+")
_WORD = re.compile(r"[\w.-]+")
_VALUES = {"-A", "-B", "-C", "-m", "-f"}  # options of grep that take a word


_PAGERS = {"cat", "less", "more", "tee"}
_ROWS = _PAGERS | {"grep", "egrep", "fgrep", "sort", "uniq", "head", "tail"}
# grep with one of these prints parts of lines, counts, or names of files.
_PARTS = re.compile(r"\s(?:-[a-zA-Z]*[oclLq]|--(?:only|count|files|quiet))")
_COMMENTS = re.compile(r"(?:\s|[\^$#;|*()\[\].\\]|\\s|:(?:space|blank):)*")


def _filter_of(command: str) -> str:
    return command.partition(" ")[0].rpartition("/")[2]


def keeps_rows(output: Output) -> bool:
    """Whether the rows that are there are whole: nothing has cut or rewritten them."""
    return all(
        _filter_of(each) in _ROWS and not ("grep" in _filter_of(each) and _PARTS.search(each))
        for each in output.filters
    )


_ELSEWHERE = re.compile(
    r"(?:^|[\s/])(?:docker|podman|nerdctl|crictl|kubectl|oc|singularity|apptainer|enroot|srun|ssh)\s"
)
_SELECTED = re.compile(r"\s(?:-i|--id)\b")


def is_of_all(output: Output) -> bool:
    """Whether a tool of devices speaks of all that this host has, not of a container's share."""
    asked = _SELECTED.search(output.command) or _ELSEWHERE.search(output.line)
    return not output.filters and not asked


def keeps_front(output: Output) -> bool:
    """Whether all is there up to where it ends: it was paged, or only its end was cut off."""
    return all(_filter_of(each) in _PAGERS | {"head"} for each in output.filters)


def keeps_settings(output: Output) -> bool:
    """Whether a file of settings is whole up to where it ends, but for comments and blank lines."""
    commands = [*([output.command] if _GREP.match(output.command) else []), *output.filters]
    return output.program != "tail" and all(
        _filter_of(each) in _PAGERS | {"head"} or _drops_comments(each) for each in commands
    )


def _drops_comments(command: str) -> bool:
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    if not _GREP.match(command) or _PARTS.search(command):
        return False
    pattern = next((word for word in words[1:] if not word.startswith("-")), "x")
    return _COMMENTS.fullmatch(pattern) is not None


def known_search(output: Output) -> Search | None:
    """What all greps of a line let through, but for comments; None where rows may be missing."""
    commands = [*([output.command] if _GREP.match(output.command) else []), *output.filters]
    if not keeps_rows(output):
        return None
    return searched(each for each in commands if not _drops_comments(each))


def search_of(output: Output) -> Search | None:
    """The search behind an output; None when it can't be told what was left out."""
    program = output.program
    # Known by its shape alone, an output may be a part of the whole.
    if program not in _WORD.findall(output.line) or program in ("awk", "sed", "head", "tail"):
        return None
    commands = [*([output.command] if _GREP.match(output.command) else []), *output.filters]
    return searched(commands)


def searched(commands: Iterable[str]) -> Search | None:
    """One search of all these filters; those that only sort or page let all through."""
    patterns = []
    for command in commands:
        if command.split()[0].rpartition("/")[2] in ("sort", "cat", "less", "more", "tee", "nl"):
            continue
        pattern = _grep(command)
        if pattern is None:
            return None
        patterns.append(pattern)
    return Search(tuple(patterns))


def _grep(command: str) -> str | None:
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if not _GREP.match(command):
        return None
    flags = ""
    given: list[str] = []
    rest = iter(words[1:])
    for word in rest:
        if word in ("-e", "--regexp"):
            given.insert(0, next(rest, ""))
            flags += "e"
        elif word in _VALUES:
            next(rest, None)
        elif word.startswith("--"):
            flags += "i" if word == "--ignore-case" else "v" if word == "--invert-match" else ""
        elif word.startswith("-") and len(word) > 1:
            flags += word[1:]
        else:
            given.append(word)
    if not given or "v" in flags or "f" in flags:
        return None
    chosen = given[: max(flags.count("e"), 1)]
    parts = [part for item in chosen for part in re.split(r"\\\||\|", item.strip("()"))]
    if not parts or not all(map(_understood, parts)):
        return None
    joined = "|".join(_pattern(part, "w" in flags) for part in parts)
    return f"(?i:{joined})" if "i" in flags else joined


def _understood(part: str) -> bool:
    return _PLAIN.fullmatch(part.removeprefix("^").replace(r"\b", "")) is not None


def _pattern(part: str, word: bool) -> str:
    """One alternative: anchors at its front and blanks around it are kept as bounds."""
    start = "^" if part.startswith("^") else ""
    plain = part.removeprefix("^").replace(r"\b", "").strip()
    plain = re.sub(r"\\(.)|(\W)", lambda m: _escaped(m[1] or m[2]), plain)
    bounded = word or part != part.strip() or r"\b" in part
    return rf"{start}(?<!\w){plain}(?!\w)" if bounded else f"{start}{plain}"


def _escaped(character: str) -> str:
    return character if character in ".[]-" else re.escape(character)
