"""Runs whose regions a plan of the whole run has placed before."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from fuel_async.backends.sim import REFERENCE, Links, Sharing, SimDeviceSpec
from fuel_async.plan import region_ns, regions_ns
from fuel_async.plan.placement.fold import Short
from fuel_async.runtime.spread.prepared import LOOKED_AT_AFTER, PreparedSpread
from fuel_async.schedule import Judged, earliest_finish, judge_plan, prior_of
from fuel_async.schedule.basis import ROLLS_FROM_NS
from tests.runtime.spread.support import MS, Dag, Node, Stage, chain, digests, fork, one, random_dag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.cost import Rates
    from fuel_async.dispatch import LaneProgram
    from fuel_async.plan import Placement
    from fuel_async.plan.placement.sweep import Pass
    from fuel_async.schedule import Offer, Prior, RunShape
    from tests.runtime.spread.support import World

#: A link that is slow beside what a region takes.
SLOW = Links.of(100_000, 0.002)

#: Two chains that exchange nothing until the end: whoever looks at one region at a time lets them cross.
CHAINS = Dag(
    (
        *[Node((number - 2,) if number > 1 else (-1,), 2 * MS + number, 2_000) for number in range(8)],
        Node((6, 7), MS, 64),
    )
)


def without_plan(offers: Sequence[Offer]) -> Offer:
    """The same policy, under a name of its own: such are asked for every region, and nothing is planned."""
    return earliest_finish(offers)


def prepared_of(world: World) -> PreparedSpread:
    (found,) = world.engine.cache.all()
    return cast("PreparedSpread", found)


async def run_ns(world: World, dag: Dag) -> int:
    clock = world.machine.clock
    before_ns = clock.now_ns()
    await world.check(dag)
    return clock.now_ns() - before_ns


@pytest.mark.parametrize("seed", range(4))
def test_a_planned_run_is_not_longer(virtual: Stage, seed: int) -> None:
    dag, took = random_dag(seed, 14), dict[str, int]()

    async def scenario(world: World) -> None:
        await world.check(dag)  # constants and programs are there
        took[name] = await run_ns(world, dag)

    policies = {"planned": "earliest_finish", "not planned": without_plan}
    for name in policies:
        policy = policies[name]
        virtual(scenario, [SimDeviceSpec(), SimDeviceSpec(speed=2)], links=SLOW, placement=policy)
    assert took["planned"] <= 1.02 * took["not planned"]


def test_regions_go_where_the_plan_has_them(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        await world.check(CHAINS)
        prior = prepared_of(world).shape.prior
        assert prior is not None
        assert {decision.region: decision.chosen.device for decision in world.scheduler.decisions} == dict(
            enumerate(prior.devices)
        )
        assert set(prior.devices) == {0, 1}

    virtual(scenario, 2, links=SLOW)


@pytest.mark.parametrize("sharing", Sharing)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_promise_of_a_plan_is_kept_where_copies_wait_for_each_other(
    virtual: Stage, seed: int, sharing: Sharing
) -> None:
    """Copies take about as long as regions. Without the order of the plan, runs take up to twice as long."""
    dag = random_dag(seed, 30, cheapest_ns=3 * MS, dearest_ns=9 * MS)
    links = Links.of(100_000, 0.002, sharing=sharing)

    async def scenario(world: World) -> None:
        await world.check(dag)
        prior = prepared_of(world).shape.prior
        assert prior is not None
        took_ns = await run_ns(world, dag)
        assert took_ns <= 1.01 * prior.makespan_ns
        assert took_ns == pytest.approx(world.ex.explain(world.graph(dag), warm=True).makespan_s * 1e9, rel=0.01)

    virtual(scenario, [SimDeviceSpec(), SimDeviceSpec(), SimDeviceSpec(speed=2)], links=links)


def test_equal_layers_go_where_the_plan_of_a_few_has_them(virtual: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty of two branches and a join, behind a slow link: most of them are placed alike, and runs are right."""
    planned: list[int] = []

    def noted(short: Short, plan: Placement) -> Pass | None:
        planned.append(len(plan.devices))
        return unfolded(short, plan)

    unfolded = Short.unfolded
    monkeypatch.setattr(Short, "unfolded", noted)
    layers, nodes = 20, [Node((-1,), 2 * MS)]
    for _ in range(layers):
        last = len(nodes) - 1
        nodes += [Node((last,), 2 * MS), Node((last,), 3 * MS // 2), Node((last + 1, last + 2), 2 * MS)]

    async def scenario(world: World) -> None:
        await world.check(Dag(tuple(nodes)))
        await world.check(Dag(tuple(nodes)))
        prior = prepared_of(world).shape.prior
        assert prior is not None
        assert len(prior.devices) == len(nodes)
        assert [tasks < len(nodes) // 2 for tasks in planned] == [True]
        each = [tuple(prior.devices[first : first + 3]) for first in range(1, len(nodes), 3)]
        assert max(map(each.count, each)) > layers // 2

    virtual(scenario, [SimDeviceSpec(), SimDeviceSpec(speed=2)], links=SLOW)


@pytest.mark.parametrize("dag", [one(), chain(1)])
def test_a_single_region_is_not_planned(virtual: Stage, dag: Dag) -> None:
    async def scenario(world: World) -> None:
        await world.check(dag)
        assert prepared_of(world).shape.prior is None

    virtual(scenario, 2)


def test_policies_of_the_callers_own_get_no_plan(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        await world.check(fork(3))
        assert prepared_of(world).shape.prior is None

    virtual(scenario, 2, placement=without_plan)


def test_a_plan_is_made_again_when_predictions_have_moved(virtual: Stage) -> None:
    """The second device says that it is as fast as the first and is faster: after some runs the plan knows."""

    async def scenario(world: World) -> None:
        await world.check(CHAINS)
        prepared = prepared_of(world)
        first = prepared.shape.prior
        assert first is not None
        for _ in range(20):
            await world.check(CHAINS)
        later = prepared.shape.prior
        assert later is not first
        assert later is not None
        assert later.makespan_ns < first.makespan_ns

    virtual(scenario, [SimDeviceSpec(), SimDeviceSpec(speed=5, advertised=REFERENCE)], links=SLOW)


def test_a_device_that_is_slower_than_it_says_is_left_alone_for_a_while(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        await world.check(CHAINS)
        devices = world.scheduler.machine.devices
        assert devices[1].factor > 2
        given = devices[1].given
        assert given
        for _ in range(3):
            await world.check(CHAINS)
        assert devices[1].given == given
        before = devices[1].factor
        for _ in range(20):
            await world.check(CHAINS)
        assert 1 < devices[1].factor < 0.9 * before

    virtual(scenario, [SimDeviceSpec(), SimDeviceSpec(speed=0.2, advertised=REFERENCE)], links=SLOW)


def test_regions_are_priced_once_for_devices_that_are_alike(virtual: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    priced: list[Rates] = []

    def noted(programs: Sequence[LaneProgram | None], rates: Rates) -> list[int | None]:
        priced.append(rates)
        return regions_ns(programs, rates)

    monkeypatch.setattr("fuel_async.runtime.spread.prepared.regions_ns", noted)

    async def scenario(world: World) -> None:
        prepared = world.engine.cache.prepare(world.graph(CHAINS).freeze(), ((), None))
        assert isinstance(prepared, PreparedSpread)
        for device, there in enumerate(world.devices):
            expected = [region_ns(region.program, there.rates) for region in prepared.plan.regions]
            assert [prepared.region_ns(region, device) for region in range(len(expected))] == expected
        assert priced == [world.devices[0].rates, world.devices[1].rates]

    virtual(scenario, [SimDeviceSpec(), SimDeviceSpec(speed=2), SimDeviceSpec(), SimDeviceSpec(speed=2)])


def planned_by(monkeypatch: pytest.MonkeyPatch) -> list[RunShape]:
    """The shapes that are planned from now on."""
    planned: list[RunShape] = []

    def noted(shape: RunShape, *rest: Any) -> Prior | None:
        planned.append(shape)
        return prior_of(shape, *rest)

    monkeypatch.setattr("fuel_async.schedule.follow.prior_of", noted)
    return planned


def test_a_graph_that_is_built_anew_begins_with_the_plan_of_others(
    virtual: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = planned_by(monkeypatch)

    async def scenario(world: World) -> None:
        await world.check(CHAINS)
        first = prepared_of(world).shape.prior
        assert first is not None
        for _ in range(10):
            again = CHAINS.graph()
            found = await world.ex.run(again, x=CHAINS.feed())
            assert digests(found) == CHAINS.expected(CHAINS.feed())
            latest = cast("PreparedSpread", world.engine.cache.all()[-1])
            assert latest.shape.prior is latest.on_device.prior is first
        assert len(planned) == 1

    virtual(scenario, 2, links=SLOW)


def test_it_is_planned_anew_for_a_graph_that_finds_other_devices(
    virtual: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = planned_by(monkeypatch)

    async def scenario(world: World) -> None:
        await world.check(CHAINS)
        world.machine.lose(world.devices[1])
        again = CHAINS.graph()
        await world.ex.run(again, x=CHAINS.feed())
        prior = cast("PreparedSpread", world.engine.cache.all()[-1]).shape.prior
        assert prior is None or set(prior.devices) <= {0, 2}
        assert len(planned) == 2

    virtual(scenario, 3, links=SLOW)


def test_it_is_planned_anew_for_a_graph_when_predictions_have_moved(
    virtual: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = planned_by(monkeypatch)

    async def scenario(world: World) -> None:
        await world.check(CHAINS)
        measured = prepared_of(world).measured
        assert measured.whole is not None
        measured.whole = replace(measured.whole, regions_ns=[2 * ns for ns in measured.whole.regions_ns])
        again = CHAINS.graph()
        await world.ex.run(again, x=CHAINS.feed())
        assert len(planned) == 2

    virtual(scenario, 2, links=SLOW)


def test_what_was_planned_meanwhile_for_another_graph_is_taken(virtual: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = planned_by(monkeypatch)

    async def scenario(world: World) -> None:
        graphs = [CHAINS.graph() for _ in range(3)]
        prepared = [cast("PreparedSpread", world.engine.cache.prepare(g.freeze(), ((), None))) for g in graphs]
        assert all(each.wants_plan() for each in prepared)  # nobody has planned yet
        for each in prepared:
            each.plan_run()
        assert len({id(each.shape.prior) for each in prepared}) == len(planned) == 1
        prepared[0].plan_run()  # its own is no news
        assert len(planned) == 2
        world.machine.lose(world.devices[2])
        prepared[1].plan_run()  # nor is one for other devices
        assert len(planned) == 3

    virtual(scenario, 3, links=SLOW)


def test_a_plan_is_made_again_late_in_a_long_life(virtual: Stage) -> None:
    """After some hundred runs the first device becomes slow: the plan knows long before as many have gone again."""

    async def scenario(world: World) -> None:
        await world.check(CHAINS)
        prepared = prepared_of(world)
        prepared._runs = 4**5 + 1
        first = prepared.shape.prior
        assert first is not None
        world.machine.slow(world.devices[0], 8.0)
        for _ in range(128):
            await world.check(CHAINS)
        later = prepared.shape.prior
        assert later is not None
        assert later.devices.count(0) < first.devices.count(0)

    virtual(scenario, 2, links=SLOW)


def test_it_is_looked_at_now_and_then(virtual: Stage) -> None:
    assert sorted(LOOKED_AT_AFTER)[:4] == [4, 16, 64, 256]

    async def scenario(world: World) -> None:
        await world.check(CHAINS)
        prepared = prepared_of(world)
        assert not any(prepared.wants_plan() for _ in range(40))
        prepared.shape = replace(prepared.shape, prior=None)  # as if it was not worth having
        assert [number for number in range(42, 70) if prepared.wants_plan()] == [65]

    virtual(scenario, 2, links=SLOW)


def test_what_goes_wrong_in_planning_breaks_no_run(
    virtual: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        assert not gc.isenabled()
        raise ArithmeticError("as told")

    monkeypatch.setattr("fuel_async.runtime.spread.prepared.judge_plan", fails)

    async def scenario(world: World) -> None:
        await world.check(CHAINS)
        await world.check(fork(3))
        assert world.ex.statistics().plans_failed == 2

    virtual(scenario, 2, links=SLOW)
    assert [record.getMessage() for record in caplog.records].count(
        "a whole run could not be planned; runs go on without"
    ) == 1
    assert gc.isenabled()


@pytest.mark.parametrize("follows", [False, True])
def test_the_plan_is_kept_that_is_judged_worth_following(
    virtual: Stage, monkeypatch: pytest.MonkeyPatch, follows: bool
) -> None:
    found: list[Judged] = []

    def told(*what: Any) -> Judged:
        found.append(replace(judge_plan(*what), follows=follows))
        return found[-1]

    monkeypatch.setattr("fuel_async.runtime.spread.prepared.judge_plan", told)

    async def scenario(world: World) -> None:
        await world.check(CHAINS)
        assert found[0].prior is not None
        assert prepared_of(world).shape.prior is (found[0].prior if follows else None)
        assert prepared_of(world).on_device.prior is prepared_of(world).shape.prior

    virtual(scenario, 2, links=SLOW)
    assert len(found) == 1


def test_a_lost_device_is_in_no_plan(virtual: Stage) -> None:
    async def scenario(world: World) -> None:
        await world.check(CHAINS)
        world.machine.lose(world.devices[1])
        await world.check(CHAINS)
        prior = prepared_of(world).shape.prior
        assert prior is None or set(prior.devices) <= {0, 2}

    virtual(scenario, 3, links=SLOW)


def test_a_run_goes_on_without_a_lost_device_as_if_planned_without_it(
    virtual: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device is lost while nothing of the run is at work there. Of what is left, half is placed better than
    region by region; it takes no longer than the whole would have on the two devices that are left.
    """
    dag, took, links = random_dag(4, 50), dict[str, int](), Links.of(10_000, 1.0)

    async def scenario(world: World) -> None:
        await world.check(dag)
        took["all"] = await run_ns(world, dag)
        before_ns = world.machine.clock.now_ns()
        task = world.start(dag)
        await world.sleep(16 * MS)
        world.machine.lose(world.devices[2])
        assert await task == dag.expected(dag.feed())
        took[name] = world.machine.clock.now_ns() - before_ns
        took["without"] = await run_ns(world, dag)

    from_ns = {"kept": 1 << 60, "placed anew": ROLLS_FROM_NS}
    for name in from_ns:
        monkeypatch.setattr("fuel_async.schedule.basis.ROLLS_FROM_NS", from_ns[name])
        virtual(scenario, 3, links=links)
    assert took["placed anew"] < 0.9 * took["kept"]
    assert took["all"] < took["placed anew"] < took["without"]


@pytest.mark.parametrize(("length", "at_ms", "best_ms"), [(40, 10, 116), (8, 5, 43)])
def test_a_whole_run_leaves_a_device_that_has_become_slow(
    virtual: Stage, length: int, at_ms: float, best_ms: float
) -> None:
    """Two regions of 2 ms are in its lane by then, and take 20 each; the others go to an idle device."""

    async def scenario(world: World) -> None:
        before_ns, task = world.machine.clock.now_ns(), world.start(chain(length))
        await world.sleep(at_ms * MS)
        (state,) = world.scheduler.runs.values()
        assert state.prior is not None
        assert set(state.prior.devices) == {0}
        world.machine.slow(world.devices[0], 10)
        assert await task == chain(length).expected(chain(length).feed())
        assert world.machine.clock.now_ns() - before_ns < 1.01 * best_ms * MS
        assert world.scheduler.machine.devices[0].given == length - world.scheduler.machine.devices[1].given

    virtual(scenario, 3)


def test_a_run_is_planned_anew_while_it_goes(virtual: Stage) -> None:
    """The second device takes twice as long as it says: regions that were for it go to the first."""
    dag = Dag(tuple(Node((-1,), MS + number, 2_000) for number in range(40)))
    took, devices = dict[str, int](), dict[str, int]()

    async def scenario(world: World) -> None:
        took[name] = await run_ns(world, dag)
        devices[name] = sum(decision.chosen.device == 1 for decision in world.scheduler.decisions)
        assert not world.ex.statistics().plans_failed

    slow = [SimDeviceSpec(), SimDeviceSpec(speed=0.5, advertised=REFERENCE)]
    from_ns = {"rolling": ROLLS_FROM_NS, "kept": 1 << 60}
    for name in from_ns:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fuel_async.schedule.basis.ROLLS_FROM_NS", from_ns[name])
            virtual(scenario, slow)
    assert took["rolling"] < 0.97 * took["kept"]
    assert devices["rolling"] < devices["kept"]
