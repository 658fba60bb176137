"""Command lines as people paste them: prompts, pipes, loops, and which command printed what."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

_MOST = 256  # simple commands of one line: loops may multiply
_WRAPPERS = {"sudo", "time", "nohup", "command", "exec", "env", "doas"}
_WRAPPER_VALUES = {"-u", "-g", "-C", "-h", "-p", "-n"}  # options of these that take a word
_ENGINES = {"docker", "podman", "nerdctl", "crictl", "kubectl", "oc"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_JOINS = {";", "&&", "||", "&", "\n"}
_FOR = re.compile(r"for\s+(\w+)\s+in\s([^;]*);\s*do\s+")
_DO = re.compile(r"\b(do|done)\b")


@dataclass(frozen=True)
class Simple:
    """
    One simple command of a line, and the commands that its output went through.

    ``quiet``: its errors went to /dev/null, so that no output does not mean that there is nothing.
    """

    command: str
    filters: tuple[str, ...] = ()
    quiet: bool = False

    @property
    def program(self) -> str:
        return self.command.partition(" ")[0].rpartition("/")[2]


def simple_commands(line: str) -> tuple[Simple, ...]:
    """
    The simple commands of a command line, in order, with loops over words written out.

    ``sudo``, assignments before a command and redirections are left out. A line that a shell would
    not understand is one command as it is.
    """
    return tuple(islice(_commands(line.strip(), 0), _MOST)) or (Simple(line.strip()),)


def _commands(line: str, depth: int) -> Iterator[Simple]:
    loop = _FOR.match(line) if depth < 3 else None
    if loop:
        name, words = loop.groups()
        body, rest = _body(line[loop.end() :])
        for word in words.split()[:64]:
            value = word.strip("\"'")
            written = re.sub(rf"\$(?:{name}\b|\{{{name}\}})", _literal(value), body)
            yield from _commands(written, depth + 1)
        if rest := rest.lstrip(" ;&"):
            yield from _commands(rest, depth + 1)
        return
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&<>")
        lexer.whitespace_split = True
        lexer.commenters = ""
        tokens = list(lexer)
    except ValueError:
        yield Simple(line)
        return
    pipe: list[str] = []
    words_: list[str] = []
    quiet = False
    for token in [*tokens, ";"]:
        quiet = quiet or (not pipe and token == "/dev/null" and _hides_errors(words_))
        if token in _JOINS:
            pipe.append(_plain(words_))
            if pipe[0]:
                yield Simple(pipe[0], tuple(part for part in pipe[1:] if part), quiet)
            pipe, words_, quiet = [], [], False
        elif token == "|" or token == "|&":
            pipe.append(_plain(words_))
            words_ = []
        else:
            words_.append(token)


def _hides_errors(words: Sequence[str]) -> bool:
    """Do these words lead to where errors go? ``ls x 2>`` and ``ls x &>`` do."""
    if not words or not words[-1].endswith(">"):
        return False
    return "&" in words[-1] or words[-2:-1] == ["2"]


def _literal(text: str) -> str:
    """As what a pattern is replaced with."""
    return text.replace("\\", "\\\\")


def _body(text: str) -> tuple[str, str]:
    """What stands before the ``done`` of a loop, and what behind it."""
    depth = 1
    for word in _DO.finditer(text):
        depth += 1 if word[1] == "do" else -1
        if depth == 0:
            return text[: word.start()].rstrip(" ;\t"), text[word.end() :]
    return text, ""


def _plain(words: Sequence[str]) -> str:
    """Words without wrappers, assignments and redirections, quoted only where that is needed."""
    kept: list[str] = []
    skip = wrapped = False
    for at, word in enumerate(words):
        if skip:
            skip = False
        elif set(word) <= set("<>&") and word:
            skip = True
            if kept and kept[-1] in ("1", "2") and at:
                kept.pop()
        elif not kept and (word in _WRAPPERS or _ASSIGNMENT.match(word)):
            wrapped = wrapped or word in _WRAPPERS
        elif not kept and wrapped and word.startswith("-"):
            skip = word in _WRAPPER_VALUES and words[at - 1] in _WRAPPERS and word != "-n"
        else:
            kept.append(word)
    # env alone is no wrapper but a command itself
    return " ".join(_quoted(word) for word in _inside(kept) or words)


def _inside(words: Sequence[str]) -> Sequence[str]:
    """The command that ``docker exec NAME`` or ``kubectl exec NAME --`` runs in a container."""
    if len(words) < 3 or words[0] not in _ENGINES or words[1] != "exec":
        return words
    if "--" in words:
        return words[words.index("--") + 1 :]
    at = 2
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-e", "-u", "-w", "--env", "--user", "--workdir") else 1
    return words[at + 1 :]


def _quoted(word: str) -> str:
    return shlex.quote(word) if not word or re.search(r"[\s'\";|&<>()]", word) else word


def shared_out(line: str, text: str) -> tuple[tuple[Simple, str], ...]:
    """
    What each simple command of a line printed, as far as that can be told.

    Commands that print exactly one line take one from the front or the back; what is left is the
    output of the one command in between. ``cat A B`` counts as ``cat A; cat B`` where each file
    holds one line. Where it can't be told, every command gets the whole.
    """
    commands = [
        item
        for item in simple_commands(line)
        if item.program not in ("cd", "export", "set", "sleep", "source", ".", "true", "unset")
    ]
    split = [part for item in commands for part in _each_file(item)]
    body = text.split("\n")
    if body and not body[-1]:
        body.pop()
    while len(body) > len(split) and not body[-1].strip():
        body.pop()  # a gap that somebody left before the next prompt
    if len(split) > 1 and all(map(_prints_a_line, split)):
        if len(split) == len(body):
            return tuple(zip(split, (f"{row}\n" for row in body), strict=True))
        if body and len(body) < len(split):
            return ()  # some printed nothing, and which is not to be seen
    if len(commands) <= 1:
        return tuple((item, text) for item in commands)
    commands = [
        part
        for item in commands
        for files in [_each_file(item)]
        for part in (files if all(map(_prints_a_line, files)) else [item])
    ]
    front: list[tuple[Simple, str]] = []
    back: list[tuple[Simple, str]] = []
    while commands and body and _prints_a_line(commands[0]):
        front.append((commands.pop(0), f"{body.pop(0)}\n"))
    while commands and body and _prints_a_line(commands[-1]):
        back.append((commands.pop(), f"{body.pop()}\n"))
    rest = "".join(f"{row}\n" for row in body)
    return (*front, *((item, rest) for item in commands), *reversed(back))


def _each_file(item: Simple) -> list[Simple]:
    words = item.command.split()
    if item.program in ("cat", "readlink", "realpath") and not item.filters:
        options = [word for word in words[1:] if word.startswith("-")]
        files = [word for word in words[1:] if not word.startswith("-")]
        if len(files) > 1:
            return [replace(item, command=" ".join([words[0], *options, name])) for name in files]
    return [item]


_ONE_LINE = re.compile(
    r"""(?:\S*/)?(?:
        cat\s+/(?:sys|proc/sys)/\S+ | uname(?:\s+-\w+)* | hostname\b | id\s+-[ugn]+
        | whoami\b | which\s+\S+
        | echo\s+\$\S+ | echo\s+"?\$\? | readlink\s+-f\s+\S+ | readlink\s+\S+ | realpath\s+\S+
        | setpci\s+(?:-\S+\s+)*-s\s+\S+\s+[^=\s]+ | systemctl\s+is-(?:active|enabled)\s+\S+
        | modinfo\s+-F\s+\S+\s+\S+ | ulimit\s+-l | date\b | nproc\b | getenforce\b
    )\s*$""",
    re.VERBOSE,
)


def _prints_a_line(item: Simple) -> bool:
    return not item.filters and _ONE_LINE.match(item.command) is not None
