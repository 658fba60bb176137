"""Make changes on a node: one POSIX sh script a stage, and the answers it gives."""

from __future__ import annotations

import re
import shlex
from collections.abc import Generator, Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from pyinfra.api.command import StringCommand
from pyinfra.api.operation import operation

from rackready.change import (
    OUR_FOLDERS,
    OURS,
    Answer,
    File,
    Link,
    Outcome,
    Refused,
    Remove,
    Setting,
    Step,
    Undo,
    is_ours,
)

_HERE = Path(__file__).parent

# What stands in journal, manifest and answers as it is, without quoting.
_WORD = re.compile(r"[A-Za-z0-9_./:@%+,=-]+")
_SCRIPT = re.compile(r"/usr/local/lib/rackready/[a-z0-9-]+")
_BACKUP = re.compile(r"/var/lib/rackready/backup/[A-Za-z0-9-]+/[0-9]+(/.+)")

_ITEM = re.compile(r"rackready item (\S+) (\S+) (done|same|refused)(?: (.*))?")
_END = re.compile(r"rackready end (\d+)")


@operation(is_idempotent=False, idempotent_notice="The script itself changes only what differs.")
def converge(script: str) -> Generator[StringCommand, None, None]:
    """
    Run one converge script.

    + script: text of the script, see ``render``
    """
    # Over stdin: a command line ends at 128 KiB, and sh -s needs no file on the node.
    yield StringCommand("sh", "-s", _stdin=script)


def render(
    steps: Iterable[tuple[str, Step]],
    *,
    run: str,
    owner: str,
    emulated: bool,
    everything: bool = False,
) -> str:
    """
    One script that makes ``steps``, pairs of check id and step, in this order.

    ``owner`` names whoever runs it to others who find the node locked. ``everything`` takes
    rackready's own records away as well, once every other step is done. Raises ValueError for a
    step that no plan may hold; what a node's own journal or manifest holds is refused by the
    script, item by item.
    """
    steps = list(steps)
    taking_back = everything or any(isinstance(step, Undo | Remove | Refused) for _, step in steps)
    sources = ["converge.sh", "undo.sh"] if taking_back else ["converge.sh"]
    calls = [_call("begin", _word(run), _holder(owner), "emulated" if emulated else "real")]
    calls += [_step(_word(check), step) for check, step in steps]
    if everything:
        calls.append(_call("forget", "remove"))
    return "\n".join(
        [
            *((_HERE / source).read_text(encoding="ascii") for source in sources),
            # One rule: the scripts hold to it also where the tree leads elsewhere by now.
            f"ours={shlex.quote(OURS)}",
            f"our_folders={shlex.quote(OUR_FOLDERS)}",
            # One function, called in the last line: a script that arrives cut off does nothing.
            "converge() {",
            *calls,
            "finish",
            "}",
            "converge </dev/null",
            "",
        ]
    )


def read_answers(lines: Iterable[str]) -> tuple[list[Answer], str]:
    """What a script said of each item, and why that is not all ("" when it is)."""
    answers = []
    for line in lines:
        line = line.rstrip("\r\n")
        if item := _ITEM.fullmatch(line):
            check, subject, outcome, reason = item.groups()
            answers.append(Answer(check, subject, Outcome(outcome), reason or ""))
        elif end := _END.fullmatch(line):
            if int(end[1]) == len(answers):
                return answers, ""
            return answers, f"the script gave {end[1]} answers and {len(answers)} arrived"
    return answers, f"the script did not come to its end ({len(answers)} answers arrived)"


def _step(check: str, step: Step) -> str:
    match step:
        case File(path, text, mode):
            if not text.isascii() or not text.endswith("\n") or "\0" in text:
                raise ValueError(f"{path}: not ASCII text that ends in a newline")
            digest = sha256(text.encode("ascii")).hexdigest()
            call = _call("put_file", check, _path("file", path), f"{mode:o}", digest)
            # A delimiter that the text cannot hold, since it is made of its own digest.
            return f"{call} <<'END-{digest[:16]}'\n{text}END-{digest[:16]}"
        case Link(path, target):
            return _call("put_link", check, _path("link", path), _word(target))
        case Setting(script, subject, value, card):
            words = [_word(subject), _word(value), _word(card)]
            return _call("apply_setting", check, _match(_SCRIPT, script), *words)
        case Undo(entry):
            return _undo(check, entry)
        case Remove(path, kind, written):
            try:
                if kind not in ("file", "link", "dir"):
                    raise ValueError(f"unknown kind {kind!r}")
                return _call("remove", check, kind, _path(kind, path), written and _word(written))
            except ValueError as error:
                return _reject(check, path, f"its line of the manifest: {error}")
        case Refused(subject, reason):
            return _reject(check, subject, reason)


def _undo(check: str, entry: Mapping[str, object]) -> str:
    def value(key: str) -> str:
        return _word(str(entry.get(key, "")))

    try:
        identity, subject = value("id"), value("subject")
        match entry.get("kind"):
            case "file":
                backup = _backup(value("backup"), subject) if entry.get("backup") else ""
                states = [value("before"), backup, value("after")]
                return _call("undo_file", identity, check, _path("file", subject), *states)
            case "link":
                states = [value("before"), value("after")]
                return _call("undo_link", identity, check, _path("link", subject), *states)
            case "dir":
                return _call("undo_dir", identity, check, _path("dir", subject))
            case "setting":
                if "card" not in entry:
                    raise ValueError("it does not say which card was set")
                script = _match(_SCRIPT, value("script"))
                states = [value("before"), value("after"), value("card")]
                return _call("undo_setting", identity, check, script, subject, *states)
            case kind:
                raise ValueError(f"unknown kind {kind!r}")
    except ValueError as error:
        return _reject(check, str(entry.get("subject", "")), f"its line of the journal: {error}")


def _reject(check: str, subject: str, reason: str) -> str:
    subject = subject if _WORD.fullmatch(subject) else "unreadable"
    return _call("reject", check, subject, ascii(reason)[1:-1])


def _call(function: str, *words: str) -> str:
    return " ".join([function, *map(shlex.quote, words)])


def _match(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text):
        raise ValueError(f"{text!r} does not match {pattern.pattern}")
    return text


def _word(text: str) -> str:
    return _match(_WORD, text)


def _path(kind: str, path: str) -> str:
    if not is_ours(kind, path):
        raise ValueError(f"not a path of rackready's: {path}")
    return path


def _backup(path: str, subject: str) -> str:
    match = _BACKUP.fullmatch(path)
    if match is None or match[1] != subject:
        raise ValueError(f"no backup of it: {path}")
    return path


def _holder(owner: str) -> str:
    """The owner as one word: user and host names come as they are, in any alphabet."""
    return re.sub(r"[^A-Za-z0-9_.@-]+", "_", owner) or "unknown"
