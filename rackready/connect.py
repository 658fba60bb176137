"""Transport hooks for every pyinfra run, and the connector of emulated nodes.

pyinfra imports this module on each run, through the ``pyinfra.connectors`` entry point: so it also
works from a wheel and in any working folder, where a ``config.py`` would not be found.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from queue import Queue
from typing import Any, TextIO

import paramiko
from pyinfra.connectors import util
from pyinfra.connectors.util import OutputLine

from rackready import recorder
from rackready.emulator.connector import EmulatedConnector

__all__ = ["EmulatedConnector"]

# What is kept of a command's output, about in bytes: no node may fill our memory.
_MOST = 8 << 20
_LINE = 100  # that a line takes however short it is
_LONGEST = 1 << 20  # a longer line is parted
_ENDING = 30  # seconds for a command to end after its output has
_transport_init = paramiko.Transport.__init__
_exit_status = paramiko.Channel.recv_exit_status
_getpass = util.getpass


def _transport_without_delay(self: Any, sock: Any, *args: Any, **kwargs: Any) -> None:
    """Without TCP_NODELAY each command waits for the peer's delayed ACK: 47 ms instead of 3 ms."""
    _transport_init(self, sock, *args, **kwargs)
    with contextlib.suppress(AttributeError, OSError):  # a proxy command has no socket of its own
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _recv_exit_status(self: Any) -> int:
    """Of a command whose output has ended; pyinfra would wait for it without limit."""
    if not self.status_event.wait(_ENDING):
        raise TimeoutError(f"it closed its output and did not end within {_ENDING} s")
    return _exit_status(self)


def _read_buffer(
    name: str,
    io: Any,
    output_queue: Queue[OutputLine],
    print_output: bool = False,
    print_func: Callable[[str], str] | None = None,
) -> None:
    """pyinfra's reader of a command's output, for lines that need not be UTF-8.

    pyinfra's own dies of the first such byte, with a traceback, and the rest of the output is lost.
    """
    kept = 0
    while True:
        try:
            line = io.readline(_LONGEST)
        except UnicodeDecodeError as error:
            line = error.object
        if not line:
            return
        text = line if isinstance(line, str) else line.decode("utf-8", errors="backslashreplace")
        text = text.rstrip("\n")
        kept += len(text) + _LINE
        if kept <= _MOST:
            output_queue.put(OutputLine(name, text))
        if print_output:
            util.echo(print_func(text) if print_func else text, err=True)


def _no_prompt(prompt: str = "Password: ", stream: TextIO | None = None) -> str:
    """One host that asks for a sudo password must not hold up all others at night."""
    if recorder.current() is None:
        return _getpass(prompt, stream)
    raise OSError("sudo asks for a password: allow it without, or run with --same-sudo-password")


def install() -> None:
    """Put the hooks in place; doing it twice does no harm."""
    paramiko.Transport.__init__ = _transport_without_delay  # type: ignore[method-assign]
    paramiko.Channel.recv_exit_status = _recv_exit_status  # type: ignore[method-assign]
    util.read_buffer = _read_buffer
    util.getpass = _no_prompt
    recorder.install()


install()
