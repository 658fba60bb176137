"""Evidence to node: which reader takes the output of which command."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from rackready.facts.model import (
    Accelerator,
    AcceleratorStack,
    Evidence,
    Gap,
    KernelLog,
    ManagedFile,
    Module,
    NetDevice,
    Node,
    PciFunction,
    Process,
    RdmaDevice,
    Records,
    System,
)
from rackready.facts.parts.store import Conflict, Facts
from rackready.facts.readers import (
    managed,
    pci,
    probe_kernel,
    probe_net,
    probe_rdma,
    probe_system,
    setpci,
    sysfs,
)
from rackready.facts.readers.managed import JOURNAL, MANIFEST
from rackready.facts.readers.reader import Output, Reader, plain
from rackready.facts.readers.registry import by_command, by_line, by_shape

T = TypeVar("T")

ABSENT = "absent"
"""Why there is no output of a tool that a node does not have: no gap, other vendors have others."""

DISAGREEMENT = "outputs that disagree"
"""What the gaps are filed under that tell of two outputs which do not agree."""

RECORDS = (
    (MANIFEST, "/var/lib/rackready/manifest"),
    (JOURNAL, "/var/lib/rackready/journal.jsonl"),
    ("cat /run/rackready.lock", "/run/rackready.lock"),
)

_MISTAKEN = 1 << 20  # characters of an output up to which its shape is looked at, too

_DUMP = re.compile(r"od -Ax -tx1 -N \d+ /sys/bus/pci/devices/(\S+)/config")
_PCI_LISTING = "ls -l /sys/bus/pci/devices"
_PCI = "cd /sys/bus/pci/devices && "
_RDMA = "cd /sys/class/infiniband && "
_NET = "cd /sys/class/net && "
_COUNTERS = f"{_RDMA}grep -s '' */ports/*/counters/"


class Outputs:
    """
    What the commands that ran have printed; a command that was lost is not among them.

    One that failed and printed nothing has no answer either: it could not look. Where such a
    failure means that a thing is not there, ``ran`` is asked instead.
    """

    def __init__(self, evidence: Iterable[Evidence]):
        self.texts: dict[str, str] = {}
        self.statuses: dict[str, int] = {}
        self.last: dict[str, str] = {}  # of a command that ran twice
        for item in evidence:
            if item.status is not None:
                self.texts.setdefault(item.command, item.text)
                self.statuses.setdefault(item.command, item.status)
                self.last[item.command] = item.text

    def command(self, prefix: str) -> str | None:
        """The first command that starts so (its tail lists names that vary)."""
        return next((command for command in self.texts if command.startswith(prefix)), None)

    def ran(self, prefix: str) -> str | None:
        """What it printed, also when it failed."""
        command = self.command(prefix)
        return None if command is None else self.texts[command]

    def answer(self, prefix: str, nothing: int = 0) -> str | None:
        """What it printed; ``nothing`` is the exit status with which it says that there is none."""
        command = self.command(prefix)
        if command is None or (
            not self.texts[command] and self.statuses[command] not in (0, nothing)
        ):
            return None
        return self.texts[command]

    def answers(self) -> dict[str, str]:
        return {c: text for c, text in self.texts.items() if text or self.statuses[c] == 0}


class Notes:
    """Gaps, of which each source and all together are so many: garbage makes a short list too."""

    _TOLD = 4
    _MOST = 50

    def __init__(self, known: Iterable[Gap]):
        self._known = tuple(known)
        self._notes: dict[str, list[str]] = {}

    def on(self, what: str) -> sysfs.Note:
        return self._notes.setdefault(what, []).append

    def count(self, what: str) -> int:
        return len(self._notes.get(what, ()))

    def first(self, what: str) -> str:
        return next(iter(self._notes.get(what, ())), "")

    def gaps(self) -> tuple[Gap, ...]:
        found = [*self._known]
        for what, reasons in self._notes.items():
            found += [Gap(what, reason) for reason in reasons[: self._TOLD]]
            if (more := len(reasons) - self._TOLD) > 0:
                found.append(Gap(what, f"{more} more lines like these"))
        if (more := len(found) - self._MOST) > 0:
            found[self._MOST :] = [Gap("", f"{more:,} more parts could not be read or understood")]
        return tuple(found)


def read_facts(evidence: Iterable[Evidence], notes: Notes) -> Facts:
    """What the readers of single outputs find, merged."""
    facts = Facts()
    conflict = notes.on(DISAGREEMENT)
    for item in evidence:
        reader = (item.line == item.command and by_line(item.line)) or by_command(item.command)
        if reader is None or item.status is None:
            continue
        note, noted = notes.on(reader.name), notes.count(reader.name)
        output = Output(item.command, plain(item.text), note, item.filters, item.line, item.status)
        found = _add(facts, reader, output, conflict)
        if found or not item.line or not output.text.strip() or by_line(item.line):
            continue
        # What stands below a command line need not be its output.
        for other in by_shape(output.text) if len(output.text) < _MISTAKEN else ():
            if other is reader:
                continue  # it knew the command, and what that leaves out
            shown = replace(output, command=other.name, note=notes.on(other.name), line="")
            found = _add(facts, other, shown, conflict) or found
        if not found and notes.count(reader.name) == noted:
            note(f"nothing in it was understood: {output.text.strip().splitlines()[0][:60]!r}")
    return facts


def _add(facts: Facts, reader: Reader, output: Output, conflict: Conflict) -> int:
    """Facts that a reader finds, and how many they are."""
    found = 0
    try:
        for fact in reader.read(output):
            facts.add(fact, conflict)
            found += 1
    except Exception as error:
        # One node's oddity must not stop the others.
        output.note(f"its reader failed: {type(error).__name__}: {error}")
    return found


def _joined(kind: type[T], known: Iterable[T], facts: Facts, note: sysfs.Note) -> tuple[T, ...]:
    """Things of a kind that the probe's listings show, with what single outputs say of them."""
    more = facts.each(kind)
    if not more:
        return tuple(known)
    joined = Facts(known)
    for fact in more:
        joined.add(fact, note)
    return joined.each(kind)


