"""Kernel modules: are they loaded, at boot too, with the options that files name?"""

from __future__ import annotations

from rackready.check import Cases, Command, View, case, check, harmless
from rackready.checks.peer_module import given_addresses, is_client, is_loaded, refusals
from rackready.facts.model import Node
from rackready.facts.parts.modules import (
    BootFolder,
    BootModules,
    DriverParameters,
    InitramfsFile,
    ModprobeLine,
    ModuleChange,
    ModuleFile,
    OpenHandle,
    plain_name,
)
from rackready.finding import Verdict

# What modprobe says -> case; the errors that hold for every module.
_REFUSED = {
    "Key was rejected by service": "unsigned",
    "Required key not available": "unsigned",
    "Exec format error": "other-kernel",
    "Invalid module format": "other-kernel",
    "Operation not permitted": "not-permitted",
    "not found": "not-there",
}


@check(
    "module.load",
    unsigned=Verdict.FAIL,
    other_kernel=Verdict.FAIL,
    not_there=Verdict.FAIL,
    not_permitted=Verdict.ERROR,
    refused=Verdict.FAIL,
)
def load(view: View) -> Cases:
    """A module that was to be loaded and was not."""
    node = view.node
    told = {item.module for item in refusals(node)}
    changes = [item for item in node.facts.each(ModuleChange) if not item.unload]
    told |= {item.module for item in changes if not item.error}
    for item in changes:
        if item.module in told or is_loaded(node, item.module):
            continue
        told.add(item.module)
        kind = _REFUSED.get(item.error, "refused")
        kernel = harmless(node.system.kernel) or Command("$(uname -r)")
        yield case(kind, item.module, kernel=kernel, observed=item.error)


@check("module.reload", held=Verdict.ERROR, open=Verdict.ERROR, in_use=Verdict.ERROR)
def reload(view: View) -> Cases:
    """A module that was to be unloaded and is in use: by modules, or by open device nodes."""
    node = view.node
    changes = [item for item in node.facts.each(ModuleChange) if item.unload]
    gone = {item.module for item in changes if not item.error}
    handles = node.facts.each(OpenHandle)
    for module in dict.fromkeys(item.module for item in changes if item.error == "in use"):
        if module in gone or is_loaded(node, module) is False:
            continue
        known = (node.modules or {}).get(module)
        named = [h for item in changes if item.module == module for h in item.holders]
        holders = list(dict.fromkeys([*named, *(known.holders if known else ())]))
        if holders:
            names = ", ".join(holders)
            yield case("held", module, names=names, order=" ".join(holders), observed=names)
        programs = {item.pid: item.program for item in reversed(handles)}
        users = [f"{program} ({pid})" for pid, program in sorted(programs.items())]
        if users:
            nodes = ", ".join(dict.fromkeys(item.device for item in handles if item.device))
            order = " ".join([*holders, module])
            observed = ", ".join(users)
            yield case("open", module, nodes=nodes, order=order, observed=observed)
        elif not holders:
            count = known.references if known else None
            yield case("in-use", module, observed="in use" if count is None else f"{count} uses")


_ALL = "/etc/modules-load.d/*"


@check("module.boot", not_at_boot=Verdict.FAIL, not_loaded=Verdict.WARN, listed=Verdict.WARN)
def boot(view: View) -> Cases:
    """A module on disk that no device asks for, and that nothing else loads."""
    node = view.node
    refused = {item.module for item in refusals(node)}
    refused |= {item.module for item in node.facts.each(ModuleChange) if item.error}
    for file in node.facts.each(ModuleFile):
        # With an alias the device itself has it loaded; a failed load is told elsewhere.
        listed = _at_boot(node, file.name)
        # clients of peer memory have no device; told of one that is asked for and listed nowhere
        silent = file.aliases is None and is_client(file.name) and listed is False
        if not file.found or file.name in refused or not (file.aliases is False or silent):
            continue
        if is_loaded(node, file.name) is not False:
            continue
        if listed:
            yield case("listed", file.name, observed="not loaded")
        elif listed is False:
            yield case("not-at-boot", file.name, observed="not loaded")
        elif is_client(file.name):
            yield case("not-loaded", file.name, observed="not loaded")


def _at_boot(node: Node, module: str) -> bool | None:
    """Does a file of modules-load.d name it? None: nobody looked there."""
    folders = [
        folder
        for folder in node.facts.each(BootFolder)
        if folder.path.startswith("/etc") and folder.whole
    ]
    files = node.facts.each(BootModules)
    names = {name for file in files for name in file.names or ()}
    for folder in node.facts.each(BootFolder):
        names |= {plain_name(name.removesuffix(".conf")) for name in folder.files or ()}
    if module in names:
        return True
    looked = folders or any(file.path.startswith(_ALL) for file in files)
    return False if looked else None


@check("module.options", initramfs=Verdict.FAIL, not_in_effect=Verdict.WARN)
def options(view: View) -> Cases:
    """Options of modprobe.d that the loaded module does not have."""
    node = view.node
    addresses = {(item.module, item.parameter) for item in given_addresses(node)}
    wanted: dict[tuple[str, str], dict[str, str]] = {}
    for line in node.facts.each(ModprobeLine):
        for name, value in line.options.items():
            wanted.setdefault((line.module, name), {})[value] = line.path or "modprobe.d"
    for (module, name), values in wanted.items():
        now = _now(node, module, name)
        if now is None or (module, name) in addresses:
            continue
        if any(_same(value, now) for value in values):
            continue
        value, path = next(iter(values.items()))
        copies = [item.path for item in node.facts.each(InitramfsFile) if _holds(item.path, module)]
        yield case(
            "initramfs" if copies else "not-in-effect",
            f"{module} {name}",
            path=path,
            module=module,
            copy=next(iter(copies), ""),
            observed=now or '""',
            expected=value,
        )


def _now(node: Node, module: str, name: str) -> str | None:
    """The value that the loaded module has; None when nothing tells."""
    loaded = (node.modules or {}).get(module)
    if loaded and name in loaded.parameters:
        return loaded.parameters[name]
    driver = node.facts.first(DriverParameters, driver=module)
    for key, value in (driver.values if driver else {}).items():
        # drivers leave out the prefix of their own options: NVreg_EnableMSI is EnableMSI
        if name.endswith(f"_{key}"):
            return value
    return None


_BOOLEAN = {"Y": "1", "y": "1", "N": "0", "n": "0", "on": "1", "off": "0"}


def _same(one: str, other: str) -> bool:
    return _value(one) == _value(other)


def _value(text: str) -> object:
    plain = text.strip().strip("\"'").rstrip(";")
    plain = _BOOLEAN.get(plain, plain)
    try:
        return int(plain, 16 if plain.lower().startswith("0x") else 10) & 0xFFFF_FFFF_FFFF_FFFF
    except ValueError:
        return plain


def _holds(path: str, module: str) -> bool:
    name = path.rpartition("/")[2].partition(".ko")[0]
    return ".ko" in path and plain_name(name) == module
