"""The profiles that there are: ours and those of a site."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from pydantic import ValidationError

from rackready.document import Document, DocumentError, hint
from rackready.profile import Profile, Sourced


class ProfileError(DocumentError):
    """All that is wrong with the profiles of a folder."""


def load_profiles(folder: Path | None = None) -> tuple[Profile, ...]:
    """
    The profiles that come with rackready and those of a site's own folder, by name.

    The site's folder is ``folder``, else what RACKREADY_PROFILES in the environment names. A file
    there takes the place of ours of the same name. Raises ProfileError.
    """
    if folder is None and (named := os.environ.get("RACKREADY_PROFILES")):
        folder = Path(named)
    documents = _documents(Path(str(item)) for item in files("rackready.profiles").iterdir())
    if folder is not None:
        documents |= _documents(_entries(folder))
    return read_profiles(documents)


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise ProfileError([f"{folder}: {error.strerror}"]) from error


def _documents(paths: Iterable[Path]) -> dict[str, Document]:
    try:
        return {
            path.stem: Document.from_file(path) for path in sorted(paths) if path.suffix == ".yaml"
        }
    except DocumentError as error:
        raise ProfileError(error.problems) from error


def read_profiles(documents: Mapping[str, Document]) -> tuple[Profile, ...]:
    """Profiles of documents by file name. One without a name is only there to be extended."""
    problems: list[str] = []
    profiles: list[Profile] = []
    for stem, document in documents.items():
        if "name" not in document.data:
            continue
        try:
            profiles.append(_profile(_extended(stem, documents)))
        except DocumentError as error:
            problems += error.problems
    twice = [name for name, count in Counter(p.name for p in profiles).items() if count > 1]
    problems += [f"two profiles are named {name!r}" for name in twice]
    if problems:
        raise ProfileError(problems)
    return tuple(sorted(profiles, key=lambda profile: profile.name))


def _extended(stem: str, documents: Mapping[str, Document], above: Sequence[str] = ()) -> Document:
    """A document over those that it extends; a later one of these wins over an earlier one."""
    document = documents[stem]
    place = document.place(("extends",))
    extends = document.data.get("extends", [])
    names = [extends] if isinstance(extends, str) else extends
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ProfileError([f"{place}: extends: should be the name of a profile file, or a list"])
    data = {key: value for key, value in document.data.items() if key != "extends"}
    result = Document({}, document.where)
    for name in names:
        if name not in documents:
            raise ProfileError([f"{place}: extends: no file {name!r}{hint(name, documents)}"])
        if name == stem or name in above:
            raise ProfileError([f"{place}: extends: {name!r} extends itself"])
        result = _extended(name, documents, (*above, stem)).over(result)
    return Document(data, document.where, document.places).over(result)


def _profile(document: Document) -> Profile:
    sources = document.data.get("sources")
    known = (
        {}
        if not isinstance(sources, dict)
        else {name: text for name, text in sources.items() if isinstance(text, str)}
    )
    try:
        return Profile.model_validate_json(document.as_json(), context={"sources": known})
    except ValidationError as error:
        raise ProfileError(document.problems(error, Profile)) from error


@dataclass(frozen=True)
class Row:
    """One line of the table of profiles."""

    name: str
    vendor: str
    known_by: str
    values: int  # that have a source
    contested: int  # on which sources disagree


def rows(profiles: Iterable[Profile]) -> tuple[Row, ...]:
    return tuple(_row(profile) for profile in profiles)


def _row(profile: Profile) -> Row:
    detection = profile.detection
    known_by = list(detection.models.value) if detection.models else []
    known_by += [f"{detection.vendor.value:04x}:{item.value:04x}" for item in detection.devices]
    claims = tuple(profile.sourced())
    return Row(
        name=profile.name,
        vendor=profile.vendor,
        known_by=", ".join(known_by) or f"{detection.vendor.value:04x}:*",
        values=len(claims),
        contested=sum(isinstance(item, Sourced) and bool(item.conflicts) for item in claims),
    )
