"""Run the probe on one host: the only remote read."""

from __future__ import annotations

from typing import Any

import gevent
from pyinfra.api import StringCommand
from pyinfra.api.arguments import CONNECTOR_ARGUMENT_KEYS, pop_global_arguments
from pyinfra.api.host import Host

from rackready.facts.capture import ProbeLost, decode_transport

TIMEOUT = 60  # seconds; the probe itself takes 30 at most


def connector_arguments(host: Host) -> dict[str, Any]:
    """How commands run on this host (sudo, shell, ...), from its data and the configuration."""
    values: dict[str, Any] = dict(pop_global_arguments(host.state, host, {})[0])
    return {key: values[key] for key in CONNECTOR_ARGUMENT_KEYS if key in values}


def run_probe(host: Host, script: str) -> str:
    """
    Text of the capture that ``script`` makes on the host: one exec request, no file transfer.

    Raises ProbeLost with the reason, whatever happens on the way: a pyinfra fact would only have
    its default to say that an answer was lost, and an exception in it would stop all hosts.
    """
    arguments = connector_arguments(host) | {"_stdin": script, "_timeout": TIMEOUT}
    try:
        # pyinfra's own limit ends with the output: a node may close that and never end.
        with gevent.Timeout(TIMEOUT + 15, TimeoutError):
            success, output = host.run_shell_command(StringCommand("sh", "-s"), **arguments)
    except TimeoutError as error:
        raise ProbeLost(str(error) or f"no answer within {TIMEOUT} s") from error
    except Exception as error:
        words = " ".join(str(error).split()) or type(error).__name__
        lost = "" if words.startswith("sudo asks") else "connection lost: "
        raise ProbeLost(f"{lost}{words}") from error
    try:
        return decode_transport(output.stdout_lines)
    except ProbeLost as error:
        said = [line for line in output.stderr_lines if line.strip() and line.isprintable()]
        if said and not success:
            raise ProbeLost(f"{error}; the node says: {said[-1][:200]}") from error
        raise
