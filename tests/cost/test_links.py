"""What links cost: their default figures, links in series, and figures learned from copies."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_async.cost import DEFAULT_LINKS, LinkEstimate, LinkModel
from fuel_async.cost import links as module
from fuel_async.cost.links import KEPT_PER_SIZE
from fuel_async.dispatch import CHEAPEST_FIRST, TransferPath
from fuel_async.errors import UserError

KIB, MIB = 1 << 10, 1 << 20
LINK = LinkEstimate(10_000.0, 5.0)

links = st.builds(LinkEstimate, st.floats(0, 1e9), st.floats(1e-6, 1e6))
copies = st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 50)), max_size=60)


# --- figures ---


@pytest.mark.parametrize(
    ("path", "latency_ns", "gigabytes_per_s"),
    [
        (TransferPath.SameDevice, 0, math.inf),
        (TransferPath.SharedMemory, 2_000, 20),
        (TransferPath.Peer, 15_000, 12),
        (TransferPath.DeviceCopy, 30_000, 8),
        (TransferPath.HostStaging, 60_000, 4),
    ],
)
def test_an_unmeasured_path_has_the_seeds_figures(path: TransferPath, latency_ns: int, gigabytes_per_s: float) -> None:
    assert DEFAULT_LINKS[path] == LinkEstimate(latency_ns, gigabytes_per_s)


def test_every_path_has_figures_and_a_cheaper_kind_is_cheaper_at_every_size() -> None:
    assert DEFAULT_LINKS.keys() == set(TransferPath)
    for cheap, dear in itertools.pairwise(CHEAPEST_FIRST):
        for nbytes in (1, 4 * KIB, 64 * MIB, 1 << 40):
            assert DEFAULT_LINKS[cheap].copy_ns(nbytes) < DEFAULT_LINKS[dear].copy_ns(nbytes)


def test_a_copy_takes_the_latency_and_its_bytes() -> None:
    assert LINK.copy_ns(0) == 10_000
    assert LINK.copy_ns(5_000) == 11_000
    assert DEFAULT_LINKS[TransferPath.SameDevice].copy_ns(1 << 60) == 0


def test_a_time_is_saturated_at_64_bits() -> None:
    assert LinkEstimate(1e300, 1.0).copy_ns(0) == 2**64 - 1
    assert LinkEstimate(0.0, 1e-300).copy_ns(1 << 40) == 2**64 - 1


@pytest.mark.parametrize(
    ("latency_ns", "bytes_per_ns"),
    [(-1.0, 1.0), (math.inf, 1.0), (math.nan, 1.0), (0.0, 0.0), (0.0, -1.0), (0.0, math.nan)],
)
def test_figures_that_no_link_has_are_refused(latency_ns: float, bytes_per_ns: float) -> None:
    with pytest.raises(UserError, match="a link cannot have"):
        LinkEstimate(latency_ns, bytes_per_ns)


def test_two_ways_of_half_the_staging_make_the_staging() -> None:
    leg = DEFAULT_LINKS[TransferPath.DeviceCopy]
    assert leg.then(leg) == DEFAULT_LINKS[TransferPath.HostStaging]


def test_links_in_series_add_latencies_and_share_bandwidth() -> None:
    both = LinkEstimate(1_000.0, 12.0).then(LinkEstimate(500.0, 4.0))
    assert both.latency_ns == 1_500
    assert both.bytes_per_ns == pytest.approx(12 * 4 / (12 + 4))


def test_links_in_series_pass_the_ports_of_both() -> None:
    down, up = LinkEstimate(1.0, 1.0, ("out", "hub")), LinkEstimate(1.0, 1.0, ("hub", "in"))
    assert down.then(up).ports == ("out", "hub", "in")


@pytest.mark.parametrize("sizes", [[1_000] * 4, [1_000] * 4 + [1_000_000] * 4])
@pytest.mark.parametrize("prior", [LinkEstimate(10.0, 5.0, ("out",)), LinkEstimate(0.0, math.inf, ("out",))])
def test_what_is_learned_of_a_link_says_nothing_else_of_its_ports(prior: LinkEstimate, sizes: list[int]) -> None:
    model = LinkModel(prior)
    for nbytes in sizes:
        model.observe(nbytes, 3_000 + nbytes)
    assert model.estimate.latency_ns != prior.latency_ns or model.estimate.bytes_per_ns != prior.bytes_per_ns
    assert model.estimate.ports == ("out",)


def test_a_free_link_in_series_changes_nothing() -> None:
    free = DEFAULT_LINKS[TransferPath.SameDevice]
    assert free.then(LINK) == LINK.then(free) == LINK
    assert free.then(free) == free


@given(links, links, st.integers(0, 1 << 40))
def test_two_links_in_series_take_what_both_take(first: LinkEstimate, second: LinkEstimate, nbytes: int) -> None:
    apart = first.copy_ns(nbytes) + second.copy_ns(nbytes)
    assert first.then(second).copy_ns(nbytes) == pytest.approx(apart, rel=1e-9, abs=2)


# --- learning ---


def taught(prior: LinkEstimate, *copies: tuple[int, int]) -> LinkModel:
    model = LinkModel(prior)
    for nbytes, took_ns in copies:
        model.observe(nbytes, took_ns)
    return model


def test_before_any_copy_the_prior_stands() -> None:
    model = LinkModel(LINK)
    assert model.estimate == LINK
    assert model.copy_ns(5_000) == 11_000


def test_the_first_copy_is_dropped_and_copies_of_nothing_tell_nothing() -> None:
    assert taught(LINK, (0, 1), (MIB, 10**9), (0, 10**9), (-1, 5)).estimate == LINK


def test_the_second_copy_is_believed() -> None:
    assert taught(LINK, (MIB, 10**9), (MIB, 700_000)).copy_ns(MIB) == pytest.approx(700_000, abs=1)


@pytest.mark.parametrize("too_fast", [0.1, 1, 10])
@pytest.mark.parametrize("too_late", [0.1, 1, 10])
@pytest.mark.parametrize("truth", [LinkEstimate(2_000, 20), LinkEstimate(60_000, 4), LinkEstimate(500, 0.5)], ids=str)
def test_a_prior_wrong_by_ten_either_way_gives_in_to_copies_of_many_sizes(
    truth: LinkEstimate, too_late: float, too_fast: float
) -> None:
    chance = random.Random(1)
    sizes = [4 * KIB, 64 * KIB, MIB, 16 * MIB]
    model = LinkModel(LinkEstimate(truth.latency_ns * too_late, truth.bytes_per_ns * too_fast))
    for nbytes in chance.choices(sizes, k=60):
        model.observe(nbytes, int(truth.copy_ns(nbytes) * chance.uniform(0.95, 1.05)))
    for nbytes in (*sizes, 256 * MIB):
        assert model.copy_ns(nbytes) == pytest.approx(truth.copy_ns(nbytes), rel=0.2)


def test_copies_of_one_size_give_the_total_at_that_size_and_scale_the_rest() -> None:
    model = taught(LINK, *[(MIB, 10 * LINK.copy_ns(MIB))] * 20)
    assert model.copy_ns(MIB) == pytest.approx(10 * LINK.copy_ns(MIB), rel=1e-6)
    assert model.estimate.latency_ns == pytest.approx(10 * LINK.latency_ns)
    assert model.estimate.bytes_per_ns == pytest.approx(LINK.bytes_per_ns / 10)


def test_copies_over_a_link_thought_to_be_free_give_it_a_bandwidth() -> None:
    model = taught(DEFAULT_LINKS[TransferPath.SameDevice], *[(MIB, 2 * MIB)] * 2)
    assert model.estimate == LinkEstimate(0.0, 0.5)


def test_of_two_copies_the_faster_is_believed() -> None:
    for took in ((900_000, 300_000), (300_000, 900_000)):
        model = taught(LINK, (MIB, 1), *[(MIB, took_ns) for took_ns in took])
        assert model.copy_ns(MIB) == pytest.approx(300_000, abs=1)


@pytest.mark.parametrize("fewer_took_ns", [10_000, 12_000])
def test_small_copies_leave_the_bandwidth_to_the_prior(fewer_took_ns: int) -> None:
    """Times that do not grow with size must not promise that copies of any size take no longer."""
    small = [(64, fewer_took_ns), (1_024, 10_000)] * 10
    assert taught(LINK, (64, 1), *small).estimate.bytes_per_ns == pytest.approx(LINK.bytes_per_ns)


def test_times_that_grow_faster_than_sizes_are_met_at_both_ends_without_a_negative_latency() -> None:
    seen = [(KIB, 1_000), (MIB, 1_100_000)]
    model = taught(LinkEstimate(0.0, 0.5), (1, 1), *seen * 10)
    assert model.estimate.latency_ns == 0
    for nbytes, took_ns in seen:
        assert model.copy_ns(nbytes) == pytest.approx(took_ns, rel=0.1)


def test_large_copies_leave_the_latency_to_the_prior() -> None:
    truth = LinkEstimate(9_000.0, 5.0)
    large = [(nbytes, truth.copy_ns(nbytes)) for nbytes in (64 * MIB, 512 * MIB)] * 10
    assert taught(LINK, (64, 1), *large).estimate.latency_ns == LINK.latency_ns


def test_one_copy_that_waited_for_something_else_changes_little() -> None:
    steady = [(nbytes, LINK.copy_ns(nbytes)) for nbytes in (4 * KIB, MIB)] * KEPT_PER_SIZE
    stalled = [(4 * KIB, 10**9), (MIB, 10**9), (64 * KIB, 10**9)]
    model = taught(LINK, (1, 1), *steady, *stalled)
    for nbytes in (4 * KIB, 64 * KIB, MIB):
        assert model.copy_ns(nbytes) == pytest.approx(LINK.copy_ns(nbytes), rel=0.01)


@pytest.mark.parametrize("took_ns", [1, 10**9])
def test_one_odd_copy_of_a_size_of_its_own_is_no_point_to_fit(took_ns: int) -> None:
    model = taught(LINK, (1, 1), *[(MIB, LINK.copy_ns(MIB))] * 9, (4 * KIB, took_ns))
    assert model.copy_ns(4 * KIB) == pytest.approx(LINK.copy_ns(4 * KIB), rel=0.01)


def test_a_link_that_became_slower_is_followed_within_the_copies_kept() -> None:
    model = taught(LINK, *[(MIB, 100_000)] * 50)
    for _ in range(KEPT_PER_SIZE):
        model.observe(MIB, 900_000)
    assert model.copy_ns(MIB) == pytest.approx(900_000, rel=1e-6)


def test_what_is_kept_does_not_grow_with_the_copies() -> None:
    chance = random.Random(2)
    model = taught(LINK, *[(chance.randrange(1, 1 << 40), chance.randrange(1, 10**9)) for _ in range(3_000)])
    kept = [len(sizes.copies) for sizes in model._by_size.values()]
    assert len(kept) <= 40
    assert max(kept) == KEPT_PER_SIZE


@given(links, copies, st.lists(st.integers(0, 1 << 45), min_size=2, max_size=6))
def test_times_are_never_negative_and_never_fall_with_size(
    prior: LinkEstimate, seen: list[tuple[int, int]], asked: list[int]
) -> None:
    model = taught(prior, *seen)
    times = [model.copy_ns(nbytes) for nbytes in sorted(asked)]
    assert times == sorted(times)
    assert times[0] >= 0


@given(links, copies)
def test_equal_histories_give_equal_figures_whenever_they_are_asked(
    prior: LinkEstimate, seen: list[tuple[int, int]]
) -> None:
    curious = LinkModel(prior)
    for nbytes, took_ns in seen:
        curious.observe(nbytes, took_ns)
        curious.copy_ns(nbytes)
    assert curious.estimate == taught(prior, *seen).estimate


@given(links, st.integers(1, 1 << 40), st.lists(st.integers(1, 1 << 50), min_size=1, max_size=KEPT_PER_SIZE))
def test_at_a_single_size_the_total_is_a_time_that_was_seen(prior: LinkEstimate, nbytes: int, took: list[int]) -> None:
    model = taught(prior, (nbytes, 1), *[(nbytes, took_ns) for took_ns in took])
    assert any(model.copy_ns(nbytes) == pytest.approx(seen, rel=1e-6, abs=1) for seen in took)


def test_a_copy_noted_while_figures_are_computed_disturbs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = taught(LINK, (MIB, 1), (MIB, 500_000))
    fit = module._scaled

    def interrupted(shape: LinkEstimate, seen: list[float]) -> LinkEstimate:
        monkeypatch.setattr(module, "_scaled", fit)
        model.observe(KIB, 5_000)
        model.observe(MIB, 300_000)
        return fit(shape, seen)

    monkeypatch.setattr(module, "_scaled", interrupted)
    assert model.copy_ns(MIB) == pytest.approx(500_000, abs=1)
    assert model.estimate == taught(LINK, (MIB, 1), (MIB, 500_000), (KIB, 5_000), (MIB, 300_000)).estimate
