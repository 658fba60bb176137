"""The trees of emulated nodes: where they lie, how they come and how they go."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from rackready.document import hint
from rackready.emulator.description import DescriptionError, describe, parse_faults
from rackready.emulator.files import Files
from rackready.emulator.machine import Machine, make_machine
from rackready.emulator.node_files import node_files
from rackready.emulator.settings import settings
from rackready.emulator.sysfs import sysfs

MARKER = ".rackready-emulated"


def folder() -> Path:
    """Where the trees lie, a folder for each node. OSError for a user without a home."""
    if own := os.environ.get("RACKREADY_EMULATOR_DIR"):
        return Path(own).absolute()
    try:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise OSError("no home folder: set RACKREADY_EMULATOR_DIR") from error
    return Path(state).absolute() / "rackready" / "emulated"


def build(name: str, description: str, faults: Mapping[str, Any]) -> Path:
    """
    The tree of a node, built unless it is already there.

    A tree that was built of the same description and faults is left as it is, with all that was
    changed in it since: a node keeps its state from run to run. Otherwise it is built anew.

    Raises:
        DescriptionError: no such description, or a fault that makes no sense.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise DescriptionError([f"an emulated node can't be called {name!r}"])
    machine = make_machine(name, describe(description), parse_faults(faults))
    marker = f"Emulated node {name}: {description}, {_fingerprint(machine)}\n"
    tree = folder() / name
    with _locked(folder()):
        if _read(tree / MARKER) != marker:
            _replace(tree, marker, machine)
    return tree


def reset(names: Iterable[str] = ()) -> list[str]:
    """Throw trees away, all of them when no name is given; returns whose. LookupError: no such."""
    there = {entry.parent.name for entry in folder().glob(f"*/{MARKER}")}
    names = set(names)
    for name in sorted(names - there):
        raise LookupError(f"no emulated node {name!r}{hint(name, there)}")
    chosen = sorted(names or there)
    if chosen:
        with _locked(folder()):
            for name in chosen:
                _delete(folder() / name)
            for left_behind in folder().glob(".*/"):  # by a run that was killed
                _delete(left_behind)
    return chosen


def _delete(tree: Path) -> None:
    """
    Remove a folder and all that is in it.

    shutil.rmtree holds a descriptor for each folder on its way, and gevent, under which pyinfra
    runs, puts off closing them: a tree has more folders than a process may have files open.
    """
    for folder_path, folders, files in os.walk(tree, topdown=False):
        for name in files:
            os.unlink(os.path.join(folder_path, name))
        for name in folders:
            path = os.path.join(folder_path, name)
            (os.unlink if os.path.islink(path) else os.rmdir)(path)
    os.rmdir(tree)


def _replace(tree: Path, marker: str, machine: Machine) -> None:
    beside = Path(tempfile.mkdtemp(prefix=f".{tree.name}.", dir=tree.parent))
    try:
        new, old = beside / "new", beside / "old"
        _write(new, sysfs(machine))
        _write(new, node_files(machine))
        _write(new, settings(machine))
        (new / MARKER).write_text(marker, encoding="utf-8")
        if tree.exists():
            tree.rename(old)
        new.rename(tree)
    finally:
        _delete(beside)


def _write(root: Path, files: Files) -> None:
    made: set[Path] = set()

    def place(path: str) -> Path:
        target = root / path
        if target.parent not in made:
            target.parent.mkdir(parents=True, exist_ok=True)
            made.add(target.parent)
        return target

    for path in files.folders:
        (root / path).mkdir(parents=True, exist_ok=True)
    for path, content in files.contents.items():
        place(path).write_bytes(content)
    for path, target in files.links.items():
        place(path).symlink_to(target)
    for path, tool in files.tools.items():
        place(path).write_bytes(_tool(tool))
        (root / path).chmod(0o755)
    for path, mode in files.modes.items():
        (root / path).chmod(mode)


@cache
def _tool(name: str) -> bytes:
    return resources("rackready.emulator").joinpath("tools").joinpath(name).read_bytes()


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None


@contextmanager
def _locked(where: Path) -> Iterator[None]:
    """Two runs may want the same tree at once."""
    where.mkdir(parents=True, exist_ok=True)
    with (where / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fingerprint(machine: Machine) -> str:
    """Of all that a tree is made of, this code among it."""
    whole = "\n".join(
        (
            machine.name,
            machine.description.model_dump_json(),
            machine.faults.model_dump_json(),
            _sources(),
        )
    )
    return hashlib.sha256(whole.encode()).hexdigest()


@cache
def _sources() -> str:
    package = resources("rackready.emulator")
    files = [*package.iterdir(), *package.joinpath("tools").iterdir()]
    contents = (file.read_bytes() for file in sorted(files, key=str) if file.is_file())
    return hashlib.sha256(b"\0".join(contents)).hexdigest()
