"""Containers: inspect of docker and podman, their command lines, pods."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rackready.facts.parts.containers import Container
from rackready.facts.readers.reader import Output, reader

_SIZE = re.compile(r"(\d{1,12})(?:\.\d+)? ?([kmgt]?)i?b?$", re.IGNORECASE)
_SCALE = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_RUN = re.compile(r"^[ \t]*(?:sudo\s+)?((?:[\w-]*docker|podman|nerdctl)\s+(?:run|create)\b)", re.M)
_SCALAR = re.compile(
    r'"?(Privileged|NetworkMode|IpcMode|ShmSize)"?: ?"?(true|false|[\w:.-]{1,80})"?,?$'
)
_HOST_FIELDS = frozenset(("ShmSize", "NetworkMode", "CapAdd", "Privileged", "IpcMode", "Devices"))


def size_of(text: str) -> int | None:
    """Bytes of ``64m``, ``16gb``, ``67108864``."""
    match = _SIZE.match(text.strip())
    return int(match[1]) * _SCALE[match[2].lower()] if match else None


def read_inspect(output: Output) -> Iterator[Container]:
    """``docker inspect``: the whole, one part of it by ``--format``, or lines of it by grep."""
    name = next(reversed(output.arguments()), "inspect")
    try:
        data = json.loads(output.text)
    except ValueError:
        data = None
    if isinstance(data, list) and data and all(isinstance(item, dict) for item in data):
        found = [item for item in data if isinstance(item.get("HostConfig"), dict)]
        for item in found:
            own = str(item.get("Name") or str(item.get("Id") or name)[:12]).lstrip("/")
            yield _inspected(own, item["HostConfig"], item)
        if found or "PathOnHost" not in data[0]:
            return
    if isinstance(data, dict):
        host = data.get("HostConfig", data)
        if isinstance(host, dict) and _HOST_FIELDS & host.keys():
            own = str(data.get("Name") or name).lstrip("/")
            yield _inspected(own, host, data)
        return
    one = re.search(r"\.HostConfig\.(\w{2,40})\s*\}\}", output.command)
    if one:
        value = data if data is not None else output.text.strip()
        yield _inspected(name, {one[1]: value}, {})
        return
    fields: dict[str, Any] = {}
    for line in output.lines():
        if match := _SCALAR.match(line):
            fields[match[1]] = match[2] == "true" if match[1] == "Privileged" else match[2]
    if fields:
        yield _inspected(name, fields, {})
    elif output.text.strip().startswith(("[", "{")):
        output.note("this inspect is cut")


def _inspected(name: str, host: Mapping[str, Any], whole: Mapping[str, Any]) -> Container:
    def items(key: str) -> list[Any]:
        value = host.get(key)
        return value if isinstance(value, list) else []

    limits = [item for item in items("Ulimits") if isinstance(item, dict)]
    memlock = next(
        (item.get("Soft") for item in limits if "memlock" in str(item.get("Name")).lower()), None
    )
    mounts = whole.get("Mounts")
    network, shm = host.get("NetworkMode"), host.get("ShmSize")
    privileged = host.get("Privileged")
    return Container(
        name=name,
        kind="inspect",
        privileged=privileged if isinstance(privileged, bool) else None,
        network={"default": "bridge", "": None}.get(str(network), str(network))
        if network is not None
        else None,
        ipc=str(host["IpcMode"]) if host.get("IpcMode") else None,
        shm=size_of(str(shm)) if shm else None,
        memlock=memlock if isinstance(memlock, int) else None,
        devices=tuple(
            str(item.get("PathOnHost")) for item in items("Devices") if isinstance(item, dict)
        ),
        rules=tuple(map(str, items("DeviceCgroupRules"))),
        mounts=tuple(
            str(item.get("Destination"))
            for item in (mounts if isinstance(mounts, list) else [])
            if isinstance(item, dict)
        )
        + tuple(str(item).split(":")[1] for item in items("Binds") if str(item).count(":") >= 1),
        capabilities=tuple(str(item).upper().removeprefix("CAP_") for item in items("CapAdd")),
        requests=tuple("gpu" for _ in items("DeviceRequests")),
    )


def read_run(output: Output) -> Iterator[Container]:
    """``docker run`` with its options, over several lines where a backslash joins them."""
    text = output.text
    line = output.line or output.command
    if _RUN.search(line):
        text = f"{line}\n{text}"
    for match in list(_RUN.finditer(text))[:64]:
        rest = text[match.start(1) : match.start(1) + 16_384]
        joined = re.match(r"(?:[^\n]*\\\s*\n){0,200}[^\n]*", rest)
        command = re.sub(r"\\\s*\n", " ", joined[0] if joined else "")
        try:
            words = shlex.split(command, comments=False)
        except ValueError:
            words = command.split()
        yield _started(words[2:])


_FLAGS = frozenset(
    (
        "--rm",
        "--privileged",
        "--init",
        "--detach",
        "--interactive",
        "--tty",
        "--read-only",
        "-i",
        "-t",
        "-d",
        "-it",
        "-itd",
        "-dit",
        "-ti",
        "-td",
        "-dt",
        "-di",
        "-id",
        "-idt",
        "-tid",
        "-tdi",
        "--no-healthcheck",
        "--oom-kill-disable",
        "--sig-proxy",
        "-P",
    )
)


def _started(words: Sequence[str]) -> Container:
    """The container that the words behind ``docker run`` describe."""
    values: dict[str, list[str]] = {}
    at = 0
    while at < len(words) and words[at].startswith("-"):
        option, equals, value = words[at].partition("=")
        if option in _FLAGS:
            values.setdefault(option, []).append(value or "true")
        elif equals:
            values.setdefault(option, []).append(value)
        else:
            at += 1
            values.setdefault(option, []).append(words[at] if at < len(words) else "")
        at += 1
    image = words[at] if at < len(words) else ""

    def each(*options: str) -> list[str]:
        return [value for option in options for value in values.get(option, ())]

    def last(*options: str) -> str | None:
        return next(reversed(each(*options)), None)

    limits = dict(item.partition("=")[::2] for item in each("--ulimit"))
    memlock = limits.get("memlock", "").partition(":")[0]
    devices = each("--device")
    shm = last("--shm-size")
    return Container(
        name=last("--name") or image or "run",
        kind="run",
        privileged=last("--privileged") == "true",
        network=last("--network", "--net") or "bridge",
        ipc=last("--ipc") or "private",
        shm=size_of(shm) if shm else 64 << 20,
        memlock=int(memlock) if re.fullmatch(r"-?\d{1,18}", memlock) else None,
        devices=tuple(item.partition(":")[0] for item in devices if item.startswith("/")),
        rules=tuple(each("--device-cgroup-rule")),
        mounts=tuple(item.split(":")[1] for item in each("-v", "--volume") if ":" in item)
        + tuple(
            match[1]
            for item in each("--mount")
            if (match := re.search(r"(?:target|dst|destination)=([^,]+)", item))
        ),
        capabilities=tuple(item.upper().removeprefix("CAP_") for item in each("--cap-add")),
        requests=tuple(item for item in devices if not item.startswith("/"))
        + tuple(each("--gpus")),
    )


_POD_NAME = re.compile(r"  name: ([\w.-]{1,100})$")
_POD_PATH = re.compile(r"\s*(?:- )?(mountPath|path): ['\"]?(/[\w./-]{1,200})")
_POD_SWITCH = re.compile(r"\s*(?:- )?(privileged|hostNetwork|hostIPC): (true|false)")
_POD_RESOURCE = re.compile(
    r"\s*['\"]?([a-z0-9.-]{1,100}/[\w.-]{1,100})['\"]?: ['\"]?\d{1,4}['\"]?$"
)
_POD_CAPABILITY = re.compile(r"[\s\[\"',-]((?:CAP_)?(?:IPC_LOCK|SYS_RESOURCE|SYS_ADMIN|ALL))\b")


def read_pod(output: Output) -> Iterator[Container]:
    """A pod or a piece of one, by its lines: pieces are rarely YAML as a whole."""
    name = ""
    mounts: list[str] = []
    capabilities: list[str] = []
    resources: list[str] = []
    switches: dict[str, bool] = {}
    metadata = False
    for line in output.text.splitlines()[:20_000]:
        if match := _POD_PATH.match(line):
            mounts.append(match[2].rstrip("/"))
        elif match := _POD_SWITCH.match(line):
            switches[match[1]] = match[2] == "true"
        elif match := _POD_RESOURCE.match(line):
            resources.append(match[1])
        elif metadata and not name and (match := _POD_NAME.match(line)):
            name = match[1]
        elif "IPC_LOCK" in line or "capabilities" in line or "- SYS_" in line or "- ALL" in line:
            capabilities += _POD_CAPABILITY.findall(line)
        metadata = line.startswith("metadata:") or (metadata and line.startswith(" "))
    host = switches.get("hostNetwork")
    yield Container(
        name=name or "pod",
        kind="pod",
        privileged=switches.get("privileged"),
        network="host" if host else None,
        ipc="host" if switches.get("hostIPC") else None,
        mounts=tuple(dict.fromkeys(mounts)),
        capabilities=tuple(item.removeprefix("CAP_") for item in capabilities),
        requests=tuple(dict.fromkeys(resources)),
    )


READERS = (
    reader(
        "docker inspect",
        read_inspect,
        command=r"(?:docker|podman|nerdctl)\s+(?:container\s+)?inspect\b",
        shape=r'^[ \t]*"HostConfig": \{',
    ),
    reader(
        "docker run",
        read_run,
        command=r"(?:[\w-]*docker|podman|nerdctl)\s+(?:run|create)\b",
        shape=r"^[ \t]*(?:sudo )?(?:[\w-]*docker|podman|nerdctl) +run ",
    ),
    reader(
        "kubectl get pod -o yaml",
        read_pod,
        command=r"kubectl\s+get\s+pods?\b[^\n]{0,200}?-o ?=?ya?ml",
        shape=r"^[ \t]*(?:- )?(?:volumeMounts|hostPath|hostNetwork|resources):(?: true)?[ \t]*$",
    ),
)
