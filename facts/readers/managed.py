"""What rackready itself left on a node: manifest, files, journal."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace

from rackready.facts.model import ManagedFile
from rackready.facts.readers.sysfs import Note, lines, mode_of

_JOURNAL_END = 131072  # bytes: what the probe reads of a long journal

MANIFEST = "cat /var/lib/rackready/manifest"
JOURNAL = f"tail -c {_JOURNAL_END} /var/lib/rackready/journal.jsonl"

_MODE = re.compile(r"[0-7]{3,4}")


def read_manifest(text: str, note: Note) -> dict[str, ManagedFile]:
    """What was written, by path, of lines ``file PATH SHA MODE``; a path's last line wins."""
    things: dict[str, ManagedFile] = {}
    for line_number, line in lines(text):
        words = line.split()
        match words:
            case ["file", path, written, mode] if _MODE.fullmatch(mode):
                things[path] = ManagedFile(path, "file", written, None, None, int(mode, 8))
            case ["link", path, written]:
                things[path] = ManagedFile(path, "link", written, None)
            case ["dir", path]:
                things[path] = ManagedFile(path, "dir", "", None)
            case ["gone", path]:
                things.pop(path, None)
            case _:
                note(f"line {line_number} of the manifest is damaged: {line[:60]!r}")
    return things


def managed_files(
    manifest: str,
    checksums: Mapping[str, str | None],
    texts: Mapping[str, str],
    targets: Mapping[str, str | None],
    listings: Mapping[str, str | None],
    note: Note,
) -> tuple[ManagedFile, ...]:
    """
    Everything in the manifest, with what is there now.

    ``checksums``, ``targets`` and ``listings`` (``ls -ld`` of files and folders) hold None for a
    path that was looked for and is gone.
    """
    there = {path: listing and "there" for path, listing in listings.items()}
    looked = {"file": checksums, "link": targets, "dir": there}
    return tuple(
        replace(
            thing,
            found=(looked[thing.kind][path] or "") if path in looked[thing.kind] else None,
            text=texts.get(path),
            mode=mode_of(listings.get(path) or ""),
        )
        for path, thing in read_manifest(manifest, note).items()
    )


def is_cut(journal: str) -> bool:
    """Is this only the end of the journal?"""
    return len(journal.encode(errors="surrogateescape")) >= _JOURNAL_END


def read_journal(text: str, note: Note) -> tuple[Mapping[str, object], ...]:
    """
    Lines of the journal; a line that was cut off or damaged is stated and passed over.

    The first line of a journal of which only the end was read may be the rest of one.
    """
    entries = []
    cut = is_cut(text)
    for line_number, line in lines(text):
        if cut and line_number == 1 and not line.startswith("{"):
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if isinstance(entry, dict) and isinstance(entry.get("id"), str):
            entries.append(entry)
        else:
            part = "what was read of the journal" if cut else "the journal"
            note(f"line {line_number} of {part} is damaged: {line[:60]!r}")
    return tuple(entries)
