"""The benchmarks work, compare what they compute, and judge by their targets. What they measure is not tested here."""

from __future__ import annotations

import asyncio
import io
import json
import time
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from rich.console import Console

import fuel_async as fa
from benchmarks import fleet, forkjoin, timing, workloads
from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.balance import hindsight_ns
from benchmarks.placements import Job, Problem, best_ns
from benchmarks.report import Figures, Report, Target, WrongResult
from benchmarks.ticks import Ticks
from examples.minilm_assets import AssetsMissing, load_tokenizer, model_folder
from tests.backends.vulkan.support import demanded, options, point_at_drivers

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = {
    "overhead": {
        "bare_ns", "run_ns", "ratio", "run_in_executor_ns", "dask_threads_ns", "single_inline_us",
        "single_lane_us", "bare_hop_us", "single_lane_ratio", "runs_per_s", "runs_timer_p99_ms", "uvloop",
    },
    "heartbeat": {
        "p99_delta_ms", "first_run_p99_delta_ms", "worst_own_stall_ms", "lane_under_busy_loop",
        "naive_p99_delta_ms", "uvloop",
    },
    "first-run": {"us_per_node", "flatness", "phase_us", "uvloop"},
    "minilm": {"ms", "numpy_ms", "torch_ms", "ratio_numpy", "ratio_torch", "golden_error", "default_threads"},
    "forkjoin": {
        "equal_ratio", "unequal_ratio", "regions", "devices", "copies", "best_ms", "random_branches_ratio",
    },
    "balance": {
        "of_ideal", "vs_equal_split", "slowdown_of_hindsight", "several_regions", "predicted_by_actual_later",
        "mean_ms", "p50_ms", "p95_ms", "asyncio", "uvloop",
    },
    "vulkan": {
        "run_us", "run_ratio", "record_us_per_kernel", "await_extra_us", "own_cpu_percent", "two_devices_speedup",
        "run_long_us", "plan_us_per_kernel", "blocked_us", "lane_us", "uvloop",
    },
    "cuda": {
        "balance_of_ideal", "first_of_ideal", "run_us", "run_long_us", "run_ratio", "own_cpu_percent", "uvloop",
    },
    "plan": {
        "full_us", "full_with_ports_us", "quick_us", "quick_with_ports_us", "heft_us", "exponent",
        "memo_us", "memo_gain", "memo_gain_without_ports", "memo_length",
    },
    "makespan": {
        "vs_heft_mean", "vs_heft", "vs_heft_hard", "vs_heft_worst", "vs_heft_on", "vs_bound", "executed_vs_heft",
        "executed_vs_heft_worst", "executed_vs_promised", "executed_on", "live_vs_heft", "live_vs_static",
        "live_with_ports_vs_heft", "live_with_ports_vs_static",
        "scheduled_vs_heft", "scheduled_vs_promised", "scheduled_without_plan_vs_heft", "scheduled_live_vs_heft",
        "executor_vs_heft_mean", "executor_vs_heft", "executor_vs_heft_hard", "executor_vs_heft_on",
        "executor_vs_heft_worst", "executor_vs_promised", "executor_with_ports_vs_heft_mean",
        "executor_with_ports_vs_heft", "executor_with_ports_vs_heft_hard", "executor_with_ports_vs_heft_on",
        "executor_with_ports_vs_heft_worst", "executor_with_ports_vs_promised", "executor_live_vs_heft",
        "stream_of_capacity", "stream_vs_count", "stream_p95",
    },
    "kernels": {"worst_ratio", "above_limit", "median_ratio", "worst_of_size", "slowest"},
}  # fmt: skip


def lookup(fields: dict[str, Any], name: str) -> Any:
    family, _, member = name.partition(".")
    return fields[family][member] if member else fields[family]


