"""The families of task graphs that plans are compared on, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks import dags
from benchmarks.workflows import workflow

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from benchmarks.dags import Dag


@dataclass(frozen=True, slots=True)
class Family:
    draw: Callable[[int, random.Random], Dag]
    #: The mean time of a move in units of that of a task, drawn between two bounds; None to leave sizes alone.
    ratio: tuple[float, float] | None = (0.1, 2.0)


#: Made by a package that need not be there.
WORKFLOWS = "workflows"

FAMILIES: Mapping[str, Family] = {
    "stencil": Family(dags.stencil),
    "fft": Family(dags.fft),
    "tree": Family(dags.tree),
    "spread": Family(dags.spread),
    "random": Family(dags.random_pattern),
    "fork-join": Family(dags.fork_join),
    "layered-0.1": Family(dags.layered, (0.1, 0.1)),
    "layered-1": Family(dags.layered, (1.0, 1.0)),
    "layered-10": Family(dags.layered, (10.0, 10.0)),
    "encoder": Family(dags.encoder, None),
    "ensemble": Family(dags.ensemble, None),
    WORKFLOWS: Family(workflow),
}
