"""Modules that register accelerators as peer memory: do they load, and do their symbols fit?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rackready.check import Case, Cases, Rack, View, case, check, rack_check
from rackready.facts.model import Node
from rackready.facts.parts.device_memory import GpuDirect
from rackready.facts.parts.host import Setting
from rackready.facts.parts.modules import (
    KernelSymbol,
    ModprobeLine,
    ModprobeSearch,
    ModuleChange,
    ModuleFile,
    ModuleList,
    ModuleState,
    Ofed,
    OfedSources,
    SymbolSearch,
    plain_name,
)
from rackready.facts.readers.sysfs import number
from rackready.finding import Verdict

REGISTER = "ib_register_peer_memory_client"
UNREGISTER = "ib_unregister_peer_memory_client"
_CLIENT = re.compile(r"(?!ib_)\w{0,64}peer_?mem\w*")  # ib_peer_mem is what clients register with
_NAMED = re.compile(r"\b(?!ib_)[a-z]{1,16}_peer_?mem\b")
_DISAGREES = re.compile(r"(\w{1,64}): disagrees about version of symbol (ib_\w{1,64})")
_UNKNOWN = re.compile(r"(\w{1,64}): Unknown symbol (ib_\w{1,64}) \(err (-?\d{1,3})\)")
_NOT_REGISTERED = re.compile(r"([\w-]{0,32}peer_?mem\w{0,32})\b.{0,160}error while registering")
_BOOT_OPTION = re.compile(r"(?<!\S)(\w{2,32})\.(\w{2,48})=(\S{1,40})")
_KERNEL_HALF = 0xFFFF_0000_0000_0000
_EINVAL = "Invalid argument"


def is_client(module: str) -> bool:
    """True for a module that tells the RDMA stack of an accelerator's memory."""
    return _CLIENT.fullmatch(module) is not None


def is_loaded(node: Node, module: str) -> bool | None:
    """None: nothing tells."""
    said = [listing.says(module) for listing in node.facts.each(ModuleList)]
    state = node.facts.first(ModuleState, name=module)
    said.append(state.present if state else None)
    if True in said or (node.probed and node.modules and module in node.modules):
        return True
    if node.probed and node.modules is not None:
        return False
    return False if False in said else None


@dataclass(frozen=True)
class Refusal:
    """Why a module did not load: ``kind`` is the name of the case that tells it."""

    kind: str
    module: str
    symbols: tuple[str, ...] = ()
    error: str = ""


def refusals(node: Node) -> Iterator[Refusal]:
    """Clients of peer memory that could not be loaded, with the nearest to the cause."""
    differ, absent, failed = _of_log(node)
    changes = [item for item in node.facts.each(ModuleChange) if not item.unload]
    well = {item.module for item in changes if not item.error}
    errors = {item.module: item.error for item in changes if item.error and is_client(item.module)}
    for module in dict.fromkeys([*differ, *absent, *failed, *errors]):
        if module in well or is_loaded(node, module):
            continue  # what was said before it loaded is past
        error = errors.get(module, "")
        if module in differ:
            yield Refusal("version-differs", module, tuple(differ[module]))
        elif module in absent:
            yield Refusal("symbol-absent", module, tuple(absent[module]))
        elif module in failed:
            yield Refusal("not-accepted", module)
        elif error == _EINVAL:
            yield Refusal("invalid", module, error=error)
        elif error.startswith("Unknown symbol"):
            yield Refusal("symbol-absent", module, (REGISTER,), error)


def _of_log(node: Node) -> tuple[dict[str, list[str]], dict[str, list[str]], set[str]]:
    """Module -> symbols whose version differs; module -> symbols nobody has; refused ones."""
    differ: dict[str, list[str]] = {}
    absent: dict[str, list[str]] = {}
    failed: set[str] = set()
    for line in node.kernel_log or ():
        if match := _DISAGREES.search(line):
            _note(differ, match[1], match[2])
        elif match := _UNKNOWN.search(line):
            # -22: the symbol is there, with another checksum
            _note(differ if match[3] == "-22" else absent, match[1], match[2])
        elif match := _NOT_REGISTERED.search(line):
            failed.add(plain_name(match[1]))
    return differ, absent, failed


