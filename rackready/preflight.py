"""First contact: can every host of an inventory be worked on? Asked before anything is judged."""

from __future__ import annotations

import re
import resource
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rackready.finding import Finding, Verdict
from rackready.fold import fold
from rackready.report.table import printable

_HEADER = "rackready-preflight 1"
_PARALLEL = 40
_TIMEOUT = 6  # seconds for the script; with 11 to connect the whole stays below 20

# KiB free: journal and backups; configuration; the probe's scratch files
_DISK = {"/var/lib": 64 * 1024, "/etc": 1024, "/tmp": 16 * 1024}
_CLOCK = 5  # seconds of offset: beyond, logs of nodes can't be put in order
# tool -> what is lost without it: operations/converge.sh changes nothing then
_NEEDED = {
    "od": "the PCI config space can't be read",
    "flock": "two runs at once can't be kept apart, so nothing is changed",
    "sha256sum": "what rackready wrote can't be told from what others did, so nothing is changed",
}
_FALLBACK = {
    "gzip": "the probe's answer travels uncompressed",
    "base64": "the probe's answer travels as hex digits",
    "setpci": "the config space is written through sysfs",
}
# sshd's MaxStartups 10:30:100: from the 11th connection that has not logged in yet it refuses at
# random, from the 100th always.
_MAX_STARTUPS = 10
_CHECKING = "ssh_strict_host_key_checking"
_SPARE_FILES = 100  # descriptors beside one per host


@dataclass(frozen=True)
class Contact:
    """What came of the first contact with one host."""

    host: str
    error: str = ""  # why it could not be connected or did not answer
    lines: tuple[str, ...] = ()  # the answer of preflight.sh, with whatever was printed around it
    asked: float = 0.0  # the controller's clock
    answered: float = 0.0
    known: bool = True  # its host key was known
    strict: bool = False  # a run refuses a host key that is not known
    jump: str = ""  # ProxyJump
    elevates: bool = False  # the inventory sets _sudo


def judge(contact: Contact) -> list[Finding]:
    """What is wrong with one host; empty when nothing is."""
    return list(_judge(contact))


def _judge(contact: Contact) -> Iterator[Finding]:
    def finding(check: str, verdict: Verdict, message: str, fix: str = "") -> Finding:
        return Finding(f"preflight.{check}", verdict, contact.host, "", message, fix=fix)

    if contact.error:
        yield finding(*_unreachable(contact.error))
        return
    if not contact.known and contact.strict:
        yield finding(
            "host-key",
            Verdict.FAIL,
            "the host key is not known, and ssh_strict_host_key_checking refuses it",
            "compare the key with the console, then add it to known_hosts (ssh-keyscan)",
        )
    elif not contact.known:
        yield finding(
            "host-key",
            Verdict.WARN,
            "the host key is not known yet; a run accepts and records it",
            'compare it with the console first, or set "ssh_strict_host_key_checking": "yes"',
        )
    if _HEADER not in contact.lines or "end" not in contact.lines:
        yield finding(
            "shell",
            Verdict.FAIL,
            "the login shell runs no POSIX script: no whole answer came back",
            "give the account /bin/sh as its shell",
        )
        return
    start = contact.lines.index(_HEADER)
    if start:
        yield finding(
            "noise",
            Verdict.WARN,
            f"the login shell prints {start} lines at start-up: {contact.lines[0][:60]!a}",
            "keep start-up files of the account silent, or give it /bin/sh",
        )
    facts: dict[str, list[list[str]]] = defaultdict(list)
    for line in contact.lines[start + 1 :]:
        if line == "end":
            break
        name, *values = line.split(None, 2) or [""]
        facts[name].append(values)

    for check, verdict, message, fix in (
        *_privilege(facts["privilege"], contact.elevates),
        *_disk(facts["disk"]),
        *_clock(facts["clock"], contact),
        *_tools(facts["lacks"]),
    ):
        yield finding(check, verdict, message, fix)
    for owner in facts["lock"]:
        yield finding(
            "lock", Verdict.FAIL, f"another run is at work here: {' '.join(owner)}", "wait for it"
        )


