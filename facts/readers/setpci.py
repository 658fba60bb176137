"""setpci: registers that it read, and all the ways in which it reaches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from rackready.facts.model import AccessControl, Express, PciFunction
from rackready.facts.parts.pcie import AccessTrouble, RegisterRead, RegisterWrite
from rackready.facts.parts.store import Facts, merged
from rackready.facts.readers import sysfs
from rackready.facts.readers.reader import Output, reader

_VALUE = re.compile(r"[0-9a-f]{2,8}$")
_VERBOSE = re.compile(
    r"(\S{7,16}) (?:\((?:e?cap) [0-9a-f]{2,4} @[0-9a-f]{2,3}\) )?@([0-9a-f]{2,3}) "
    r"(?:= ([0-9a-f]{2,8})$|[0-9a-f]{2,8}->)"
)
_REGISTER = re.compile(
    r"(?:0x)?([A-Za-z0-9_]{1,20})(?:@\d{1,2})?(?:\+(?:0x)?([0-9a-fA-F]{1,3}))?"
    r"(?:\.([bwlBWL]))?(=\S*)?$"
)
_SIZES = {"b": 1, "w": 2, "l": 4}
_WORD = 2  # bytes
_CAPABILITIES = {
    "CAP10": "CAP_EXP",
    "ECAPD": "ECAP_ACS",
    "ECAP0D": "ECAP_ACS",
    "ECAP000D": "ECAP_ACS",
}
_NO_CAPABILITY = re.compile(
    r"setpci: (?:(\S{7,16}): )?(?:Instance #\d+ of )?(?:Extended )?"
    r"[Cc]apability ([0-9a-f]{4}) not found"
)
_CANNOT_OPEN = re.compile(
    r"(?:pcilib|setpci): Cannot open \S{0,200}?/([0-9a-f]{4,8}:[0-9a-f:.]{7})/config"
)
_REFUSED = re.compile(
    r"(?:pcilib|setpci): (?:sysfs_write: )?(?:write failed|tried to write \d+ bytes).{0,80}"
)
_NONE = re.compile(r"setpci: (?:Warning: )?No devices selected")
_UNPARSABLE = re.compile(
    r"setpci: (?:-[sd]: )?(?:Unable to parse filter|Invalid (?:domain|bus|slot|function))"
)
_LOOPED = re.compile(
    r"((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])(?:$|[^0-9a-zA-Z.\n].{0,160}$)"
)
_LAST = re.compile(r"(?:^|[^0-9A-Za-z.])(?:0x)?([0-9a-f]{4}(?:[0-9a-f]{4})?|[0-9a-f]{2})$")
_SCRIPTED = re.compile(r"\bsetpci\s+([^|;&\n]{1,200})")


@dataclass(frozen=True)
class Call:
    """What one setpci was told: which functions, which registers; ``sizes`` of those to read."""

    selector: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    sizes: tuple[int, ...] = ()


def register_of(word: str) -> str | None:
    """``cap_exp+0x8.w`` -> ``CAP_EXP+8``; ``0xF2A.w`` -> ``f2a``; None if it is no register."""
    match = _REGISTER.match(word)
    if match is None:
        return None
    name, plus = match[1].upper(), match[2]
    if plus is None:
        plain = match[1].lower()
        return plain if re.fullmatch(r"[0-9a-f]{1,3}", plain) else name
    return f"{_CAPABILITIES.get(name, name)}+{int(plus, 16):x}"


def _size_of(word: str) -> int:
    """Bytes of a register: ``CAP_EXP+8.w`` has two; named ones without a width have, mostly."""
    match = _REGISTER.match(word)
    return _SIZES.get((match[3] or "").lower(), _WORD) if match else _WORD


def call_of(words: Iterable[str]) -> Call:
    """Words behind ``setpci``."""
    selector, reads, writes, sizes = "", list[str](), list[str](), list[int]()
    rest = iter(words)
    for word in rest:
        if word in ("-s", "-d"):
            selector = next(rest, "")
        elif word.startswith(("-s", "-d")) and len(word) > 4:
            selector = word[2:]
        elif not word.startswith("-") and (register := register_of(word)):
            (writes if "=" in word else reads).append(register)
            if "=" not in word:
                sizes.append(_size_of(word))
    return Call(selector, tuple(reads), tuple(writes), tuple(sizes))


def read_setpci(output: Output) -> Iterator[RegisterRead | RegisterWrite | AccessTrouble]:
    """
    Values in the order of functions and registers, or why there are none.

    A value has all digits of its register: one with fewer was cut, one with more is another's.
    """
    call = call_of(output.command.split()[1:])
    values: list[str] = []
    verbose: list[RegisterRead] = []
    for line in output.lines():
        if trouble := _trouble(line, call.selector):
            yield trouble
        elif match := _VERBOSE.match(line):
            address = sysfs.bdf(match[1]) or match[1]
            # of a write, the value behind the arrows is what was asked for, not what is there
            if match[3] and len(call.reads) == 1 and len(match[3]) == 2 * call.sizes[0]:
                value, offset = (int(match[3], 16),), int(match[2], 16)
                read = RegisterRead(address, call.reads[0], value, offset, call.sizes[0])
                verbose.append(read)
        elif _VALUE.match(line):
            values.append(line)
    yield from verbose
    if call.selector:
        yield from (RegisterWrite(call.selector, register) for register in call.writes)
    looped = re.search(r"\bfor\b|\bwhile\b|\bxargs\b|;", output.line) is not None
    many = len(call.reads)
    if not many or not values or len(values) % many or (looped and len(values) != many):
        return
    if any(len(digits) != 2 * call.sizes[at % many] for at, digits in enumerate(values)):
        return
    for at, (register, size) in enumerate(zip(call.reads, call.sizes, strict=True)):
        numbers = tuple(int(digits, 16) for digits in values[at::many])
        yield RegisterRead(call.selector, register, numbers, size=size)


def read_loop(output: Output) -> Iterator[RegisterRead | AccessTrouble]:
    """
    A loop that names each function before it reads a register of it.

    The name and the value stand on one line or on two: ``16:00.0: 001d``.
    """
    call = call_of(output.line.partition("setpci")[2].split(";")[0].split("|")[0].split()[:8])
    if len(call.reads) != 1:
        return
    address = ""
    for line in output.lines():
        if trouble := _trouble(line, address):
            yield trouble
            continue
        rest = line
        if match := _LOOPED.match(line):
            address = match[1].lower()
            rest = line[match.end(1) :]
        if address and (value := _LAST.search(rest)):
            yield RegisterRead(address, call.reads[0], (int(value[1], 16),))
            address = ""


def _trouble(line: str, selector: str) -> AccessTrouble | None:
    if match := _NO_CAPABILITY.match(line):
        address = match[1] and sysfs.bdf(match[1])
        kind = "no-capability" if match[2] == "0010" else "no-extended"
        return AccessTrouble(address or selector, kind, line)
    if match := _CANNOT_OPEN.match(line):
        return AccessTrouble(sysfs.bdf(match[1]) or selector, "cannot-open", line)
    if _REFUSED.match(line):
        return AccessTrouble(selector, "refused", line)
    if _NONE.match(line):
        return AccessTrouble(selector, "none-selected", line)
    if _UNPARSABLE.match(line):
        return AccessTrouble(selector, "unparsable", line)
    return None


def read_script(output: Output) -> Iterator[RegisterWrite]:
    """Writes of setpci in a script that was shown."""
    shown = output.line.split()[1:]
    path = next((word for word in shown if not word.startswith("-")), "a script")
    for line in output.lines():
        if line.startswith("#"):
            continue
        for match in _SCRIPTED.finditer(line[:2000]):
            call = call_of(match[1].replace('"', "").split())
            for register in call.writes:
                yield RegisterWrite(call.selector, register, path)


def with_registers(functions: tuple[PciFunction, ...], facts: Facts) -> tuple[PciFunction, ...]:
    """
    Functions with what setpci read of them; a function that only setpci saw is one, too.

    A selector without a domain means any domain: it is taken for the one function that it fits.
    Where it fits several, only values that are all the same say something.
    """
    known = {function.bdf: function for function in functions}
    found = False
    for fact in facts.each(RegisterRead):
        fitting = matching(fact.selector, known)
        if not fitting and (address := sysfs.bdf(fact.selector)) and len(fact.values) == 1:
            fitting = (address,)
        if not fitting or len(set(fact.values)) > 1:
            continue
        for bdf in fitting:
            function = known.get(bdf) or PciFunction(bdf)
            known[bdf] = _with_value(function, fact, fact.values[0])
            found = True
    return tuple(known.values()) if found else functions


def matching(selector: str, functions: Mapping[str, PciFunction]) -> tuple[str, ...]:
    """BDFs that ``-s`` selects, in order; a plain address only, no wildcards."""
    address = sysfs.bdf(selector)
    if address is None:
        return ()
    if selector.count(":") == 2:
        return (address,) if address in functions else ()
    short = address.partition(":")[2]
    return tuple(sorted(bdf for bdf in functions if bdf.partition(":")[2] == short))


def _with_value(function: PciFunction, fact: RegisterRead, value: int) -> PciFunction:
    express = function.express or Express()
    control = function.access_control or AccessControl()
    name, plus, rest = fact.register.partition("+")
    place = int(rest, 16) if plus else int(name, 16) if _PLAIN.fullmatch(name) else -1
    if not plus and express.offset is not None and 0 <= place - express.offset < 0x3C:
        name, place = "CAP_EXP", place - express.offset
    elif not plus and control.offset is not None and 0 <= place - control.offset < 8:
        name, place = "ECAP_ACS", place - control.offset
    if name == "ECAP_ACS":
        low, _ = _bytes(value, place, fact.size, 6)
        if low is None:
            return function  # all that counts stands in the lower byte
        word = _word(value, place, fact.size, 6)
        start = control.offset if fact.offset is None else fact.offset - place
        return replace(function, access_control=AccessControl(start, low if word is None else word))
    if name != "CAP_EXP":
        return function
    low, high = _bytes(value, place, fact.size, 8)
    if low is not None or high is not None:
        known = _NO_SIZES if express.device_control is None else express.device_control
        low = known & 0xFF if low is None else low
        high = known >> 8 if high is None else high
        express = replace(express, device_control=high << 8 | low)
    if (status := _word(value, place, fact.size, 0x12)) is not None:
        link = merged(Express(link_status=status), express, lambda _: None)
        express = replace(link, link_status=status)
    return (
        function
        if express == (function.express or Express())
        else replace(function, express=express)
    )


_PLAIN = re.compile(r"[0-9a-f]{1,3}")
_NO_SIZES = 7 << 5 | 7 << 12  # reserved encodings: the byte was not read


def _bytes(value: int, place: int, size: int, wanted: int) -> tuple[int | None, int | None]:
    """The two bytes of the word at ``wanted``, as far as a read at ``place`` holds them."""
    low, high = (
        value >> 8 * (at - place) & 0xFF if 0 <= at - place < size else None
        for at in (wanted, wanted + 1)
    )
    return low, high


def _word(value: int, place: int, size: int, wanted: int) -> int | None:
    low, high = _bytes(value, place, size, wanted)
    return None if low is None or high is None else high << 8 | low


READERS = (
    reader(
        "setpci",
        read_setpci,
        command=r"setpci\b",
        shape=r"^setpci: |^pcilib: (?:Cannot open |sysfs_write)",
    ),
    reader(
        "for d in 33:00.0; do echo $d; setpci -s $d CAP_EXP+8.w; done",
        read_loop,
        command=r"(?:for|while)\s[^\n]{0,600}\b(?:echo|printf)\b[^\n]{0,300}\bsetpci\s",
        line=r"^(?:for|while|lspci)\b[^\n]{0,600}\b(?:echo|printf)\b[^\n]{0,300}\bsetpci\s",
    ),
    reader(
        "script with setpci",
        read_script,
        shape=r"^[^\n]{0,200}\|[^\n]{0,100}setpci -s|^ExecStart=[^\n]{0,60}setpci "
        r"|^[^#$\n]{0,80}\bsetpci (?:-\S+ ){1,4}\S+ \S+=",
    ),
)
