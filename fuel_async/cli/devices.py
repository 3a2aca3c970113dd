"""`fuel-async devices`: the devices that an executor finds, how fast they are, and why there are no others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fuel_async import Executor
from fuel_async.backends import discover
from fuel_async.cli.command import Column, Command, argument, print_line, print_table
from fuel_async.ir import DeviceLocation

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from fuel_async.backends import Device

COLUMNS = (
    Column("device"),
    Column("name"),
    Column("memory", right=True),
    Column("budget", right=True),
    Column("lanes", right=True),
    Column("elementwise", right=True),
    Column("matmul", right=True),
    Column("traffic", right=True),
    Column("call", right=True),
)


def _run(arguments: argparse.Namespace, console: Console) -> int:
    found, absent = asyncio.run(_look(arguments.device or _everything()))
    print_table(console, COLUMNS, found)
    if not absent:
        print_line(console, "No other backend is installed.")
    for name, reason in absent.items():
        print_line(console, f"{name}: absent: {reason}")
    return 0


def _everything() -> Sequence[DeviceLocation] | None:
    """All that there is, what nobody takes by default included."""
    return [found.info.location for found in discover().found] or None


async def _look(wanted: Sequence[DeviceLocation] | None) -> tuple[list[tuple[str, ...]], Mapping[str, str]]:
    """Open the devices as an executor does, under its share of library threads, and read off their facts."""
    async with Executor(wanted) as executor:
        return [_row(device) for device in executor.devices], dict(executor.absent)


def _row(device: Device) -> tuple[str, ...]:
    info, rates = device.info, device.rates
    words = [info.name, info.detail, "" if info.by_default else "used only where it is named"]
    return (
        str(info.location),
        ", ".join(filter(None, words)),
        _gib(info.total_nbytes),
        _gib(device.memory.budget_nbytes),
        str(len(device.lanes)),
        # One operation a nanosecond is a giga-operation a second; so with bytes.
        f"{rates.flops_per_ns:.1f} GFLOP/s",
        f"{rates.dense_flops_per_ns:.1f} GFLOP/s",
        f"{rates.bytes_per_ns:.1f} GB/s",
        "unknown" if rates.call_ns is None else f"{rates.call_ns / 1e3:.2f} us",
    )


def _gib(nbytes: int | None) -> str:
    return "unknown" if nbytes is None else f"{nbytes / (1 << 30):.1f} GiB"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    what = "show only these, for example cpu:0 (default: all that are found)"
    parser.add_argument("device", nargs="*", type=argument(DeviceLocation.parse), help=what)


COMMAND = Command(
    name="devices",
    summary="list devices with their memory, lanes and measured speeds",
    description="List the devices that an executor finds here: memory and the part of it that runs may use, lanes, "
    "measured speed of elementwise arithmetic, of matrix products and of memory traffic, and the time to call a "
    "kernel. Below: why the other installed backends offer none.",
    add_arguments=_add_arguments,
    run=_run,
)