_Raw = tuple[str, Verdict, str, str]


# part of what pyinfra says -> check, what it means for the operator (the same for every such host,
# so that they fold), fix
_LOST = (
    ("Authentication error", "login", "the login is refused", "check ssh_user and ssh_key"),
    (
        "No authentication methods",
        "login",
        "there is no key to log in with",
        "make one (ssh-keygen) and bring it there, or set ssh_key",
    ),
    (
        "SSH host key error",
        "host-key",
        "the host key has changed",
        "find out why; only then: ssh-keygen -R HOST",
    ),
    (
        "Could not resolve",
        "reach",
        "the name can't be resolved",
        "check the name, or set ssh_hostname",
    ),
    ("timed out", "reach", "no answer in time", "check that it is up, and the network to it"),
    ("Unable to connect", "reach", "nothing listens there", "check sshd and ssh_port"),
    # paramiko's words for an sshd that takes the connection and says nothing
    ("No existing session", "reach", "it connects, but sshd is silent", "check the node's load"),
    ("protocol banner", "reach", "what listens there is no sshd", "check ssh_port"),
    ("no answer within", "shell", "the login shell hangs", "check start-up files, home and load"),
)


def _unreachable(error: str) -> _Raw:
    for words, check, message, fix in _LOST:
        if words in error:
            return check, Verdict.FAIL, message, fix
    return "reach", Verdict.FAIL, error, "check the network and sshd"


def _privilege(answers: Sequence[Sequence[str]], elevates: bool) -> Iterator[_Raw]:
    match answers:
        case [["root" | "emulated"]]:
            return
        case [["sudo"]]:
            if not elevates:
                message = "sudo works, but the inventory does not use it: nothing can be changed"
                yield "sudo", Verdict.WARN, message, "set _sudo = True in the inventory's data"
        case [["password"]]:
            message = "sudo asks this account for a password"
            yield "sudo", Verdict.FAIL, message, "give it a NOPASSWD rule in /etc/sudoers.d"
        case [["none"]]:
            message = "the account is not root, and there is no sudo"
            yield "sudo", Verdict.FAIL, message, "log in as root, or install sudo"
        case _:
            yield "sudo", Verdict.FAIL, "what the account may do is not known", ""


def _disk(answers: Iterable[Sequence[str]]) -> Iterator[_Raw]:
    free = {words[0]: _number(words[-1]) for words in answers if words}
    for path, wanted in _DISK.items():
        kib = free.get(path)
        if kib is None:
            yield "disk", Verdict.WARN, f"the free space on {path} is not known", ""
        elif kib < wanted:
            message = f"less than {wanted // 1024} MiB free on {path}"
            yield "disk", Verdict.FAIL, message, f"make room on {path}"


def _clock(answers: Sequence[Sequence[str]], contact: Contact) -> Iterator[_Raw]:
    seconds = _number(answers[0][-1]) if answers and answers[0] else None
    if seconds is None:
        yield "clock", Verdict.WARN, "the clock can't be read", ""
        return
    # The node looked at its clock at some moment between question and answer.
    offset, direction = max(
        (seconds - contact.answered, "ahead of"), (contact.asked - seconds - 1, "behind")
    )
    if offset > _CLOCK:
        message = f"the clock is {_duration(offset)} {direction} this machine's"
        yield "clock", Verdict.WARN, message, "let chrony or timesyncd set it"


def _number(word: str) -> int | None:
    return int(word) if re.fullmatch(r"[0-9]{1,15}", word) else None


