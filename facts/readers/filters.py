"""Which lines of an output its pipe would have shown: what was held back proves nothing."""

from __future__ import annotations

import re
import shlex

from rackready.facts.readers.reader import Output
from rackready.facts.readers.search import searched

_GREP = re.compile(r"(?:\S*/)?[ef]?grep\s")
_SHOWS_ALL = {"sort", "cat", "less", "more", "tee", "nl", "column"}
_LONG = ("--colo", "--ignore-case", "--extended-regexp", "--line-number", "--no-messages")
_HOLDING_BACK = frozenset("vmoclLqf")  # options of grep: other lines, fewer, or parts of them
_INVERTED = re.compile(r"-[^\Wv]*v\w*|--invert-match")
_BEHIND_LOOP = re.compile(r"\bdone\s*\|([^;]{1,300})")


def lets_through(output: Output, *samples: str) -> bool:
    """True when lines like all of these samples would have been shown, each as a whole."""
    searching = [output.command] if _GREP.match(output.command) else []
    behind = [] if output.filters else _BEHIND_LOOP.findall(output.line)
    loop = [part.strip() for text in behind for part in text.split("|")]
    return all(_passes(command, samples) for command in (*searching, *output.filters, *loop))


def throws_out(output: Output, sample: str) -> bool:
    """True when all lines were asked for but those like this sample (``grep -v``)."""
    for command in output.filters:
        words = _words(command)
        inverted = [word for word in words[1:] if _INVERTED.fullmatch(word)]
        if not inverted or not _GREP.match(command):
            continue
        at = words.index(inverted[0])
        plain = "" if inverted[0].startswith("--") else inverted[0].replace("v", "")
        words[at : at + 1] = [plain] if len(plain) > 1 else []
        if _passes(shlex.join(words), (sample,)):
            return True
    return False


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _passes(command: str, samples: tuple[str, ...]) -> bool:
    words = _words(command)
    if not words:
        return False
    program = words[0].rpartition("/")[2]
    if program == "uniq":
        return not any(re.fullmatch(r"-[^\Wdu]*[du]\w*|--(?:repeated|unique)", w) for w in words)
    if program in _SHOWS_ALL:
        return True
    options = [word for word in words[1:] if word.startswith("-")]
    if not _GREP.match(command) or any(
        not word.startswith(_LONG) if word.startswith("--") else set(word[1:]) & _HOLDING_BACK
        for word in options
    ):
        return False
    if [word for word in words[1:] if not word.startswith("-")][:1] in (["."], [""], ["^"]):
        return True
    search = searched([command])
    return search is not None and all(map(search.covers, samples))
