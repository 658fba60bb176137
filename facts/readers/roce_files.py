"""Files of the kernel that mark and slow RoCE: traffic class, ECN, defaults of RDMA-CM."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import MappingProxyType

from rackready.facts.commands import simple_commands
from rackready.facts.model import RdmaDevice, RdmaPort
from rackready.facts.parts.qos import CmaDefault, CmaRefusal, EcnPort
from rackready.facts.readers.reader import Output, reader
from rackready.facts.readers.sysfs import number

_NO_FILE = re.compile(r"No such file or directory|没有那个文件或目录")
_DENIED = re.compile(r"Permission denied|权限不够")
_CLASS_FILE = re.compile(
    r"(?:/sys/class/infiniband/|^|[\s'\"‘])([\w.*-]{1,64})/tc/(\d{1,3})/traffic_class"
)
_CLASS = re.compile(r"(?:Global\s+)?(?:tclass\s*=\s*)?(-?\d{1,3}|0x[0-9a-fA-F]{1,2})?$")
_CLASS_FOLDER = re.compile(
    r"ls: .{0,40}/sys/class/infiniband/([\w.-]{1,64})/tc['\"’/]*: No such file or directory"
)
_DEVICE = re.compile(r"(?:^|^/sys/class/infiniband/)([a-zA-Z][\w.-]{0,62}\d[\w.-]{0,8})[:/]?$")
_LOOPED = re.compile(
    r"(?!Global\b|tclass\b)([a-zA-Z][\w.-]{0,63})[\s:=]+"
    r"(Global\s.*|tclass=.*|-?\d{1,3}|0x[0-9a-fA-F]{1,2})$"
)


def read_traffic_class(output: Output) -> Iterator[RdmaDevice]:
    """
    ``/sys/class/infiniband/mlx5_0/tc/1/traffic_class`` by ``cat``, ``grep .`` or a loop.

    The 1 is the port. It reads ``Global tclass=160`` or ``160``; nothing where none is set.
    """
    rows = output.text.removesuffix("\n").split("\n")
    looped = _looped(output, _CLASS_FILE)
    if (
        len(looped) > 1
        and len(looped) == len(rows)
        and all(_value(row) is not None for row in rows)
    ):
        for each, row in zip(looped, rows, strict=True):
            yield _class(each[1], int(each[2]), _value(row))
        return
    file = _CLASS_FILE.search(output.command)
    heading = (file[1], int(file[2])) if file and "*" not in file[1] and not looped else None
    asked = heading is not None and output.program == "cat" and not output.filters
    # A file that is there and holds nothing; where errors were sent away it may be missing.
    empty = (asked or bool(looped)) and "2>" not in output.line and not output.status
    for line in output.lines():
        if in_line := _CLASS_FILE.search(line):
            name, port = in_line[1], int(in_line[2])
            rest = line[in_line.end() :].strip(" \t:=<>'\"’")
            value = _value(rest)
            if _NO_FILE.search(rest):
                yield _class(name, port, None, there=False)
            elif _DENIED.search(rest):
                yield _class(name, port, None)
            elif value is not None and not line.startswith("==>"):
                yield _class(name, port, value)
            heading = (name, port) if line.startswith("==>") else None
        elif ls := _CLASS_FOLDER.search(line):
            yield _class(ls[1], 1, None, there=False)
        elif heading and (value := _value(line)) is not None:
            yield _class(*heading, value)
            heading = None
        elif (named := _LOOPED.match(line)) and (value := _value(named[2])) is not None:
            yield _class(named[1], 1, value)
        elif (device := _DEVICE.search(line)) and not asked:
            # "for d in ...; do echo $d; cat .../traffic_class; done"
            if heading and empty:
                yield _class(*heading, -1)
            heading = device[1], 1
        else:
            heading = None  # an error, or the output of something else: it was not read
    if heading and empty:
        yield _class(*heading, -1)


def _looped(output: Output, path: re.Pattern[str]) -> list[re.Match[str]]:
    """The files that a loop reads one after another, where it names them itself."""
    if output.line != output.command or not output.line.startswith("for "):
        return []
    commands = simple_commands(output.line)
    return [match for item in commands if (match := path.search(item.command))]


def _value(text: str) -> int | None:
    """0 to 255; -1 where none is set; None where it is no class."""
    match = _CLASS.match(text.strip())
    if match is None:
        return None
    value = -1 if match[1] is None else int(match[1], 0 if match[1].startswith("0x") else 10)
    return value if -1 <= value <= 255 else None


def _class(name: str, port: int, value: int | None, there: bool = True) -> RdmaDevice:
    return RdmaDevice(name, ports=(RdmaPort(port, traffic_class=value, traffic_class_file=there),))


# --- ECN ----------------------------------------------------------------------------------------

_ECN_FILE = re.compile(
    r"/sys/class/net/([^/\s$'\"]{1,32})/ecn(?:/(roce_np|roce_rp)(?:/enable/([0-7*]|\{0\.\.7\}|\[0-7\])"
    r"|/(cnp_dscp))?)?"
)
_ECN_ROW = re.compile(
    r"(?:([A-Za-z]\S{0,31})\s+)?(roce_np|roce_rp|np|rp)[\s/:=-]+(?:enable/|prio(?:rity)?\s?)?"
    r"([0-7])[\s:=]+([01])$"
)

_ALL = ("*", "{0..7}", "[0-7]")


def read_ecn(output: Output) -> Iterator[EcnPort]:
    """``/sys/class/net/NIC/ecn/roce_{np,rp}/enable/PRIORITY`` by ``cat``, ``grep`` or a loop."""
    rows = list(output.lines())
    looped = [each for each in _looped(output, _ECN_FILE) if each[3]]
    if len(looped) > 1 and len(looped) == len(rows) and set(rows) <= {"0", "1"}:
        for each, row in zip(looped, rows, strict=True):
            yield from _switch(each, row)
        return
    looked = _ECN_FILE.search(output.command) or _ECN_FILE.search(output.line)
    netdev = looked[1] if looked else ""
    plain: list[str] = []
    heading = _ECN_FILE.search(output.command) if output.program == "cat" else None
    for line in rows:
        in_line = _ECN_FILE.search(line)
        if in_line and _NO_FILE.search(line):
            yield EcnPort(in_line[1], present=False)
        elif in_line and line.startswith("==>"):
            if heading and len(plain) == 1:
                yield from _switch(heading, plain[0])
            heading, plain = in_line, []
        elif in_line:
            yield from _switch(in_line, line[in_line.end() :].strip(" \t:="))
        elif told := _ECN_ROW.match(line):
            side = "roce_np" if told[2].endswith("np") else "roce_rp"
            yield _ecn(told[1] or netdev, side, {int(told[3]): told[4] == "1"})
        elif heading:
            plain.append(line)
    if heading is None:
        return
    if len(plain) == 1:
        yield from _switch(heading, plain[0])
    elif len(plain) == 8 and heading[2] and heading[3] in _ALL and set(plain) <= {"0", "1"}:
        yield _ecn(heading[1], heading[2], {n: flag == "1" for n, flag in enumerate(plain)})


def _switch(file: re.Match[str], value: str) -> Iterator[EcnPort]:
    netdev, side, priority, parameter = file.groups()
    if parameter:
        if (dscp := number(value)) is not None:
            yield EcnPort(netdev, present=True, cnp_dscp=dscp)
    elif side and priority and priority.isdigit() and value in ("0", "1"):
        yield _ecn(netdev, side, {int(priority): value == "1"})


def _ecn(netdev: str, side: str, flags: dict[int, bool]) -> EcnPort:
    values = MappingProxyType(flags)
    if side == "roce_np":
        return EcnPort(netdev, notification=values, present=True)
    return EcnPort(netdev, reaction=values, present=True)


# --- Defaults of RDMA-CM ------------------------------------------------------------------------

_CMA_OPTION = re.compile(r"\s-([dpmt])\s*(\S{1,64})")
_CMA_FILE = re.compile(r"/rdma_cm/([\w.-]{1,64})/ports/(\d{1,3})/default_roce_")
_CMA_FOLDER = re.compile(r"(?:/rdma_cm/|['\"‘])([a-z][\w.-]{0,63})['\"’]?(?=:|$)")
_NO_MODULE = re.compile(r"rdma_cm is not loaded|does not support configfs|Module rdma_cm")
_MODE = re.compile(r"(?:IB/)?RoCE v([12])$")


def read_cma(output: Output) -> Iterator[CmaDefault | CmaRefusal]:
    """
    ``cma_roce_tos`` and ``cma_roce_mode``, which print the value that holds in the end.

    Both print errors to the standard output, and take mlx5_0 and port 1 where none is named.
    """
    options = {match[1]: match[2] for match in _CMA_OPTION.finditer(output.command)}
    device, port = options.get("d", "mlx5_0"), number(options.get("p")) or 1
    of_mode = output.program == "cma_roce_mode"
    lines = list(output.lines())
    for line in lines:
        mode = _MODE.match(line)
        tos = number(line)
        if of_mode and mode:
            yield CmaDefault(device, port, mode=f"v{mode[1]}")
            return
        if not of_mode and tos is not None and 0 <= tos <= 255:
            yield CmaDefault(device, port, tos=tos)
            return
    if reason := _refusal(lines):
        yield CmaRefusal(device, reason, lines[0][:120])


def _refusal(lines: list[str]) -> str:
    """ "" for help texts and the like."""
    text = " ".join(lines)
    if _NO_MODULE.search(text):
        return "no-module"
    if re.search(r"No such device|Failed to create configuration", text):
        return "no-device"
    refused = re.search(r"denied|cannot|[Ff]ailed|[Ii]nvalid|[Nn]ot |[Nn]o such", text)
    return "refused" if refused else ""


def read_configfs(output: Output) -> Iterator[CmaDefault | CmaRefusal]:
    """Files below /sys/kernel/config/rdma_cm, and what ``mkdir`` of a device says there."""
    if output.program == "mkdir":
        match = _CMA_FOLDER.search(output.command)
        text = " ".join(output.lines())
        if match and _NO_FILE.search(text):
            yield CmaRefusal(match[1], "no-module", text[:120])
        elif match and "No such device" in text:
            yield CmaRefusal(match[1], "no-device", text[:120])
        return
    asked = _CMA_FILE.search(output.command)
    for line in output.lines():
        file = _CMA_FILE.search(line) or asked
        value = line.rpartition(":")[2].strip() if _CMA_FILE.search(line) else line
        if file is None:
            continue
        device, port, tos, mode = file[1], int(file[2]), number(value), _MODE.match(value)
        if tos is not None:
            yield CmaDefault(device, port, tos=tos)
        elif mode:
            yield CmaDefault(device, port, mode=f"v{mode[1]}")


READERS = (
    reader(
        "cat /sys/class/infiniband/DEVICE/tc/1/traffic_class",
        read_traffic_class,
        command=r"(?:cat|grep|head|tail|more|echo|tee|bash)\b.*/tc/[^/]{1,8}/traffic_class"
        r"|ls\s.*/sys/class/infiniband/[^/]{1,64}/tc\b",
        shape=r"/sys/class/infiniband/[\w.-]+/tc/\d+/traffic_class['\"’]?:",
        line=r"^for .{1,400}traffic_class",
    ),
    reader(
        "cat /sys/class/net/NIC/ecn/roce_np/enable/0",
        read_ecn,
        command=r"(?:cat|grep|head|tail|more|ls)\b.*/sys/class/net/[^/]{1,40}/ecn\b",
        shape=r"/sys/class/net/[\w.-]+/ecn/roce_[nr]p/",
        line=r"^for .{1,400}(?:/ecn/|roce_np)",
    ),
    reader("cma_roce_tos", read_cma, command=r"cma_roce_(?:tos|mode)\b"),
    reader(
        "cat /sys/kernel/config/rdma_cm",
        read_configfs,
        command=r"(?:cat|grep|head|tail|mkdir)\b.*/sys/kernel/config/rdma_cm",
        shape=r"/sys/kernel/config/rdma_cm/[\w.-]+/ports/\d+/default_roce_\w+:",
    ),
)