def _note(found: dict[str, list[str]], module: str, symbol: str) -> None:
    if "peer_mem" in symbol or is_client(module):
        symbols = found.setdefault(module, [])
        if symbol not in symbols:
            symbols.append(symbol)


@check(
    "peer-memory.module",
    version_differs=Verdict.FAIL,
    other_sources=Verdict.FAIL,
    symbol_absent=Verdict.FAIL,
    invalid=Verdict.FAIL,
    not_accepted=Verdict.FAIL,
    other_kernel=Verdict.WARN,
)
def module_loads(view: View) -> Cases:
    node = view.node
    sources = node.facts.first(OfedSources)
    kernel = node.system.kernel or ""
    told = set()
    for item in refusals(node):
        told.add(item.module)
        symbols = " and ".join(item.symbols)
        kind = item.kind
        default = sources.default if sources else None
        if kind == "version-differs" and default and kernel and default != kernel:
            kind = "other-sources"
        yield case(
            kind,
            item.module,
            symbols=symbols,
            default=default or "",
            kernel=kernel,
            why=_without_symbols(node),
            observed=item.error or symbols,
        )
    for file in node.facts.each(ModuleFile):
        built = file.kernel
        if not is_client(file.name) or file.name in told or not built or not kernel:
            continue
        # A module of weak-updates was built for an older kernel that is compatible.
        path = file.path if file.path or ".el" not in built else "perhaps weak-updates"
        if built != kernel and "weak-updates" not in (path or ""):
            yield case("other-kernel", file.name, observed=built, expected=kernel)


def _without_symbols(node: Node) -> str:
    """What else shows that nothing exports the interface."""
    ofed = node.facts.first(Ofed)
    found = []
    if _is_absent(node, REGISTER):
        found.append(f"{REGISTER} is not in /proc/kallsyms")
    if ofed is not None and ofed.version == "":
        found.append("there is no ofed_info: OFED is not installed")
    return "; ".join(found) or "the kernel log names no symbol"


def _is_absent(node: Node, symbol: str) -> bool:
    if node.facts.first(KernelSymbol, name=symbol):
        return False
    searches = [item.search for item in node.facts.each(SymbolSearch) if item.search]
    return any(search.covers(f"{'0' * 16} T {symbol}") for search in searches)


def _text_symbols(node: Node) -> Mapping[str, list[KernelSymbol]]:
    """Code of the two symbols; their twins among the data have longer names or other kinds."""
    return {
        name: [
            symbol
            for symbol in node.facts.each(KernelSymbol)
            if symbol.name == name and symbol.kind in "Tt"
        ]
        for name in (REGISTER, UNREGISTER)
    }


@dataclass(frozen=True)
class Given:
    """An address that a driver was given, or is to be given at its next load."""

    module: str
    parameter: str
    symbol: str
    address: int
    path: str  # "" = the driver that runs has it

    @property
    def place(self) -> str:
        return self.path or f"/sys/module/{self.module}/parameters/{self.parameter}"


def given_addresses(node: Node) -> Iterator[Given]:
    """Parameters and options of modprobe.d that hold an address of the kernel."""
    for module in (node.modules or {}).values():
        yield from _addresses(module.name, module.parameters, "")
    for line in node.facts.each(ModprobeLine):
        yield from _addresses(line.module, line.options, line.path or "modprobe.d")
    for match in _BOOT_OPTION.finditer(node.system.cmdline or ""):
        yield from _addresses(match[1], {match[2]: match[3]}, "the kernel command line")


def _addresses(module: str, values: Mapping[str, str], path: str) -> Iterator[Given]:
    for name, value in values.items():
        if "reg" not in name or "addr" not in name:
            continue
        address = _address(value)
        # zero is what a driver has without the option, and what hidden addresses read as in files
        if address is not None and (address >= _KERNEL_HALF or (path and address == 0)):
            yield Given(module, name, UNREGISTER if "unreg" in name else REGISTER, address, path)


def _address(text: str) -> int | None:
    """sysfs prints it in decimal; files have it in hex."""
    decimal = number(text)
    return number(text, 16) if decimal is None else decimal


