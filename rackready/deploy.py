"""What the files in deploys/ call: one function for each job, run once for every host."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyinfra import host as current_host
from pyinfra.api.exceptions import PyinfraError
from pyinfra.operations import python

from rackready import recorder
from rackready.facts.model import Node
from rackready.node_run import Batch, NodeRun
from rackready.run import Made, Run
from rackready.undo import Steps, changes, remove_steps, runs, undo_steps


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
    if not any(node.batches for node in run.nodes.values()):
        what = " and ".join(f"{key} {value}" for key, value in named.items())
        said = f"nothing of {what} to take back" if named else "name it: --data run=RUN"
        for node in run.nodes.values():
            known = ", ".join(runs(node.now.view.node)) if node.now else ""
            node.error = node.error or f"{said} (its journal has: {known or 'no run'})"
        run.settle()


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
        node.taken_back = not steps
        if steps:
            told = tuple(changes(steps))
            node.batches = [Batch(f"{run.deploy}: {len(steps)} items", steps, told, everything)]
            for change in told:
                run.say(node, f"to take back: {change}")

    def read_back(node: NodeRun, made: Made) -> None:
        for batch, meta in made:
            run.take(node, batch, meta)
        if run.look(node) and node.now is not None:
            left = steps_of(node.now.view.node)
            node.taken_back = not any(pair in left for batch, _ in made for pair in batch.steps)

    run.gather(prepare)
    _change(run, read_back)
