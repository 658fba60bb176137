"""What the files in deploys/ call: one function for each job, run once for every host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from pyinfra import host as current_host
from pyinfra.api.exceptions import PyinfraError
from pyinfra.operations import python

from rackready import recorder
from rackready.facts.model import Node
from rackready.node_run import Batch, NodeRun
from rackready.run import Made, Run
from rackready.undo import (
    Steps,
    anything_left,
    changes,
    journal_cut,
    remove_steps,
    standing_settings,
    undo_steps,
)


def onboard() -> None:
    """Bring a node to its goal: look, change what the policy allows, look again."""
    run = _run()
    run.gather(run.decide)
    _change(run, run.read_back)


def inspect() -> None:
    """Look and judge. It holds no operation, so it changes nothing."""
    _run().gather(lambda node: None)


def undo() -> None:
    """
    Take back what was changed: data ``run`` names a run by its id, ``check`` a check, of all runs.

    One of them has to be named. "The newest run" would be another one when it is run again for the
    nodes that were missed.
    """
    data = current_host.data
    named = {key: str(data.get(key)) for key in ("run", "check") if data.get(key)}
    take = partial(undo_steps, run=named.get("run", ""), check=named.get("check", ""))
    _take_back(take if named else lambda node: [])
    run = _run()
    entries = [entry for node in run.nodes.values() for entry in _journal(node)]
    if not named or not any(all(entry.get(k) == v for k, v in named.items()) for entry in entries):
        known = ", ".join(dict.fromkeys(str(entry.get("run")) for entry in entries)) or "none"
        what = " and ".join(f"{key} {value}" for key, value in named.items())
        said = (
            f"no journal has anything of {what}"
            if named
            else "name what to undo: --data run=RUN or --data check=ID"
        )
        if any(node.now and journal_cut(node.now.view.node) for node in run.nodes.values()):
            said += " (of a long journal only the end was read)"
        for node in run.nodes.values():
            node.error = node.error or f"{said}; runs in the journals: {known}"
        run.settle()


def _journal(node: NodeRun) -> tuple[Mapping[str, object], ...]:
    return (node.now.view.node.journal or ()) if node.now else ()


def remove() -> None:
    """Take away everything that rackready put on a node. Values that it set stay until a reboot."""
    _take_back(remove_steps, everything=True)


def _run() -> Run:
    run = recorder.current()
    if run is None:
        raise PyinfraError("this is a deploy of rackready: run it with the pyinfra command")
    return run


def _change(run: Run, read_back: Callable[..., None]) -> None:
    """Register the operations of this host; none where there is nothing to do."""
    node = run.nodes[current_host.name]
    if node.batches:
        python.call(name="Read back", function=read_back, node=node, made=run.make(node))


def _take_back(steps_of: Callable[[Node], Steps], everything: bool = False) -> None:
    run = _run()

    def prepare(node: NodeRun) -> None:
        assert node.now is not None
        steps = steps_of(node.now.view.node)
        needed = bool(steps) or (everything and anything_left(node.now.view.node))
        node.taken_back = not needed or run.dry
        if needed:
            told = tuple(changes(steps))
            node.batches = [Batch(f"{run.deploy}: {len(steps)} items", steps, told, everything)]
            for change in told:
                run.say(node, f"to take back: {change}")
            for setting in standing_settings(node.now.view.node) if everything else ():
                run.say(node, f"stays until a reboot, unless you undo first: {setting}")

    def read_back(node: NodeRun, made: Made) -> None:
        for batch, meta in made:
            run.take(node, batch, meta)
        if run.look(node) and node.now is not None:
            node_now = node.now.view.node
            left = steps_of(node_now)
            node.taken_back = not (everything and anything_left(node_now)) and not any(
                pair in left for batch, _ in made for pair in batch.steps
            )

    run.gather(prepare)
    _change(run, read_back)
