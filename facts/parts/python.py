"""Packages of Python environments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class PythonPackage:
    """
    An installed distribution. ``name`` is in lower case with ``-`` for ``_`` and ``.``, since pip
    takes them for one; a host may have several versions, each in an environment of its own.
    """

    IDENTITY: ClassVar = (("name", "version"),)

    name: str
    version: str
