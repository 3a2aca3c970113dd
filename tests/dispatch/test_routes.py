"""The cheaper way from one memory to another, for a size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fuel_async.dispatch import Hop, LinkEstimate, Pair, Route, cheapest_route, route_over
from fuel_async.ir import CPU_DEVICE, BackendId, DeviceLocation

NPU = BackendId("npu")
A, B, C = DeviceLocation(NPU), DeviceLocation(NPU, 1), DeviceLocation(NPU, 2)

#: A direct link that starts early and is slow, and a way over the host that starts late and is fast.
LINKS: dict[Pair, LinkEstimate] = {
    (A, B): LinkEstimate(1_000.0, 1.0),
    (A, CPU_DEVICE): LinkEstimate(5_000.0, 10.0),
    (CPU_DEVICE, B): LinkEstimate(5_000.0, 10.0),
}

figures = st.builds(LinkEstimate, st.floats(0, 1e6), st.floats(1e-3, 1e3))
pairs = st.tuples(st.sampled_from([A, B, C, CPU_DEVICE]), st.sampled_from([A, B, C, CPU_DEVICE]))


def test_nothing_is_copied_within_a_memory() -> None:
    assert cheapest_route({}, A, A, 1 << 30) == Route()
    assert Route().copy_ns == 0


def test_without_any_link_there_is_no_route() -> None:
    assert cheapest_route({}, A, B, 1) is None
    assert cheapest_route(LINKS, B, A, 1) is None
    assert cheapest_route(LINKS, CPU_DEVICE, A, 1) is None


def test_few_bytes_go_directly_and_many_over_the_host() -> None:
    assert cheapest_route(LINKS, A, B, 100) == Route((Hop(A, B, 1_100),))
    assert cheapest_route(LINKS, A, B, 100_000) == Route((Hop(A, CPU_DEVICE, 15_000), Hop(CPU_DEVICE, B, 15_000)))


def test_of_equal_routes_the_direct_one_is_taken() -> None:
    even = dict.fromkeys(LINKS, LinkEstimate(0.0, 1.0)) | {(A, B): LinkEstimate(0.0, 0.5)}
    route = cheapest_route(even, A, B, 1_000)
    assert route is not None
    assert len(route.hops) == 1


def test_bytes_may_be_staged_elsewhere_than_on_the_host() -> None:
    links = {(A, C): LinkEstimate(1.0, 1.0), (C, B): LinkEstimate(2.0, 1.0)}
    assert cheapest_route(links, A, B, 10, staging=C) == Route((Hop(A, C, 11), Hop(C, B, 12)))
    assert cheapest_route(links, A, B, 10) is None


def test_a_route_through_given_stops_needs_every_link() -> None:
    route = route_over(LINKS, (A, CPU_DEVICE, B), 0)
    assert route is not None
    assert route.copy_ns == 10_000
    assert route_over(LINKS, (A, C, B), 0) is None


def test_the_time_of_a_route_is_saturated_at_64_bits() -> None:
    assert Route((Hop(A, B, 2**64 - 1), Hop(B, C, 2**64 - 1))).copy_ns == 2**64 - 1


@given(st.dictionaries(pairs, figures), pairs, st.integers(0, 1 << 40))
def test_a_route_leads_from_one_end_to_the_other_and_none_is_cheaper(
    links: dict[Pair, LinkEstimate], ends: Pair, nbytes: int
) -> None:
    source, destination = ends
    route = cheapest_route(links, source, destination, nbytes)
    if route is None:
        assert ends not in links
        return
    stops = [source, *(hop.destination for hop in route.hops)]
    assert stops[-1] == destination
    assert [hop.source for hop in route.hops] == stops[:-1]
    for via in ((), (CPU_DEVICE,)):
        other = route_over(links, (source, *via, destination), nbytes)
        assert other is None or route.copy_ns <= other.copy_ns


@given(st.dictionaries(pairs, figures), pairs, st.lists(st.integers(0, 1 << 40), min_size=2, max_size=2))
def test_more_bytes_never_take_less(links: dict[Pair, LinkEstimate], ends: Pair, sizes: list[int]) -> None:
    few, many = (cheapest_route(links, *ends, nbytes) for nbytes in sorted(sizes))
    assert (few is None) == (many is None)
    assert few is None or many is None or few.copy_ns <= many.copy_ns
