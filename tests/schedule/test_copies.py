"""Values that are sent ahead: in the order in which they are needed, and what waits for them meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuel_async.schedule import Prior, Reswept, RunShape
from fuel_async.schedule.copies import AHEAD_NS
from fuel_async.schedule.rolling import Course
from tests.schedule.spread_support import Checked, Mesh, gpu, spread

MS = 1_000_000

#: No copy is through before the next one would be submitted.
SLOW = 2 * AHEAD_NS


def links(*, shared: bool = False) -> Mesh:
    return Mesh(latency_ns=SLOW, ns_per_byte=0, shared=shared)


#: d, e and f read on the second device what a, b and c make on the first; what c made is needed before what b did.
THREE = "a b c d:a=100 e:b=100 f:c=100"


def three(needed_ms: tuple[int, int, int] = (3, 9, 6), text: str = THREE, third: int = 1) -> RunShape:
    """The third reader is on device `third`."""
    starts_ns = [0, 1, 2, *[ms * MS for ms in needed_ms]]
    devices = [0, 0, 0, 1, 1, third]
    sends = [[(value, device + 1, starts_ns[value + 3])] for value, device in enumerate(devices[3:])]
    prior = Prior(devices, starts_ns, [*sends, [], [], []], 20 * MS)
    return replace(spread(text, outputs=""), prior=prior)


def started(shape: RunShape, *, shared: bool = False, devices: int = 2, priority: int = 0) -> Checked:
    machine = Checked(*[gpu(number + 1, slots=6) for number in range(devices)], links=links(shared=shared))
    assert machine.admit(0, shape, priority) == "0a@0, 0b@0, 0c@0"
    return machine


def waiting(machine: Checked) -> int:
    return sum(map(len, machine.copies.waiting.values()))


def test_what_is_needed_first_is_sent_first() -> None:
    machine = started(three())
    assert machine.finish(0, "a") == "0a 1>2, 0d@1"
    assert machine.finish(0, "b") == ""
    assert machine.finish(0, "c") == ""
    machine.at_ns = SLOW
    assert machine.copied(0, "a", 2) == "0c 1>2, 0f@1"
    machine.at_ns += SLOW
    assert machine.copied(0, "c", 2) == "0b 1>2, 0e@1"
    assert not waiting(machine)


def test_copies_that_are_soon_through_wait_for_nothing() -> None:
    machine = Checked(gpu(1, slots=3), gpu(2, slots=3), links=Mesh(latency_ns=AHEAD_NS, ns_per_byte=0))
    machine.admit(0, three())
    assert machine.finish(0, "a").startswith("0a 1>2")
    assert machine.finish(0, "b").startswith("0b 1>2")
    assert machine.finish(0, "c") == ""  # two are under way, which take longer together


def test_a_region_goes_to_its_lane_with_the_copies_that_it_waits_for() -> None:
    """Given to the lane before, it would have its copies made at once, and others made to wait."""
    machine = started(three())
    machine.finish(0, "a")
    machine.finish(0, "b")
    machine.finish(0, "c")
    machine.copied(0, "a", 2)
    assert machine.loads[1].held == 2
    machine.finish(0, "d")
    machine.finish(0, "f")
    assert machine.loads[1].held == 0  # the lane is idle, and e waits for b, which is next
    assert machine.copied(0, "c", 2) == "0b 1>2, 0e@1"


@pytest.mark.parametrize(("shared", "told"), [(False, "0c 1>3, 0f@2"), (True, "")])
def test_links_that_share_a_port_wait_for_each_other(shared: bool, told: str) -> None:
    machine = started(three(third=2), shared=shared, devices=3)
    machine.finish(0, "a")
    assert machine.finish(0, "c") == told
    machine.at_ns = SLOW
    assert machine.copied(0, "a", 2) == ("0c 1>3, 0f@2" if shared else "")


def test_of_all_that_waits_for_two_ports_the_first_goes_first() -> None:
    """b waits to leave its memory, x of another run to come to where b goes: it is needed first."""
    machine = Checked(*[gpu(number + 1, slots=3) for number in range(3)], links=links(shared=True))
    machine.admit(0, three())
    machine.finish(0, "a")
    machine.finish(0, "b")
    prior = Prior([2, 1], [0, 4 * MS], [[(0, 2, 4 * MS)], []], 20 * MS)
    machine.admit(1, replace(spread("a b:a=100", outputs=""), prior=prior))
    assert machine.finish(1, "a") == ""
    machine.at_ns = SLOW
    assert machine.copied(0, "a", 2) == "1a 3>2, 1b@1"


def test_runs_of_higher_priority_go_first() -> None:
    machine = started(three())
    machine.finish(0, "a")
    machine.finish(0, "b")
    machine.finish(0, "c")
    for region in "d":
        machine.finish(0, region)
    machine.admit(1, three((30, 31, 32)), priority=1)
    machine.finish(1, "b")
    machine.at_ns = SLOW
    assert machine.copied(0, "a", 2).startswith("1b 1>2")


def test_what_a_run_waits_for_is_forgotten_when_it_stops() -> None:
    machine = started(three())
    machine.finish(0, "a")
    machine.finish(0, "b")
    assert machine.cancel(0) == "0 stop"
    machine.finish(0, "c")
    machine.finish(0, "d")
    assert machine.copied(0, "a", 2) == "0 end"
    assert not waiting(machine)
    assert machine.idle


def test_a_copy_that_fails_keeps_nobody_waiting() -> None:
    machine = started(three())
    machine.finish(0, "a")
    machine.admit(1, three())
    assert machine.finish(1, "b") == ""
    told = machine.copy_failed(0, "a", 2, ArithmeticError("as told"))
    assert told.startswith("0 stop ArithmeticError")
    assert "1b 1>2" in told


def test_what_cannot_be_sent_any_more_is_not() -> None:
    """The device that made it is gone: whoever needs it is stopped elsewhere, and nothing waits for it."""
    machine = started(three(), devices=3)
    machine.finish(0, "a")
    machine.finish(0, "b")
    assert waiting(machine) == 1
    machine.gone(0, OSError("as told"))
    machine.copy_failed(0, "a", 2, OSError("as told"))
    assert not waiting(machine)


def test_a_run_that_is_given_up_lets_others_go_on() -> None:
    machine = started(three())
    machine.finish(0, "a")
    machine.admit(1, three())
    machine.finish(1, "b")
    assert waiting(machine) == 1
    machine.forget(0)
    assert not waiting(machine)
    machine.finish(1, "a")
    assert machine.machine.ports[1, 2].count == 1


def outputs() -> RunShape:
    """The same, but b is an output that nobody reads."""
    prior = Prior([0, 0, 0, 1, 1], [0, 1, 2, 3 * MS, 6 * MS], [[(0, 2, 3 * MS)], [], [(2, 2, 6 * MS)], [], []], 20 * MS)
    return replace(spread("a b c d:a=100 e:c=100", outputs="b"), prior=prior)


def test_outputs_go_home_when_nothing_is_needed_sooner() -> None:
    machine = started(outputs(), shared=True)
    machine.finish(0, "a")
    assert machine.finish(0, "b") == ""
    assert machine.finish(0, "c") == ""
    machine.at_ns = SLOW
    assert machine.copied(0, "a", 2) == "0c 1>2, 0e@1"
    machine.at_ns += SLOW
    assert machine.copied(0, "c", 2) == "0b 1>0"
    machine.finish(0, "d")
    machine.finish(0, "e")
    assert machine.copied(0, "b", 0) == "0 done, 0 end"


def test_outputs_of_runs_without_a_plan_go_at_once() -> None:
    machine = Checked(gpu(1), links=links())
    machine.admit(0, spread("a b c:b=100", outputs="ab"))
    assert machine.finish(0, "b").startswith("0b 1>0")
    assert machine.finish(0, "a") == "0a 1>0"


def test_a_run_is_stopped_whose_output_cannot_go_home_any_more() -> None:
    machine = started(outputs(), shared=True)
    machine.finish(0, "a")
    machine.finish(0, "b")
    machine.finish(0, "c")
    assert isinstance(machine.links, Mesh)
    machine.links.missing.add((1, 0))
    machine.at_ns = SLOW
    machine.copied(0, "a", 2)
    machine.at_ns += SLOW
    assert machine.copied(0, "c", 2) == "0 stop TransferFailed"


def test_another_plan_sends_anew_what_waits() -> None:
    """By the answer e, which reads what b makes, runs on the third device."""
    shape = three()
    assert shape.prior is not None
    machine = started(shape, devices=3)
    state = machine.runs[0]
    machine.finish(0, "a")
    machine.finish(0, "b")
    machine.finish(0, "c")
    state.course = Course(len(state.shape), [1.0] * 3)
    assert waiting(machine) == 2
    devices, starts_ns = [0, 0, 0, 1, 2, 1], [0, 1, 2, 3 * MS, 4 * MS, 6 * MS]
    sends = [[(0, 2, 3 * MS)], [(1, 3, 4 * MS)], [(2, 2, 6 * MS)], [], [], []]
    assert machine.tell(Reswept(0, Prior(devices, starts_ns, sends, 20 * MS))) == "0b 1>3, 0e@2"
    machine.at_ns = SLOW
    assert machine.copied(0, "a", 2) == "0c 1>2, 0f@1"
    machine.at_ns += SLOW
    assert machine.copied(0, "c", 2) == ""  # nothing goes where nobody reads it any more
