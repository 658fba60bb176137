"""Health of accelerators as their tools and drivers report it; what vendors differ in is data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from rackready.check import Cases, Command, View, case, check
from rackready.checks.kernel_log import reports
from rackready.facts.parts.host import Package, Service
from rackready.facts.parts.kernel_log import KernelEvent
from rackready.facts.parts.modules import DkmsModule, InitramfsFile, ModuleFile
from rackready.facts.parts.smi import (
    ContainerSdk,
    DeviceLink,
    DriverLoaded,
    FabricManagerMismatch,
    FabricNotReady,
    Health,
    ToolReport,
    Upgrade,
)
from rackready.finding import Verdict
from rackready.version import SdkVersion

_CLIENT = re.compile(r"API mismatch: the client has the version (\S+?),")
_MODULE = re.compile(r"this kernel module has the version (\d[\d.]*\d)")
_MANAGER = re.compile(r"fabric-?manager(?!-dev)")
_INITIALIZED = re.compile(r"\[(\w+)\] XPU Driver Initialization with version (\S+)")


@cache
def tools() -> Mapping[str, Mapping[str, Any]]:
    """What is known of each vendor's tool (accelerator_tools.yaml)."""
    text = files("rackready.checks").joinpath("accelerator_tools.yaml").read_text("utf-8")
    found: dict[str, Mapping[str, Any]] = yaml.safe_load(text)
    return found


def _tool(name: str | None) -> Mapping[str, Any]:
    """What is known of a tool; nothing of that of a vendor who is not in the list."""
    return tools().get(name or "", {})


def _running(view: View, module: str) -> str | None:
    """The version of a driver that the kernel runs."""
    loaded = view.node.facts.first(DriverLoaded, module=module)
    if loaded is not None:
        return loaded.version
    known = (view.node.modules or {}).get(module)
    if known is not None and known.version:
        return known.version
    log = view.node.kernel_log or ()
    for line in reversed(log):
        match = _INITIALIZED.search(line)
        if match and match[1] == module:
            return match[2]
        if module == "nvidia" and (match := _MODULE.search(line)):
            return match[1]
    return None


@check(
    "gpu.driver",
    ok=Verdict.OK,
    mismatch=Verdict.FAIL,
    other_driver=Verdict.FAIL,
    old_module=Verdict.FAIL,
    not_built=Verdict.FAIL,
    no_driver=Verdict.FAIL,
    no_access=Verdict.FAIL,
    lost=Verdict.FAIL,
    no_device=Verdict.ERROR,
    not_taken=Verdict.FAIL,
)
def driver(view: View) -> Cases:
    """One finding for a tool, and one for each card that another driver holds."""
    facts = view.node.facts
    for tool, known in tools().items():
        report = facts.first(ToolReport, tool=tool)
        module = known["module"]
        taken = [
            function
            for function in (view.node.pci or {}).values()
            if function.vendor == known["vendor"] and function.driver in known["others"]
        ]
        for function in taken:
            yield case("other-driver", function.bdf, observed=function.driver, module=module)
        running = _running(view, module)
        file = facts.first(ModuleFile, name=module)
        failure = report.failure if report else None
        library = _library(view, report)
        if failure and "mismatch" in failure:
            yield case(
                "mismatch",
                module,
                observed=running or "another version",
                library=library or "unknown",
                by=_who(view, library),
                unload=Command(known["unload"]),
            )
        elif running and file and file.version and not _same(running, file.version):
            initramfs = any(f"/{module}.ko" in f.path for f in facts.each(InitramfsFile))
            where = "an old module is in the initramfs" if initramfs else "it was not loaded anew"
            yield case("old-module", module, observed=running, expected=file.version, where=where)
        elif failure and not taken:
            kernel = view.node.system.kernel or "$(uname -r)"
            kind = _failed(view, failure, known)
            yield case(kind, module, tool=tool, kernel=kernel, observed=failure)
        elif report is not None and report.driver:
            yield case("ok", module, observed=report.driver)


