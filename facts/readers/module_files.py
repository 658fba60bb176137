"""Files that decide about modules: modprobe.d, modules-load.d, initramfs, DKMS, OFED."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import MappingProxyType

from rackready.facts.parts.modules import (
    BootFolder,
    BootModules,
    DkmsModule,
    DriverParameters,
    InitramfsFile,
    MemoryPeer,
    ModprobeLine,
    ModprobeSearch,
    Ofed,
    OfedSources,
    plain_name,
)
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.search import search_of

_LINE = re.compile(r"(options|install|remove|blacklist|softdep|alias)\s+([\w*:-]{1,128})\s*(.*)")
_HEADING = re.compile(r"(/\S+):$")
_GREP = re.compile(r"(/etc/\S+?\.conf):(?:\d+:)?(.*)")
_NO_FILE = "No such file or directory"
_LINK = re.compile(r"\sdefault -> (\S+)$")
_ENTRY = re.compile(r"d[-rwxsStT]{9}\S?\s.*\s(\d\S*)$")
_DKMS = re.compile(r"([\w.-]+)[,/] ?([^,:\s]+)(?:, ?([^,:\s]+))?(?:, ?[^,:\s]+)?: ?(\w+)")
_PARAMETER = re.compile(r'(\w{1,80}): (?:"([^"]*)"|(-?\d{1,20}|0x[0-9a-fA-F]{1,16}))$')
_NAMES = re.compile(r"[\w.@+~-]+(?:\s+[\w.@+~-]+)*$")
_PEER = re.compile(r"/sys/kernel/mm/memory_peers/([\w-]{1,64})(?:/(\w+))?")
_INITRAMFS = re.compile(r"(?:^|\s)((?:\./)?(?:usr/|lib/|etc/)\S+)$")


def read_modprobe(output: Output) -> Iterator[ModprobeLine | ModprobeSearch]:
    """``cat /etc/modprobe.d/X.conf``, ``grep -r X /etc/modprobe.d``, ``modprobe -c``."""
    paths = [word for word in output.arguments() if word.startswith("/etc/") and "*" not in word]
    default = paths[0] if len(paths) == 1 and paths[0].endswith(".conf") else ""
    joined = re.sub(r"\\\n[ \t]*", " ", output.text)
    for row in joined.split("\n"):
        found = _GREP.match(row.strip())
        path, line = (found[1], found[2]) if found else (default, row)
        if match := _LINE.match(line.strip()):
            yield ModprobeLine(path, match[1], plain_name(match[2]), match[3].strip())
    if output.filters:
        yield ModprobeSearch(search_of(output))


def read_boot_listing(output: Output) -> Iterator[BootFolder]:
    """
    ``ls FOLDER...`` of modules-load.d; with ``-l`` the name is the last word.

    A folder that ``ls`` only complains of is not known.
    """
    folders = [word.rstrip("/") for word in output.arguments() if "modules-load.d" in word]
    folder = folders[0] if len(folders) == 1 else ""
    files: dict[str, list[str]] = {folder: []} if folder else {}
    unread: set[str] = set()
    for line in output.lines():
        if match := _HEADING.match(line):
            folder = match[1].rstrip("/")
            files.setdefault(folder, [])
        elif _NO_FILE in line:
            missing = next((name for name in folders if name in line), folder)
            files.setdefault(missing, [])
        elif folder and not line.startswith("total "):
            name = line.partition(" -> ")[0].split()[-1]
            if re.match(r"[-ld][-rwx]{9}", line):
                files[folder].append(name)
            elif _NAMES.match(line):
                files[folder] += line.split()
            else:
                unread.add(next((name for name in folders if name in line), folder))
    whole = None if output.filters else True
    for path, names in files.items():
        if path not in unread:
            listed = tuple(name for name in names if name.endswith(".conf"))
            yield BootFolder(path, listed, whole)


def read_boot_modules(output: Output) -> Iterator[BootModules]:
    """``cat /etc/modules-load.d/X.conf`` and ``/etc/modules``: a name a line."""
    paths = output.arguments()
    found: dict[str, list[str]] = {paths[0]: []} if len(paths) == 1 else {"": []}
    for line in output.lines():
        match = re.match(r"(/\S+?\.conf):(.*)", line)
        path, rest = (match[1], match[2].strip()) if match else (next(iter(found)), line)
        if _NO_FILE not in line and rest and rest[0] not in "#;":
            found.setdefault(path, []).append(plain_name(rest.split()[0]))
    for path, names in found.items():
        if path and (names or "*" not in path):
            yield BootModules(path, tuple(names))


def read_initramfs(output: Output) -> Iterator[InitramfsFile]:
    """``lsinitramfs`` and ``lsinitrd``; only what has to do with modules is kept."""
    for line in output.lines():
        match = _INITRAMFS.search(line)
        if match and (".ko" in match[1] or "modprobe.d" in match[1]):
            yield InitramfsFile(match[1].removeprefix("./"))


def read_sources(output: Output) -> Iterator[OfedSources]:
    """``ls -l /usr/src/ofa_kernel``."""
    kernels = []
    default = None
    for line in output.lines():
        if match := _LINK.search(line):
            default = match[1].rstrip("/").rpartition("/")[2]
        elif match := _ENTRY.match(line):
            kernels.append(match[1])
    if kernels or default:
        yield OfedSources(tuple(kernels), default)


def read_ofed(output: Output) -> Iterator[Ofed]:
    """``ofed_info -s`` (``OFED-internal-24.10-0.7.0:``, ``MLNX_OFED_LINUX-5.8-...:``), ``-n``."""
    if re.search(r"ofed_info: (?:command )?not found|ofed_info: No such file", output.text):
        yield Ofed("")
        return
    first = next(output.lines(), "")
    match = re.match(r"(?:[A-Za-z_-]+-)?(\d[\w.-]+)(?:\s*\(.*\))?:?$", first)
    if match:
        yield Ofed(match[1])


def read_dkms(output: Output) -> Iterator[DkmsModule]:
    """``nvidia/550.54, 5.15.0-91-generic, x86_64: installed``, with a comma in older versions."""
    for line in output.lines():
        if match := _DKMS.match(line):
            yield DkmsModule(match[1], match[2], match[3] or "", match[4])


def read_driver_parameters(output: Output) -> Iterator[DriverParameters]:
    """``/proc/driver/nvidia/params``: ``EnableStreamMemOPs: 0``, texts in quotes."""
    path = re.search(r"/proc/driver/(\w+)/params", output.command)
    values = {}
    for line in output.lines():
        if match := _PARAMETER.match(line):
            values[match[1]] = match[2] if match[2] is not None else match[3]
    if values:
        yield DriverParameters(path[1] if path else "nvidia", MappingProxyType(values))


def read_peers(output: Output) -> Iterator[MemoryPeer]:
    """``cat`` and ``ls`` below ``/sys/kernel/mm/memory_peers``."""
    gone = False
    for line in output.lines():
        if _NO_FILE in line:
            gone = True
            match = _PEER.search(line)
            yield MemoryPeer(match[1] if match else "", present=False)
    match = _PEER.search(output.command)
    text = output.text.strip()
    if gone or not text:
        return
    if match:
        version = text if match[2] == "version" and re.match(r"\d[\w.-]*$", text) else None
        if version or match[2] != "version":
            yield MemoryPeer(match[1], True, version)
    elif output.program == "ls":
        for name in text.split():
            yield MemoryPeer(name, present=True)


READERS = (
    reader(
        "cat /etc/modprobe.d/a.conf",
        read_modprobe,
        command=r"(?:cat|[ef]?grep|head|tail|less|more)\s.*/etc/modprobe\.|modprobe\s+(?:-c|--showconfig)",
        shape=r"^(?:options [\w-]+ \w+=|blacklist [\w-]+$|softdep [\w-]+ (?:pre|post): "
        r"|install [\w-]+ /)",
    ),
    reader(
        "ls /etc/modules-load.d",
        read_boot_listing,
        command=r"ls\s.*modules-load\.d",
        shape=r"^/(?:etc|usr/lib|lib|run)/modules-load\.d/?:$",
    ),
    reader(
        "cat /etc/modules-load.d/a.conf",
        read_boot_modules,
        command=r"(?:cat|[ef]?grep)\s.{0,400}/(?:modules-load\.d\S{0,200}|etc/modules)(?:\s|$)",
    ),
    reader("lsinitramfs", read_initramfs, command=r"lsinitramfs\b|lsinitrd\b"),
    reader("ls -l /usr/src/ofa_kernel", read_sources, command=r"ls\s.*/usr/src/ofa_kernel"),
    reader(
        "ofed_info",
        read_ofed,
        command=r"ofed_info\b",
        shape=r"ofed_info: (?:command )?not found$|^MLNX_OFED_LINUX-\d[\w.-]*:$"
        r"|^OFED-internal-\d[\w.-]*:$",
    ),
    reader(
        "dkms status",
        read_dkms,
        command=r"dkms\s+status",
        shape=r"^[\w.-]+[,/] ?\d[^,:\s]*, [^,:\s]+, (?:x86_64|aarch64): (?:installed|built|added)",
    ),
    reader(
        "cat /proc/driver/nvidia/params",
        read_driver_parameters,
        command=r"(?:cat|[ef]?grep)\s.*/proc/driver/\w+/params",
        shape=r"^ResmanDebugLevel: \d+$|^EnableStreamMemOPs: \d",
    ),
    reader(
        "cat /sys/kernel/mm/memory_peers/nv_mem/version",
        read_peers,
        command=r"(?:cat|ls)\s.*/sys/kernel/mm/memory_peers",
        shape=r"(?:cat|ls): .{0,40}/sys/kernel/mm/memory_peers",
    ),
)
