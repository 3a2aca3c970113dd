"""Reads the arguments, runs one subcommand, and turns its outcome into an exit status.

0: done. 1: it could not be done, or there is nothing to show; the reason is on standard error. 2: the arguments
make no sense. A subcommand is a module with a `COMMAND`, listed here.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from rich.console import Console

from fuel_async.cli import devices, explain, ops
from fuel_async.errors import FuelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.cli.command import Command

COMMANDS: tuple[Command, ...] = (devices.COMMAND, explain.COMMAND, ops.COMMAND)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` (else the process's own arguments) spells; return the exit status."""
    parser = _parser()
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as stop:  # argparse has said what it had to say
        return int(stop.code or 0)
    command: Command = arguments.command
    try:
        return command.run(arguments, Console(highlight=False, markup=False))
    except FuelError as error:
        print(f"fuel-async: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fuel-async", description="Look at what fuel_async finds on this machine.")
    choices = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        one = choices.add_parser(command.name, help=command.summary, description=command.description)
        command.add_arguments(one)
        one.set_defaults(command=command)
    return parser