def _failed(view: View, failure: str, known: Mapping[str, Any]) -> str:
    """The case of a tool that can't work; other outputs may tell the cause."""
    if "No devices" in failure:
        seen = any(item.vendor == known["vendor"] for item in (view.node.pci or {}).values())
        return "not-taken" if seen else "no-device"
    if "device handle" in failure:
        return "lost"
    if "Unknown Error" in failure:
        return "no-access"
    built = [item for item in view.node.facts.each(DkmsModule) if item.name == known["module"]]
    kernel = view.node.system.kernel
    usable = any(i.state == "installed" and kernel in (None, i.kernel) for i in built)
    return "not-built" if built and not usable else "no-driver"


def _library(view: View, report: ToolReport | None) -> str | None:
    for line in view.node.kernel_log or ():
        if match := _CLIENT.search(line):
            return match[1]
    return report.library if report else None


def _who(view: View, library: str | None) -> str:
    for upgrade in view.node.facts.each(Upgrade):
        if library and upgrade.after.startswith(library):
            return f"{upgrade.by.rpartition('/')[2] or 'a package manager'} upgraded the libraries"
    return "the libraries were upgraded, and the module was not loaded anew"


def _same(running: str, installed: str) -> bool:
    """``1.6.3-8ee7e7`` is ``1.6.3``; where one is the other's beginning, it may be cut."""
    one, other = running.partition("-")[0], installed.partition("-")[0]
    return one.startswith(other) or other.startswith(one)


@check("gpu.sdk", ok=Verdict.OK, too_old=Verdict.FAIL, old_driver=Verdict.FAIL)
def sdk(view: View) -> Cases:
    """An image's SDK and the kernel driver below it; versions without a rule are not judged."""
    image = view.node.facts.first(ContainerSdk)
    for tool, known in tools().items():
        report = view.node.facts.first(ToolReport, tool=tool)
        version = image.version if image else report.sdk if report else None
        if report is None or report.driver is None or version is None:
            continue
        for line, oldest in known.get("drivers", {}).items():
            own, first = (SdkVersion.parse(v.partition("-")[0]) for v in (report.driver, oldest))
            if version.startswith(f"{line}.") and own and first and own < first:
                yield case(
                    "old-driver", "driver", observed=report.driver, expected=oldest, sdk=version
                )
        for line, oldest in known.get("sdks", {}).items():
            if report.driver.startswith(f"{line}."):
                own, first = (SdkVersion.parse(v.partition("-")[0]) for v in (version, oldest))
                if own is None or first is None:
                    continue
                right = own >= first
                yield case(
                    "ok" if right else "too-old",
                    "SDK",
                    observed=version,
                    expected=oldest,
                    driver=report.driver,
                )


@check(
    "gpu.errors",
    ok=Verdict.OK,
    uncorrected=Verdict.FAIL,
    remap_pending=Verdict.FAIL,
    remap_failed=Verdict.FAIL,
    recovery=Verdict.FAIL,
    worn_sram=Verdict.FAIL,
    hot=Verdict.WARN,
)
def errors(view: View) -> Cases:
    for item in view.node.facts.each(Health):
        reset = _reset(view, item.tool, item.bdf)
        if item.remap_failed:
            yield case("remap-failed", item.bdf)
        elif item.remap_pending:
            yield case("remap-pending", item.bdf, observed=item.remapped or 0, reset=reset)
        elif item.uncorrected:
            yield case("uncorrected", item.bdf, observed=item.uncorrected, reset=reset)
        elif item.uncorrected is not None or item.remapped == 0:
            yield case("ok", item.bdf, observed=item.corrected or 0)
        if item.worn_sram:
            yield case("worn-sram", item.bdf)
        if item.recovery not in (None, "None", "N/A", "[N/A]"):
            yield case("recovery", item.bdf, observed=item.recovery)
        hot, limit = item.temperature_c, item.slowdown_c
        if hot is not None and limit is not None and hot >= limit:
            yield case("hot", item.bdf, observed=hot, expected=limit)


