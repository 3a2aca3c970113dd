"""Graphs of the family "workflows": what is said without WfCommons, and what comes of it where it is installed."""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.dags import KINDS, MEAN_WORK_NS, Dag
from benchmarks.families import FAMILIES, WORKFLOWS
from benchmarks.machines import MACHINES, instances, problem_on
from benchmarks.makespan import ONLY_HEFT, TARGETS, families_of, targets_of
from benchmarks.simulated_run import carried_out_ns
from benchmarks.workflows import (
    LARGER,
    LEAST_WORK_NS,
    RECIPES,
    WorkflowsMissing,
    has_workflows,
    of_recipe,
    output_nbytes,
    recipes_for,
    runtime_s,
    shared_generators,
)
from fuel_async.ir import no_breath
from fuel_async.plan.placement import place, tables_of

if TYPE_CHECKING:
    from collections.abc import Mapping

#: With FUEL_ASYNC_TEST_WORKFLOWS=1 in the environment a missing package is a failure, and else a skip with the reason.
DEMANDED = os.environ.get("FUEL_ASYNC_TEST_WORKFLOWS") == "1"


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wfcommons", None)


@pytest.fixture(scope="module")
def recipes() -> Any:
    """The recipes of the package, which takes a second to load."""
    if not has_workflows():
        (pytest.fail if DEMANDED else pytest.skip)(str(WorkflowsMissing()))
    of_recipe("Srasearch", 30, random.Random(0))
    return sys.modules["wfcommons.wfchef.recipes"]


@pytest.fixture(scope="module")
def graphs(recipes: Any) -> Mapping[str, Dag]:
    return {recipe: drawn(recipe) for recipe in RECIPES}


def drawn(recipe: str, tasks: int = 120, seed: int = 5) -> Dag:
    return of_recipe(recipe, tasks, random.Random(seed))


# --- without the package ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("absent")
def test_without_the_package_the_family_is_left_out_unless_it_is_asked_for() -> None:
    assert not has_workflows()
    assert list(families_of((), quick=False)) == [name for name in FAMILIES if name != WORKFLOWS]
    with pytest.raises(WorkflowsMissing, match=r"install it: pip install '\.\[workflows\]'"):
        families_of(["tree", WORKFLOWS], quick=True)
    with pytest.raises(WorkflowsMissing):
        next(instances(0, [WORKFLOWS], (60,), 1))


@pytest.mark.usefixtures("absent")
def test_the_command_says_what_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["makespan", "--quick", "--family", WORKFLOWS]) == 2
    printed = capsys.readouterr()
    assert not printed.out
    assert printed.err == f"makespan: {WorkflowsMissing()}\n"


def test_the_families_that_are_chosen_are_judged_by_what_holds_for_each() -> None:
    assert families_of(["fft", "tree"], quick=True) == ["fft", "tree"]
    assert targets_of(()) == TARGETS
    assert {"vs_heft", "vs_heft_hard", "vs_heft_worst"} <= targets_of(["fft"]).keys() < TARGETS.keys()
    assert "vs_heft_mean" not in targets_of(["fft"])


def test_an_unknown_family_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["makespan", "--family", "forest"])
    assert ended.value.code == 2
    assert "invalid choice: 'forest'" in capsys.readouterr().err


def test_the_generators_that_everybody_shares_are_left_as_they_were() -> None:
    def state() -> object:
        kind, keys, *rest = np.random.get_state()
        return random.getstate(), kind, list(keys), rest, list(warnings.filters)

    before, found = state(), []
    for _ in range(2):
        with shared_generators(3):
            warnings.filterwarnings("ignore", message="whatever the package does")
            found.append((random.random(), np.random.random()))
        assert state() == before
        random.random(), np.random.random()
        before = state()
    assert found[0] == found[1]


def test_recipes_are_drawn_that_make_graphs_of_the_size() -> None:
    assert recipes_for(250) == list(RECIPES)
    assert recipes_for(60) == [name for name, least in RECIPES.items() if least <= 90]
    assert recipes_for(1) == ["Srasearch"]


class _Task:
    def __init__(self, runtime: float, *sizes: int) -> None:
        self.runtime = runtime
        self.output_files = [_File(size) for size in sizes]


class _File:
    def __init__(self, size: int) -> None:
        self.size = size


def test_nothing_is_longer_or_larger_than_was_recorded() -> None:
    recorded = {"runtime": {"max": 9.5}, "output": {".fits": {"max": 100}, ".tbl": {"max": 20}}}
    assert [runtime_s(_Task(runtime), recorded) for runtime in (3.0, 6850.0)] == [3.0, 9.5]
    tasks = [_Task(1.0), _Task(1.0, 70, 10), _Task(1.0, 9_000, 10)]
    assert [output_nbytes(task, recorded) for task in tasks] == [1.0, 80.0, 120.0]


# --- with the package -------------------------------------------------------------------------------------------------


def test_every_recipe_is_drawn_but_the_one_without_edges(recipes: Any) -> None:
    theirs = {name.removesuffix("Recipe") for name in dir(recipes) if name.endswith("Recipe")}
    assert theirs == {*RECIPES, "Rnaseq"}
    assert recipes.RnaseqRecipe.from_num_tasks(80).build_workflow().number_of_edges() == 0


