"""The short way on the only device: what opens it, what ends it, and that it holds what the ordinary way would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fuel_async.errors import DeviceLost, InvariantBroken
from fuel_async.schedule import POLICIES, RunAdmitted, check
from tests.schedule.spread_support import Checked, Speeds, cpu, gpu, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.schedule import Offer, RunShape
    from tests.schedule.spread_support import MakeSpread

ONE = "a:X"
ERROR = ArithmeticError("as told")


def held(machine: Checked) -> tuple[list[int], int]:
    """Submissions by lane, and bytes of the device's memory."""
    return [load.held for load in machine.loads], machine.machine.memories[1].held_nbytes


def test_it_takes_slot_and_share_and_gives_them_back(devices: MakeSpread) -> None:
    machine = devices(gpu(1))
    assert machine.begin(1, ONE) == 0
    assert held(machine) == ([1], 10)
    assert (machine.machine.devices[0].given, machine.alone.begun) == (1, 1)
    assert machine.end(1) == ""
    assert machine.idle


def test_it_holds_what_the_ordinary_way_does(devices: MakeSpread) -> None:
    short, ordinary = devices(gpu(1)), devices(gpu(1))
    for machine in (short, ordinary):
        machine.at_ns = 1_000
    short.begin(1, ONE)
    ordinary.admit(1, ONE)
    assert held(short) == held(ordinary)
    assert short.loads[0].held_ns == ordinary.loads[0].held_ns == 100
    assert short.machine.lanes[0].free_ns(1_000) == 1_100
    assert short.machine.devices[0].given == ordinary.machine.devices[0].given


class Lacking(Speeds):
    """No device has a kernel."""

    def region_ns(self, region: int, device: int) -> int:
        return None  # type: ignore[return-value]


def lacking() -> RunShape:
    shape = spread(ONE)
    assert shape.spread is not None
    object.__setattr__(shape.spread, "prices", Lacking([100]))
    return shape


def last(offers: Sequence[Offer]) -> Offer:
    """A policy of the caller's own."""
    return offers[-1]


def full(machine: Checked) -> None:
    machine.begin(8, ONE)
    machine.begin(9, ONE)


def others(machine: Checked) -> None:
    machine.machine.memories[1].others_nbytes = 501


def in_line(machine: Checked) -> None:
    """One waits for memory; a smaller one would find room and a slot."""
    machine.admit(8, "a")
    assert machine.admit(9, spread("a", share=995)) == ""


@pytest.mark.parametrize(
    ("machine", "shape", "before"),
    [
        (lambda: Checked(gpu(1)), "a:X b:a", None),
        (lambda: Checked(gpu(1)), "a:X b:X", None),
        (lambda: Checked(gpu(1)), "", None),
        (lambda: Checked(cpu()), ONE, None),
        (lambda: Checked(gpu(1), gpu(2)), ONE, None),
        (lambda: Checked(gpu(1), cpu()), ONE, None),
        (lambda: Checked(gpu(1), policy=last), ONE, None),
        (lambda: Checked(gpu(1, lanes=0)), ONE, None),
        (lambda: Checked(gpu(1)), lacking(), None),
        (lambda: Checked(gpu(1)), spread(ONE, share=1_001), None),
        (lambda: Checked(gpu(1)), spread(ONE, share=995), lambda m: m.begin(8, ONE)),
        (lambda: Checked(gpu(1)), spread(ONE, share=500), others),
        (lambda: Checked(gpu(1)), ONE, lambda m: m.gone(0, DeviceLost("dev:1", "as told"))),
        (lambda: Checked(gpu(1)), ONE, lambda m: m.added(gpu(2))),
        (lambda: Checked(gpu(1)), ONE, full),
        (lambda: Checked(gpu(1, slots=3)), ONE, in_line),
    ],
    ids=[
        "two regions", "two beside each other", "no region", "the host", "two devices", "the host beside it", "policy",
        "no lane", "no kernel", "too large", "held", "others", "gone", "added", "full", "in line",
    ],
)  # fmt: skip
def test_there_is_no_short_way(
    machine: Callable[[], Checked], shape: RunShape | str, before: Callable[[Checked], object] | None
) -> None:
    one = machine()
    if before is not None:
        before(one)
    begun, state = one.alone.begun, (held(one) if 1 in one.machine.memories else None)
    assert one.begin(1, shape) is None
    assert one.alone.begun == begun
    assert state is None or held(one) == state
    assert 1 not in one.alone.runs
    check(one)


@pytest.mark.parametrize("policy", POLICIES.values())
def test_named_policies_have_nothing_to_say(devices: MakeSpread, policy: object) -> None:
    assert devices(gpu(1), policy=policy).begin(1, ONE) == 0


def test_a_pin_to_the_only_device_changes_nothing(devices: MakeSpread) -> None:
    assert devices(gpu(1)).begin(1, "a:X@0") == 0


def test_it_takes_the_lane_that_would_be_free_first(devices: MakeSpread) -> None:
    machine = devices(gpu(1, lanes=2, slots=2))
    assert [machine.begin(run, f"a:X={ns}") for run, ns in enumerate((100, 30, 30, 100, 10))] == [0, 1, 1, None, None]