def _reset(view: View, tool: str, bdf: str) -> str:
    command = _tool(tool).get("reset", f"reset the card with {tool}")
    return str(command).replace("INDEX", _index(view, bdf))


def _index(view: View, bdf: str) -> str:
    for item in view.node.stack.accelerators or ():
        if item.bdf == bdf and item.index is not None:
            return str(item.index)
    return bdf


@check(
    "gpu.xid",
    reset=Verdict.FAIL,
    reboot=Verdict.FAIL,
    cold_reboot=Verdict.FAIL,
    isolate=Verdict.FAIL,
    watch=Verdict.WARN,
    unknown=Verdict.WARN,
    told=Verdict.SKIP,
    past=Verdict.SKIP,
    switch_reset=Verdict.FAIL,
    switch_watch=Verdict.WARN,
)
def xid(view: View) -> Cases:
    """
    What the tool lists, and what the kernel log holds; each number of a card once.

    Of a number its last line counts: 154 tells what is to be done by now.
    """
    for item in view.node.facts.each(Health):
        for repair, number in item.xids.items():
            reset = _reset(view, item.tool, item.bdf)
            yield case(repair, item.bdf, observed=number, reset=reset, told="")
    known = _tool("nvidia-smi")
    for _, event, _ in reports(view):
        if event.family not in ("xid", "sxid"):
            continue
        action = _repair(event, known["xids"])
        bdf = event.bdf or "unknown device"
        text = _PROCESS.sub("", event.text).strip().rstrip(".")
        values = {"observed": event.code, "text": text, "told": f" ({text})" if text else ""}
        if event.over:
            yield case("past", bdf, **values)
        elif event.family == "sxid":
            yield case(f"switch-{action}", bdf, **values)
        else:
            yield case(action, bdf, reset=_reset(view, "nvidia-smi", bdf), **values)


# what stands before an Xid's own words: "pid=31877, name=python3, "
_PROCESS = re.compile(r"\bpid='?[^,']{1,64}'?,? ?|\bname='?[^,']{1,128}'?,? ?")
_ACTIONS = (("Node Reboot Required", "reboot"), ("Reset", "reset"), ("(None)", "told"))


def _repair(event: KernelEvent, table: Mapping[str, list[int]]) -> str:
    """What a number asks for; the text of 154 says it itself, and that of a switch how grave."""
    if event.family == "sxid":
        return "reset" if event.grave else "watch"
    if event.code == "154":
        told = event.text.rpartition(" to ")[2]
        return next((action for words, action in _ACTIONS if words in told), "watch")
    return next((a for a, codes in table.items() if int(event.code) in codes), "unknown")


@check(
    "gpu.links",
    ok=Verdict.OK,
    inactive=Verdict.FAIL,
    none_active=Verdict.WARN,
    bridged=Verdict.WARN,
    narrow=Verdict.WARN,
    errors=Verdict.WARN,
)
def links(view: View) -> Cases:
    """
    Links between accelerators.

    A link that was down once and came up twice is as after each boot (T-Head PPU-SMI guide).
    """
    most = max((sum(bool(i.active) for i in found) for _, found in _by_device(view)), default=0)
    for device, found in _by_device(view):
        known = [item for item in found if item.active is not None]
        tool = _tool(next((item.tool for item in found if item.tool), None))
        reset = tool.get("reset_links", "reset the card with the vendor's tool")
        up = sum(bool(item.active) for item in known)
        if known and not up:
            yield case("none-active", device, observed=len(known))
            continue
        bad = [item for item in known if not item.active]
        if bad and up == most and _is_bridged(found, tool):
            yield case("bridged", device, observed=up, expected=len(known))
            continue
        for item in bad:
            yield case(
                "inactive",
                f"{device} link {item.link}",
                device=device,
                link=item.link,
                history=_history(item),
                reset=reset,
            )
        widest = max((item.width or 0 for item in found), default=0)
        for item in found:
            if item.width and item.width < widest:
                subject = f"{device} link {item.link}"
                yield case("narrow", subject, observed=item.width, expected=widest, reset=reset)
            if item not in bad and ((item.downs or 0) > 1 or item.uncorrectable):
                subject = f"{device} link {item.link}"
                yield case("errors", subject, history=_history(item), reset=reset)
        if known and not bad and not any(item.partial for item in found):
            yield case("ok", device, observed=len(known))


