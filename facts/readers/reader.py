"""What a reader is: it knows the output of one command and says what facts stand in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rackready.facts.readers.sysfs import Note, lines


@dataclass(frozen=True)
class Output:
    """
    The output of one simple command, as a reader gets it.

    ``command`` is without prompt, ``sudo`` and pipe; what the pipe filtered with is in ``filters``:
    then a line that is not there proves nothing. ``line`` is the whole command line as it was
    pasted. ``text`` has no escape sequences and no carriage returns. ``status`` is the exit status;
    None when it is not known, as with most pastes.
    """

    command: str
    text: str
    note: Note
    filters: tuple[str, ...] = ()
    line: str = ""
    status: int | None = None

    def lines(self) -> Iterator[str]:
        """Lines that are not blank, without the blanks around them."""
        return (line for _, line in lines(self.text))

    @property
    def program(self) -> str:
        """The command's first word without its directory: ``/usr/bin/cat x`` runs ``cat``."""
        return self.command.partition(" ")[0].rpartition("/")[2]

    def arguments(self) -> list[str]:
        """Words of the command behind its name that are no options."""
        return [word for word in self.command.split()[1:] if not word.startswith("-")]


_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def plain(text: str) -> str:
    """Text without escape sequences, carriage returns, byte order mark and control characters."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROLS.sub("", text.removeprefix("\ufeff"))


@dataclass(frozen=True)
class Reader:
    """
    One kind of output and who reads it.

    ``name`` is a plain command that prints it, such as ``lspci -vv``: an output that was known by
    its ``shape`` alone goes by it, so ``command`` has to match it. ``command`` is matched at the
    start of a simple command whose program goes by its base name; ``line`` is searched in the whole
    command line of a paste, for loops whose output no single command would print; ``shape`` is
    searched in outputs of unknown commands, and must be linear (no nested repetition).
    ``read`` yields facts; it raises nothing, and tells ``output.note`` what it can't understand.
    """

    name: str
    read: Callable[[Output], Iterable[object]]
    command: re.Pattern[str]
    shape: re.Pattern[str] | None = None
    line: re.Pattern[str] | None = None


def reader(
    name: str,
    read: Callable[[Output], Iterable[object]],
    *,
    command: str = "",
    shape: str = "",
    line: str = "",
) -> Reader:
    """A reader from plain patterns; ``^`` and ``$`` of ``shape`` are those of a line."""
    return Reader(
        name,
        read,
        re.compile(command or re.escape(name)),
        re.compile(shape, re.MULTILINE) if shape else None,
        re.compile(line) if line else None,
    )
