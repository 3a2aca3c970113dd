"""What a subcommand is, and how its tables are printed: drawn on a terminal, aligned text everywhere else."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table

from fuel_async.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand; `run` returns the exit status."""

    name: str
    summary: str
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Console], int]


@dataclass(frozen=True, slots=True)
class Column:
    """The heading of a column, and whether it holds numbers."""

    heading: str
    right: bool = False


def print_table(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below their headings. Off a terminal nothing is wrapped, cut or drawn: one line a row."""
    if console.is_terminal:
        table = Table()
        for column in columns:
            table.add_column(column.heading, justify="right" if column.right else "left")
        for row in rows:
            table.add_row(*row)
        console.print(table)
        return
    lines = [[column.heading for column in columns], *rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        ]
        print_line(console, "  ".join(cells).rstrip())


def print_line(console: Console, text: str) -> None:
    """Print one line as it is, however long."""
    console.print(text, soft_wrap=True)


def argument(parse: Callable[[str], object]) -> Callable[[str], object]:
    """Return `parse` as the type of an argument: its `UserError` becomes argparse's, in our words."""

    def parsed(text: str) -> object:
        try:
            return parse(text)
        except UserError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parsed
