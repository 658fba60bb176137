"""A run: passes of probe, plan, converge and probe again over all hosts of an inventory.

deploy.py calls it for the files in deploys/; the recorder makes it before pyinfra connects.
"""

from __future__ import annotations

import getpass
import os
import secrets
import shlex
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, datetime, timezone
from functools import partial
from pathlib import Path

from gevent.event import Event
from gevent.pool import Pool
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.host import Host
from pyinfra.api.operation import OperationMeta
from pyinfra.api.state import State

from rackready import retry
from rackready.catalog import load_profiles
from rackready.change import Change, File, Link, Outcome
from rackready.checks import all_checks
from rackready.facts.capture import ProbeLost, probe_script, read_capture
from rackready.facts.probe import run_probe
from rackready.finding import Finding
from rackready.fold import fold
from rackready.judge import judge, judge_rack, probe_wishes
from rackready.node_run import Batch, NodeRun
from rackready.operations.converge import converge, read_answers, render
from rackready.plan import Plan, make_plan
from rackready.policy import Policy, PolicyError
from rackready.remedies import REMEDIES
from rackready.report import Report
from rackready.report.files import write_assets, write_atomically, write_report
from rackready.report.table import console, print_report, printable

PASSES = 4  # more would go round in circles: what keeps coming back is said instead
CONVERGE_TIMEOUT = 120  # seconds for one script
Made = list[tuple[Batch, OperationMeta]]