def _is_bridged(found: Iterable[DeviceLink], tool: Mapping[str, Any]) -> bool:
    """A card for a slot: its links lead into bridges, of which it need not have all."""
    words = tool.get("bridged", ())
    return any(word in (item.model or "").lower() for item in found for word in words)


def _by_device(view: View) -> Iterator[tuple[str, list[DeviceLink]]]:
    devices: dict[str, list[DeviceLink]] = {}
    for item in view.node.facts.each(DeviceLink):
        devices.setdefault(item.device, []).append(item)
    yield from devices.items()


def _history(item: DeviceLink) -> str:
    told = []
    if item.downs is not None:
        told.append(f"{item.downs} times down")
    if item.uncorrectable:
        told.append(f"{item.uncorrectable} uncorrectable errors")
    return f" ({', '.join(told)})" if told else ""


@check(
    "gpu.fabric",
    ok=Verdict.OK,
    in_progress=Verdict.WARN,
    wrong=Verdict.FAIL,
    not_shown=Verdict.SKIP,
    manager_mismatch=Verdict.FAIL,
    manager_down=Verdict.FAIL,
    not_ready=Verdict.FAIL,
)
def fabric(view: View) -> Cases:
    """Registration with the fabric of switches; devices that have none say N/A."""
    mismatch = next(_mismatches(view), None)
    if mismatch:
        manager, driver = mismatch
        yield case("manager-mismatch", "fabric manager", observed=manager, expected=driver)
    services = [s for s in view.node.facts.each(Service) if _MANAGER.search(s.name) and s.active]
    down = next((item for item in services if item.active in ("inactive", "failed")), None)
    told = mismatch is not None
    refused = view.node.facts.first(FabricNotReady)
    if refused and not told:
        told = True
        if down:
            yield case("manager-down", down.name, observed=down.active, state="not ready")
        else:
            yield case("not-ready", "fabric", observed=refused.said)
    for item in view.node.facts.each(Health):
        state = item.fabric_state
        if state in (None, "N/A", "Not Supported"):
            continue
        status = item.fabric_status
        if state == "Completed" and status in ("Success", "N/A"):
            yield case("ok", item.bdf, observed=state)
        elif state not in _STATES or (state == "Completed" and _is_cut(status)):
            yield case("not-shown", item.bdf, observed=state)
        elif down and state in ("In Progress", "Not Started"):
            if not told:
                told = True
                yield case("manager-down", down.name, observed=down.active, state=state)
        elif state == "In Progress":
            yield case("in-progress", item.bdf, observed=state)
        else:
            yield case("wrong", item.bdf, observed=f"{state}, {status or 'N/A'}")


_STATES = ("Completed", "In Progress", "Not Started")


def _is_cut(status: str | None) -> bool:
    """A status that was left out, or of which so little is left that it may be a good one."""
    return not status or any(good.startswith(status) for good in ("Success", "N/A"))


def _mismatches(view: View) -> Iterator[tuple[str, str]]:
    """Versions of fabric manager and driver that differ: by its own log, and by packages."""
    for item in view.node.facts.each(FabricManagerMismatch):
        yield item.manager, item.driver
    report = view.node.facts.first(ToolReport, tool="nvidia-smi")
    driver = _running(view, "nvidia") or (report.driver if report else None)
    if driver is None:
        file = view.node.facts.first(ModuleFile, name="nvidia")
        driver = file.version if file else None
    packages = [
        re.split(r"[-+~]", item.version.rpartition(":")[2])[0]
        for item in view.node.facts.each(Package)
        if item.installed and item.version and _MANAGER.search(item.name)
    ]
    if driver and packages and driver not in packages:
        yield packages[0], driver
