"""Runs over several devices under any sequence of events: laws after each, and the account of every run at the end."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, precondition, rule

from fuel_async.errors import DeviceError, DeviceLost
from fuel_async.schedule import (
    HOST,
    POLICIES,
    AloneEnded,
    BindFailed,
    Bound,
    CancelRequested,
    CopyFailed,
    CopyFinished,
    Deliver,
    DeviceAdded,
    DeviceGone,
    Event,
    Phase,
    Prior,
    RegionFailed,
    RegionFinished,
    Release,
    Replan,
    Reswept,
    RunAdmitted,
    RunShape,
    SpreadShape,
    Stop,
    TopologyChanged,
    answer,
    prior_of,
)
from fuel_async.schedule.copies import AHEAD_NS
from tests.schedule.spread_support import Checked, DeviceParts, Mesh, Speeds, cpu, gpu, spread
from tests.schedule.world import Account, World

POLICY = [*POLICIES.values(), lambda offers: offers[-1]]


@st.composite
def shapes(draw: st.DrawFn, devices: int) -> RunShape:
    """Up to 7 regions that make a value each; some are outputs, some regions pinned or fine. Any plan, or none."""
    regions, feeds = draw(st.integers(0, 7)), draw(st.integers(0, 2))
    needs: list[frozenset[int]] = []
    reads: list[tuple[int, ...]] = []
    for region in range(regions):
        before = draw(st.sets(st.integers(0, region - 1), max_size=3)) if region else set[int]()
        ordering = draw(st.sets(st.sampled_from(sorted(before)), max_size=1)) if before else set[int]()
        fed = draw(st.sets(st.integers(0, feeds - 1))) if feeds else set[int]()
        needs.append(frozenset(before))
        reads.append((*sorted(fed), *sorted(feeds + need for need in before - ordering)))
    times = draw(st.lists(st.integers(1, 1_000), min_size=regions, max_size=regions))
    outputs = draw(st.sets(st.integers(feeds, feeds + regions - 1))) if regions else set[int]()
    pins = st.one_of(st.none(), st.none(), st.none(), st.integers(0, devices - 1))
    speeds = draw(st.dictionaries(st.integers(0, devices - 1), st.sampled_from([0.25, 1, 4])))
    sends = [
        [(feeds + region, draw(st.integers(0, devices)), draw(st.integers(0, 1_000)))] for region in range(regions)
    ]
    prior = Prior(
        devices=[draw(st.integers(0, devices - 1)) for _ in range(regions)],
        starts_ns=[100 * region for region in range(regions)],
        sends=sends,
        makespan_ns=draw(st.sampled_from([0, 1_000])),
    )
    return RunShape(
        needs=needs,
        dependents=[[n for n, some in enumerate(needs) if region in some] for region in range(regions)],
        predicted_ns=times,
        fine=draw(st.lists(st.booleans(), min_size=regions, max_size=regions)),
        spread=SpreadShape(
            reads=reads,
            writes=[(feeds + region,) for region in range(regions)],
            nbytes=[draw(st.sampled_from([10, 5_000])) for _ in range(feeds + regions)],
            producers=[*[-1] * feeds, *range(regions)],
            readers=[sum(value in read for read in reads) for value in range(feeds + regions)],
            outputs=frozenset(outputs),
            pins=[draw(pins) for _ in range(regions)],
            share_nbytes=draw(st.sampled_from([0, 10, 25])),
            prices=Speeds(times, speeds, {0: draw(st.sampled_from([0, 300]))}),
        ),
        prior=draw(st.sampled_from([None, prior])),
    )


@st.composite
def parts(draw: st.DrawFn, number: int) -> DeviceParts:
    """A device whose number is given, with few slots and little memory."""
    how = {"budget": draw(st.sampled_from([10, 30, 60])), "slots": draw(st.integers(1, 3))}
    lanes = draw(st.integers(1, 2))
    return cpu(lanes=lanes, **how) if draw(st.integers(0, 3)) == 0 else gpu(number + 1, lanes=lanes, **how)


class Machines(RuleBasedStateMachine):
    """Lanes settle in order, links and preparations in any order, devices come and go, time goes on."""

    runs = Bundle("runs")

    @initialize(data=st.data(), devices=st.integers(1, 4), policy=st.sampled_from(POLICY))
    def open(self, data: st.DataObject, devices: int, policy: object) -> None:
        some = [data.draw(parts(number)) for number in range(devices)]
        memories = [HOST, *(shape.memory for shape, _ in some if shape.memory != HOST)]
        pairs = [(a, b) for a in memories for b in memories if a != b]
        missing = data.draw(st.sets(st.sampled_from(pairs), max_size=2)) if pairs else set()
        #: With slow links what is sent ahead waits for its turn.
        latency_ns = data.draw(st.sampled_from([10, 2 * AHEAD_NS]))
        self.links = Mesh(latency_ns, missing=missing, shared=data.draw(st.booleans()))
        self.scheduler = Checked(*some, links=self.links, policy=policy, binds=False)  # type: ignore[arg-type]
        self.world = World(self.scheduler)
        #: Runs on the short way of which a part has failed.
        self.failed: set[int] = set()

    def tell(self, event: Event) -> None:
        self.world.hear(self.scheduler.handle(event, self.scheduler.at_ns))

    # --- runs ---

    @rule(target=runs, data=st.data(), priority=st.integers(-1, 1))
    def admit(self, data: st.DataObject, priority: int) -> int:
        run, shape = len(self.world.accounts), data.draw(shapes(len(self.scheduler.machine.devices)))
        if data.draw(st.booleans()):
            shape = self.planned(shape)
        account = self.world.accounts[run] = Account(shape)
        feeds = [value for value, producer in enumerate(account.spread.producers) if producer < 0]
        own = [d.shape.memory for d in self.scheduler.machine.devices if d.gone is None and d.shape.memory != HOST]
        resident: list[tuple[int, int]] = []
        if feeds and own and data.draw(st.integers(0, 3)) == 0:
            resident = [(data.draw(st.sampled_from(feeds)), data.draw(st.sampled_from(own)))]
            account.places[resident[0][0]] = {resident[0][1]}
        self.tell(RunAdmitted(run, shape, priority, resident))
        state = self.scheduler.runs.get(run)
        if state is not None and state.course is not None:
            state.course.every = 1
        return run

    def planned(self, shape: RunShape) -> RunShape:
        """With a plan of the whole, of a kind that is made again however little there is to gain."""
        machine = self.scheduler.machine
        devices = [(device.shape, [machine.lanes[lane].shape for lane in device.lanes]) for device in machine.devices]
        gone = {number for number, device in enumerate(machine.devices) if device.gone is not None}
        prior = prior_of(replace(shape, prior=None), devices, self.links, gone)
        if prior is not None and prior.basis is not None:
            prior.basis.rolls = True
        return replace(shape, prior=prior)

    @precondition(lambda self: self.world.asked())
    @rule(data=st.data(), made_up=st.booleans())
    def answer(self, data: st.DataObject, made_up: bool) -> None:
        """What is left is placed anew, as it should be or just anyhow."""
        run = data.draw(st.sampled_from(self.world.asked()))
        account = self.world.accounts[run]
        question, account.question = account.question, None
        assert question is not None
        prior = answer(question)
        if prior is not question.prior:
            assert all(question.factors[prior.devices[region]] < inf for region in question.progress.left)
        if made_up:
            device = st.integers(0, len(question.factors) - 1)  # not those that joined after the plan
            devices = [data.draw(device) for _ in prior.devices]
            prior = replace(prior, devices=devices, sends=question.basis.sends(devices, prior.starts_ns))
        self.tell(Reswept(run, prior))

    @rule(run=runs, count=st.integers(1, 12))
    def admit_more_of(self, run: int, count: int) -> None:
        """Runs just like one that was there before."""
        for _ in range(count):
            run, shape = len(self.world.accounts), self.world.accounts[run].shape
            self.world.accounts[run] = Account(shape)
            self.tell(RunAdmitted(run, shape))

    @rule(target=runs, ns=st.integers(1, 1_000), share=st.sampled_from([0, 10, 25]), fine=st.booleans())
    def begin_alone(self, ns: int, share: int, fine: bool) -> int:
        run, shape = len(self.world.accounts), spread(f"a:X={ns}", share=share, fine="a" if fine else "")
        self.world.accounts[run] = Account(shape)
        line = self.scheduler.waiting()
        lane = self.scheduler.begin_alone(run, shape, self.scheduler.at_ns)
        if lane is None:
            self.tell(RunAdmitted(run, shape))
        else:
            assert not line
            self.world.begun_alone(run, lane)
        return run

    @rule(run=runs)
    def cancel(self, run: int) -> None:
        before = len(self.world.accounts[run].said)
        alone = self.scheduler.alone.runs.get(run)
        alive = run in self.scheduler.runs and self.scheduler.runs[run].phase is Phase.RUNNING
        alive = alive or (alone is not None and not alone.stopped)
        self.tell(CancelRequested(run))
        assert (Stop(run, None) in self.world.accounts[run].said[before:]) is alive

    @rule(ns=st.sampled_from([1, 50, 2_000]))
    def wait(self, ns: int) -> None:
        self.scheduler.at_ns += ns

    # --- what was asked for ends ---

    @precondition(lambda self: any(self.world.queues))
    @rule(data=st.data(), fails=st.sampled_from([False, False, False, False, True]))
    def settle(self, data: st.DataObject, fails: bool) -> None:
        lane = data.draw(st.sampled_from([n for n, queue in enumerate(self.world.queues) if queue]))
        self.settle_first(lane, fails)

    def settle_first(self, lane: int, fails: bool) -> None:
        device = self.scheduler.machine.device_of[lane]
        if self.world.queues[lane][0][0] in self.scheduler.alone.runs:
            self.settle_alone(lane, fails or device in self.world.gone)
            return
        run, region = self.world.settled(lane, fails or device in self.world.gone)
        if fails or device in self.world.gone:
            self.tell(RegionFailed(run, region, ArithmeticError("as told")))
        else:
            self.tell(RegionFinished(run, region, (1, 5_000)[region % 2]))

    def settle_alone(self, lane: int, fails: bool) -> None:
        """A part fails and the others drain, or all have settled."""
        run, region = self.world.queues[lane][0]
        if fails and run not in self.failed:
            self.failed.add(run)
            error = ArithmeticError("as told")
            self.tell(CopyFailed(run, 0, HOST, error) if self.scheduler.at_ns % 2 else RegionFailed(run, region, error))
            return
        self.world.settled(lane, failed=run in self.failed)
        others = self.scheduler.end_alone(run, self.scheduler.at_ns) if run not in self.failed else None
        if others is None:
            self.tell(AloneEnded(run))
        else:
            self.world.hear((Deliver(run), Release(run), *others))

    @precondition(lambda self: self.world.copies_under_way())
    @rule(data=st.data(), fails=st.sampled_from([False, False, False, False, True]))
    def end_copy(self, data: st.DataObject, fails: bool) -> None:
        self.end_this_copy(*data.draw(st.sampled_from(self.world.copies_under_way())), fails)

    def end_this_copy(self, run: int, value: int, memory: int, fails: bool) -> None:
        account = self.world.accounts[run]
        source = account.copies[value, memory]
        lost = {self.scheduler.machine.devices[device].shape.memory for device in self.world.gone} - {HOST}
        gone = bool(lost & {source, memory}) or source not in account.places[value]
        failed = (fails or gone) and (value, memory) not in account.arrived
        self.world.copied(run, value, memory, failed or memory in lost)
        error = DeviceLost("link", "as told")
        self.tell(CopyFailed(run, value, memory, error) if failed else CopyFinished(run, value, memory))

    @precondition(lambda self: self.world.programs_under_way())
    @rule(data=st.data(), fails=st.sampled_from([False, False, False, False, True]))
    def end_bind(self, data: st.DataObject, fails: bool) -> None:
        self.end_this_bind(*data.draw(st.sampled_from(self.world.programs_under_way())), fails)

    def end_this_bind(self, run: int, device: int, fails: bool) -> None:
        self.world.accounts[run].programs[device] = not fails
        self.tell(BindFailed(run, device, ArithmeticError("as told")) if fails else Bound(run, device))

    # --- the machine changes ---

    @precondition(lambda self: len(self.scheduler.machine.devices) < 5)
    @rule(data=st.data())
    def add(self, data: st.DataObject) -> None:
        shape, lanes = data.draw(parts(len(self.scheduler.machine.devices)))
        self.world.queues += [[] for _ in lanes]
        self.tell(DeviceAdded(shape, lanes))

    @rule(data=st.data(), now=st.integers(0, 3))
    def lose(self, data: st.DataObject, now: int) -> None:
        device = data.draw(st.sampled_from(range(len(self.scheduler.machine.devices))))
        if now == 0:
            self.world.lose(device)
            self.tell(DeviceGone(device, DeviceLost(f"device {device}", "as told")))

    @rule()
    def change_topology(self) -> None:
        waiting = [state.run for state in self.scheduler.waiting() if not state.issued]
        self.tell(TopologyChanged())
        assert all(self.world.accounts[run].said == [Replan(run), Release(run)] for run in waiting)

    @rule(data=st.data())
    def lose_link(self, data: st.DataObject) -> None:
        memories = sorted(self.scheduler.machine.memories.keys() | {HOST})
        if len(memories) > 1 and data.draw(st.integers(0, 3)) == 0:
            self.links.missing.add((data.draw(st.sampled_from(memories)), data.draw(st.sampled_from(memories))))

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        while self.step():
            pass
        assert self.scheduler.idle
        for run, account in self.world.accounts.items():
            kinds = [type(one) for one in account.said]
            assert kinds.count(Release) == 1
            assert kinds.count(Deliver) + kinds.count(Stop) + kinds.count(Replan) == 1
            for one in account.said:
                if isinstance(one, Stop):
                    assert one.run == run
                    assert one.error is None or isinstance(one.error, DeviceError | ArithmeticError)

    def step(self) -> bool:
        """Let something that was asked for end well, if it can."""
        for run, device in self.world.programs_under_way():
            self.end_this_bind(run, device, fails=False)
            return True
        for run, value, memory in self.world.copies_under_way():
            self.end_this_copy(run, value, memory, fails=False)
            return True
        for lane, queue in enumerate(self.world.queues):
            if queue:
                self.settle_first(lane, fails=False)
                return True
        return False


class OneDevice(Machines):
    """The same with one device that has a memory of its own, at first: runs of one region may take the short way."""

    @initialize(lanes=st.integers(1, 2), slots=st.integers(1, 3), budget=st.sampled_from([10, 30, 60]))
    def open(self, lanes: int, slots: int, budget: int) -> None:
        self.links = Mesh()
        self.scheduler = Checked(gpu(1, lanes=lanes, slots=slots, budget=budget), links=self.links, binds=False)
        self.world = World(self.scheduler)
        self.failed = set()


TestMachines = Machines.TestCase
TestMachines.settings = settings(max_examples=20, stateful_step_count=30)


TestOneDevice = OneDevice.TestCase
TestOneDevice.settings = settings(max_examples=20, stateful_step_count=30)


@pytest.mark.slow
class TestMachinesAtLength(Machines.TestCase):  # type: ignore[misc, valid-type]  # made by Hypothesis
    settings = settings(max_examples=300, stateful_step_count=60)


@pytest.mark.slow
class TestOneDeviceAtLength(OneDevice.TestCase):  # type: ignore[misc, valid-type]  # made by Hypothesis
    settings = settings(max_examples=300, stateful_step_count=60)
