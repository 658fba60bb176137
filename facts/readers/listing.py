"""Device nodes and permissions: ls, stat, namei, errors of opening a node, df of /dev/shm."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from rackready.facts.parts.devices import DeviceNode, Folder, OpenError, PathMode, SharedMemory
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.search import keeps_front, keeps_rows

_BITS = re.compile(r"[-bcdlps][r-][w-][xsS-][r-][w-][xsS-][r-][w-][xtT-][.+@]?$")
_PAIR = re.compile(r"(\d{1,7}), ?(\d{1,7})\b")
_NOT_THERE = re.compile(
    r"(?:ls|stat|dd|cat): [^/\n]{0,60}?['\"‘]?(/[^'\"’:\n]{1,200})['\"’]?: ?"
    r"(?:No such file or directory|没有那个文件或目录)"
)
_HEADER = re.compile(r"(/[\w./@+-]{1,200}):$")
_NAME = re.compile(r"[\w.@+-]{1,100}$")
_RDMA_NODE = re.compile(r"(?:rdma_cm|by-ibdev|by-path|(?:uverbs|umad|issm|ucm|hfi1_)\d{1,5})$")
_VERBS = "/dev/infiniband"
_RDMA_CLASS = "/sys/class/infiniband"

_OPENED = re.compile(
    r"(/dev/[\w./-]{1,80})['\"’]?[^\n/]{0,80}?(?:(E[A-Z]{3,8}) \(|"
    r"(Operation not permitted|Permission denied|No such device or address|No such device))"
    r"|(Operation not permitted|Permission denied|No such device or address|No such device)"
    r"['\"]?: ['\"](/dev/[\w./-]{1,80})"
)
_ERRNO = {
    "Operation not permitted": "EPERM",
    "Permission denied": "EACCES",
    "No such device or address": "ENXIO",
    "No such device": "ENODEV",
}
_DD_INPUT = re.compile(r"dd\s[^\n]{0,200}?if=(/dev/[\w./-]{1,80})")
# What is said of making or changing a node is no word on opening it.
_NOT_OPENED = re.compile(r"\s*(?:mknod|chmod|chown|rm|mv|cp|mount|umount|ln|mkdir|touch)\b")

_SIZES = {"": 1024, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SHM = re.compile(r"\S{1,40}\s+(\d{1,12}(?:\.\d{1,3})?)([KMGT]?)i?B?\s[^\n]{0,60}\s/dev/shm$")
_SHM_MOUNT = re.compile(r"\S+ on /dev/shm type tmpfs \([^)\n]{0,200}\bsize=(\d{1,12})k\b")

# an image's own start-up lines: [WARNING] shm-size 64M(docker default value) is too small
_SHM_WARNING = re.compile(r"\[WARNING\] shm-size (\d{1,9})([KMG])\b")

_STAT_FILE = re.compile(r"File: ['\"‘]?(/[^'\"’\n]{1,200}?)['\"’]?(?: -> .{1,200})?$")
_STAT_ACCESS = re.compile(
    r"Access: \((\d{3,5})/\S{10}\)\s+Uid: \(\s*\d{1,10}/\s*([^\s)]{1,40})\)"
    r"\s+Gid: \(\s*\d{1,10}/\s*([^\s)]{1,40})\)"
)


def mode_bits(text: str) -> int:
    """``drwxr-xr-x`` as a number, the upper three bits included."""
    bits = sum(1 << (8 - at) for at, char in enumerate(text[1:10]) if char not in "-ST")
    return bits | sum(
        bit
        for at, bit in ((3, 0o4000), (6, 0o2000), (9, 0o1000))
        if text[at : at + 1] in ("s", "S", "t", "T")
    )


def read_listing(output: Output) -> Iterator[DeviceNode | Folder | PathMode]:
    """``ls`` and ``ls -l`` of device nodes, of homes and of /sys/class/infiniband."""
    words = [word.rstrip("/") or "/" for word in output.arguments()]
    itself = re.search(r"\s-[a-zA-Z]*d", output.command) is not None
    base = words[0] if len(words) == 1 and not itself else ""
    whole = keeps_rows(output)
    names: dict[str, list[str]] = {}
    for line in output.lines():
        if match := _NOT_THERE.match(line):
            yield DeviceNode(match[1].rstrip("/"), exists=False)
        elif match := _HEADER.match(line):
            base = match[1].rstrip("/")
        elif not whole:
            continue  # names and owners may be parts of them
        elif _BITS.match(line.partition(" ")[0]):
            path, fact = _row(line, base)
            if fact is not None:
                yield fact
            folder, _, name = path.rpartition("/")
            names.setdefault(folder, []).append(name)
        elif line.startswith("/dev/") and " " not in line:
            yield DeviceNode(line, exists=True)
        elif not line.startswith("total ") and not set(line) & set(":'\""):
            for name in line.split():
                if _NAME.match(name):
                    folder = _folder_of(name, base)
                    names.setdefault(folder, []).append(name)
                    if folder == "/dev" or folder.startswith("/dev/"):
                        yield DeviceNode(f"{folder}/{name}", exists=True)
    if output.filters:
        return
    for folder in {base, *words}:
        if folder in (_VERBS, _RDMA_CLASS) and names.get(folder):
            yield Folder(folder, tuple(sorted(set(names[folder]) - {".", ".."})))


def _folder_of(name: str, base: str) -> str:
    """
    Where a bare name belongs.

    ``ls /dev/infiniband; ls /sys/class/infiniband`` prints the names of both: each reader of the
    two gets all of them.
    """
    if base in (_VERBS, _RDMA_CLASS):
        return _VERBS if _RDMA_NODE.match(name) else _RDMA_CLASS
    return base


def _row(line: str, base: str) -> tuple[str, DeviceNode | PathMode | None]:
    """The path of a row of ``ls -l`` and what it says."""
    words = line.partition(" -> ")[0].split()
    if len(words) < 5:
        return "", None
    bits, _, owner, group = words[:4]
    path = words[-1]
    if not path.startswith("/"):
        # Of two commands on one line, each reader gets the rows of both.
        at = ""
        if base == _VERBS and line[0] == "l" and " -> ../../devices" in line:
            at = _RDMA_CLASS
        elif base == _RDMA_CLASS and line[0] != "l":
            at = _VERBS
        path = f"{at or base}/{path}" if at or base else path
    if bits[0] in "bc" and (pair := _PAIR.match(" ".join(words[4:6]))):
        mode = bits[:10]
        return path, DeviceNode(path, True, mode, owner, group, int(pair[1]), int(pair[2]))
    if bits[0] not in "d-" or not path.startswith("/"):
        return path, None
    if path.endswith("/."):
        path = path[:-2] or "/"
    elif path.endswith("/.."):
        path = path[:-3].rpartition("/")[0] or "/"
    return path, PathMode(path, mode_bits(bits), owner, group)


def read_stat(output: Output) -> Iterator[PathMode]:
    """``stat FILE`` and ``stat -c FORMAT FILE...`` where the format has mode and name."""
    if not keeps_rows(output):
        return
    wanted = _format_of(output.command)
    if wanted:
        yield from _formatted(output, wanted)
        return
    path = None
    for line in output.lines():
        if file := _STAT_FILE.match(line):
            path = file[1]
        elif path and (access := _STAT_ACCESS.match(line)):
            yield PathMode(path, int(access[1], 8), access[2], access[3])
            path = None


def _format_of(command: str) -> str | None:
    """The word behind ``-c``, or that of ``--format`` and ``--printf``."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word in ("-c", "--format", "--printf"):
            return following
        if word.startswith(("--format=", "--printf=")):
            return word.partition("=")[2]
    return None


