"""Which indices can be looked at before a run: those of the caller, through views and copies, and no others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import fuel_async as fa
from fuel_async.dispatch import SlotClass
from fuel_async.plan import IndexCheck, make_plan
from tests.plan.test_kinds import both

if TYPE_CHECKING:
    from collections.abc import Callable


def checks(build: Callable[[fa.Graph], fa.Tensor], **changes: Any) -> tuple[IndexCheck, ...]:
    g = fa.Graph()
    g.output("y", build(g))
    return make_plan(g.freeze(), replace(both({}), **changes)).checks


def feed(g: fa.Graph, shape: tuple[int, ...] = (6,)) -> fa.Tensor:
    return g.input("i", shape, fa.u32)


def test_feeds_and_constants_are_looked_at_with_what_a_view_shows_of_them() -> None:
    (found,) = checks(lambda g: g.input("x", (8, 4)).take(feed(g), axis=1))
    assert (found.kind, found.place, found.layout, found.entries) == (SlotClass.FEED, 1, None, 4)
    (found,) = checks(lambda g: g.input("x", (8, 4)).take(g.constant(np.zeros(3, np.uint32)), axis=0))
    assert (found.kind, found.place, found.entries) == (SlotClass.CONSTANT, 0, 8)
    (found,) = checks(lambda g: g.input("x", (8, 4)).take(feed(g)[1:3], axis=0))
    assert found.layout is not None
    assert (found.layout.shape, found.layout.offset) == ((2,), 1)


def test_copies_of_them_are_seen_through() -> None:
    """A feed of many readers is copied once; what is looked at is the feed."""

    def build(g: fa.Graph) -> fa.Tensor:
        x, i = g.input("x", (8, 4)), feed(g)
        total = x.take(i, axis=0)
        for _ in range(20):
            total = total + x.take(i, axis=0)
        return total

    found = checks(build)
    assert len(found) == 21
    assert {(one.kind, one.place) for one in found} == {(SlotClass.FEED, 1)}


def test_what_a_graph_computes_is_not_looked_at() -> None:
    assert checks(lambda g: g.input("x", (8, 4)).take(g.input("z", (5, 3)).argmax(1), axis=0)) == ()


def test_kernels_of_the_host_need_nobody_to_look() -> None:
    assert checks(lambda g: g.input("x", (8, 4)).take(feed(g), axis=1), others=()) == ()
