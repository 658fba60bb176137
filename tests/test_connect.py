"""The transport hooks."""

from __future__ import annotations

import io
import socket
from queue import Queue

import paramiko
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyinfra.connectors import util
from pyinfra.connectors.util import OutputLine

from rackready import connect


def read(data: bytes) -> list[str]:
    lines: Queue[OutputLine] = Queue()
    util.read_buffer("stdout", io.BytesIO(data), lines)
    return [line.line for line in lines.queue]


def test_ssh_connections_have_no_nagle_delay() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        transport = paramiko.Transport(client)
        try:
            assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        finally:
            transport.close()


def test_a_transport_without_a_socket_is_left_alone() -> None:
    class Proxy:  # what a ProxyCommand gives: no options to set
        def close(self) -> None: ...

        def settimeout(self, seconds: float) -> None: ...

    paramiko.Transport(Proxy()).close()  # type: ignore[arg-type]


@given(st.binary(max_size=200))
def test_every_line_is_read_whatever_its_bytes(data: bytes) -> None:
    lines = data.split(b"\n")
    expected = lines if lines[-1] else lines[:-1]
    assert read(data) == [line.decode("utf-8", "backslashreplace") for line in expected]


@pytest.mark.parametrize("line", [b"\n", b"x" * 1023 + b"\n", b"x" * (3 << 20) + b"\n", b"x"])
def test_output_without_end_is_not_kept(line: bytes) -> None:
    kept = read(line * ((10 << 20) // len(line)))
    assert sum(map(len, kept)) <= 8 << 20
    assert 1 < len(kept) < 100_000
    assert max(map(len, kept)) <= 1 << 20


def test_a_command_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_ENDING", 0.01)
    channel = paramiko.Channel(1)
    with pytest.raises(TimeoutError, match="did not end"):
        channel.recv_exit_status()
    channel.exit_status = 7
    channel.status_event.set()
    assert channel.recv_exit_status() == 7


def test_hooks_can_be_installed_twice() -> None:
    before = paramiko.Transport.__init__
    connect.install()
    assert paramiko.Transport.__init__ is before
