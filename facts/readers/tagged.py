"""Who printed a line: the tags that launchers put before the lines of many processes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# kubectl logs --timestamps, --prefix
_POD = re.compile(
    r"(?:\[pod/[\w./-]{1,200}\] )?(?:\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[-+]\d\d:\d\d) )?"
)
# mpirun --tag-output of Open MPI 4 and 5; torchrun --tee; srun -l; pdsh, clush
_TAG = re.compile(
    r"[ \t]{0,8}(?:\[(?:[\w.-]{1,80}@)?(?:[\w.-]{1,80},)?\d{1,7},\d{1,7}\]"
    r"(?:\[\S{1,80}\])?<std(?:out|err)>:|\[(?:[a-z]{1,12})\d{1,6}\]:|<std(?:out|err)>:"
    r"|(?:\d{1,6}|[A-Za-z][\w.-]{0,80}):(?= ))"
)


def tagged(text: str) -> Iterator[tuple[str, str]]:
    """Pairs (tag, line without it); "" where a line has none."""
    for line in text.split("\n"):
        start = match.end() if (match := _POD.match(line)) else 0
        tag = _TAG.match(line, start)
        end = tag.end() if tag else start
        yield line[:end].strip(), line[end:]


def split_tagged(text: str, begins: re.Pattern[str]) -> Iterable[list[str]]:
    """
    Lines of each process of a text, without the tags.

    Only a tag with which a line that ``begins`` matches is one: a tool's own ``name: value`` is
    none. Lines without such a tag are together.
    """
    pairs = list(tagged(text))
    tags = {tag for tag, line in pairs if tag and begins.match(line)}
    lines: dict[str, list[str]] = {}
    for (tag, line), whole in zip(pairs, text.split("\n"), strict=True):
        known = tag in tags
        lines.setdefault(tag if known else "", []).append(line if known else whole)
    return lines.values()
