"""The pyinfra connector of emulated nodes: ``@emulated/NAME``."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import IO, TYPE_CHECKING, Any, NoReturn

import gevent
from gevent.subprocess import PIPE, Popen
from pyinfra import logger
from pyinfra.api.command import StringCommand
from pyinfra.api.exceptions import ConnectError, InventoryError
from pyinfra.api.output import echo
from pyinfra.connectors.base import BaseConnector, ConnectorData, DataMeta
from pyinfra.connectors.util import CommandOutput, make_unix_command, read_output_buffers
from typing_extensions import Unpack, override

if TYPE_CHECKING:
    from pyinfra.api.arguments import ConnectorArguments
    from pyinfra.api.host import Host
    from pyinfra.api.state import State

NO_TREE = 97  # exit status of a command that finds no emulated node below its root

# Everything that runs on an emulated node starts with this, in the same shell command: what it
# does can't be reached without the root and without the mark of a tree below it.
_GUARD = """\
RACKREADY_ROOT={root} RACKREADY_EMULATED=1
export RACKREADY_ROOT RACKREADY_EMULATED
if ! test -f "$RACKREADY_ROOT/.rackready-emulated"; then
    echo "rackready: there is no emulated node in $RACKREADY_ROOT" >&2
    exit {status}
fi
if test -e "$RACKREADY_ROOT/.emulator/login"; then . "$RACKREADY_ROOT/.emulator/login"; fi
{command}"""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class EmulatedData(ConnectorData):
    emulated: str
    faults: dict[str, Any]


class EmulatedConnector(BaseConnector):
    """
    A node that is a tree of files on this machine.

    ``@emulated/NAME`` is the node NAME. Its host data say what it is like; without them it is the
    healthy node of the description NAME. Everybody may do everything in it, so sudo and su are
    accepted and mean nothing.
    """

    handles_execution = True
    data_cls = EmulatedData
    data_meta = {  # noqa: RUF012 -- as in pyinfra's own connectors
        "emulated": DataMeta("Name of the description of the node", ""),
        "faults": DataMeta("What is wrong with the node", {}),
    }

    def __init__(self, state: State, host: Host) -> None:
        super().__init__(state, host)
        self.executed: list[str] = []  # commands, for tests and benchmarks
        self.tree: Path | None = None

    @override
    @staticmethod
    def make_names_data(name: str) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
        if not name:
            raise InventoryError("An emulated node needs a name: @emulated/NAME")
        yield name, {}, ["@emulated", f"@emulated/{name}"]

    @override
    def connect(self) -> None:
        # Imported here since pyinfra imports all connectors on every run, emulated nodes or not.
        from rackready.emulator.description import DescriptionError, parse_faults
        from rackready.emulator.tree import build

        try:
            if parse_faults(self.data["faults"]).unreachable:
                raise ConnectError("emulated: no route to host")
            description = self.data["emulated"] or self.host.name
            self.tree = build(self.host.name, description, self.data["faults"])
        except (DescriptionError, OSError) as error:
            raise ConnectError(str(error)) from error

    @override
    def run_shell_command(
        self,
        command: StringCommand,
        print_output: bool = False,
        print_input: bool = False,
        **arguments: Unpack[ConnectorArguments],
    ) -> tuple[bool, CommandOutput]:
        """
        Run a command in the tree of the node.

        Raises:
            TimeoutError: it ran longer than ``_timeout``; nothing of it runs on.
        """
        unix_command = make_unix_command(
            command,
            _env=arguments.get("_env"),
            _chdir=arguments.get("_chdir"),
            _shell_executable=arguments.get("_shell_executable") or "sh",
        )
        logger.debug("--> Running command on emulated node %s: %s", self.host.name, unix_command)
        if print_input:
            echo(f"{self.host.print_prefix}>>> {unix_command}", err=True)
        self.executed.append(str(unix_command))
        status, output = self._run(
            unix_command.get_raw_value(),
            stdin=arguments.get("_stdin"),
            timeout=arguments.get("_timeout"),
            print_output=print_output,
        )
        return status in (arguments.get("_success_exit_codes") or (0,)), output

    def _run(
        self, command: str, stdin: object, timeout: int | None, print_output: bool
    ) -> tuple[int, CommandOutput]:
        if self.tree is None:
            raise ConnectError(f"emulated node {self.host.name} is not connected")
        root = str(self.tree)
        process = Popen(
            ["sh", "-c", _GUARD.format(root=quote(root), status=NO_TREE, command=command)],
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            # a tree that is gone is for the guard to report
            cwd=root if self.tree.is_dir() else "/",
            env={"PATH": _PATH, "HOME": f"{root}/root"},
            start_new_session=True,
        )
        feeder = gevent.spawn(_feed, process.stdin, stdin)
        done = False
        try:
            output = read_output_buffers(
                process.stdout,
                process.stderr,
                timeout=timeout,
                print_output=print_output,
                print_prefix=self.host.print_prefix,
            )
            status: int = process.wait()
            done = True
        finally:
            feeder.kill()
            if not done:
                _end(process)
        process.stdout.close()
        process.stderr.close()
        return status, output

    @override
    def put_file(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError("emulated nodes take no files: rackready sends them in a script")

    @override
    def get_file(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError("emulated nodes give no files: rackready prints what it reads")


def _feed(pipe: IO[bytes], stdin: object) -> None:
    """Write ``_stdin`` as pyinfra does: text, lines or a file, each line with a newline."""
    if hasattr(stdin, "readlines"):
        stdin = stdin.readlines()
    lines = stdin if isinstance(stdin, (list, tuple)) else [stdin] if stdin else []
    # A command need not read all that it is sent.
    with contextlib.suppress(BrokenPipeError), pipe:
        for line in map(str, lines):
            pipe.write((line if line.endswith("\n") else f"{line}\n").encode())


def _end(process: Popen) -> None:
    """End a command with everything that it started and that did not leave its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
