"""Accelerators: how many, in which state, driven by what."""

from __future__ import annotations

from rackready.check import Case, Cases, Command, View, case, check, harmless
from rackready.facts.model import Accelerator
from rackready.facts.parts.devices import Folder
from rackready.facts.parts.host import Environment
from rackready.facts.parts.modules import ModuleFile
from rackready.facts.parts.smi import ContainerSdk
from rackready.finding import Verdict


@check(
    "accelerator.count",
    ok=Verdict.OK,
    in_tool=Verdict.OK,
    none=Verdict.FAIL,
    none_in_tool=Verdict.FAIL,
    mismatch=Verdict.FAIL,
    wrong=Verdict.FAIL,
    unusual=Verdict.WARN,
    given=Verdict.SKIP,
    unseen_by_tool=Verdict.ERROR,
    unseen_on_bus=Verdict.ERROR,
)
def count(view: View) -> Cases:
    node, subject = view.node, "accelerators"
    there = len(view.wiring.accelerators)
    # a tool does not see what is given to a guest
    on_bus = there - len(_given(view))
    listed = node.stack.accelerators
    # The tool's own count holds even where its table could only be read in part.
    tool = node.stack.attached
    if tool is None and listed is not None:
        tool = len(listed)
    if not node.probed:
        yield from _pasted(view, node.stack.attached, on_bus)
        return
    if node.pci is None:
        yield case("unseen-on-bus", subject)
        return
    if there == 0:
        yield case("none", subject)
        return
    if on_bus == 0:
        yield case("given", subject, observed=there)
        return
    wish = view.wishes.accelerators
    if tool is None:
        yield case("unseen-by-tool", subject, observed=on_bus)
    elif tool != on_bus:
        yield _mismatch(view, tool, on_bus)
    elif wish is not None and there != wish.value:
        yield case(
            "wrong" if wish.site else "unusual",
            subject,
            observed=there,
            expected=wish.value,
            wished_by=wish.origin,
        )
    else:
        yield case("ok", subject, observed=there)


def _given(view: View) -> set[str]:
    """Accelerators that a guest has."""
    functions = view.node.pci or {}
    return {bdf for bdf in view.wiring.accelerators if functions[bdf].driver == "vfio-pci"}


_PART = ("NVIDIA_VISIBLE_DEVICES", "KUBERNETES_SERVICE_HOST", "SLURM_JOB_ID")


def _is_part(view: View) -> bool:
    """In a container or a job, which has its share of the accelerators, and sees the whole bus."""
    sets = view.node.facts.each(Environment)
    named = any(item.values.get(name, "all") != "all" for item in sets for name in _PART)
    return named or view.node.facts.first(ContainerSdk) is not None


def _pasted(view: View, tool: int | None, on_bus: int) -> Cases:
    """A paste may show a part of the bus: a tool that sees more is right, one with less is not."""
    wish = view.wishes.accelerators
    subject = "accelerators"
    if tool is None:
        return
    if tool == 0:
        yield case("none-in-tool", subject, observed=tool)
    elif tool < on_bus:
        if not _is_part(view):
            yield _mismatch(view, tool, on_bus)
    elif wish is not None and wish.site and tool != wish.value:
        yield case("wrong", subject, observed=tool, expected=wish.value, wished_by=wish.origin)
    elif tool == on_bus or (wish is not None and wish.site):
        yield case("ok" if tool == on_bus else "in-tool", subject, observed=tool)


def _mismatch(view: View, tool: int, on_bus: int) -> Case:
    bus = set(view.wiring.accelerators) - _given(view)
    tools = {item.bdf for item in view.node.stack.accelerators or () if item.bdf}
    return case(
        "mismatch",
        "accelerators",
        observed=tool,
        expected=on_bus,
        bus_only=", ".join(sorted(bus - tools)) or "none",
        tool_only=", ".join(sorted(tools - bus)) or "none",
    )


@check(
    "accelerator.state",
    ok=Verdict.OK,
    unavailable=Verdict.FAIL,
    known_reason=Verdict.FAIL,
    not_shown=Verdict.SKIP,
)
def state(view: View) -> Cases:
    """Where the tool names a reason, the profile knows what helps."""
    known = {item.reason.lower(): item for item in (view.profile.states if view.profile else ())}
    for item in view.node.stack.accelerators or ():
        subject = item.bdf or f"GPU {item.index}"
        if item.state is None:
            yield case("not-shown", subject, index=item.index)
        elif item.state == "Available":
            yield case("ok", subject, index=item.index)
        elif item.reason and (help_ := known.get(item.reason.lower())):
            values = {"index": item.index, "image": harmless(_image(view, item))}
            yield case(
                "known-reason",
                subject,
                index=item.index,
                observed=f"{item.state} ({item.reason})",
                reason=help_.cause.format_map(values),
                help=Command(help_.fix.format_map(values)),
                driver=_driver(view) or "of unknown version",
            )
        else:
            observed = f"{item.state} ({item.reason})" if item.reason else item.state
            yield case("unavailable", subject, index=item.index, observed=observed)


def _image(view: View, accelerator: Accelerator) -> str:
    """The firmware of a device among those that the driver package brought, where one fits."""
    paths = view.profile.paths.get("firmware") if view.profile else None
    usual = paths.value[0] if paths else "."
    board = (accelerator.model or "").rpartition(" ")[2]
    fitting = [
        f"{folder.path}/{name}"
        for folder in view.node.facts.each(Folder)
        for name in folder.names
        if folder.path.startswith(usual) and name.endswith(f"-{board}.bin")
    ]
    return fitting[0] if len(fitting) == 1 else f"{usual}/IMAGE-{board}.bin"


def _driver(view: View) -> str | None:
    """Version of the kernel driver: of the one that runs, else of the file that is installed."""
    if view.node.stack.driver_version:
        return view.node.stack.driver_version
    for name in view.profile.probe.modules[:1] if view.profile else ():
        loaded = (view.node.modules or {}).get(name)
        file = view.node.facts.first(ModuleFile, name=name)
        return (loaded and loaded.version) or (file and file.version) or None
    return None


@check(
    "accelerator.versions",
    ok=Verdict.OK,
    driver_unknown=Verdict.ERROR,
    sdk_unknown=Verdict.WARN,
)
def versions(view: View) -> Cases:
    stack = view.node.stack
    if view.wiring.accelerators and stack.driver_version is None and view.node.probed:
        yield case("driver-unknown", "driver")
    elif not view.node.probed or view.profile is None or "sdk" not in view.profile.paths:
        return  # nobody looked for an SDK, or the product has none in a known place
    elif stack.driver_version is not None and stack.sdk_version is None:
        yield case("sdk-unknown", "SDK", driver=stack.driver_version)
    elif stack.driver_version is not None:
        yield case(
            "ok",
            "driver and SDK",
            driver=stack.driver_version,
            sdk_version=stack.sdk_version,
            firmware=stack.firmware_version or "unknown",
            tool_version=stack.tool_version or "unknown",
        )


@check("accelerator.product", ok=Verdict.OK, generic=Verdict.WARN, mixed=Verdict.WARN)
def product(view: View) -> Cases:
    models = sorted({item.model for item in view.node.stack.accelerators or () if item.model})
    if len(models) > 1:
        yield case("mixed", "accelerators", observed=", ".join(models))
    if view.profile is not None and view.wiring.accelerators and view.node.probed:
        name = "generic" if view.profile.generic else "ok"
        yield case(
            name,
            "accelerators",
            profile=view.profile.name,
            observed=", ".join(models) or "no model name",
        )
