"""`fuel-async explain`: what a run of a graph would do, and why; over the devices here or a machine in a file.

Nothing is executed: devices are opened, or described, and the graph is planned.
"""

from __future__ import annotations

import asyncio
import json
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from fuel_async import Executor
from fuel_async.backends.sim import SimMachine, describe_machine
from fuel_async.cli.command import Command, argument, print_line, print_table
from fuel_async.cli.explained import chapters
from fuel_async.cli.graphs import find_graph
from fuel_async.errors import MachineDescriptionError, UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from fuel_async import Graph
    from fuel_async.backends import Device
    from fuel_async.runtime import Explanation

#: Columns of what is printed off a terminal.
COLUMNS = 110


def _run(arguments: argparse.Namespace, console: Console) -> int:
    graph = find_graph(arguments.graph)
    sizes = _sizes(graph, dict(arguments.bind or ()))
    machine = None if arguments.machine is None else read_machine(arguments.machine)
    try:
        devices = None if machine is None else machine.devices
        explanation = asyncio.run(_explain(graph, devices, sizes, warm=not arguments.first_run))
    finally:
        if machine is not None:
            machine.close()
    if arguments.json:
        print_line(console, json.dumps(explanation.as_dict(), indent=2))
        return 1 if explanation.error else 0
    numbers = [one.number for one in explanation.regions]
    wanted = numbers if arguments.all else arguments.region or []
    unknown = [number for number in wanted if number not in numbers]
    if unknown:
        raise UserError(f"there is no region {unknown[0]}; there are {len(numbers)}, from 0")
    width = console.width if console.is_terminal else COLUMNS
    for chapter in chapters(explanation, wanted, width, f"{Path.cwd()}{os.sep}"):
        for line in chapter.before:
            print_line(console, line)
        if chapter.rows:
            print_table(console, chapter.columns, chapter.rows)
        for line in chapter.behind:
            print_line(console, line)
    return 1 if explanation.error else 0


async def _explain(
    graph: Graph, devices: Sequence[Device] | None, sizes: Mapping[str, int], *, warm: bool
) -> Explanation:
    async with Executor(devices) as executor:
        return executor.explain(graph, sizes=sizes, warm=warm)


def _sizes(graph: Graph, bound: Mapping[str, int]) -> dict[str, int]:
    """The sizes of the graph's symbols: as bound, else as hinted. `UserError` for a symbol that it does not have."""
    symbols = graph.freeze().symbols
    for name in bound:
        if name not in symbols:
            there = f"it has {', '.join(symbols)}" if symbols else "it has none"
            raise UserError(f"graph {graph.name!r} has no symbol {name!r}; {there}")
    sizes = {**graph.hints, **bound}
    for name in symbols:
        if name not in sizes:
            raise UserError(f"graph {graph.name!r} has the symbol {name!r}, without a hint; give --bind {name}=SIZE")
    return {name: sizes[name] for name in symbols}


def read_machine(path: Path) -> SimMachine:
    """Return the machine that a TOML file describes. `MachineDescriptionError` for what it cannot say."""
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise MachineDescriptionError(str(path), f"cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise MachineDescriptionError(str(path), f"is no TOML: {error}") from error
    described = describe_machine(table)
    return SimMachine(described.devices, links=described.links)


def _binding(text: str) -> tuple[str, int]:
    name, _, size = text.partition("=")
    if not (name and size.isdecimal()):
        raise UserError(f"{text!r} binds nothing; write NAME=SIZE, for example batch=8")
    return name, int(size)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("graph", metavar="MODULE:GRAPH", help="a graph, or a function that returns one")
    parser.add_argument(
        "--machine", type=Path, metavar="FILE", help="TOML that describes devices and links (default: those found here)"
    )
    parser.add_argument(
        "--bind",
        type=argument(_binding),
        nargs="+",
        action="extend",
        metavar="NAME=SIZE",
        help="sizes of symbolic dimensions (default: their hints)",
    )
    parser.add_argument(
        "--first-run", action="store_true", help="as if the graph's constants were still to be sent to the devices"
    )
    parser.add_argument(
        "--region", type=int, action="append", metavar="N", help="show everything about a region; may be repeated"
    )
    parser.add_argument("--all", action="store_true", help="show everything about all regions")
    parser.add_argument("--json", action="store_true", help="print all of it as JSON")


COMMAND = Command(
    name="explain",
    summary="say where the parts of a graph would run, when, and why there",
    description="Say what a run of a graph would do on idle devices, without running anything: its regions, their "
    "kernels and devices, what each costs and who says so, what else was possible and why it lost, and the predicted "
    "timeline. Status 1 if the run would fail.",
    add_arguments=_add_arguments,
    run=_run,
)
