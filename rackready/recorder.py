"""The recorder: watches a pyinfra run from its first moment and reports on every way out.

pyinfra runs no deploy file when no host can be reached, and ends without a word of its own when the
last host fails; so this hooks itself in before connecting, and writes when the process ends.
"""

from __future__ import annotations

import atexit
import logging
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
from pyinfra.api import Config, Inventory
from pyinfra.api.exceptions import ConnectorDataTypeError, PyinfraError
from pyinfra.api.host import Host
from pyinfra.api.state import BaseStateCallback, State
from pyinfra.connectors.base import host_to_connector_data

if TYPE_CHECKING:
    from rackready.run import Run

_state_init = State.init
_current: Run | None = None


def current() -> Run | None:
    """The run of this process; None when it is none of rackready's deploys."""
    return _current


def install() -> None:
    """Watch every State from now on; doing it twice does no harm."""
    State.init = _init  # type: ignore[method-assign]


def _init(
    self: State, inventory: Inventory, config: Config | None, initial_limit: Any = None
) -> None:
    try:
        _state_init(self, inventory, config, initial_limit)
    except ConnectorDataTypeError as error:
        raise ConnectorDataTypeError(f"{_culprit(inventory)}: {error}") from error
    command = click.get_current_context(silent=True)
    parameters = command.params if command is not None else {}
    deploys = [name for name in parameters.get("operations", ()) if _is_ours(str(name))]
    if deploys:
        _start(self, parameters, Path(str(deploys[0])).stem)


def _culprit(inventory: Inventory) -> str:
    """The host whose connector data pyinfra refuses: its own words name the key alone."""
    for host in inventory:
        connector = host.connector_cls
        try:
            host_to_connector_data(connector.data_cls, connector.data_meta, host.data)
        except ConnectorDataTypeError:
            return f"inventory data of {host.name}"
    return "inventory data"


def _is_ours(operation: str) -> bool:
    """True for a deploy file that calls rackready."""
    if not operation.endswith(".py"):
        return operation.startswith("rackready.")
    try:
        return "from rackready" in Path(operation).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def _start(state: State, parameters: dict[str, Any], deploy: str) -> None:
    global _current
    from rackready.run import Run  # heavy, and not needed by the deploys of others

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, _interrupted)
    hosts = [host for host in state.inventory if state.is_host_in_limit(host)]
    run = Run(
        state=state,
        hosts=hosts,
        inventory=str(parameters.get("inventory")),
        deploy=deploy,
        dry=bool(parameters.get("dry")),
        # pyinfra's own pool is for operations; the first look has one that waits for nobody
        parallel=1 if parameters.get("serial") else state.config.PARALLEL,
        to_stderr=bool(parameters.get("json_output")),
    )
    _current = run
    atexit.register(run.finish)
    _quiet(run, bool(parameters.get("verbosity") or parameters.get("debug")))
    state.add_callback_handler(_Watch(run))
    if not hosts:
        run.problem = "there is no host in the inventory, or none within --limit"
        raise PyinfraError(run.problem)


class _Watch(BaseStateCallback):
    """What pyinfra tells about hosts."""

    def __init__(self, run: Run):
        self.run = run

    def operation_end(self, state: State, op_hash: str) -> None:  # type: ignore[override]
        self.run.settle()

    def host_connect_error(self, state: State, host: Host, error: Exception) -> None:  # type: ignore[override]
        self.run.lost(host, " ".join(str(error).split()))


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Ctrl-C, TERM or a lost terminal. pyinfra's own handler would exit with 0."""
    if _current is not None and not _current.problem:
        _current.problem = f"interrupted by {signal.Signals(number).name}"
    sys.exit(128 + number)


def _quiet(run: Run, verbose: bool) -> None:
    """pyinfra's progress goes into the log of the run; its errors stay visible."""
    logger = logging.getLogger("pyinfra")
    handler = _log_to(run)
    if not verbose:
        for terminal in logger.handlers:
            terminal.addFilter(_worth_showing)
    if handler is not None:
        logger.addHandler(handler)


def _log_to(run: Run) -> logging.Handler | None:
    try:
        handler = logging.FileHandler(run.folder / "pyinfra.log", encoding="utf-8")
    except OSError:
        return None  # the report says that its folder can't be written to
    handler.setFormatter(_Plain("%(asctime)s %(levelname)s %(message)s"))
    return handler


class _Plain(logging.Formatter):
    """Without the colours of the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return click.unstyle(super().format(record))


def _worth_showing(record: logging.LogRecord) -> bool:
    """pyinfra's final errors start with an arrow; the report says the rest better."""
    text = record.getMessage()
    problem = _current.problem if _current else ""
    if "No hosts remaining" in text or (problem and problem in text):
        return False
    return record.levelno >= logging.WARNING and "-->" in text
