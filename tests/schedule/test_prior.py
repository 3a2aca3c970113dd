"""Runs with a plan: regions go where it has them, their values ahead of them, until something speaks against it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuel_async.schedule import (
    HOST,
    Bound,
    DryRun,
    Hop,
    Prior,
    RunAdmitted,
    RunShape,
    SpreadScheduler,
    dry_run,
    earliest_finish,
    prior_of,
    spread_evenly,
)
from fuel_async.schedule.prior import FAR_BEHIND, problem_of
from tests.schedule.play import Play
from tests.schedule.spread_support import Checked, Mesh, gpu, spread

DEVICES = [gpu(1), gpu(2)]


def with_prior(shape: RunShape, links: Mesh | None = None) -> RunShape:
    return replace(shape, prior=prior_of(shape, DEVICES, links or Mesh()))


def devices_of(dry: DryRun) -> dict[int, int]:
    return {region: decision.chosen.device for region, decision in dry.decisions.items()}


#: a is read by three heavy branches, which e joins.
FORK = "a:X=100 b:a=900 c:a=800 d:a=700 e:bcd=50"


# --- the problem ------------------------------------------------------------------------------------------------------


def test_a_run_is_a_problem_of_placement() -> None:
    shape = spread("a:X=100 b:a/a=300 c:a=200@1", speeds={1: 2}, nbytes={"a": 40})
    posed = problem_of(shape, DEVICES, Mesh())
    assert posed is not None
    problem = posed.problem
    problem.verify()
    assert problem.times_ns == [[100.0, 50.0], [300.0, 150.0], [float("inf"), 100.0]]
    assert problem.given == {0: {0: 0.0}}
    assert set(problem.owed.values()) == {0}
    assert list(problem.fleet.memories) == [1, 2]
    assert problem.fleet.contended


def test_what_only_comes_after_another_reads_nothing_of_it() -> None:
    posed = problem_of(spread("a:X b:X/a"), DEVICES, Mesh())
    assert posed is not None
    problem = posed.problem
    problem.verify()
    assert problem.reads[1][-1] in problem.writes[0]
    assert problem.nbytes[problem.reads[1][-1]] == 0


def test_ways_are_lines_through_the_predicted_times() -> None:
    class Slow(Mesh):
        def route(self, source: int, memory: int, nbytes: int) -> tuple[Hop, ...]:
            return (Hop(source, HOST, 5 + nbytes), Hop(HOST, memory, 10 + 2 * nbytes))

    posed = problem_of(spread("a:X b:a"), DEVICES, Slow())
    assert posed is not None
    way = posed.problem.fleet.ways[1][2]
    assert (way.latency_ns, way.setup_ns, way.ns_per_byte) == (0.0, 15.0, 3.0)
    assert way.ports is not None
    assert way.ports[0] != way.ports[1]


def test_ports_that_links_share_are_shared_in_the_problem() -> None:
    posed = problem_of(spread("a:X b:a"), DEVICES, Mesh(shared=True))
    assert posed is not None
    ways = posed.problem.fleet.ways
    ports = {(source, to): ways[source][to].ports for source in range(3) for to in range(3) if source != to}
    assert len(posed.ports) == 6
    for (source, to), pair in ports.items():
        assert pair == (posed.ports[source], posed.ports[-1 - to])


@pytest.mark.parametrize("text", ["a", ""])
def test_a_single_region_is_not_planned(text: str) -> None:
    assert prior_of(spread(text), DEVICES, Mesh()) is None


def test_a_single_device_and_no_way_are_not_planned() -> None:
    class Torn(Mesh):
        def route(self, source: int, memory: int, nbytes: int) -> None:
            return None

    assert prior_of(spread("a b:a"), DEVICES[:1], Mesh()) is None
    assert prior_of(spread("a b:a"), DEVICES, Torn()) is None


def test_equal_runs_get_equal_plans() -> None:
    one, other = with_prior(spread(FORK)).prior, with_prior(spread(FORK)).prior
    assert one is not None
    assert other is not None
    assert (one.devices, one.starts_ns, one.sends) == (other.devices, other.starts_ns, other.sends)


# --- what it does -----------------------------------------------------------------------------------------------------


def test_regions_go_where_the_plan_has_them_and_the_promise_is_kept() -> None:
    shape = with_prior(spread(FORK))
    assert shape.prior is not None
    dry = dry_run(DEVICES, Mesh(), earliest_finish, shape)
    assert devices_of(dry) == dict(enumerate(shape.prior.devices))
    assert dry.makespan_ns <= 1.05 * shape.prior.makespan_ns


def test_values_are_sent_ahead() -> None:
    """b follows a on another device, which has enough to do: what it reads is there when it has."""
    prior = Prior([0, 1, 1], [20, 0, 300], [[(1, 2, 300)], [(2, 2, 300)], []], 420)
    shape = replace(spread("a:X=100 b=300 c:ab=100", outputs=""), prior=prior)
    dry = dry_run(DEVICES, Mesh(), earliest_finish, shape)
    assert devices_of(dry) == {0: 0, 1: 1, 2: 1}
    assert (1, 1, 2, 140) in dry.copies
    assert dry.started_ns[2] == 300


def test_nothing_is_sent_to_where_the_run_is_not_at_work_yet() -> None:
    prior = Prior([0, 1], [20, 140], [[(1, 2, 140)], []], 240)
    shape = replace(spread("a:X=100 b:a=100", outputs=""), prior=prior)
    dry = dry_run(DEVICES, Mesh(), earliest_finish, shape)
    assert devices_of(dry) == {0: 0, 1: 1}
    assert [copy[:3] for copy in dry.copies] == [(0, 0, 1), (1, 1, 2)]


def ahead(budget: int = 1_000) -> Checked:
    """A run that follows a on the first device with b on the second, which others keep busy."""
    machine = Checked(gpu(1), gpu(2, slots=1, budget=budget), binds=False)
    machine.admit(1, spread("a=5000@1", outputs=""))
    machine.bound(1, 1)
    prior = Prior([0, 1], [0, 140], [[(0, 2, 140)], []], 24_000)
    assert machine.admit(0, replace(spread("a=100 b:a=100", outputs=""), prior=prior)).startswith("0 bind 0")
    machine.bound(0, 0)
    return machine


def test_devices_of_the_plan_are_made_ready_with_the_first_region() -> None:
    machine = ahead()
    assert machine.runs[0].binding == {1: []}
    assert machine.runs[0].memories == {1, 2}
    machine.bound(0, 1)
    assert machine.finish(0, "a") == "0a 1>2"


def test_not_where_memory_is_short() -> None:
    machine = ahead(budget=22)
    assert machine.runs[0].binding == {}
    assert machine.runs[0].memories == {1}


def test_a_run_goes_on_when_a_device_refuses_that() -> None:
    machine = ahead()
    assert machine.bind_failed(0, 1, ArithmeticError("as told")) == ""
    machine.finish(0, "a")
    assert machine.finish(1, "a") == "1 done, 1 end, 0 bind 1"
    assert machine.bind_failed(0, 1, ArithmeticError("as told")) == "0 stop ArithmeticError, 0 end"
    assert machine.idle


def test_a_run_that_ends_meanwhile_waits_for_its_programs() -> None:
    machine = ahead()
    assert machine.cancel(0) == "0 stop"
    assert machine.finish(0, "a") == ""
    assert machine.bound(0, 1) == "0 end"


def test_a_device_that_is_gone_takes_no_part() -> None:
    shape = with_prior(spread(FORK))
    dry = dry_run(DEVICES, Mesh(), earliest_finish, shape, {1: RuntimeError("gone")})
    assert set(devices_of(dry).values()) == {0}
    assert dry.error is None


def test_another_policy_is_asked_instead() -> None:
    shape = replace(spread("a=100 b=100 c=100 d=100"), prior=Prior([0] * 4, [0, 100, 200, 300], [[]] * 4, 400))
    assert set(devices_of(dry_run(DEVICES, Mesh(), earliest_finish, shape)).values()) == {0}
    assert set(devices_of(dry_run(DEVICES, Mesh(), spread_evenly, shape)).values()) == {0, 1}


def test_a_run_that_is_far_behind_goes_elsewhere() -> None:
    """The plan has all of it on one device, where each region takes so much longer than the plan says."""
    text = " ".join(f"{letter}=1000" for letter in "abcdefgh")
    on_time = replace(spread(text), prior=Prior([0] * 8, list(range(0, 8_000, 1_000)), [[]] * 8, 8_000))
    assert set(devices_of(dry_run(DEVICES, Mesh(), earliest_finish, on_time)).values()) == {0}
    late = replace(spread(text), prior=Prior([0] * 8, list(range(0, 800, 100)), [[]] * 8, 800))
    found = devices_of(dry_run(DEVICES, Mesh(), earliest_finish, late))
    assert set(found.values()) == {0, 1}
    assert found[0] == 0
    assert FAR_BEHIND * 800 < 1_000


def test_what_is_held_back_does_not_wait_for_itself() -> None:
    """Both regions are given to the lane before programs are there; then the second one waits for the first alone."""
    scheduler = SpreadScheduler([gpu(1)], Mesh())
    scheduler.handle(RunAdmitted(0, spread("a=100 b:a=300", outputs="")))
    scheduler.handle(Bound(0, 0))
    assert scheduler.machine.free_ns(0) == [400]


@st.composite
def shapes(draw: st.DrawFn) -> RunShape:
    """Up to twelve regions that read some of those before them."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    words = []
    for number in range(draw(st.integers(2, 12))):
        read = "".join(sorted(chance.sample("abcdefghijkl"[:number], min(number, chance.randint(0, 2)))))
        pin = f"@{chance.randrange(2)}" if chance.random() < 0.1 else ""
        words.append(f"{'abcdefghijkl'[number]}:{read}{chance.choice(('', 'X', 'Y'))}={chance.randint(10, 900)}{pin}")
    return spread(" ".join(words), speeds={1: chance.choice((0.5, 1, 3))})


@given(shapes())
@settings(max_examples=40)
def test_runs_with_a_plan_end_by_the_laws(shape: RunShape) -> None:
    """`Play` checks the laws of the scheduler after every event."""
    planned = with_prior(shape)
    assert planned.prior is not None
    play = Play(DEVICES, [2, 1], Mesh())
    play.admit(0, planned)
    play.admit(1, planned)
    assert play.to_the_end() > 0
    assert dry_run(DEVICES, Mesh(), earliest_finish, planned).error is None