@pytest.mark.parametrize(
    "name",
    [
        "overhead",
        pytest.param("heartbeat", marks=pytest.mark.slow),
        pytest.param("first-run", marks=pytest.mark.slow),
        pytest.param("minilm", marks=pytest.mark.slow),
        pytest.param("forkjoin", marks=pytest.mark.slow),
        pytest.param("balance", marks=pytest.mark.slow),
        pytest.param("kernels", marks=pytest.mark.slow),
        pytest.param("vulkan", marks=pytest.mark.slow),
        pytest.param("cuda", marks=pytest.mark.slow),
        "plan",
        pytest.param("makespan", marks=pytest.mark.slow),
    ],
)
def test_a_quick_look_ends_with_one_json_object(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name == "minilm":
        try:
            model_folder(), load_tokenizer()
        except AssetsMissing as error:
            pytest.skip(str(error))
    if name == "vulkan":
        point_at_drivers()
        demanded(options())
    assert main([name, "--quick", "--json"]) == 0
    table, last = capsys.readouterr().out.rstrip("\n").rsplit("\n", 1)
    fields = json.loads(last)
    assert fields["benchmark"] == name
    assert fields["checked"] is True
    assert fields["met"] is (not fields["missed"])
    assert fields["facts"]["quick"] is True
    assert KEYS[name] <= fields.keys()
    for figure in fields["targets"]:
        if name != "heartbeat" or "." not in figure:
            assert lookup(fields, figure) is not None
    assert "mean nothing" in table


def test_every_benchmark_has_its_keys_here() -> None:
    assert KEYS.keys() == BENCHMARKS.keys()


# --- the command ------------------------------------------------------------------------------------------------------


def report(figures: Figures) -> Report:
    return Report("made", {"asyncio": figures, "uvloop": {"ratio": 9.0}}, {"ratio": Target(max=2)})


@pytest.mark.parametrize(("options", "status"), [([], 0), (["--check"], 1)])
def test_a_missed_target_fails_only_a_check(
    options: list[str], status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(BENCHMARKS, "overhead", lambda quick: report({"ratio": 3.0}))
    assert main(["overhead", *options]) == status
    assert "missed" in capsys.readouterr().out


def test_a_wrong_result_shows_no_figures(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def measure(quick: bool) -> Report:
        raise WrongResult("output 'y' is not what numpy gives")

    monkeypatch.setitem(BENCHMARKS, "overhead", measure)
    assert main(["overhead", "--json"]) == 2
    printed = capsys.readouterr()
    assert not printed.out
    assert printed.err == "overhead: output 'y' is not what numpy gives\n"


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["overheat"])
    assert ended.value.code == 2
    names = "overhead, heartbeat, first-run, minilm, forkjoin, balance, kernels, vulkan, cuda, plan, makespan"
    assert f"'overheat'; there are {names}" in capsys.readouterr().err


# --- reports ----------------------------------------------------------------------------------------------------------


def test_a_target_is_a_bound_on_one_side() -> None:
    assert [Target(max=2).met(value) for value in (1, 2, 2.1)] == [True, True, False]
    assert [Target(min=50_000).met(value) for value in (49_999, 50_000)] == [False, True]
    assert (str(Target(max=1.5)), str(Target(min=50_000))) == ("≤ 1.5", "≥ 50,000")


def test_the_first_loop_is_judged() -> None:
    made = report({"ratio": 1.0, "bare_ns": 240.0})
    assert made.missed == []
    fields = json.loads(made.as_json())
    assert fields["met"] is True
    assert fields["targets"] == {"ratio": {"max": 2}}
    assert fields["ratio"] == 1.0
    assert fields["uvloop"] == {"ratio": 9.0}


def test_a_family_is_one_object_and_shares_a_target() -> None:
    made = Report("made", {"asyncio": {"us.10": 1.0, "us.20": 5.0, "us.30": None}}, {"us": Target(max=2)})
    assert made.missed == ["us.20"]
    assert json.loads(made.as_json())["us"] == {"10": 1.0, "20": 5.0, "30": None}


def test_what_could_not_be_measured_is_not_missed() -> None:
    made = report({"ratio": None})
    assert made.missed == []
    console = Console(file=io.StringIO(), width=100)
    made.show(console)
    assert isinstance(console.file, io.StringIO)
    row = next(line for line in console.file.getvalue().splitlines() if "ratio" in line)
    assert [cell.strip() for cell in row.split("│")[1:-1]] == ["ratio", "-", "9", "≤ 2", ""]


# --- results are compared ---------------------------------------------------------------------------------------------

WORKS = {
    "small ops": workloads.small_ops(300),
    "chain": workloads.chain(30),
    "rare releases": workloads.rare_release(30, every=7),
}


@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
async def test_a_workload_is_what_its_numpy_calls_give(work: workloads.Workload) -> None:
    async with fa.Executor() as executor:
        results = await executor.run(work.graph, work.feeds)
    work.check(results)
    assert len(work.graph) > len(work) == len(work.steps)
    name = next(iter(results))
    with pytest.raises(WrongResult, match=f"output '{name}'"):
        work.check({**results, name: np.nextafter(results[name], np.float32(9))})


async def test_a_mixed_graph_is_what_its_numpy_expressions_give() -> None:
    one, other = workloads.mixed(400, seed=1), workloads.mixed(400, seed=2)
    async with fa.Executor() as executor:
        results = await executor.run(one.graph, one.feeds)
    one.check(results)
    with pytest.raises(WrongResult, match="not what numpy gives"):
        other.check(results)
    assert one.graph.freeze().digest != other.graph.freeze().digest
    assert 400 <= len(one.graph) < 420


def test_the_small_ops_are_six_kinds_in_three_sizes() -> None:
    steps = WORKS["small ops"].steps
    assert len({call for call, _ in steps}) == 6
    assert {args[-1].size for _, args in steps} == set(workloads.SIZES)


# --- several devices --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ns", "copy_ns", "best"),
    [
        # Both branches where they are fast, one copy in, one across, one out.
        pytest.param([(10, 90), (90, 10), (1, 1)], 2, 2 + 10 + 2 + 1 + 2, id="each where it is fast"),
        # Nothing gains by a copy that takes longer than the other branch.
        pytest.param([(10, 10), (10, 10), (1, 1)], 50, 50 + 10 + 10 + 1 + 50, id="copies are dear"),
        pytest.param([(10, 20), (10, 20), (1, 1)], 0, 20 + 1, id="two on the fast, or one on each"),
    ],
)
def test_the_best_placement_is_found(ns: list[tuple[int, int]], copy_ns: int, best: int) -> None:
    first, second, join = ns
    jobs = [Job(first, [0]), Job(second, [0]), Job(join, [1, 2])]
    problem = Problem(jobs, makers=[-1, 0, 1, 2], copy_ns=[copy_ns] * 4, owed=[3])
    assert best_ns(problem) == best
    assert problem.longest_branch_ns() == 10


def test_copies_on_one_link_follow_one_another_and_uploads_count() -> None:
    both_on_one = Problem([Job([5], [0, 1], upload_ns=7)], makers=[-1, -1, 0], copy_ns=[3, 4, 1], owed=[2])
    assert best_ns(both_on_one) == 3 + 4 + 7 + 5 + 1


def test_hindsight_is_the_best_of_all_divisions() -> None:
    count, work_ns, slower_at_ns = 9, 840.0, 500
    ideal_ns = work_ns * count / sum(fleet.SPEEDS)

    def end_ns(speed: float, requests: int) -> float:
        at_ns = requests * work_ns / speed
        return at_ns if speed < 4 or at_ns < slower_at_ns else slower_at_ns + 4 * (at_ns - slower_at_ns)

    divisions = [(a, b, count - a - b) for a in range(count + 1) for b in range(count + 1 - a)]
    best = min(max(map(end_ns, fleet.SPEEDS, division)) for division in divisions)
    assert hindsight_ns(count, ideal_ns, slower_at_ns) == pytest.approx(best)


def test_the_usual_ways_choose_by_turn_and_by_count() -> None:
    turn = fleet.in_turn()
    assert [turn([9, 0, 0]) for _ in range(4)] == [0, 1, 2, 0]
    assert fleet.fewest([3, 1, 1]) == 1
    assert fleet.first_done([3, 1, 0]) == 0  # 4 on the fastest are done as soon as 2 on the next and 1 on the slowest
    assert fleet.first_done([4, 1, 0]) == 1


def test_a_result_of_several_devices_is_compared() -> None:
    work = forkjoin.products(forkjoin.Scale(rows=2, width=4, layers=2))
    work.check(work.expected)
    with pytest.raises(WrongResult, match="not what one computation gives"):
        work.check(work.expected + 0.01)
    requests = fleet.make_requests(3, layers=2, rows=2, width=4)
    requests.check(1, requests.results[1])
    with pytest.raises(WrongResult, match="request 1 of 3"):
        requests.check(1, requests.results[2])


# --- timing -----------------------------------------------------------------------------------------------------------


def test_a_quantile_is_a_value() -> None:
    assert timing.quantile([5, 1, 4, 2, 3], 0.5) == 3
    assert timing.quantile(range(100), 0.99) == 99
    assert timing.quantile([1], 0.99) == 1


async def test_the_least_disturbed_rounds_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    others: list[float] = [0.0]

    def work(load: float) -> None:
        clock[0] += 1
        others[0] += load

    monkeypatch.setattr(timing, "_others_s", lambda: others[0])
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", lambda _: None)
    loads: Iterator[float] = iter([0.0, 0.9, 0.5, 0.0, 0.6, 0.7, 0.8])

    async def measured() -> float:
        load = next(loads)
        work(load)
        return load

    quiet = timing.Quiet(patience_s=3)
    assert sorted(await quiet.rounds(2, measured)) == [0.0, 0.0]  # two of the first four
    assert quiet.disturbed == 0
    assert sorted(await quiet.rounds(1, measured)) == [0.6]  # patience for one more
    assert quiet.disturbed == 1


async def test_each_tick_that_a_loop_slept_through_is_late() -> None:
    ticks = Ticks().start()
    until_ns = perf_counter_ns() + 6_000_000
    while perf_counter_ns() < until_ns:
        pass
    await asyncio.sleep(0)
    ticks.stop()
    assert len(ticks.late_ns) >= 5
    assert ticks.worst_ms >= 4
    assert ticks.late_ms(0.5) >= 2
    assert ticks.worst_own_ns <= max(ticks.late_ns)