@check(
    "peer-memory.addresses",
    ok=Verdict.OK,
    stale=Verdict.FAIL,
    zero=Verdict.FAIL,
    kept=Verdict.WARN,
    hidden_from_all=Verdict.ERROR,
    hidden_from_user=Verdict.ERROR,
    hidden=Verdict.ERROR,
    several=Verdict.ERROR,
    two_modules=Verdict.ERROR,
)
def addresses(view: View) -> Cases:
    """Addresses of the two symbols hold for one boot and one load of the module that has them."""
    node = view.node
    symbols = _text_symbols(node)
    found = [symbol for each in symbols.values() for symbol in each]
    given = list(given_addresses(node))
    files = {(item.module, item.parameter, item.address) for item in given if item.path}
    if found and all(symbol.address == 0 for symbol in found):
        if not any(is_client(name) for name in node.modules or ()):
            yield _hidden(node)
        return
    wrong = False
    for item in given:
        if not item.path and (item.module, item.parameter, item.address) in files:
            continue  # it has it from that file
        if item.address == 0:
            wrong = True
            yield case("zero", item.parameter, place=item.place, module=item.module)
            continue
        now = [symbol.address for symbol in symbols[item.symbol] if symbol.address]
        if now and item.address not in now:
            wrong = True
            yield case(
                "stale",
                item.parameter,
                place=item.place,
                module=item.module,
                symbol=item.symbol,
                observed=f"0x{item.address:x}",
                expected=" or ".join(f"0x{address:x}" for address in now),
            )
        elif item.path:
            wrong = True
            yield case(
                "kept",
                item.parameter,
                place=item.place,
                module=item.module,
                symbol=item.symbol,
                observed=f"0x{item.address:x}",
            )
    hidden = any(item.search is None for item in node.facts.each(ModprobeSearch))
    if not wrong and found and not hidden and (answer := _found(symbols)):
        yield answer


def _hidden(node: Node) -> Case:
    setting = node.facts.first(Setting, name="kernel.kptr_restrict")
    value = setting.value if setting and setting.value.isdecimal() else None
    user = "the user is not known" if node.system.uid is None else f"uid is {node.system.uid}"
    kind = "hidden-from-all" if value == "2" else "hidden" if value is None else "hidden-from-user"
    return case(kind, "/proc/kallsyms", user=user, observed=value or "zeroes")


def _found(symbols: Mapping[str, list[KernelSymbol]]) -> Case | None:
    for name, each in symbols.items():
        if len(each) > 1:
            places = ", ".join(f"{item.module or 'the kernel'} 0x{item.address:x}" for item in each)
            return case("several", name, observed=places)
    modules = {item.module for each in symbols.values() for item in each}
    if len(modules) > 1:
        return case("two-modules", REGISTER, observed=" and ".join(sorted(modules)))
    if not all(symbols.values()):
        return None  # only one of the two was looked for
    return case("ok", "/proc/kallsyms", module=modules.pop() or "the kernel")


@rack_check(
    "peer-memory.use",
    ok=Verdict.OK,
    not_loaded=Verdict.FAIL,
    loaded=Verdict.WARN,
    disabled=Verdict.WARN,
)
def use(seen: Rack) -> Cases:
    """A library's own word: does it use the NICs on memory of accelerators?"""
    for _, facts in seen.sources():
        words = facts.each(GpuDirect)
        off = list(dict.fromkeys(item.device for item in words if not item.enabled))
        if not off:
            if words:
                yield case("ok", ", ".join(dict.fromkeys(item.device for item in words)))
            continue
        nodes = [view.node for view in seen.views]
        if any(True for node in nodes for _ in refusals(node)):
            continue  # the cause is told
        library = next(item.library for item in words if not item.enabled)
        names = ", ".join(off)
        loaded = _clients(nodes, True)
        missing = _clients(nodes, False)
        kind = "loaded" if loaded else "not-loaded" if missing else "disabled"
        module = next(iter(loaded or missing), "")
        yield case(kind, names, library=library, module=module, observed="disabled")


def _clients(nodes: list[Node], state: bool) -> list[str]:
    """Clients of peer memory of which a listing says that they are loaded, or that they are not."""
    if state:
        return [name for node in nodes for name in node.modules or () if is_client(name)]
    found = []
    for node in nodes:
        for listing in node.facts.each(ModuleList):
            sought = listing.search.patterns if listing.search else ()
            found += [name for text in sought for name in _NAMED.findall(text)]
        found += [item.name for item in node.facts.each(ModuleState) if is_client(item.name)]
        found = [name for name in found if is_loaded(node, name) is False]
    return found