_FIELDS = {
    "a": r"(?P<a>[0-7]{1,5})",
    "A": r"(?P<A>[a-zA-Z-]{10})",
    "U": r"(?P<U>[^\s:/]{1,64})",
    "G": r"(?P<G>[^\s:/]{1,64})",
    "n": r"(?P<n>/\S{0,400})",
    "N": r"['\"]?(?P<n>/[^'\"\s]{0,400})['\"]?",
}


def _formatted(output: Output, pattern: str) -> Iterator[PathMode]:
    letters = re.findall(r"%(\w)", pattern)[:12]
    if len(set(letters)) != len(letters) or not {"a", "A"} & set(letters):
        return
    parts = re.split(r"%\w", pattern.replace("\\n", "").strip())[:13]
    regex = re.escape(parts[0])
    for letter, rest in zip(letters, parts[1:], strict=False):
        regex += _FIELDS.get(letter, r"\S{1,80}") + re.escape(rest).replace(r"\ ", r"\s+")
    row = re.compile(regex)
    only = output.arguments()[-1:]
    for line in output.lines():
        if match := row.match(line):
            found = match.groupdict()
            mode = int(found["a"], 8) if "a" in found else mode_bits(found["A"])
            path = found.get("n") or (only[0] if only and only[0].startswith("/") else "")
            if path:
                yield PathMode(path.rstrip("/") or "/", mode, found.get("U"), found.get("G"))


