"""Kernel modules: loaded, on disk, in sysfs, being loaded or unloaded, and who uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import MappingProxyType

from rackready.facts.model import Module
from rackready.facts.parts.modules import (
    ModuleChange,
    ModuleFile,
    ModuleList,
    ModuleState,
    OpenHandle,
    plain_name,
)
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.search import search_of
from rackready.facts.readers.sysfs import number

_LSMOD = re.compile(r"([\w-]{1,64})\s+(\d{1,12})\s+(-|-?\d{1,9})(?:\s+(\S+))?")
_FIELD = re.compile(
    r"(filename|name|version|vermagic|depends|alias|parm|softdep|description|author|license"
    r"|srcversion|firmware|retpoline|intree|staging|import_ns|rhelversion|supported|signer"
    r"|sig_\w{2,12}|signature):\s*(.*)"
)
# What the values of fields look like that are asked for alone: an error of a shell does not.
_VALUES = {
    "filename": re.compile(r"/\S{1,400}\.ko(?:\.\w{1,8})?$|\(builtin\)$"),
    "name": re.compile(r"\w{1,64}$"),
    "version": re.compile(r"[vV]?\d(?:[\w.+~:-]{0,62}\w)?$"),
    "vermagic": re.compile(r"\d{1,3}\.\d\S*(?: .*)?$"),
    "depends": re.compile(r"[\w,-]*$"),
    "parm": re.compile(r"\w{1,80}:"),
    "srcversion": re.compile(r"[0-9A-F]{16,40}$"),
}
_PARAMETER = re.compile(r"(\w{1,80}):(.*)")
_NOT_FOUND = re.compile(r"modinfo: ERROR: Module (?:alias )?(\S+) not found")
_SYSFS = re.compile(r"/sys/module/([\w-]{1,64})(?:/(\S{0,200}))?$")
_NO_FILE = "No such file or directory"
_SAID = re.compile(r"(?:\S{0,80}/)?(?:ls|cat|sudo|[a-z]{0,3}sh): \S|\[sudo\] ")
_HOLDER = re.compile(r"[\w-]{1,64}")

_INSERT = re.compile(r"(?:could not|can't) insert '?(?:module )?([\w./-]{1,256})'?: (.*)")
_MISSING = re.compile(r"FATAL: Module (\S{1,64}) not found")
_IN_USE = re.compile(r"Module (\S{1,64}) is in use(?: by:? (.*))?")
_NOT_LOADED = re.compile(r"Module (\S{1,64}) is not currently loaded")
_TOOL = re.compile(r"^(?:\S*/)?(modprobe|rmmod|insmod|kmod)\b")

_USER = re.compile(r"(?:(\S+):\s+)?(\S+)\s+(\d{1,9})\s+[FfcermTo.]{4,8}\s+(\S.*)")


def read_lsmod(output: Output) -> Iterator[object]:
    """
    ``lsmod`` and ``/proc/modules``, whole or searched; printing nothing is an answer.

    Where other words stand among the lines, or one is cut, a module may be there unseen.
    """
    names = []
    used_by: dict[str, None] = {}
    unknown = False
    for line in output.lines():
        match = _LSMOD.match(line)
        if match is None:
            unknown = unknown or not line.startswith(("Module ", "#", "$"))
            continue
        names.append(match[1])
        holders = [name for name in (match[4] or "").split(",") if name not in ("", "-")]
        users = tuple(holder for holder in holders if holder != "[permanent]")
        yield Module(match[1], number(match[3]), users)
        used_by.update(dict.fromkeys(users))
    if names or not unknown:
        # What uses a module is loaded as well, whether its own line is shown or not.
        every = tuple(dict.fromkeys([*names, *used_by]))
        yield ModuleList(every, None if unknown else search_of(output))


def read_modinfo(output: Output) -> Iterator[ModuleFile]:
    """``modinfo NAME``, ``modinfo -F FIELD NAME``; several modules follow one another."""
    if match := _NOT_FOUND.search(output.text):
        yield ModuleFile(_stem(match[1]), found=False)
        return
    words = output.command.split()
    asked = [word for word in words[1:] if not word.startswith("-")]
    if "-F" in words or any(word.startswith("--field") for word in words):
        if "-F" in words and len(asked) > 1:
            field, *asked = asked
        else:
            field = next((w.partition("=")[2] for w in words if "=" in w), "")
        if asked:
            shape = _VALUES.get(field)
            rows = [(field, row) for row in output.lines() if shape and shape.match(row)]
            if rows or not output.text.strip():
                yield from _module_file(_stem(asked[-1]), rows)
        return
    rows = []
    for line in output.lines():
        if match := _FIELD.match(line):
            shape = _VALUES.get(match[1])
            if shape and not shape.match(match[2]):
                continue
            if match[1] == "filename" and rows:
                yield from _described(rows, asked, not output.filters)
                rows = []
            rows.append((match[1], match[2]))
    yield from _described(rows, asked, not output.filters)


def _described(rows: list[tuple[str, str]], asked: list[str], whole: bool) -> Iterator[ModuleFile]:
    values = dict(rows)
    path = values.get("filename", "")
    name = values.get("name") or (_stem(path) if path.startswith("/") else "")
    name = name or (_stem(asked[-1]) if asked else "")
    if name and rows:
        yield from _module_file(plain_name(name), rows, whole)


def _module_file(
    name: str, rows: list[tuple[str, str]], whole: bool = False
) -> Iterator[ModuleFile]:
    values = dict(reversed(rows))
    parameters = [
        match for key, value in rows if key == "parm" and (match := _PARAMETER.match(value))
    ]
    depends = values.get("depends")
    yield ModuleFile(
        name,
        found=True if rows else None,
        path=values.get("filename"),
        version=values.get("version"),
        vermagic=values.get("vermagic"),
        depends=None if depends is None else tuple(filter(None, depends.split(","))),
        aliases="alias" in values if whole and "filename" in values else None,
        parameters=MappingProxyType({match[1]: match[2] for match in parameters}),
    )


def _stem(path: str) -> str:
    """``/lib/modules/.../nvidia-peermem.ko.xz`` -> ``nvidia_peermem``."""
    return plain_name(re.sub(r"\.ko(?:\.\w+)?$", "", path.rpartition("/")[2]))


def read_sysfs(output: Output) -> Iterator[object]:
    """``cat`` and ``ls`` below ``/sys/module``; what a filter left of a value is none."""
    paths = output.arguments()
    whole = not output.filters and (len(paths) == 1 or output.program == "ls")
    for path in paths:
        match = _SYSFS.search(path)
        if match is None:
            continue
        name, part = match[1], (match[2] or "").rstrip("/")
        value = output.text.strip()
        refused = [line for line in output.lines() if _NO_FILE in line]
        if refused and len(paths) > 1 and not any(_names(line, path) for line in refused):
            if any(line.rstrip(":") == path for line in output.lines()):
                yield ModuleState(name, present=True)
        elif refused:
            # Other files than the folder itself may be absent from a module that is loaded.
            gone = part in ("", "refcnt", "initstate")
            yield ModuleState(name, present=False if gone else None)
        elif _SAID.match(value):
            continue  # an error, or a question for a password
        elif not whole:
            continue
        elif output.program == "ls":
            yield ModuleState(name, present=True)
            if part == "holders" and all(map(_HOLDER.fullmatch, value.split())):
                yield Module(name, holders=tuple(value.split()))
        elif "\n" not in value:
            yield ModuleState(name, present=True, state=value if part == "initstate" else None)
            if part == "refcnt":
                yield Module(name, references=number(value))
            elif part == "version":
                yield Module(name, version=value)
            elif part.startswith("parameters/"):
                yield Module(name, parameters=MappingProxyType({part.partition("/")[2]: value}))


def _names(line: str, path: str) -> bool:
    return re.search(rf"{re.escape(path)}(?![\w/-])", line) is not None


_PAIR = re.compile(r"/sys/module/([\w-]{1,64})/parameters/(\w{1,80}):(.*)")


def read_parameters(output: Output) -> Iterator[Module]:
    """``grep -H '' /sys/module/NAME/parameters/*``: path, colon, value."""
    for line in output.lines():
        if match := _PAIR.match(line):
            yield Module(match[1], parameters=MappingProxyType({match[2]: match[3].strip()}))


def read_change(output: Output) -> Iterator[ModuleChange]:
    """``modprobe``, ``insmod`` and ``rmmod``: silent when all went well."""
    called = _TOOL.match(output.command)
    tool = called[1] if called else "modprobe"
    found = False
    for line in output.lines():
        if change := _refused(line, tool):
            found = True
            yield change
    words = output.arguments()
    shown = "-n" in output.command.split() or "--show-depends" in output.command
    error = f"exit status {output.status}" if output.status else ""
    if output.line and words and not found and not output.text.strip() and not shown:
        unload = tool == "rmmod" or " -r" in output.command or "--remove" in output.command
        for module in words if unload else words[:1]:
            yield ModuleChange(tool, _stem(module), unload, error)


def _refused(line: str, tool: str) -> ModuleChange | None:
    said = re.match(r"(?:sudo: )?(modprobe|rmmod|insmod|kmod): ", line)
    if said is None:
        return None
    tool = said[1] if said[1] != "kmod" else tool
    if match := _INSERT.search(line):
        return ModuleChange(tool, _stem(match[1]), False, match[2].strip())
    if match := _MISSING.search(line):
        return ModuleChange(tool, _stem(match[1].rstrip(".")), False, "not found")
    if match := _IN_USE.search(line):
        holders = tuple((match[2] or "").replace(",", " ").rstrip(".").split())
        return ModuleChange(tool, _stem(match[1]), True, "in use", holders)
    if match := _NOT_LOADED.search(line):
        return ModuleChange(tool, _stem(match[1]), True, "not loaded")
    return None


def read_users(output: Output) -> Iterator[OpenHandle]:
    """``fuser -v NODE``: a device on its first line, processes on this and the next ones."""
    device = ""
    for line in output.lines():
        if line.startswith("USER "):
            continue
        if match := _USER.match(line):
            device = match[1] or device
            yield OpenHandle(device, int(match[3]), match[4].strip())
        elif line.startswith("/dev/"):  # without -v: /dev/mxcd:  2211m 40123
            node, _, rest = line.partition(":")
            for word in rest.split():
                if match := re.match(r"(\d{1,9})[a-zA-Z]{0,6}$", word):
                    yield OpenHandle(node, int(match[1]), "process")


def read_lsof(output: Output) -> Iterator[OpenHandle]:
    """``lsof NODE``: command, process, ..., node."""
    for line in output.lines():
        words = line.split()
        if len(words) >= 5 and (pid := number(words[1])) and words[-1].startswith("/dev/"):
            yield OpenHandle(words[-1], pid, words[0])


READERS = (
    reader(
        "lsmod",
        read_lsmod,
        command=r"lsmod\b|cat\s+/proc/modules\b|[ef]?grep\s.*\s/proc/modules$",
        shape=r"^Module +Size +Used by$",
    ),
    reader(
        "modinfo",
        read_modinfo,
        command=r"modinfo\b",
        shape=r"^filename:[ \t]+\S{0,400}/\S{1,200}\.ko",
    ),
    reader(
        "grep -H '' /sys/module/nvidia/parameters/*",
        read_parameters,
        command=r"(?:grep|head|tail)\s.*/sys/module/",
        shape=r"^/sys/module/[\w-]+/parameters/\w+:",
    ),
    reader("ls /sys/module/nvidia", read_sysfs, command=r"(?:cat|ls)\s.*/sys/module/"),
    reader(
        "modprobe",
        read_change,
        command=r"(?:modprobe|rmmod|insmod)\s+(?!-c|--showconfig)|modprobe$",
        shape=r"^(?:modprobe|rmmod|insmod): (?:ERROR|FATAL):",
    ),
    reader(
        "fuser -v",
        read_users,
        command=r"fuser\b",
        shape=r"^ +USER +PID ACCESS COMMAND$",
    ),
    reader(
        "lsof /dev/mxcd",
        read_lsof,
        command=r"lsof\s.*/dev/",
        shape=r"^COMMAND +PID +USER +FD +TYPE +DEVICE .* NAME$",
    ),
)
