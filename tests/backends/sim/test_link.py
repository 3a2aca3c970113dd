"""Links: times of copies, their accounts, ports that they share, and cuts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fuel_async.backends.sim import HOST, LinkLane, Links, LinkSpec, Sharing, SimDevice, SimDeviceSpec, SimMachine
from fuel_async.cost import LinkEstimate
from fuel_async.dispatch import TransferPath
from fuel_async.errors import ExecutorClosed, InternalError, ShapeMismatch, TransferFailed, UserError, WrongSubstrate
from fuel_async.ir import CPU_DEVICE, DType
from tests.backends.sim.support import error_of, on, run, span

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.ir import DeviceLocation
    from fuel_async.streams import CompletionHandle

    Make = Callable[..., SimMachine]

#: A copy of 1,000 bytes takes 100 + 1,000 / 10.
LINKS = Links.of(100.0, 10.0)


def copy(
    machine: SimMachine, source: SimDevice | DeviceLocation, destination: SimDevice | DeviceLocation, **options: Any
) -> CompletionHandle:
    """Copy 1,000 bytes that are on the source."""
    src, dst = (
        on(end, np.zeros(1_000, np.uint8)) if isinstance(end, SimDevice) else np.zeros(1_000, np.uint8)
        for end in (source, destination)
    )
    return machine.link(source, destination).submit_copy(src, dst, **options)


# --- what there is ---


def test_devices_know_the_links_that_end_at_them(make: Make) -> None:
    machine = make(SimDeviceSpec(), SimDeviceSpec(), SimDeviceSpec(), links=LINKS)
    a, b, c = machine.devices
    assert len(machine.links) == 4 * 3
    lane = a.copy_lane(a.location, b.location)
    assert lane is b.copy_lane(a.location, b.location) is machine.link(a, b)
    assert a.copy_lane(b.location, a.location) is machine.link(b, a) is not lane
    assert a.copy_lane(b.location, c.location) is None
    assert a.link(b.location, c.location) is None
    assert a.link(CPU_DEVICE, a.location) == LinkEstimate(100.0, 10.0)
    assert a.capabilities.transfer_paths == (
        (CPU_DEVICE, TransferPath.DeviceCopy),
        (b.location, TransferPath.Peer),
        (c.location, TransferPath.Peer),
    )


def test_links_that_share_ports_say_which(make: Make) -> None:
    a, b = make(SimDeviceSpec(), SimDeviceSpec(), links=Links.of(100.0, 10.0, sharing=Sharing.PORTS)).devices
    over, home, back = (a.link(a.location, b.location), a.link(a.location, CPU_DEVICE), a.link(b.location, a.location))
    assert over is not None
    assert home is not None
    assert back is not None
    assert len(over.ports) == 2
    assert set(over.ports) & set(home.ports) == {f"out of {a.location}"}
    assert not set(over.ports) & set(back.ports)


def test_links_as_a_matrix(make: Make) -> None:
    one_way = Links(None, {(0, 1): LinkSpec(5.0, 1.0), (HOST, 0): LinkSpec(7.0, 1.0)})
    machine = make(SimDeviceSpec(), SimDeviceSpec(), links=one_way)
    a, b = machine.devices
    assert {(link.source, link.destination) for link in machine.links} == {
        (a.location, b.location),
        (CPU_DEVICE, a.location),
    }
    assert (a.link(a.location, b.location), b.link(b.location, a.location)) == (LinkEstimate(5.0, 1.0), None)
    with pytest.raises(UserError, match=f"no link from {b.location} to {CPU_DEVICE}"):
        machine.link(b, CPU_DEVICE)


def test_a_device_that_is_added_is_linked_as_its_place_says(make: Make) -> None:
    machine = make(SimDeviceSpec(), links=Links(LINKS.every, {(1, 0): None}))
    added = machine.add(SimDeviceSpec(speed=9.0))
    assert machine.devices[1] is added
    assert span(copy(machine, CPU_DEVICE, added)) == (0, 200)
    assert added.copy_lane(added.location, machine.devices[0].location) is None


# --- copies ---


def test_bytes_arrive_after_latency_and_their_time_on_the_link(make: Make) -> None:
    machine = make(SimDeviceSpec(), links=LINKS)
    (a,) = machine.devices
    there, back = machine.link(CPU_DEVICE, a), machine.link(a, CPU_DEVICE)
    given, device, result = (
        np.arange(250, dtype=np.float32),
        on(a, np.zeros(250, np.float32)),
        np.empty(250, np.float32),
    )
    first = there.submit_copy(given, device)
    second = back.submit_copy(device, result, [first])
    assert (span(first), span(second)) == ((0, 200), (200, 400))
    assert np.array_equal(result, given)
    assert [(link.busy_ns, link.copied_nbytes, link.copies) for link in (there, back)] == [(200, 1_000, 1)] * 2
    assert first.wait().lane == f"{CPU_DEVICE} to {a.location}"
    assert a.pending_work_count() == 0


def test_copies_on_one_link_go_one_by_one_and_beside_programs(make: Make) -> None:
    machine = make(SimDeviceSpec(), SimDeviceSpec(), links=LINKS)
    a, b = machine.devices
    handles = [copy(machine, a, b), copy(machine, a, b), copy(machine, b, a), run(a, 500)]
    assert [span(handle) for handle in handles] == [(0, 200), (200, 400), (0, 200), (0, 500)]


def test_a_link_may_say_what_is_not_so(make: Make) -> None:
    said = LinkEstimate(1.0, 1_000.0)
    machine = make(SimDeviceSpec(), links=Links(LinkSpec(100.0, 10.0, advertised=said)))
    (a,) = machine.devices
    assert a.link(CPU_DEVICE, a.location) == said
    handle = copy(machine, CPU_DEVICE, a)
    assert handle.predicted_ns == 2
    assert span(handle) == (0, 200)


def test_a_link_slows_down(make: Make) -> None:
    machine = make(SimDeviceSpec(), links=LINKS)
    (a,) = machine.devices
    machine.slow(machine.link(CPU_DEVICE, a), 5.0)
    assert span(copy(machine, CPU_DEVICE, a)) == (0, 1_000)
    assert span(copy(machine, a, CPU_DEVICE)) == (1_000, 1_200)


def test_links_jitter_apart_from_each_other(make: Make) -> None:
    machine = make(SimDeviceSpec(), links=Links(LinkSpec(100.0, 10.0, jitter=0.3)))
    (a,) = machine.devices
    times = [copy(machine, *ends).wait().work_ns for ends in ((CPU_DEVICE, a), (a, CPU_DEVICE))]
    assert len({*times, 200}) == 3


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_link_reaches_the_memories_at_its_ends_and_no_others(make: Make, wrong: int) -> None:
    machine = make(SimDeviceSpec(), SimDeviceSpec(), links=LINKS)
    a, b = machine.devices
    link, values = machine.link(a, b), np.zeros(4)
    right = [on(a, values), on(b, values)]
    for elsewhere in (values, on((b, a)[wrong], values)):
        arrays = list(right)
        arrays[wrong] = elsewhere
        assert isinstance(error_of(link.submit_copy(*arrays)), WrongSubstrate)
    assert error_of(link.submit_copy(*right)) is None
    assert link.copies == 1


def test_arrays_must_be_alike(make: Make) -> None:
    machine = make(SimDeviceSpec(), links=LINKS)
    (a,) = machine.devices
    link = machine.link(CPU_DEVICE, a)
    assert isinstance(error_of(link.submit_copy(np.zeros(1), on(a, np.zeros(4)))), ShapeMismatch)
    assert isinstance(error_of(link.submit_copy(np.zeros(4), on(a, np.zeros(4, np.float32)))), TypeError)
    assert (link.copies, link.copied_nbytes) == (0, 0)


def test_no_program_runs_on_a_link(make: Make) -> None:
    machine = make(SimDeviceSpec(), links=LINKS)
    with pytest.raises(InternalError, match="copies and runs nothing"):
        machine.link(CPU_DEVICE, machine.devices[0]).submit(None)


# --- ports ---


def test_copies_that_share_a_port_go_one_by_one(make: Make) -> None:
    machine = make(*[SimDeviceSpec()] * 4, links=Links.of(100.0, 10.0, sharing=Sharing.PORTS))
    a, b, c, d = machine.devices
    handles = [
        copy(machine, a, b),  # takes the way out of a and into b
        copy(machine, a, c),  # waits for a
        copy(machine, d, b),  # waits for b
        copy(machine, c, d),  # shares neither
        copy(machine, b, a),  # another direction
    ]
    assert [span(handle) for handle in handles] == [(0, 200), (200, 400), (200, 400), (0, 200), (0, 200)]


def test_who_came_first_to_a_port_has_it_first(make: Make) -> None:
    machine = make(*[SimDeviceSpec()] * 3, links=Links.of(100.0, 10.0, sharing=Sharing.PORTS))
    handles = [copy(machine, CPU_DEVICE, device) for _ in range(2) for device in machine.devices]
    starts = [span(handle)[0] for handle in handles]
    assert sorted(starts) == [0, 200, 400, 600, 800, 1_000]
    assert starts[:3] == [0, 200, 400]


def test_a_port_is_given_back_by_a_copy_that_fails(make: Make) -> None:
    machine = make(*[SimDeviceSpec()] * 3, links=Links.of(100.0, 10.0, sharing=Sharing.PORTS))
    a, b, c = machine.devices
    machine.fail_next(machine.link(a, b), ArithmeticError("as told"))
    failing, next_one = copy(machine, a, b), copy(machine, a, c)
    lost, after = copy(machine, b, a), copy(machine, b, c)
    machine.lose(a)
    assert str(error_of(failing)) == "as told"
    assert error_of(next_one) is not None
    assert error_of(lost) is not None
    assert span(after) == (0, 200)


# --- cuts ---


def test_a_cut_link_fails_what_is_on_it_and_is_gone(make: Make) -> None:
    machine = make(SimDeviceSpec(), SimDeviceSpec(), links=LINKS)
    a, b = machine.devices
    link: LinkLane = machine.link(a, b)
    flying, queued = copy(machine, a, b), copy(machine, a, b)
    machine.cut(a, b)
    later = link.submit_copy(on(a, np.zeros(1)), on(b, np.zeros(1)))
    for handle in (flying, queued, later):
        error = error_of(handle)
        assert isinstance(error, TransferFailed)
        assert (error.source, error.destination) == (str(a.location), str(b.location))
        assert "the link is cut" in str(error)
    assert (a.copy_lane(a.location, b.location), a.link(a.location, b.location)) == (None, None)
    assert (b.location, TransferPath.Peer) not in a.capabilities.transfer_paths
    assert span(copy(machine, b, a)) == (0, 200)
    assert error_of(run(a)) is None
    with pytest.raises(UserError, match="no link"):
        machine.cut(a, b)


def test_a_link_is_cut_when_its_description_says(make: Make) -> None:
    machine = make(SimDeviceSpec(), links=Links(LinkSpec(100.0, 10.0, cut_at_ns=300)))
    (a,) = machine.devices
    first, second = copy(machine, CPU_DEVICE, a), copy(machine, CPU_DEVICE, a)
    assert span(first) == (0, 200)
    assert isinstance(error_of(second), TransferFailed)
    assert machine.clock.now_ns() == 300


def test_a_link_that_was_cut_early_is_not_cut_again(make: Make) -> None:
    machine = make(SimDeviceSpec(), links=Links(LinkSpec(100.0, 10.0, cut_at_ns=300)))
    (a,) = machine.devices
    machine.cut(CPU_DEVICE, a)
    back = machine.link(a, CPU_DEVICE)
    machine.clock.advance_to(299)  # type: ignore[attr-defined]  # a virtual clock
    assert list(machine.links) == [back]
    machine.clock.advance_to(300)  # type: ignore[attr-defined]
    assert list(machine.links) == []


def test_a_closed_device_takes_no_more_copies(make: Make) -> None:
    machine = make(SimDeviceSpec(), SimDeviceSpec(), links=LINKS)
    a, b = machine.devices
    held = copy(machine, a, b)
    a.close()
    assert isinstance(error_of(copy(machine, b, a)), ExecutorClosed)
    assert span(held) == (0, 200)
    assert error_of(copy(machine, b, CPU_DEVICE)) is None


def test_dtypes_of_arrays_on_devices_are_those_asked_for(make: Make) -> None:
    (a,) = make(SimDeviceSpec()).devices
    assert a.memory.allocate_array((2, 3), DType.BF16).nbytes == 12
