"""Each law of spread runs is noticed when it is broken; and those of a scheduler are held by every other test here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fuel_async.errors import InvariantBroken
from fuel_async.schedule import HOST, Hop, Phase, check
from tests.schedule.spread_support import Checked, cpu, gpu, spread

if TYPE_CHECKING:
    from collections.abc import Callable


def busy() -> Checked:
    """Run 1 has finished a on device 0 and runs b there and c on device 1; runs 2 and 3 wait, 4 for its programs.

    Values of run 1 are X, a, b, c, d: 0 to 4.
    """
    machine = Checked(gpu(1, slots=1), gpu(2, slots=1), cpu(slots=2), binds=False)
    machine.admit(1, spread("a:X@0 b:a@0 c:aX@1 d:bc@0", outputs="ad"))
    machine.bound(1, 0)
    machine.copied(1, "X", 1)
    machine.finish(1, "a")
    machine.bound(1, 1)
    machine.admit(4, "a@2")
    machine.admit(2, "a@0")
    machine.admit(3, "a@1")
    check(machine)
    return machine


def test_the_state_that_is_broken_below() -> None:
    machine = busy()
    one = machine.runs[1]
    assert (one.in_flight, one.finished) == ({1: 0, 2: 1}, {0})
    assert sorted(one.arriving) == [(0, 2), (1, HOST), (1, 2)]
    assert one.owed == {1, 4}
    assert one.memories == {1, 2}
    assert [state.run for state in machine.waiting()] == [1, 2, 3]
    assert machine.runs[4].binding == {2: [0]}


@pytest.mark.parametrize(
    ("law", "broken"),
    [
        ("was promised a time", lambda m: m.runs[1].promised_ns.update({3: 5})),
        ("stands in line while", lambda m: m._line.leave(m.runs[2])),
        ("readers .* counted right", lambda m: m.runs[1].readers_left.__setitem__(1, 1)),
        ("not in the host's memory yet is owed", lambda m: m.runs[1].owed.discard(1)),
        ("not in the host's memory yet is owed", lambda m: m.runs[1].owed.add(2)),
        ("lies somewhere once it is made", lambda m: m.runs[1].places[1].clear()),
        ("lies somewhere once it is made", lambda m: m.runs[1].places[2].update({1: 0})),
        ("what a region reads is there", lambda m: m.runs[1].places[0].pop(2)),
        ("programs become ready once", lambda m: m.runs[4].bound.add(2)),
        ("held back is held by its lane", lambda m: m.runs[4].binding.update({1: [0]})),
        ("holds a share of the memories it works in", lambda m: m.runs[1].memories.discard(2)),
        ("nothing was issued holds nothing", lambda m: m.runs[2].memories.add(1)),
        ("a memory holds the shares", lambda m: setattr(m.machine.memories[1], "held_nbytes", 11)),
        ("a memory holds the shares", lambda m: setattr(m.machine.memories[1], "budget_nbytes", 5)),
        ("a lane's queue is what runs have", lambda m: m.loads[0].jobs.update({(2, 0): (0, 1)})),
        ("a lane is free while", lambda m: setattr(m.loads[0], "free", True)),
        ("a lane is free while", lambda m: setattr(m.machine.devices[2], "gone", ValueError())),
        ("a port holds the copies", lambda m: m.runs[1].arriving.update({(4, 2): Hop(0, 2, 7)})),
        ("by priority and turn", lambda m: m._line._entries.reverse()),
        ("planned and not issued", lambda m: setattr(m.machine.devices[0], "planned_ns", 5)),
        ("do not idle while", lambda m: _idle(m)),
        ("a stopped run only waits", lambda m: setattr(m.runs[2], "phase", Phase.DRAINING)),
    ],
)
def test_the_laws_are_noticed(law: str, broken: Callable[[Checked], object]) -> None:
    machine = busy()
    broken(machine)
    with pytest.raises(InvariantBroken, match=law) as caught:
        check(machine)
    assert caught.value.found


def on_the_short_way() -> Checked:
    """Run 1 is on the short way on the only device."""
    machine = Checked(gpu(1))
    assert machine.begin(1, "a:X") == 0
    return machine


@pytest.mark.parametrize(
    ("law", "broken"),
    [
        ("on the short way or has events", lambda m: m.runs.update({1: m.runs[3]})),
        ("stopped with its device", lambda m: m.machine.lose(0, ValueError())),
        ("a memory holds the shares", lambda m: setattr(m.alone.runs[1], "share_nbytes", 11)),
        ("a lane holds what runs have", lambda m: setattr(m.alone.runs[1], "predicted_ns", 99)),
        ("a lane holds what runs have", lambda m: m.alone.runs.clear()),
        ("a lane's queue is what runs have", lambda m: m.alone.runs.update({4: m.alone.runs.pop(1)})),
    ],
)
def test_the_laws_of_the_short_way_are_noticed(law: str, broken: Callable[[Checked], object]) -> None:
    machine = on_the_short_way()
    machine.admit(2, "a b:a")
    machine.admit(3, "a")  # waits
    broken(machine)
    with pytest.raises(InvariantBroken, match=law):
        check(machine)


def _idle(machine: Checked) -> None:
    """Leave a run that waits, and nothing else."""
    for run in (1, 3, 4):
        machine.forget(run)
