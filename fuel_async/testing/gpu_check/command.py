"""The command line of the check."""

from __future__ import annotations

import argparse
import asyncio
import platform
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuel_async.backends import Absent
from fuel_async.testing.gpu_check.breaking import CRASHES, crash
from fuel_async.testing.gpu_check.budget import Budget
from fuel_async.testing.gpu_check.check import QUICK, SECTIONS, Scale, Setting, run_check
from fuel_async.testing.gpu_check.finding import entry_points_there, find

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from fuel_async.testing.gpu_check.report import Report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the check; 0 when all is good, 1 when there are faults, 2 when there is no device."""
    asked = _parser().parse_args(arguments)
    with entry_points_there(), _double(asked.double):
        found = find()
        if isinstance(found, Absent):
            print(f"no CUDA device: {found.reason}")
            return 2
        if asked.crash:
            return crash(found, asked.crash, is_double=asked.double)
        setting = Setting(found, QUICK if asked.double else Scale(), asked.seed, asked.double)
        facts = {
            "devices": ", ".join(f"{one.info.location} {one.info.name}" for one in found),
            "driver": found[0].info.detail,
            "host": f"{platform.platform()}, Python {platform.python_version()}",
            "budget_s": asked.budget_s,
            "on": "the double" if asked.double else "hardware",
        }
        report = asyncio.run(run_check(setting, Budget(asked.budget_s), facts, lambda told: _tell(told, asked.json)))
    print(report.table())
    return 0 if report.is_good else 1


def _tell(report: Report, path: str | None) -> None:
    """After each section: what is there so far is kept, should the process be ended from outside."""
    last = report.sections[-1]
    print(f"{last.name}: {'good' if last.is_good else 'FAULTS'} after {last.took_s:.1f} s", flush=True)
    if path is not None:
        Path(path).write_text(report.json() + "\n", encoding="utf-8")


def _double(wanted: bool) -> AbstractContextManager[Any]:
    if not wanted:
        return nullcontext()
    from fuel_async.testing.cuda_double import DeviceModel, doubled

    return doubled([DeviceModel(memory_nbytes=512 << 20, kernel_s=1e-4)] * 2)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m fuel_async.testing.gpu_check", description=__doc__)
    names = ", ".join(name for name, _, _ in SECTIONS)
    parser.add_argument("--budget-s", type=float, default=240.0, help=f"seconds for all of {names}")
    parser.add_argument("--json", metavar="PATH", help="where the report goes, after each section anew")
    parser.add_argument("--double", action="store_true", help="run on the double, with little to do")
    parser.add_argument("--seed", type=int, default=0, help="which cases of the conformance suite come first")
    parser.add_argument("--crash", choices=list(CRASHES), help=argparse.SUPPRESS)
    return parser
