"""Connections to the hosts of an inventory for commands that are no pyinfra run.

Not imported on a pyinfra run; a run has a state and connections of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

# First of all: importing pyinfra_cli makes sockets and sleep cooperative (gevent).
from pyinfra_cli.inventory import make_inventory

# isort: split
from gevent import Timeout
from gevent.pool import Pool
from pyinfra.api import Config, State, StringCommand
from pyinfra.api.connect import disconnect_all
from pyinfra.api.host import Host as Host
from pyinfra.connectors import util
from pyinfra.connectors.sshuserclient.client import get_ssh_config
from pyinfra.context import ctx_config, ctx_state

T = TypeVar("T")

# Connecting and logging in; paramiko alone would wait 30 seconds for the answer to a login.
_CONNECT = 11


class InventoryError(ValueError):
    """There is no such inventory, or no host in it."""


@dataclass(frozen=True)
class Session:
    """Connected hosts, why others are not, and a pool that works on many at once."""

    hosts: tuple[Host, ...]
    errors: Mapping[str, str]  # host name -> why it could not be connected
    pool: Pool
    overridden: Mapping[str, Mapping[str, object]]  # host name -> its own data for these keys

    def map(self, function: Callable[[Host], T]) -> list[T]:
        """``function`` on every connected host at once; it must not raise."""
        results: list[T] = self.pool.map(function, self.hosts)
        return results


@contextmanager
def session(
    inventory: str,
    limit: Sequence[str] = (),
    parallel: int = 40,
    data: Mapping[str, object] | None = None,
) -> Iterator[Session]:
    """
    Connect to all hosts of an inventory, or to those that ``limit`` names by glob or group.

    ``data`` overrides host data. InventoryError when there is no host to connect to.
    """
    # What happens on one host goes into the caller's report, not to the terminal.
    for name in ("pyinfra", "paramiko"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    util.getpass = _no_prompt
    state, config = State(check_for_changes=False), Config(PARALLEL=parallel)
    ctx_state.set(state)  # what an inventory file may use, as on a pyinfra run
    ctx_config.set(config)
    if inventory.endswith(".py") and not Path(inventory).exists():
        raise InventoryError(f"{inventory}: no such file")
    try:
        loaded = make_inventory(inventory)
        overridden = {host.name: {key: host.data.get(key) for key in data or {}} for host in loaded}
        loaded.override_data.update(data or {})
        state.init(loaded, config)
    except Exception as error:  # an inventory is a program: it may fail in any way
        reason = getattr(error, "exception", error)  # what pyinfra has wrapped
        raise InventoryError(f"{inventory}: {type(reason).__name__}: {reason}") from error
    hosts = [host for host in loaded if not limit or _matches(host, limit)]
    if not hosts:
        wanted = f"no host that matches {', '.join(limit)}" if limit else "no inventory with a host"
        raise InventoryError(f"{inventory}: {wanted}")
    pool = Pool(parallel)
    outcomes = dict(zip(hosts, pool.map(_connect, hosts), strict=True))
    connected = tuple(host for host, error in outcomes.items() if not error)
    for host in connected:
        state.activate_host(host)
    try:
        errors = {host.name: error for host, error in outcomes.items() if error}
        yield Session(connected, errors, pool, overridden)
    finally:
        disconnect_all(state)


def _no_prompt(prompt: str = "", stream: object = None) -> str:
    """One host that asks for a password must not hold up the others."""
    raise OSError("sudo asks for a password: give the account a NOPASSWD rule")


def _matches(host: Host, limit: Sequence[str]) -> bool:
    return any(fnmatchcase(host.name, pattern) or pattern in host.groups for pattern in limit)


def _connect(host: Host) -> str:
    """The reason why there is no connection; empty when there is one."""
    try:
        with Timeout(_CONNECT):
            host.connect(show_errors=False, raise_exceptions=True)
    except Timeout:
        return f"timed out: no login within {_CONNECT} seconds"
    except Exception as error:  # one host's trouble, whatever it is, stays with that host
        return " ".join(str(error).split()) or type(error).__name__
    return ""


def run_script(host: Host, script: str, timeout: int) -> tuple[bool, list[str], str]:
    """Run a script of POSIX shell on a host: success, lines of output, and why it was lost."""
    try:
        success, output = host.run_shell_command(
            StringCommand("sh", "-s"), _stdin=script, _timeout=timeout
        )
    except TimeoutError:
        return False, [], f"no answer within {timeout} seconds"
    except Exception as error:  # as above
        return False, [], " ".join(str(error).split()) or type(error).__name__
    return success, output.stdout_lines, ""


def elevates(host: Host) -> bool:
    """True when the inventory has commands run through sudo."""
    return bool(host.data.get("_sudo"))


def jump_host(host: Host) -> str:
    """The ProxyJump that leads to a host; empty when there is none."""
    return str(_ssh_config(host).get("proxyjump", ""))


def host_key_known(host: Host) -> bool:
    """False when a connected SSH host showed a key that no known_hosts file names."""
    client: Any = getattr(host.connector, "client", None)
    if client is None:
        return True
    name = _ssh_config(host).get("hostname") or _ssh_name(host)
    port = client._ssh_config.get("port", 22)
    return client._host_keys.lookup(name if port == 22 else f"[{name}]:{port}") is not None


def _ssh_name(host: Host) -> str:
    return str(host.data.get("ssh_hostname") or host.name)


def _ssh_config(host: Host) -> Mapping[str, Any]:
    config = get_ssh_config(host.data.get("ssh_config_file"))
    return config.lookup(_ssh_name(host)) if config else {}