def read_node(
    name: str, evidence: Iterable[Evidence], gaps: Iterable[Gap] = (), probed: bool = True
) -> Node:
    """
    The typed picture of one host. Nothing raises: what can't be read is a gap.

    ``probed``: the evidence is a capture of the probe, which looks at all there is.
    """
    evidence = tuple(evidence)
    outputs = Outputs(evidence)
    notes = Notes(
        [*gaps, *(Gap(e.command, e.lost) for e in evidence if e.lost and e.lost != ABSENT)]
    )
    modules = outputs.answer("cat /proc/modules")
    log = outputs.answer("dmesg | ")
    journal = outputs.ran(JOURNAL)
    manifest = outputs.ran(MANIFEST)
    schedulers = outputs.answer("cat /proc/[0-9]*/comm")
    facts = read_facts(evidence, notes)
    node = Node(
        name=name,
        facts=facts,
        probed=probed,
        system=probe_system.read_system(outputs.answers()),
        pci=_pci(outputs, notes.on("PCI functions")),
        rdma=_rdma(outputs, notes.on("RDMA devices")),
        net=_net(outputs, notes.on("network interfaces")),
        modules=None
        if modules is None
        else probe_kernel.read_modules(
            modules, outputs.answer("cd /sys/module && ") or "", notes.on("kernel modules")
        ),
        kernel_log=None if log is None else probe_kernel.read_kernel_log(log),
        managed=None
        if manifest is None
        else _managed(manifest, outputs, notes.on("rackready's manifest")),
        journal=None
        if journal is None
        else managed.read_journal(journal, notes.on("rackready's journal")),
        users=_users(outputs.answer("users of "), notes.on("users of the accelerators")),
        schedulers=None if schedulers is None else tuple(sorted(set(schedulers.split()))),
    )
    note = notes.on(DISAGREEMENT)
    node = replace(
        node,
        system=_joined(System, [node.system], facts, note)[0],
        stack=_stack(facts),
        pci=_mapped(
            setpci.with_registers(
                _joined(PciFunction, (node.pci or {}).values(), facts, note), facts
            ),
            "bdf",
            node.pci,
        ),
        rdma=_joined(RdmaDevice, node.rdma or (), facts, note) or node.rdma,
        net=_joined(NetDevice, node.net or (), facts, note) or node.net,
        modules=_mapped(
            _joined(Module, (node.modules or {}).values(), facts, note), "name", node.modules
        ),
        kernel_log=tuple(line for log in facts.each(KernelLog) for line in log.lines)
        or node.kernel_log,
    )
    records = None
    if manifest is not None and journal is not None:
        records = Records(
            there=tuple(path for command, path in RECORDS if outputs.statuses.get(command) == 0),
            manifest_damage=notes.first("rackready's manifest"),
            journal_damage=notes.first("rackready's journal"),
            journal_cut=managed.is_cut(journal),
        )
        if records.journal_cut:
            oldest = node.journal[0].get("run") if node.journal else "the newest"
            reason = f"only its end was read: runs before {oldest} can't be taken back"
            notes.on("rackready's journal")(reason)
    return replace(node, records=records, gaps=notes.gaps())