def test_it_does_not_pass_over_a_lane_that_would_be_free_first_and_is_full(devices: MakeSpread) -> None:
    """The ordinary way waits for it, too."""
    machine = devices(gpu(1, lanes=2, slots=1))
    assert [machine.begin(run, f"a:X={ns}") for run, ns in enumerate((10, 100, 10))] == [0, 1, None]
    assert machine.admit(2, "a") == ""


def test_fine_regions_go_to_lanes_that_take_them(devices: MakeSpread) -> None:
    shape, lanes = cpu(lanes=2)
    machine = devices((type(shape)("dev:1", 1, 1_000), lanes))
    fine = spread(ONE, fine="a")
    assert [machine.begin(1, fine), machine.begin(2, fine), machine.begin(3, ONE)] == [0, 0, 1]


def test_its_end_lets_those_on_who_wait(devices: MakeSpread) -> None:
    machine = devices(gpu(1, slots=1))
    machine.begin(1, ONE)
    assert machine.admit(2, "a") == ""
    assert machine.end(1) == "2 bind 0"  # which nobody has played here
    assert machine.bound(2, 0) == "2a@0"


@pytest.mark.parametrize("by_event", [False, True])
def test_its_end_lets_those_on_while_others_are_at_work(devices: MakeSpread, by_event: bool) -> None:
    """For memory, with a slot free: it has been looked at, and got nothing."""
    machine = devices(gpu(1, slots=3))
    machine.begin(1, ONE)
    machine.begin(2, spread(ONE, share=600))
    assert machine.admit(3, spread("a", share=600)) == ""
    assert not machine.look_again
    assert (machine.ended(2) if by_event else machine.end(2)) == ("2 done, 2 end, 3a@0" if by_event else "3 bind 0")


def test_its_end_lets_those_on_who_wait_for_memory(devices: MakeSpread) -> None:
    machine = devices(gpu(1))
    machine.begin(1, spread(ONE, share=600))
    assert machine.admit(2, spread("a", share=600)) == ""
    assert machine.ended(1) == "1 done, 1 end, 2a@0"


def test_its_end_may_be_told_by_an_event(devices: MakeSpread) -> None:
    machine = devices(gpu(1))
    machine.begin(1, ONE)
    assert machine.ended(1) == "1 done, 1 end"
    assert machine.idle
    assert machine.story(1) == ["AloneEnded(run=1) -> Deliver(run=1), Release(run=1)"]


@pytest.mark.parametrize("first", ["cancel", "region", "copy", "gone"])
@pytest.mark.parametrize("then", ["cancel", "region", "copy", "gone", None])
def test_what_comes_up_first_stops_it_and_it_drains(devices: MakeSpread, first: str, then: str | None) -> None:
    machine, lost = devices(gpu(1)), DeviceLost("dev:1", "as told")
    machine.begin(1, ONE)
    told = {
        "cancel": lambda: machine.cancel(1),
        "region": lambda: machine.fail(1, "a", ERROR),
        "copy": lambda: machine.copy_failed(1, "X", 1, ERROR),
        "gone": lambda: machine.gone(0, lost),
    }
    errors = {"cancel": None, "region": ERROR, "copy": ERROR, "gone": lost}
    assert told[first]().startswith("1 stop")
    assert machine.errors[1] is errors[first]
    if then is not None:
        assert told[then]() == ""
    assert held(machine) == ([1], 10)
    assert machine.end(1) is None
    assert machine.ended(1) == "1 end"
    assert machine.idle


def test_the_loss_of_another_device_is_nothing_to_it(devices: MakeSpread) -> None:
    machine = devices(gpu(1))
    machine.begin(1, ONE)
    machine.added(gpu(2))
    assert machine.gone(1, DeviceLost("dev:2", "as told")) == ""
    assert machine.end(1) == ""


def test_a_device_that_joins_is_given_what_comes_then(devices: MakeSpread) -> None:
    machine = devices(gpu(1, slots=1))
    machine.begin(1, "a:X=1000")
    assert machine.added(gpu(2)) == ""
    assert machine.admit(2, "a") == "2a@1"
    assert machine.ended(1) == "1 done, 1 end"


def test_it_goes_on_when_plans_are_out_of_date(devices: MakeSpread) -> None:
    machine = devices(gpu(1))
    machine.begin(1, ONE)
    assert machine.topology_changed() == ""
    assert machine.end(1) == ""


def test_it_can_be_forgotten(devices: MakeSpread) -> None:
    machine = devices(gpu(1))
    machine.begin(1, ONE)
    machine.forget(1)
    assert machine.idle


def test_what_cannot_be_told_of_it_is_noticed(devices: MakeSpread) -> None:
    machine = devices(gpu(1))
    machine.begin(1, ONE)
    with pytest.raises(InvariantBroken, match="one hears failures and the end"):
        machine.handle(RunAdmitted(1, spread(ONE)))
    with pytest.raises(InvariantBroken, match="a run on the short way ends once"):
        machine.ended(2)
