"""`python -m benchmarks [NAME ...] [--json] [--quick] [--check] [--seed N] [--family NAME]`: measure, compare, print.

Each benchmark compares what it computed with a reference before it prints anything. With several names, or none for all
of them, each runs in a process of its own and prints its own JSON line. A missed target is reported, and fails the
command only with --check.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console

from benchmarks import (
    balance,
    cuda,
    first_run,
    forkjoin,
    heartbeat,
    kernels,
    makespan,
    minilm,
    overhead,
    plan,
    vulkan,
)
from benchmarks.families import FAMILIES
from benchmarks.report import Report, WrongResult
from benchmarks.workflows import WorkflowsMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

BENCHMARKS: Mapping[str, Callable[..., Report]] = {
    "overhead": overhead.measure,
    "heartbeat": heartbeat.measure,
    "first-run": first_run.measure,
    "minilm": minilm.measure,
    "forkjoin": forkjoin.measure,
    "balance": balance.measure,
    "kernels": kernels.measure,
    "vulkan": vulkan.measure,
    "cuda": cuda.measure,
    "plan": plan.measure,
    "makespan": makespan.measure,
}

#: Those that draw what they measure, from the seed that is given, and from the families.
DRAWN = frozenset({"makespan"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit status: 0, 1 for a missed target with --check, 2 for a wrong result or a missing package."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all when none")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--quick", action="store_true", help="only show that it works: the figures mean nothing")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    parser.add_argument("--seed", type=int, default=0, help=f"what {', '.join(sorted(DRAWN))} draws from")
    parser.add_argument(
        "--family",
        action="append",
        default=[],
        choices=FAMILIES,
        metavar="NAME",
        help=f"draw only this family of graphs, or these: {', '.join(FAMILIES)}; in {', '.join(sorted(DRAWN))}",
    )
    chosen = parser.parse_args(arguments)
    names = chosen.names or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    if len(names) > 1:
        options = [f"--{name}" for name in ("json", "quick", "check") if getattr(chosen, name)]
        options += [f"--seed={chosen.seed}", *(f"--family={name}" for name in chosen.family)]
        return max(subprocess.call([sys.executable, "-m", "benchmarks", name, *options]) for name in names)
    return _measure(names[0], chosen)


def _measure(name: str, chosen: argparse.Namespace) -> int:
    console = Console(width=None if sys.stdout.isatty() else 100)
    drawn = {"seed": chosen.seed, "families": chosen.family}
    try:
        report = BENCHMARKS[name](chosen.quick, **(drawn if name in DRAWN else {}))
    except (WrongResult, WorkflowsMissing) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    report = replace(report, facts={**report.facts, "quick": chosen.quick})
    report.show(console)
    if chosen.json:
        print(report.as_json())
    return 1 if chosen.check and report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