@pytest.mark.usefixtures("recipes")
@pytest.mark.parametrize("recipe", RECIPES)
def test_graphs_come_near_the_size_that_is_asked(recipe: str) -> None:
    assert len(drawn(recipe, 1).preds) == RECIPES[recipe]
    for tasks in (120, 250):
        assert 0.95 * tasks <= len(drawn(recipe, tasks).preds) <= tasks


@pytest.mark.usefixtures("recipes")
def test_no_graph_of_the_family_is_much_larger_than_asked() -> None:
    for seed in range(6):
        made = FAMILIES[WORKFLOWS].draw(60, random.Random(seed))
        assert 50 <= len(made.preds) <= LARGER * 60


@pytest.mark.parametrize("recipe", RECIPES)
def test_times_are_of_the_scale_of_other_families(recipe: str, graphs: Mapping[str, Dag]) -> None:
    made = graphs[recipe]
    assert len(made.preds) == len(made.work_ns) == len(made.nbytes) == len(made.kinds)
    assert all(pred < task for task, preds in enumerate(made.preds) for pred in preds)
    assert all(len(set(preds)) == len(preds) for preds in made.preds)
    assert min(made.work_ns) >= LEAST_WORK_NS
    assert max(made.work_ns) <= 0.5 * sum(made.work_ns)
    assert sum(made.work_ns) / len(made.work_ns) == pytest.approx(MEAN_WORK_NS, rel=0.01)
    assert min(made.nbytes) >= 1
    assert set(made.kinds) <= set(KINDS)


@pytest.mark.parametrize("recipe", RECIPES)
def test_equal_seeds_draw_equal_graphs_whatever_others_draw(recipe: str, graphs: Mapping[str, Dag]) -> None:
    random.random(), np.random.random()
    assert drawn(recipe) == graphs[recipe]
    assert drawn(recipe, seed=6) != graphs[recipe]


#: Of `drawn(recipe)`: tasks, edges, and a digest of who reads whom and of kinds. Each process hashes strings in its own
#: way, which must not matter.
REFERENCE: Mapping[str, tuple[int, int, str]] = {
    "Blast": (120, 351, "14bcd1d6ff16"),
    "Bwa": (120, 464, "03108c5d5f0e"),
    "Cycles": (119, 175, "eb1b37b254a8"),
    "Epigenomics": (117, 143, "e4cfcb428b71"),
    "Genome": (120, 184, "f1e74bd98bf8"),
    "Montage": (120, 276, "1523922968f3"),
    "Seismology": (120, 119, "d6e86537ba90"),
    "Soykb": (120, 258, "b5c91e2b76b5"),
    "Srasearch": (119, 174, "c002f48beda3"),
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_seed_draws_the_graph_of_reference(recipe: str, graphs: Mapping[str, Dag]) -> None:
    made = graphs[recipe]
    digest = hashlib.sha256(repr((made.preds, made.kinds)).encode()).hexdigest()[:12]
    assert (len(made.preds), sum(map(len, made.preds)), digest) == REFERENCE[recipe]


#: By machine: at most what the times of plans beside HEFT's are in the mean over recipes, where a move takes half of a
#: task. They depend a little on the interpreter: `sum` rounds otherwise from Python 3.12 on.
VS_HEFT: Mapping[str, float] = {"equal": 0.999, "4:2:1": 0.990, "slow-link": 0.959, "mixed": 0.946}


@pytest.mark.parametrize("machine", MACHINES)
def test_plans_are_as_far_below_those_of_heft_as_the_reference(machine: str, graphs: Mapping[str, Dag]) -> None:
    found = []
    for recipe, made in graphs.items():
        problem = problem_on(MACHINES[machine], made, random.Random(f"{machine}/{recipe}"), 0.5)
        problem.verify()
        tables, plan = tables_of(problem, no_breath), place(problem)
        heft_ns = carried_out_ns(tables, place(problem, ONLY_HEFT), problem.times_ns)
        found.append(carried_out_ns(tables, plan, problem.times_ns) / heft_ns)
    assert max(found) <= 1 + 1e-9
    assert sum(found) / len(found) <= VS_HEFT[machine]


@pytest.mark.usefixtures("recipes")
def test_an_instance_on_each_machine_is_a_problem() -> None:
    drawn = list(instances(5, [WORKFLOWS], (30,), 1, contended=True))
    assert [(one.family, one.machine) for one in drawn] == [(WORKFLOWS, name) for name in MACHINES]
    for one in drawn:
        one.problem.verify()


@pytest.mark.usefixtures("recipes")
@pytest.mark.slow
def test_the_family_can_be_run_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["makespan", "--quick", "--json", "--seed", "3", "--family", WORKFLOWS]) == 0
    fields = json.loads(capsys.readouterr().out.rstrip("\n").rsplit("\n", 1)[1])
    assert fields["facts"]["families"] == [WORKFLOWS]
    assert fields["vs_heft"].keys() == {WORKFLOWS}
    assert fields["targets"].keys() == targets_of([WORKFLOWS]).keys()
