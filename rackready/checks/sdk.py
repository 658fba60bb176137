"""The accelerators' SDK: which variables its version reads, which packages may be together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from rackready.check import Cases, Rack, View, case, rack_check
from rackready.facts.model import AcceleratorStack
from rackready.facts.parts.host import Environment
from rackready.facts.parts.python import PythonPackage
from rackready.facts.parts.store import Facts
from rackready.facts.readers.python import normal
from rackready.finding import Verdict
from rackready.profile import Exclusive, Profile, Rename
from rackready.version import Line, SdkVersion


def _sources(rack: Rack) -> Iterator[tuple[str, Facts, Profile, SdkVersion | None]]:
    """
    Facts with their host ("" = the job), the profile and the version of the SDK they are for.

    A job's own version file counts first; else the nodes', as long as they agree.
    """
    known = [(view, _version(view)) for view in rack.views if view.profile is not None]
    for view, version in known:
        if view.profile is not None:
            yield view.node.name, view.node.facts, view.profile, version
    profile = next((view.profile for view, _ in known if view.profile), None)
    versions = {version for _, version in known if version}
    own = _of(rack.job.first(AcceleratorStack))
    if profile is not None:
        yield "", rack.job, profile, own or (versions.pop() if len(versions) == 1 else None)


def _version(view: View) -> SdkVersion | None:
    return _of(view.node.stack)


def _of(stack: AcceleratorStack | None) -> SdkVersion | None:
    return SdkVersion.parse(stack.sdk_version or stack.sdk_shown) if stack else None


@rack_check(
    "sdk.environment",
    ok=Verdict.OK,
    old_name=Verdict.FAIL,
    new_name=Verdict.FAIL,
    left=Verdict.SKIP,
)
def environment(rack: Rack) -> Cases:
    """Variables whose names the SDK's version does not read; one finding for each change."""
    for host, facts, profile, version in _sources(rack):
        if version is None:
            continue
        values: dict[str, str] = {}
        for item in facts.each(Environment):
            values.update(item.values)
        concerned = False
        for rename in profile.renames:
            for case_ in _renamed(host, values, rename, profile, version):
                concerned = True
                yield case_
        if not concerned and any(
            name.startswith((rename.before, rename.after))
            for name, rename in product(values, profile.renames)
        ):
            yield case("ok", "environment", **_at(host), sdk_version=version)


def _renamed(
    host: str, values: Mapping[str, str], rename: Rename, profile: Profile, version: SdkVersion
) -> Cases:
    milestone = profile.milestones[rename.since]
    reached = milestone.reached(version)
    first = milestone.release if version.line is Line.RELEASE else milestone.master
    if reached is None:
        return
    wrong, right = (rename.before, rename.after) if reached else (rename.after, rename.before)
    ignored = [name for name in values if name.startswith(wrong)]
    better = {name: right + name.removeprefix(wrong) for name in ignored}
    lost = [name for name in ignored if better[name] not in values]
    told: dict[str, Any] = {
        "sdk_version": version,
        "since": first,
        "prefix": wrong,
        "right": right,
        "source": rename.source,
        **_at(host),
    }
    if lost:
        names = ", ".join(lost)
        exports = " ".join(f"{better[name]}={values[name]}" for name in lost)
        yield case(
            "old-name" if reached else "new-name",
            names,
            observed=names,
            expected=", ".join(better[name] for name in lost),
            exports=exports,
            **told,
        )
    elif ignored:
        yield case("left", ", ".join(ignored), **told)


@rack_check("sdk.variables", ok=Verdict.OK, wrong=Verdict.WARN)
def variables(rack: Rack) -> Cases:
    """Variables that have one right value, or one for each purpose, on a product."""
    for host, facts, profile, version in _sources(rack):
        right: dict[str, dict[str, str]] = {}
        for group in profile.environment.values():
            for item in group.values():
                if item.fixed and profile.applies(item, version):
                    for name, value in item.value.items():
                        right.setdefault(name, {})[value] = item.source
        for given in facts.each(Environment):
            for name in right.keys() & given.values.keys():
                value, fitting = given.values[name], right[name]
                yield case(
                    "ok" if value in fitting else "wrong",
                    name,
                    observed=value,
                    expected=" or ".join(fitting),
                    first=next(iter(fitting)),
                    product=profile.name,
                    source=", ".join(dict.fromkeys(fitting.values())),
                    **_at(host),
                )


@rack_check("sdk.packages", ok=Verdict.OK, exclusive=Verdict.FAIL)
def packages(rack: Rack) -> Cases:
    for host, facts, profile, _ in _sources(rack):
        here = {item.name: item for item in facts.each(PythonPackage)}
        for rule in profile.exclusive:
            found = [here[normal(name)] for name in rule.packages if normal(name) in here]
            if len(found) > 1:
                yield case(
                    "exclusive",
                    " and ".join(_written(rule, item) for item in found),
                    observed=", ".join(f"{_written(rule, i)} {i.version}" for i in found),
                    last=_written(rule, found[-1]),
                    first=_written(rule, found[0]),
                    source=rule.source,
                    **_at(host),
                )
            elif found:
                yield case("ok", _written(rule, found[0]), observed=found[0].version, **_at(host))


def _written(rule: Exclusive, package: PythonPackage) -> str:
    """The package's name as its vendor writes it."""
    return next(name for name in rule.packages if normal(name) == package.name)


def _at(host: str) -> dict[str, Any]:
    return {"host": host} if host else {}
