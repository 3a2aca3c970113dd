"""One run played as predicted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fuel_async.errors import DeviceLost, InternalError, OutOfMemory
from fuel_async.schedule import dry_run, earliest_finish
from tests.schedule import support
from tests.schedule.play import Play
from tests.schedule.spread_support import Mesh, gpu, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.schedule import Hop, Prices

DEVICES = [gpu(1), gpu(2)]


def test_times_are_those_that_are_predicted() -> None:
    """X is sent in 20 ns; b follows a where it is; c goes to the other device, 20 ns after a; results take 20"""
    shape = spread("a:X=100 b:a=300 c:a=200@1", uploads={1: 5})
    dry = dry_run(DEVICES, Mesh(), earliest_finish, shape)
    assert dry.started_ns == {0: 20, 1: 120, 2: 140}
    assert dry.finished_ns == {0: 120, 1: 420, 2: 340}
    assert dry.copies == [(0, 0, 1, 20), (1, 1, 2, 140), (3, 2, 0, 360), (2, 1, 0, 440)]
    assert dry.makespan_ns == 440
    assert {region: decision.chosen.device for region, decision in dry.decisions.items()} == {0: 0, 1: 0, 2: 1}
    assert dry.error is None


def test_constants_are_sent_before_a_region_starts() -> None:
    dry = dry_run(DEVICES, Mesh(), earliest_finish, spread("a@0", uploads={0: 50}, outputs=""))
    assert (dry.started_ns, dry.makespan_ns) == ({0: 50}, 150)


def test_it_takes_as_long_as_a_play_that_goes_as_predicted() -> None:
    shape = spread("a:X=100 b:a=900 c:a=800 d:a=700 e:bcd=50 f:e=10", speeds={0: 2})
    play = Play(DEVICES, [2, 1], Mesh())
    play.admit(0, shape)
    assert dry_run(DEVICES, Mesh(), earliest_finish, shape).makespan_ns == play.to_the_end()


class Asked:
    """Ways and prices that note what they are asked for."""

    def __init__(self, prices: Prices) -> None:
        self.prices, self.links, self.questions = prices, Mesh(), Counter[tuple[object, ...]]()

    def route(self, *question: int) -> Sequence[Hop] | None:
        self.questions["route", *question] += 1
        return self.links.route(*question)

    def region_ns(self, *question: int) -> int | None:
        self.questions["region", *question] += 1
        return self.prices.region_ns(*question)

    def upload_ns(self, *question: int) -> int:
        self.questions["upload", *question] += 1
        return self.prices.upload_ns(*question)


def test_ways_and_prices_are_asked_for_once() -> None:
    shape = spread("a:X=100 b:a=900 c:a=800 d:a=700 e:bcd=50 f:e=10", uploads={1: 5}, speeds={0: 2})
    assert shape.spread is not None
    asked = Asked(shape.spread.prices)
    noted = replace(shape, spread=replace(shape.spread, prices=asked))
    dry = dry_run(DEVICES, asked, earliest_finish, noted)
    assert dry == dry_run(DEVICES, Mesh(), earliest_finish, shape)
    assert {question[0] for question in asked.questions} == {"route", "region", "upload"}
    assert max(asked.questions.values()) == 1


def test_a_run_without_regions_takes_no_time() -> None:
    assert dry_run(DEVICES, Mesh(), earliest_finish, spread("")).makespan_ns == 0


def test_it_says_why_a_run_would_fail() -> None:
    dry = dry_run(DEVICES, Mesh(), earliest_finish, spread("a", share=10_000))
    assert isinstance(dry.error, OutOfMemory)
    assert dry.decisions == {}


def test_devices_that_are_gone_take_no_part() -> None:
    lost = DeviceLost("dev:1", "as told")
    dry = dry_run(DEVICES, Mesh(), earliest_finish, spread("a b"), {0: lost})
    assert {decision.chosen.device for decision in dry.decisions.values()} == {1}
    assert dry_run(DEVICES, Mesh(), earliest_finish, spread("a@0"), {0: lost}).error is lost


def test_a_plan_for_one_device_cannot_be_played() -> None:
    with pytest.raises(InternalError, match="one device"):
        dry_run(DEVICES, Mesh(), earliest_finish, support.shape("a"))
