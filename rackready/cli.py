"""The command ``rackready``. Each command imports what it needs itself, so that all start fast."""

from __future__ import annotations

import keyword
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rackready import __version__

if TYPE_CHECKING:
    from rackready.policy import Policy

_existing = click.Path(exists=True, dir_okay=False, path_type=Path)
_given = click.Path(exists=True, path_type=Path, allow_dash=True)
_limit = click.option("--limit", multiple=True, metavar="PATTERN", help="Host glob or group.")


class Refusal(click.ClickException):
    """Something that was asked for does not exist, or is not as it should be."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        from rackready.report.table import printable

        super().__init__(printable(message))  # names of files may hold anything


@click.group()
@click.version_option(__version__, message="%(version)s")
def main() -> None:
    """Make racks of AI accelerator nodes ready for work, and prove it.

    The main job is a pyinfra run: pyinfra INVENTORY deploys/metax_node.py
    """


@main.command()
@click.argument("inventory")
@_limit
def preflight(inventory: str, limit: tuple[str, ...]) -> None:
    """Can every host of INVENTORY be worked on? Nothing is changed."""
    from rackready import preflight
    from rackready.report.table import console
    from rackready.session import InventoryError

    try:
        sys.exit(preflight.run(inventory, limit, console()))
    except InventoryError as error:
        raise Refusal(str(error)) from error


@main.command("inventory")
@click.argument("source", metavar="FROM")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Default: standard output.")
@click.option("--group", default="metax", show_default=True, help="Group of the hosts.")
@click.option("--force", is_flag=True, help="Overwrite the output file.")
def inventory(source: str, output: Path | None, group: str, force: bool) -> None:
    """Write an inventory file of the hosts FROM somewhere else.

    FROM is a CSV file, a node set such as c500-[001-032], a file with one name a line (scontrol
    show hostnames), or - for such lines on standard input.
    """
    from rackready import roster

    if not group.isidentifier() or keyword.iskeyword(group):
        raise Refusal(
            f"--group {group!r}: a group is a name as Python has them: letters, digits, _"
        )
    try:
        text = roster.inventory(roster.read(source, sys.stdin), source, group)
    except roster.RosterError as error:
        raise Refusal(str(error)) from error
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        with output.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise Refusal(f"{output} is already there; --force overwrites it") from error
    except OSError as error:
        raise Refusal(f"{output}: {error.strerror}") from error


@main.command()
@click.argument("captures", nargs=-1, required=True, type=_existing)
@click.option("--policy", "policy_file", type=_existing, help="What the site wants, as YAML.")
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON.")
def check(captures: tuple[Path, ...], policy_file: Path | None, as_json: bool) -> None:
    """Judge CAPTURES that were made on nodes before.

    What a site waives and wishes is in its --policy. Exit status: 0 all nodes reach the goal, 1 one
    does not, 2 a file is no capture.
    """
    from rackready.report.captures import check_captures
    from rackready.report.table import console

    sys.exit(check_captures(captures, _policy(policy_file), as_json, console()))


def _policy(path: Path | None) -> Policy:
    from rackready.checks import all_checks
    from rackready.policy import Policy, PolicyError

    try:
        policy = Policy.from_file(path) if path else Policy()
        policy.require_checks(all_checks())
    except PolicyError as error:
        raise Refusal(str(error)) from error
    return policy


@main.command()
@click.argument("paths", nargs=-1, required=True, type=_given, metavar="PATH...")
@click.option("--policy", "policy_file", type=_existing, help="What the site wants, as YAML.")
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON.")
def diagnose(paths: tuple[Path, ...], policy_file: Path | None, as_json: bool) -> None:
    """Say what is wrong, from outputs of tools in files and folders.

    The files of a folder belong to one host, and each of its sub-folders is a host; then the files
    beside them are of the job: launch command, environment, log. A leading line such as
    "# lspci -vvv" says which command printed what follows; most outputs are known by their shape.

    - reads standard input. Exit status: 0 nothing failed (what could not be determined is told, and
    is no failure), 1 something did, 2 wrong usage, or nothing could be read.
    """
    from datetime import date

    from rackready import diagnose
    from rackready.catalog import load_profiles
    from rackready.finding import Verdict
    from rackready.report import diagnosis
    from rackready.report.table import console

    policy = _policy(policy_file)
    try:
        pile = diagnose.collect(paths, policy_file)
        found = diagnose.diagnose(pile, load_profiles(), policy, date.today())
    except OSError as error:
        raise Refusal(f"{error.filename}: {error.strerror}") from error
    if found.unread:
        told = "; ".join(": ".join(filter(None, (g.command, g.reason))) for g in found.unread[:3])
        raise Refusal(f"nothing here could be read: {told}")
    try:
        if as_json:
            for line in diagnosis.as_json(found):
                click.echo(line)
        else:
            diagnosis.print_diagnosis(found, console())
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has enough
    except OSError as error:
        raise Refusal(f"the report can't be written: {error.strerror}") from error
    sys.exit(int(found.verdict is Verdict.FAIL))


@main.command()
@click.argument("inventory")
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("captures"))
@click.option("--mask", "masked", is_flag=True, help="Replace addresses, serial numbers and names.")
@_limit
def capture(inventory: str, output: Path, masked: bool, limit: tuple[str, ...]) -> None:
    """Save what every host of INVENTORY answers to the probe, a file each."""
    from rackready.collect import collect
    from rackready.session import InventoryError

    try:
        collected = collect(inventory, output, masked, limit)
    except InventoryError as error:
        raise Refusal(str(error)) from error
    except OSError as error:
        raise Refusal(f"{error.filename}: {error.strerror}") from error
    for item in collected:
        click.echo(f"{item.host}: {item.lost or item.path}")
    sys.exit(1 if any(item.lost for item in collected) else 0)


@main.command()
@click.argument("check_id", metavar="[ID]", required=False)
def explain(check_id: str | None) -> None:
    """What check ID looks at, why it matters, and how to put it right; all ids without one."""
    from rackready.explain import explain, index

    try:
        click.echo(explain(check_id) if check_id else index())
    except LookupError as error:
        raise Refusal(str(error.args[0])) from error


@main.command()
def profiles() -> None:
    """The products that rackready knows."""
    from rich import box
    from rich.table import Table

    from rackready import catalog
    from rackready.report.table import console

    table = Table("profile", "vendor", "known by", box=box.SIMPLE)
    for column in ("values with a source", "contested"):
        table.add_column(column, justify="right")
    for row in catalog.rows(catalog.load_profiles()):
        table.add_row(row.name, row.vendor, row.known_by, str(row.values), str(row.contested))
    console().print(table)


@main.group()
def emulator() -> None:
    """The embedded rack."""


@emulator.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
def reset(names: tuple[str, ...]) -> None:
    """Put emulated nodes back to how they were described; all of them by default."""
    from rackready.emulator import tree

    try:
        done = tree.reset(names)
    except LookupError as error:
        raise Refusal(str(error.args[0])) from error
    for name in done:
        click.echo(f"{name}: is built anew by the next run")
