"""The check as a whole: its sections in order, each within its share of the budget."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

from fuel_async.testing.gpu_check.breaking import break_things
from fuel_async.testing.gpu_check.encoder import Shape
from fuel_async.testing.gpu_check.looking import crowd, judge, look
from fuel_async.testing.gpu_check.report import Report, Section
from fuel_async.testing.gpu_check.timing import TINY, time_things

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from fuel_async.backends import Found
    from fuel_async.testing.gpu_check.budget import Budget

    #: What one section does.
    Part = Callable[["Setting", Section, Budget], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is done."""

    #: Runs at once, in all.
    runs: int = 5_000
    kernels: int = 200
    rounds: int = 30
    awaits: int = 500
    #: Sides of the matrices that are multiplied, and how many products follow one another.
    size: int = 4_096
    products: int = 8
    copied_nbytes: int = 256 << 20
    encoder: Shape = field(default_factory=Shape)
    #: What a child may need.
    child_s: float = 20.0


#: For the double, which computes on the host.
QUICK = Scale(
    runs=60, kernels=10, rounds=2, awaits=5, size=32, products=2, copied_nbytes=1 << 20, encoder=TINY, child_s=2.0
)


@dataclass(frozen=True, slots=True)
class Setting:
    """What is checked, and how."""

    found: Sequence[Found]
    scale: Scale
    seed: int
    is_double: bool


#: In order: name, share of the budget, and what is done.
SECTIONS: Sequence[tuple[str, float, Part]] = (
    ("discovery", 2, look),
    ("conformance", 40, judge),
    ("concurrency", 13, crowd),
    ("faults", 20, break_things),
    ("timings", 25, time_things),
)


async def run_check(setting: Setting, budget: Budget, facts: dict[str, Any], tell: Callable[[Report], None]) -> Report:
    """Run all sections; `tell` hears of the report after each. What goes wrong in one is a fault of it, not raised."""
    report = Report(facts)
    for place, (name, part, run) in enumerate(SECTIONS):
        section, began = Section(name), perf_counter()
        report.sections.append(section)
        share = budget.share(part, *[later for _, later, _ in SECTIONS[place + 1 :]])
        if budget.is_over:
            section.left_out.append("all of it: the time was over")
        else:
            try:
                await run(setting, section, share)
            except Exception:
                section.faults.append(traceback.format_exc(limit=-6))
        section.took_s = perf_counter() - began
        tell(report)
    return report
