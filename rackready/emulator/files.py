"""The files of a tree, before anything is written."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field


@dataclass
class Files:
    """Content by path below the root of the tree."""

    contents: dict[str, bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    tools: dict[str, str] = field(default_factory=dict)  # path -> name of the stand-in
    modes: dict[str, int] = field(default_factory=dict)  # of what others must not get at

    def text(self, path: str, text: object) -> None:
        """A line, or lines, with a newline at the end as the kernel prints them."""
        self.contents[path] = f"{text}\n".encode()

    def texts(self, folder: str, **texts: object) -> None:
        for name, text in texts.items():
            self.text(f"{folder}/{name}", text)

    def link(self, path: str, target: str) -> None:
        """A link to another path of the tree; relative, so that it can't lead out of it."""
        self.links[path] = posixpath.relpath(target, posixpath.dirname(path))
