"""Accelerators: how many, in which state, driven by what."""

from __future__ import annotations

from rackready.check import Cases, View, case, check
from rackready.finding import Verdict


@check(
    "accelerator.count",
    ok=Verdict.OK,
    none=Verdict.FAIL,
    mismatch=Verdict.FAIL,
    wrong=Verdict.FAIL,
    unusual=Verdict.WARN,
    unseen_by_tool=Verdict.ERROR,
    unseen_on_bus=Verdict.ERROR,
)
def count(view: View) -> Cases:
    node, subject = view.node, "accelerators"
    on_bus = len(view.wiring.accelerators)
    listed = node.stack.accelerators
    # The tool's own count holds even where its table could only be read in part.
    tool = node.stack.attached
    if tool is None and listed is not None:
        tool = len(listed)
    if node.pci is None:
        yield case("unseen-on-bus", subject)
        return
    if on_bus == 0:
        yield case("none", subject)
        return
    wish = view.wishes.accelerators
    if tool is None:
        yield case("unseen-by-tool", subject, observed=on_bus)
    elif tool != on_bus:
        bus = set(view.wiring.accelerators)
        tools = {item.bdf for item in listed or () if item.bdf}
        yield case(
            "mismatch",
            subject,
            observed=tool,
            expected=on_bus,
            bus_only=", ".join(sorted(bus - tools)) or "none",
            tool_only=", ".join(sorted(tools - bus)) or "none",
        )
    elif wish is not None and on_bus != wish.value:
        yield case(
            "wrong" if wish.site else "unusual",
            subject,
            observed=on_bus,
            expected=wish.value,
            wished_by=wish.origin,
        )
    else:
        yield case("ok", subject, observed=on_bus)


@check("accelerator.state", ok=Verdict.OK, unavailable=Verdict.FAIL, not_shown=Verdict.SKIP)
def state(view: View) -> Cases:
    for item in view.node.stack.accelerators or ():
        subject = item.bdf or f"GPU {item.index}"
        if item.state is None:
            yield case("not-shown", subject, index=item.index)
        elif item.state == "Available":
            yield case("ok", subject, index=item.index)
        else:
            yield case("unavailable", subject, index=item.index, observed=item.state)


@check(
    "accelerator.versions",
    ok=Verdict.OK,
    driver_unknown=Verdict.ERROR,
    sdk_unknown=Verdict.WARN,
)
def versions(view: View) -> Cases:
    stack = view.node.stack
    if view.wiring.accelerators and stack.driver_version is None:
        yield case("driver-unknown", "driver")
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
    if view.profile is not None and view.wiring.accelerators:
        name = "generic" if view.profile.generic else "ok"
        yield case(
            name,
            "accelerators",
            profile=view.profile.name,
            observed=", ".join(models) or "no model name",
        )