def read_namei(output: Output) -> Iterator[PathMode]:
    """``namei -l PATH``: a line for each part of the path; owners are left out by ``-m``."""
    path = ""
    for line in output.lines() if keeps_front(output) else ():
        if line.startswith("f: "):
            path = ""
            continue
        words = line.partition(" -> ")[0].split()
        if not _BITS.match(words[0]) or len(words) not in (2, 4):
            continue
        if not path and words[-1] != "/":
            continue  # a part of a path whose front is not known
        path = "/" if words[-1] == "/" else f"{path.rstrip('/')}/{words[-1]}"
        owner, group = (words[1], words[2]) if len(words) == 4 else (None, None)
        if words[0][0] in "d-":
            yield PathMode(path, mode_bits(words[0]), owner, group)


def read_open_errors(output: Output) -> Iterator[OpenError]:
    """Nodes that could not be opened, by dd, cat, Python, strace, libraries; dd shows success."""
    if " records in" in output.text and (asked := _DD_INPUT.search(output.command)):
        yield OpenError(asked[1], "")
    for line in output.lines():
        match = _OPENED.search(line[:1000])
        if match is None or _NOT_OPENED.match(line):
            continue
        path = (match[1] or match[5]).rstrip("./")
        errno = match[2] or _ERRNO[match[3] or match[4]]
        if errno in _ERRNO.values():
            yield OpenError(path, errno)


def read_shared_memory(output: Output) -> Iterator[SharedMemory]:
    """The row of /dev/shm in ``df`` and ``mount``; ``df`` counts in KiB without ``-h``."""
    for line in output.lines():
        if match := _SHM.match(line):
            yield SharedMemory(int(float(match[1]) * _SIZES[match[2]]))
        elif match := _SHM_MOUNT.match(line):
            yield SharedMemory(int(match[1]) * 1024)
        elif match := _SHM_WARNING.search(line):
            yield SharedMemory(int(match[1]) * _SIZES[match[2]])


READERS = (
    reader(
        "dd if=/dev/infiniband/uverbs0 count=0",
        read_open_errors,
        command=r"(?:dd|cat|head|strace|python3?)\s[^\n]{0,400}?/dev/",
        shape=r"/dev/[\w./-]{1,80}['\"]?[^\n/]{0,80}?(?:Operation not permitted|Permission denied"
        r"|No such device|EPERM \(|EACCES \(|ENXIO \(|ENODEV \()"
        r"|(?:Operation not permitted|Permission denied|No such device)[^\n]{0,20}: '/dev/",
    ),
    reader(
        "ls -l /dev",
        read_listing,
        command=r"ls\s[^\n]{0,600}?(?:/dev\b|/sys/class/infiniband/?(?:\s|$)|\.ssh\b|/root\b|/home\b)",
        shape=r"^c[rwxsStT-]{9}[.+@]?\s+\d+\s+\S+\s+\S+\s+\d+,\s*\d+\s"
        r"|^ls: [^\n/]{0,60}/dev/\S|^/dev/[\w/-]+\n/dev/[\w/-]+$",
    ),
    reader(
        "stat /root/.ssh",
        read_stat,
        command=r"stat\s",
        shape=r"^ *Access: \(\d{3,5}/\S{10}\) +Uid: ",
    ),
    reader("namei -l /root/.ssh", read_namei, command=r"namei\s", shape=r"^f: /\S"),
    reader(
        "df /dev/shm",
        read_shared_memory,
        command=r"df\b|mount$",
        shape=r"^(?:shm|tmpfs)\s+\d\S*\s[^\n]{0,60}\s/dev/shm$|^\[WARNING\] shm-size \d",
    ),
)
