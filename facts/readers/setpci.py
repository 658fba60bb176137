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

_VALUE = re.compile(r"[0-9a-f]{2}(?:[0-9a-f]{2}){0,3}$")
_VERBOSE = re.compile(
    r"(\S{7,16}) (?:\((?:e?cap) [0-9a-f]{2,4} @[0-9a-f]{2,3}\) )?@([0-9a-f]{2,3}) "
    r"(?:= ([0-9a-f]{2,8})$|[0-9a-f]{2,8}->)"
)
_REGISTER = re.compile(
    r"(?:0x)?([A-Za-z0-9_]{1,20})(?:@\d{1,2})?(?:\+(?:0x)?([0-9a-fA-F]{1,3}))?"
    r"(?:\.([bwlBWL]))?(=\S*)?$"
)
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
_UNPARSABLE = re.compile(r"setpci: Unable to parse filter|setpci: Invalid (?:bus|slot|function)")
_SCRIPTED = re.compile(r"\bsetpci\s+([^|;&\n]{1,200})")


@dataclass(frozen=True)
class Call:
    """What one setpci was told: which functions, which registers."""

    selector: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


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


def call_of(words: Iterable[str]) -> Call:
    """Words behind ``setpci``."""
    selector, reads, writes = "", list[str](), list[str]()
    rest = iter(words)
    for word in rest:
        if word in ("-s", "-d"):
            selector = next(rest, "")
        elif word.startswith(("-s", "-d")) and len(word) > 4:
            selector = word[2:]
        elif not word.startswith("-") and (register := register_of(word)):
            (writes if "=" in word else reads).append(register)
    return Call(selector, tuple(reads), tuple(writes))


def read_setpci(output: Output) -> Iterator[RegisterRead | RegisterWrite | AccessTrouble]:
    """Values in the order of functions and registers, or why there are none."""
    call = call_of(output.command.split()[1:])
    values: list[int] = []
    verbose: list[RegisterRead] = []
    for line in output.lines():
        if trouble := _trouble(line, call.selector):
            yield trouble
        elif match := _VERBOSE.match(line):
            address = sysfs.bdf(match[1]) or match[1]
            # of a write, the value behind the arrows is what was asked for, not what is there
            if match[3] and len(call.reads) == 1:
                offset = int(match[2], 16)
                verbose.append(RegisterRead(address, call.reads[0], (int(match[3], 16),), offset))
        elif _VALUE.match(line):
            values.append(int(line, 16))
    yield from verbose
    if call.selector:
        yield from (RegisterWrite(call.selector, register) for register in call.writes)
    looped = re.search(r"\bfor\b|\bwhile\b|\bxargs\b|;", output.line) is not None
    many = len(call.reads)
    if not many or not values or len(values) % many or (looped and len(values) != many):
        return
    for at, register in enumerate(call.reads):
        yield RegisterRead(call.selector, register, tuple(values[at::many]))


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
            known[bdf] = _with_value(function, fact.register, fact.values[0], fact.offset)
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


def _with_value(
    function: PciFunction, register: str, value: int, offset: int | None
) -> PciFunction:
    express = function.express or Express()
    control = function.access_control or AccessControl()
    at = None if express.offset is None else f"{express.offset + 8:x}"
    own = None if control.offset is None else f"{control.offset + 6:x}"
    if register in ("CAP_EXP+8", at):
        express = replace(express, device_control=value & 0xFFFF)
    elif register == "CAP_EXP+12":
        status = merged(Express(link_status=value & 0xFFFF), express, lambda _: None)
        express = replace(status, link_status=value & 0xFFFF)
    elif register in ("ECAP_ACS+6", own):
        start = control.offset if offset is None else offset - 6
        return replace(function, access_control=AccessControl(start, value & 0xFFFF))
    else:
        return function
    return replace(function, express=express)


READERS = (
    reader(
        "setpci",
        read_setpci,
        command=r"setpci\b",
        shape=r"^setpci: |^pcilib: (?:Cannot open |sysfs_write)",
    ),
    reader(
        "script with setpci",
        read_script,
        shape=r"^[^\n]{0,200}\|[^\n]{0,100}setpci -s|^ExecStart=[^\n]{0,60}setpci "
        r"|^[^#$\n]{0,80}\bsetpci (?:-\S+ ){1,4}\S+ \S+=",
    ),
)
