"""Text of a node on its way to a terminal: nothing in it may steer the terminal or break it."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with an escape (``\\x1b``) for whatever is neither printable nor a newline."""
    if text.isprintable():
        return text
    return "".join(
        character
        if character == "\n" or character.isprintable()
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
