"""The scheduler under any sequence of events: laws after each, and the account of every run at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from fuel_async.schedule import Deliver, Launch, Phase, Release, RunShape, Stop
from tests.schedule.support import Checked

if TYPE_CHECKING:
    from fuel_async.schedule import Instruction


@st.composite
def shapes(draw: st.DrawFn) -> RunShape:
    count = draw(st.integers(0, 7))
    needs = [
        frozenset(draw(st.sets(st.integers(0, region - 1), max_size=3))) if region else frozenset[int]()
        for region in range(count)
    ]
    dependents = [[n for n, some in enumerate(needs) if region in some] for region in range(count)]
    predicted = draw(st.lists(st.integers(1, 1_000), min_size=count, max_size=count))
    fine = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    return RunShape(needs, dependents, predicted, fine)


class Lanes(RuleBasedStateMachine):
    """Lanes that settle what they hold in any order across lanes, in order within each."""

    runs = Bundle("runs")

    @initialize(lanes=st.integers(1, 4), slots=st.integers(1, 3))
    def open(self, lanes: int, slots: int) -> None:
        self.machine = Checked.of(lanes, slots)
        self.slots = slots
        self.queues: list[list[tuple[int, int]]] = [[] for _ in range(lanes)]
        self.shapes: dict[int, RunShape] = {}
        self.said: dict[int, list[Instruction]] = {}
        self.finished: dict[int, set[int]] = {}
        self.launched: dict[int, set[int]] = {}

    def perform(self, told: tuple[Instruction, ...]) -> None:
        for one in told:
            said = self.said[one.run]
            assert not any(isinstance(old, Release) for old in said), "the last word on a run is its release"
            said.append(one)
            if isinstance(one, Launch):
                self.launch(one)

    def launch(self, one: Launch) -> None:
        shape, done, queue = self.shapes[one.run], self.finished[one.run], self.queues[one.lane]
        assert one.region not in self.launched[one.run]
        self.launched[one.run].add(one.region)
        assert len(queue) < self.slots
        assert not shape.fine[one.region] or one.lane == 0
        # What it needs has finished, or stands before it in the same lane: exactly that is waited for.
        assert set(one.waits) == shape.needs[one.region] - done
        assert all((one.run, need) in queue for need in one.waits)
        queue.append((one.run, one.region))

    @rule(target=runs, shape=shapes(), priority=st.integers(-1, 1))
    def admit(self, shape: RunShape, priority: int) -> int:
        run = len(self.shapes)
        self.shapes[run] = shape
        self.said[run], self.finished[run], self.launched[run] = [], set(), set()
        self.perform(self.machine.admit(run, shape, priority))
        return run

    @rule(target=runs, predicted_ns=st.integers(1, 1_000), fine=st.booleans())
    def begin_alone(self, predicted_ns: int, fine: bool) -> int:
        run = len(self.shapes)
        shape = self.shapes[run] = RunShape([frozenset()], [[]], [predicted_ns], [fine])
        self.said[run], self.finished[run], self.launched[run] = [], set(), set()
        lane = self.machine.begin_alone(run, shape)
        self.machine.check()
        if lane is None:
            self.perform(self.machine.admit(run, shape))
        else:
            self.launch(Launch(run, 0, lane))
        return run

    @rule(run=runs)
    def cancel(self, run: int) -> None:
        before = len(self.said[run])
        alone = run in self.machine.alone
        alive = alone or (run in self.machine.runs and self.machine.runs[run].phase is Phase.RUNNING)
        self.perform(self.machine.cancel(run))
        assert (Stop(run, None) in self.said[run][before:]) is alive

    @precondition(lambda self: any(self.queues))
    @rule(data=st.data(), fails=st.sampled_from([False, False, False, True]))
    def settle(self, data: st.DataObject, fails: bool) -> None:
        lane = data.draw(st.sampled_from([n for n, queue in enumerate(self.queues) if queue]))
        self.settle_first(lane, fails)

    def settle_first(self, lane: int, fails: bool) -> None:
        run, region = self.queues[lane].pop(0)
        letter = "abcdefghij"[region]
        if fails:
            self.perform(self.machine.fail(run, letter, ArithmeticError(letter)))
        else:
            self.finished[run].add(region)
            others = self.machine.end_alone(run)
            if others is None:
                self.perform(self.machine.finish(run, letter))
            else:
                self.perform((Deliver(run), Release(run), *others))
                self.machine.check()

    @invariant()
    def no_lane_idles_while_something_could_go_there(self) -> None:
        if not hasattr(self, "machine"):
            return
        for lane, queue in enumerate(self.queues):
            if len(queue) == self.slots:
                continue
            for run, state in self.machine.runs.items():
                for region in state.candidates:
                    pending = self.shapes[run].needs[region] - self.finished[run]
                    fits = all((run, need) in queue for need in pending)
                    assert not fits or (self.shapes[run].fine[region] and lane), f"{region} of {run} on {lane}"

    def teardown(self) -> None:
        if not hasattr(self, "machine"):
            return
        while any(self.queues):
            self.settle_first(next(n for n, queue in enumerate(self.queues) if queue), fails=False)
        assert self.machine.idle
        for run, said in self.said.items():
            kinds = [type(one) for one in said]
            assert kinds.count(Release) == 1
            assert kinds[-1] is Release
            assert kinds.count(Deliver) + kinds.count(Stop) == 1
            if Deliver in kinds:
                assert self.finished[run] == set(range(len(self.shapes[run])))
                assert kinds[-2] is Deliver
            else:
                assert Launch not in kinds[kinds.index(Stop) :]


TestLanes = Lanes.TestCase
TestLanes.settings = settings(max_examples=30, stateful_step_count=30)


@pytest.mark.slow
class TestLanesAtLength(Lanes.TestCase):  # type: ignore[misc, valid-type]  # made by Hypothesis
    settings = settings(max_examples=400, stateful_step_count=60)