def _duration(seconds: float) -> str:
    """One figure, so that nodes with the same trouble fold into one line."""
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def _tools(answers: Iterable[Sequence[str]]) -> Iterator[_Raw]:
    for tool in (words[0] for words in answers if words):
        if tool in _NEEDED:
            yield "tools", Verdict.FAIL, f"no {tool}: {_NEEDED[tool]}", f"install {tool}"
        elif tool in _FALLBACK:
            yield "tools", Verdict.WARN, f"no {tool}: {_FALLBACK[tool]}", f"install {tool}"


def judge_controller(contacts: Sequence[Contact], parallel: int, open_files: int) -> list[Finding]:
    """What this machine, or a bastion, does not bear with so many hosts."""
    findings = []
    hosts = len(contacts)
    if open_files < hosts + _SPARE_FILES:
        message = f"{open_files} open files allowed for {hosts} hosts"
        fix = f"ulimit -n {hosts + _SPARE_FILES}"
        findings.append(
            Finding("preflight.open-files", Verdict.FAIL, "controller", "", message, fix=fix)
        )
    for jump, behind in sorted(Counter(c.jump for c in contacts if c.jump).items()):
        at_once = min(behind, parallel)
        if at_once > _MAX_STARTUPS:
            findings.append(
                Finding(
                    "preflight.bastion",
                    Verdict.WARN,
                    "controller",
                    jump,
                    f"{behind} hosts behind {jump}, {at_once} connections at once: sshd's default "
                    f"MaxStartups 10:30:100 starts to refuse at {_MAX_STARTUPS}",
                    fix=f"--parallel {_MAX_STARTUPS}, ssh_connect_retries, or more MaxStartups",
                )
            )
    return findings


def ask(inventory: str, limit: Sequence[str]) -> list[Contact]:
    """Connect to every host once and run preflight.sh on it."""
    # pyinfra takes half a second to import: not for those who only judge
    from rackready import session

    script = files("rackready.facts").joinpath("preflight.sh").read_text(encoding="ascii")

    def contact(rack: session.Session, host: session.Host) -> Contact:
        asked = time.time()
        _, lines, error = session.run_script(host, script, _TIMEOUT)
        return Contact(
            host.name,
            error,
            tuple(lines),
            asked,
            answered=time.time(),
            known=session.host_key_known(host),
            strict=rack.overridden[host.name][_CHECKING] in ("yes", "ask"),
            jump=session.jump_host(host),
            elevates=session.elevates(host),
        )

    # An unknown key is to be told of, not to be recorded.
    data = {_CHECKING: "no"}
    with session.session(inventory, limit, _PARALLEL, data) as rack:
        lost = [Contact(name, error) for name, error in rack.errors.items()]
        return lost + rack.map(partial(contact, rack))


def run(inventory: str, limit: Sequence[str], console: Console) -> int:
    """Ask, judge, print; the exit status."""
    start = time.monotonic()
    contacts = ask(inventory, limit)
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    findings = judge_controller(contacts, _PARALLEL, open_files)
    for contact in contacts:
        findings += judge(contact)
    if findings:
        console.print(table(findings))
    bad = {f.host for f in findings if f.verdict is Verdict.FAIL}
    fit = sum(contact.host not in bad for contact in contacts)
    seconds = time.monotonic() - start
    console.print(f"{fit} of {len(contacts)} hosts can be worked on ({seconds:.1f} s)")
    return 0 if contacts and not bad else 1


def table(findings: Iterable[Finding]) -> Table:
    """One line for hosts with equal findings, worst first."""
    folded: dict[tuple[Verdict, str, str, str], list[str]] = defaultdict(list)
    for f in findings:
        folded[f.verdict, f.check, f.message, f.fix].append(f.host)
    result = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("verdict", "hosts", "check", "what and what to do"):
        result.add_column(column, overflow="fold")
    order = sorted(folded.items(), key=lambda item: (-item[0][0].severity, item[0][1:]))
    for (verdict, check, message, fix), hosts in order:
        text = f"{message}\n{fix}" if fix else message
        cells = verdict.value, fold(hosts), check.removeprefix("preflight."), text
        result.add_row(*(Text(printable(cell)) for cell in cells))
    return result