def _stack(facts: Facts) -> AcceleratorStack:
    """
    Accelerators in the order of their tool. Its count of 0 makes none of them known; the SDK's own
    file says more than the tool, which may shorten the version.
    """
    stack = facts.first(AcceleratorStack) or AcceleratorStack()
    found = stack.accelerators or (() if stack.attached == 0 else None)
    return replace(
        stack,
        accelerators=found and tuple(sorted(found, key=_index)),
        sdk_version=stack.sdk_version or stack.sdk_shown,
    )


def _index(accelerator: Accelerator) -> int:
    return 1 << 16 if accelerator.index is None else accelerator.index


def _mapped(things: tuple[T, ...], key: str, known: Mapping[str, T] | None) -> Any:
    """Things by their key; as it was where there are none."""
    return {getattr(item, key): item for item in things} or known


def _pci(outputs: Outputs, note: sysfs.Note) -> Mapping[str, PciFunction] | None:
    listing = outputs.answer(_PCI_LISTING)
    if listing is None:
        return None
    functions = pci.pci_functions(
        listing,
        outputs.answer(f"{_PCI}grep -s ''") or "",
        # fails where a function has no driver, as some always have
        outputs.ran(f"{_PCI}ls -ld"),
        outputs.answer("cd /sys/bus/pci/slots && ") or "",
        (
            (match[1], text)
            for command, text in outputs.texts.items()
            if (match := _DUMP.fullmatch(command))
        ),
        note,
    )
    return functions or None  # no machine is without


def _rdma(outputs: Outputs, note: sysfs.Note) -> tuple[RdmaDevice, ...] | None:
    # Without RDMA drivers the folder is not there; where no other is either, nothing is known.
    listing = outputs.ran("ls -l /sys/class/infiniband")
    if listing is None or (not listing and outputs.answer(_PCI_LISTING) is None):
        return None
    counters = outputs.command(_COUNTERS) or ""
    devices = probe_rdma.rdma_devices(
        listing,
        outputs.answer(f"{_RDMA}grep -s '' */fw_ver") or "",
        outputs.answer(f"{_RDMA}grep -s '[1-9a-f]' */ports/*/gids/*", nothing=1),
        outputs.answer(f"{_RDMA}grep -s '' */ports/*/gid_attrs/types/*"),
        outputs.answer(f"{_RDMA}grep -s '' */ports/*/gid_attrs/ndevs/*"),
        outputs.ran(f"{_RDMA}grep -s '' */tc/*/traffic_class"),
        (outputs.texts.get(counters, ""), outputs.last.get(counters, "")),
        note,
    )
    return devices if devices or _is_empty(listing) else None


def _net(outputs: Outputs, note: sysfs.Note) -> tuple[NetDevice, ...] | None:
    listing = outputs.answer("ls -l /sys/class/net")
    if listing is None:
        return None
    attributes = outputs.answer(f"{_NET}grep -s ''") or ""
    devices = probe_net.net_devices(listing, attributes, outputs.answer("ip -o addr show"), note)
    return devices if devices or _is_empty(listing) else None


def _is_empty(listing: str) -> bool:
    return listing.strip() in ("", "total 0")


def _managed(manifest: str, outputs: Outputs, note: sysfs.Note) -> tuple[ManagedFile, ...]:
    def each(tool: str) -> dict[str, str | None]:
        """Path -> output of ``tool PATH``; None when it failed, so that the path is gone."""
        return {
            command[len(tool) + 1 :]: text if outputs.statuses[command] == 0 else None
            for command, text in outputs.texts.items()
            if command.startswith(f"{tool} /")
        }

    return managed.managed_files(
        manifest,
        checksums={
            path: None if text is None else text.partition(" ")[0]
            for path, text in each("sha256sum").items()
        },
        texts={path: text for path, text in each("cat").items() if text is not None},
        targets={
            path: None if text is None else text.removesuffix("\n")
            for path, text in each("readlink").items()
        },
        listings=each("ls -ld"),
        note=note,
    )


def _users(text: str | None, note: sysfs.Note) -> tuple[Process, ...] | None:
    """Lines ``PID COMMAND DEVICE``."""
    if text is None:
        return None
    found = []
    for line_number, line in sysfs.lines(text):
        pid, *command = line.split()
        number = sysfs.number(pid)
        if number is None or len(command) < 2:
            note(f"line {line_number} is no process: {line[:60]!r}")
        else:
            found.append(Process(number, " ".join(command[:-1]), command[-1]))
    return tuple(found)
