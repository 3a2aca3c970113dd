"""Task graphs like recorded workflows of the sciences, made by the recipes of WfCommons (Coleman et al., 2022).

The package is the extra `workflows` (LGPL-3). It draws from the generators that everybody shares, and from its import
on it silences warnings: both are left as they were.
"""

from __future__ import annotations

import math
import random
import warnings
from contextlib import contextmanager
from graphlib import TopologicalSorter
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.dags import KINDS, MEAN_WORK_NS, SHARES, Dag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: By recipe: tasks of the smallest graph it makes. Rnaseq is left out: its tasks read nothing from each other.
RECIPES: Mapping[str, int] = {
    "Blast": 48,
    "Bwa": 104,
    "Cycles": 71,
    "Epigenomics": 41,
    "Genome": 52,
    "Montage": 58,
    "Seismology": 101,
    "Soykb": 96,
    "Srasearch": 22,
}

#: Graphs are at most this many times as large as asked, where there is a recipe for it.
LARGER = 1.5

#: The shortest task, on a device of speed 1: recorded ones are up to a million times shorter than the mean.
LEAST_WORK_NS = 2_000.0

#: Start and end of all, which recipes count among the tasks they are asked for.
_ENDS = 2


class WorkflowsMissing(ImportError):
    """WfCommons is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "graphs of the family 'workflows' are made by WfCommons; install it: pip install '.[workflows]'"
        )


def has_workflows() -> bool:
    """Whether WfCommons is installed."""
    return find_spec("wfcommons") is not None


def workflow(tasks: int, chance: random.Random) -> Dag:
    """A graph of about so many tasks, of a recipe that makes such. `WorkflowsMissing` without the package."""
    return of_recipe(chance.choice(recipes_for(tasks)), tasks, chance)


def recipes_for(tasks: int) -> list[str]:
    """The recipes whose smallest graphs are not much larger than that, or the one that makes the smallest."""
    fitting = [name for name, least in RECIPES.items() if least <= LARGER * tasks]
    return fitting or [min(RECIPES, key=RECIPES.__getitem__)]


def of_recipe(name: str, tasks: int, chance: random.Random) -> Dag:
    """A graph of one recipe: of at most so many tasks, or of few more than its smallest has. `WorkflowsMissing`."""
    if not has_workflows():
        raise WorkflowsMissing
    seed = chance.randrange(1 << 31)
    with shared_generators(seed):
        made, stats = _build(name, max(tasks, RECIPES[name]) + _ENDS)
    return _dag_of(made, stats, chance)


@contextmanager
def shared_generators(seed: int) -> Iterator[None]:
    """Begin a sequence in Python's and numpy's own generators, and leave them, and warnings, as they were."""
    before, numpy_before = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        random.setstate(before)
        np.random.set_state(numpy_before)


def _build(name: str, wanted: int) -> tuple[Any, Mapping[str, Any]]:
    """The package's graph, and what was recorded of each of its programs."""
    from wfcommons import WorkflowGenerator, wfchef

    most = 2 * wanted
    while True:
        recipe = getattr(wfchef.recipes, f"{name}Recipe").from_num_tasks(wanted)
        try:
            return WorkflowGenerator(recipe).build_workflow(), recipe._workflow_recipe()
        except ValueError:  # the graph that it begins with is larger: nothing has been drawn
            if wanted > most:
                raise
            wanted += 1 + wanted // 50


def _dag_of(made: Any, stats: Mapping[str, Any], chance: random.Random) -> Dag:
    """Times with the mean that those of other families have. Tasks of one program are of one kind."""
    graph = {name: sorted(made.predecessors(name)) for name in sorted(made.nodes)}
    names = list(TopologicalSorter(graph).static_order())
    number = {name: place for place, name in enumerate(names)}
    tasks = [made.tasks[name] for name in names]
    recorded = [stats[task.program] for task in tasks]
    seconds = [runtime_s(task, its) for task, its in zip(tasks, recorded, strict=True)]
    factor = MEAN_WORK_NS * len(seconds) / math.fsum(seconds)
    programs = sorted({task.program for task in tasks})
    kinds = dict(zip(programs, chance.choices(KINDS, SHARES, k=len(programs)), strict=True))
    return Dag(
        [sorted(number[pred] for pred in graph[name]) for name in names],
        [max(LEAST_WORK_NS, factor * runtime) for runtime in seconds],
        [output_nbytes(task, its) for task, its in zip(tasks, recorded, strict=True)],
        [kinds[task.program] for task in tasks],
    )


# The package draws from fitted distributions, some without a mean, and multiplies by the longest that was recorded: a
# task may come out hundreds of times longer than any ever was. What was recorded is the most.


def runtime_s(task: Any, recorded: Mapping[str, Any]) -> float:
    return min(float(task.runtime), float(recorded["runtime"]["max"]))


def output_nbytes(task: Any, recorded: Mapping[str, Any]) -> float:
    """Of all files that a task writes, at least 1: each reader reads all of them."""
    most = sum(float(file["max"]) for file in recorded["output"].values())
    return max(1.0, min(float(sum(file.size for file in task.output_files)), most))