class Run:
    """All hosts of one pyinfra command, and the folder that its report goes to."""

    def __init__(
        self,
        state: State,
        hosts: Sequence[Host],
        inventory: str,
        deploy: str,
        dry: bool,
        parallel: int,
        to_stderr: bool,
    ):
        self.state, self.inventory, self.deploy, self.dry = state, inventory, deploy, dry
        self.parallel = parallel
        self.started = datetime.now(timezone.utc)
        self.problem = ""  # why it ended before its time
        self.console = console(to_stderr)
        self.owner = _owner()
        self.nodes = {host.name: NodeRun(host) for host in hosts}
        self.rack: list[Finding] = []
        self.profiles = load_profiles()
        self.script = probe_script(probe_wishes(self.profiles))
        self._gathering: Event | None = None
        self.folder, self.id = _new_folder(self.started)

    # --- looking

    def gather(self, prepare: Callable[[NodeRun], None]) -> None:
        """Look at every host and ``prepare`` it, once: the first to come here does it for all.

        The others wait for it. It has a pool of its own, since pyinfra's may be full of them.
        """
        if self._gathering is not None:
            self._gathering.wait()
            return
        self._gathering = Event()
        try:
            active = [node for node in self.nodes.values() if node.host in self.state.active_hosts]
            self._tell_policies()
            Pool(self.parallel).map(partial(self._first_look, prepare), active)
            self.settle()
            self.write_before_changing()
        finally:
            self._gathering.set()

    def _tell_policies(self) -> None:
        """Read every host's policy, and say what it wishes: a file in the wrong place is seen."""
        told: dict[str, list[str]] = {}
        for name, node in self.nodes.items():
            try:
                node.policy = Policy.from_data(node.host.data.dict(), "inventory data")
                node.policy.require_checks(all_checks())
                told.setdefault(node.policy.summary(), []).append(name)
            except PolicyError as error:
                node.error = node.error or f"policy: {'; '.join(error.problems)}"
                told.setdefault(node.error, []).append(name)
        for words, names in told.items():
            self.show(f"policy of {fold(names)}: {words}")

    def write_before_changing(self) -> None:
        """What can't be reported must not be changed: a first report, that all is still to do."""
        try:
            self.write()
        except OSError as error:
            self.problem = f"the report could not be written: {error}"
            raise PyinfraError(self.problem) from error

    def _first_look(self, prepare: Callable[[NodeRun], None], node: NodeRun) -> None:
        if node.policy is None or node.error:
            return
        try:
            if self.look(node):
                node.before = node.now
                prepare(node)
        except Exception as error:  # nothing that one node does or prints may stop the others
            node.error = f"{type(error).__name__}: {error}"
            self.say(node, node.error)

    def look(self, node: NodeRun) -> bool:
        """Probe and judge a host. False, with the reason in its error: that was not possible."""
        assert node.policy is not None
        begun = time.monotonic()
        node.passes += 1
        try:
            text = run_probe(node.host, self.script)
            when = "before" if node.passes == 1 else "after"
            self._keep(f"captures/{node.host.name.replace('/', '_')}.{when}.capture", text)
            capture = read_capture(text, node.host.name)
            node.now = judge(node.host.name, capture, self.profiles, node.policy, date.today())
            node.plan, node.unread = Plan(), False
        except ProbeLost as error:
            node.error = f"probe lost: {error}"
        node.seconds += time.monotonic() - begun
        self.say(node, node.error or node.verdict.value)
        return not node.error

    # --- changing

    def decide(self, node: NodeRun) -> None:
        """Plan the next pass; what was refused once is not tried again."""
        assert node.now is not None and node.policy is not None
        node.plan = make_plan(node.now.view, node.now.findings, node.policy, REMEDIES)
        refused = {(answer.check, answer.subject) for answer in node.refusals}
        node.batches = [
            Batch.of(stage)
            for stage in node.plan.stages
            if not {(change.check, change.subject) for change in stage.changes} <= refused
        ]
        for stage in node.plan.stages:
            for change in stage.changes:
                self.say(node, f"to do: {change} (can disturb: {stage.risk.value})")
                if change.diff:
                    self.show(change.diff)
            for step in stage.steps:
                if self.dry and isinstance(step, (File, Link)):
                    self.say(node, f"  and what keeps it: {step.path}")
        for held in node.plan.held:
            self.say(node, f"held back: {held.stage.check}: {held.reason}")

    def make(self, node: NodeRun) -> Made:
        """One operation a batch. What it achieved is told by the look that follows, and only by it:
        so a script that fails does not take the host out of the run."""
        assert node.now is not None
        node.unread = True
        return [
            (
                batch,
                converge(
                    name=batch.name,
                    script=render(
                        batch.steps,
                        run=self.id,
                        owner=self.owner,
                        emulated=node.now.view.node.system.emulated,
                        everything=batch.everything,
                    ),
                    _ignore_errors=True,
                    _timeout=CONVERGE_TIMEOUT,
                ),
            )
            for batch in node.batches
        ]

    def take(self, node: NodeRun, batch: Batch, meta: OperationMeta) -> str:
        """Note what a script did; the reason when its answers are not complete."""
        answers, incomplete = read_answers(meta.stdout_lines)
        changes = {(change.check, change.subject): change for change in batch.changes}
        for answer in answers:
            if answer.outcome is Outcome.DONE:
                known = changes.get((answer.check, answer.subject))
                node.made.append(known or Change(answer.check, answer.subject, "", "written"))
            elif answer.outcome is Outcome.REFUSED:
                node.refusals.append(answer)
                self.say(node, f"refused: {answer.check}: {answer.subject}: {answer.reason}")
        if incomplete:
            said = [line for line in meta.stderr_lines if line.strip()]
            incomplete += f": {said[-1][:200]}" if said else ""
            self.say(node, incomplete)
        return incomplete

    def read_back(self, node: NodeRun, made: Made) -> None:
        """Look at what a pass has made, and go on until there is nothing left to do."""
        try:
            while True:
                incomplete = [reason for pair in made if (reason := self.take(node, *pair))]
                if not self.look(node):
                    return
                self.decide(node)
                if not node.batches:
                    return
                if node.passes > PASSES:
                    again = ", ".join(batch.name for batch in node.batches)
                    why = f" ({incomplete[-1]})" if incomplete else ""
                    node.error = f"after {PASSES} passes this keeps coming back: {again}{why}"
                    return
                made = self.make(node)
        except Exception as error:  # one node's trouble stays with it
            node.error = f"{type(error).__name__}: {error}"
            self.say(node, node.error)

    # --- reporting

    def lost(self, host: Host, reason: str) -> None:
        """A host that can't be connected."""
        if (node := self.nodes.get(host.name)) is not None:
            node.error = f"unreachable: {reason}"
            self.say(node, node.error)

    def settle(self) -> None:
        """Judge the rack, and let pyinfra's exit status say which hosts missed the goal."""
        seen = [node.now for node in self.nodes.values() if node.now and not node.error]
        self.rack = judge_rack(seen, len(self.state.inventory))
        for node in self.nodes.values():
            if not node.reached_goal:
                self.state.failed_hosts.add(node.host)
            elif node.host in self.state.active_hosts:
                self.state.failed_hosts.discard(node.host)

    def say(self, node: NodeRun, words: str) -> None:
        """One line about a node."""
        width = max(map(len, self.nodes), default=0)
        self.show(f"{node.host.name:<{width}}  pass {max(node.passes, 1)}  {words}")

    def show(self, text: str) -> None:
        """Print lines. A terminal that has gone away must not stop the work on the nodes."""
        with suppress(OSError):
            self.console.print(printable(text), markup=False, soft_wrap=True)

    def _write_retry(self, names: Sequence[str]) -> None:
        """The nodes that missed the goal: names for --limit, and an inventory of their own."""
        write_atomically(self.folder / "retry", "".join(f"{name}\n" for name in names))
        path = self.folder / "retry.py"
        source = Path(self.inventory)
        inventory = str(source.resolve()) if source.exists() else self.inventory
        text = retry.inventory_text(inventory, names, self.id, self.deploy, path)
        write_atomically(path, text)

    def _keep(self, name: str, text: str) -> None:
        """A file beside the report; where that can't be written, the end of the run says so."""
        with suppress(OSError):
            (self.folder / name).parent.mkdir(exist_ok=True)
            write_atomically(self.folder / name, text, 0o600)

    def write(self) -> list[Host]:
        """Write the report as it stands; returns the hosts that have not reached the goal."""
        missed = [node.host for node in self.nodes.values() if not node.reached_goal]
        write_report(self.folder, self.report())
        self._write_retry([inventory_name(host) for host in missed])
        write_assets(self.folder, [node.now.view for node in self.nodes.values() if node.now])
        return missed

    def report(self) -> Report:
        goals = {node.policy.goal for node in self.nodes.values() if node.policy}
        return Report(
            run=self.id,
            deploy=self.deploy,
            goal=" or ".join(sorted(goals)) or "configured",
            started=self.started.isoformat(timespec="seconds"),
            seconds=(datetime.now(timezone.utc) - self.started).total_seconds(),
            dry=self.dry,
            nodes=[node.report() for node in self.nodes.values()],
            rack=self.rack,
            problem=self.problem,
        )

    def finish(self) -> None:
        """Write the report and print the table: on every way out, and never raising."""
        ended = self.problem or "the run ended"
        for node in self.nodes.values():
            if node.now is None and not node.error:
                node.error = f"{ended} before this node was looked at"
            elif node.unread and not self.dry and not node.error:
                node.error = f"{ended} before its changes were made and read back"
        missed, failure = list[Host](), ""
        try:
            missed = self.write()
        except OSError as error:
            failure = f"the report could not be written: {error}"
        self.show("")
        with suppress(OSError):
            print_report(self.report(), self.console)
        self.show(failure or f"report: {self.folder}/report.json")
        # undo takes the name of a run as well, and what it says of one is better than a hint
        if missed and not (failure or self.problem or self.dry or self.deploy == "undo"):
            again = f"{shlex.quote(str(self.folder / 'retry.py'))} deploys/{self.deploy}.py -y"
            self.show(f"again for those that missed it: pyinfra {again}")
        if any(node.error.startswith("unreachable") for node in self.nodes.values()):
            self.show(f"what keeps nodes from being reached: rackready preflight {self.inventory}")
        if failure:
            # Too late for another exit status in any other way.
            with suppress(OSError):
                sys.stdout.flush()
            os._exit(1)


def _owner() -> str:
    """Who runs this, for others who find a node locked."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in containers
        user = f"uid{os.getuid()}"
    return f"{user}@{socket.gethostname()}"


def inventory_name(host: Host) -> str:
    """The name that an inventory has for a host, with its connector: ``@emulated/NAME``."""
    return next((group for group in host.groups if group.endswith(f"/{host.name}")), host.name)


def _new_folder(started: datetime) -> tuple[Path, str]:
    """
    ``runs/20261130-210000-3f2a``: the time, and a word by which runs of one second are told apart.

    PyinfraError where nothing can be written: a run that can't be reported must not change a node.
    """
    base = Path(os.environ.get("RACKREADY_RUNS", "runs"))
    stamp = started.strftime("%Y%m%d-%H%M%S")
    while True:
        name = f"{stamp}-{secrets.token_hex(2)}"
        try:
            (base / name).mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise PyinfraError(
                f"no report can be written to {base.absolute()}: {error.strerror}; "
                "set RACKREADY_RUNS to a folder that can be written to"
            ) from error
        return base / name, name
