"""How long work takes on something whose speed changes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_async.backends.sim.timeline import Timeline

CASES = [
    pytest.param((), 100, 50, 150, id="nothing changes"),
    pytest.param(((0, 2.0),), 100, 50, 200, id="slow from the beginning"),
    pytest.param(((120, 2.0),), 100, 50, 180, id="20 at full speed, 30 at half"),
    pytest.param(((120, 2.0), (140, 1.0)), 100, 50, 160, id="20, then 10 in 20, then 20"),
    pytest.param(((150, 9.0),), 100, 50, 150, id="changes as it ends"),
    pytest.param(((10, 3.0), (20, 1.0)), 100, 50, 150, id="was over before"),
    pytest.param(((110, math.inf), (500, 1.0)), 100, 50, 540, id="stands still for a while"),
    pytest.param(((110, math.inf),), 100, 50, None, id="stands still for ever"),
    pytest.param(((110, math.inf),), 100, 10, 110, id="ends as it comes to a standstill"),
    pytest.param(((110, 0.5),), 100, 50, 130, id="faster"),
]


@pytest.mark.parametrize(("slowdowns", "start_ns", "work_ns", "end_ns"), CASES)
def test_when_work_ends(
    slowdowns: tuple[tuple[int, float], ...], start_ns: int, work_ns: int, end_ns: int | None
) -> None:
    assert Timeline(slowdowns).finish_ns(start_ns, work_ns) == end_ns


def test_a_change_forgets_what_was_planned_for_later() -> None:
    timeline = Timeline(((100, 2.0), (200, 3.0)))
    timeline.change(150, 1.0)
    assert timeline.finish_ns(100, 100) == 225  # 25 until 150 at half speed, 75 at full speed
    assert timeline.finish_ns(300, 10) == 310


def test_a_change_at_the_moment_of_another_replaces_it() -> None:
    timeline = Timeline()
    timeline.change(50, 4.0)
    timeline.change(50, 2.0)
    assert timeline.finish_ns(50, 10) == 70


@given(
    st.lists(st.tuples(st.integers(0, 200), st.sampled_from([0.5, 1.0, 2.0, 4.0])), max_size=5).map(sorted),
    st.integers(0, 200),
    st.integers(0, 100),
    st.integers(0, 100),
)
def test_work_done_in_two_parts_ends_when_it_does_in_one(
    changes: list[tuple[int, float]], start_ns: int, first_ns: int, second_ns: int
) -> None:
    timeline = Timeline(tuple(changes))
    middle_ns = timeline.finish_ns(start_ns, first_ns)
    assert middle_ns is not None
    whole_ns, parts_ns = timeline.finish_ns(start_ns, first_ns + second_ns), timeline.finish_ns(middle_ns, second_ns)
    assert whole_ns is not None
    assert parts_ns is not None
    assert abs(whole_ns - parts_ns) <= 5  # the middle was rounded, at worst where factors differ by 8
    assert start_ns + (first_ns + second_ns) / 2 - 1 <= whole_ns <= start_ns + 4 * (first_ns + second_ns) + 1
