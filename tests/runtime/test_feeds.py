"""Feeds: one error names everything wrong before anything runs; whatever fits is read as it lies or copied."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

import fuel_async as fa
from fuel_async.errors import FeedError
from fuel_async.ir import CPU_DEVICE, Layout
from fuel_async.storage import DeviceArray, alloc_cpu, from_array
from tests.runtime.support import Rig, chain, doubling, gated, in_flight, ints, ones, settled, turns

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Where timing of the loop is of no interest, one loop is enough.
ONE_LOOP = pytest.mark.asyncio(loop_factories=["default"])


def counting() -> fa.Graph:
    """Three feeds of different types through kernels that are counted."""
    g = fa.Graph("counting")
    a, b = g.input("a", (4,), fa.i64), g.input("b", ("n", 3), fa.f32)
    c = g.input("c", ("n",), fa.u8)
    g.output("a", a.sign())
    g.output("b", b + b)
    g.output("c", c.contiguous())
    return g


A, B, C = ints(), np.ones((2, 3), np.float32), np.zeros(2, np.uint8)


@pytest.mark.parametrize(
    ("feeds", "told"),
    [
        ({}, {"a": "is missing; wanted i64[4]", "b": "is missing", "c": "is missing", "n": "no feed gives"}),
        ({"a": A, "b": B, "c": C, "d": A, "e": B}, {"d": "is not an input", "e": "is not an input"}),
        ({"a": A[:3], "b": B, "c": C}, {"a": "is i64[3]; wanted i64[4]"}),
        ({"a": A.astype(np.int32), "b": B, "c": C}, {"a": "is i32[4]; wanted i64[4]"}),
        ({"a": A, "b": B.astype(np.float64), "c": C}, {"b": "is f64[2, 3]; wanted f32[n, 3], which is (2, 3) here"}),
        ({"a": A, "b": B, "c": C[:1]}, {"c": "n is 1 here and 2 in another feed"}),
        ({"a": A, "b": B[0], "c": C}, {"b": "is f32[3]; wanted f32[n, 3], which is (2, 3) here"}),
        (
            {"a": A[:3], "b": B.astype(np.float64), "c": C[:1], "d": 1},
            {
                "a": "is i64[3]",
                "b": "is f64[2, 3]",
                "c": "n is 1 here and 2 in another feed",
                "d": "is not an input",
            },
        ),
        ({"a": [1, 2, 3, 4.5], "b": B, "c": C}, {"a": "is no array of i64[4]: it holds a float; pass integers"}),
        ({"a": "text", "b": B, "c": C}, {"a": "'<U4' is no dtype"}),
        ({"a": None, "b": B, "c": C}, {"a": "'object' is no dtype"}),
        ({"a": A, "b": [[1, 2, 3], [4, 5]], "c": C}, {"b": "inhomogeneous"}),
        ({"a": A, "b": [[1e300] * 3] * 2, "c": C}, {"b": "it holds a number beyond the dtype's range"}),
        ({"a": A, "b": B, "c": [256, 0]}, {"c": "out of bounds for uint8"}),
        ({"a": A, "b": B, "c": [-1, 0]}, {"c": "out of bounds for uint8"}),
        ({"a": [None] * 4, "b": B, "c": C}, {"a": "no number"}),
        ({"a": A, "b": B.astype(">f4"), "c": C}, {"b": "'>f4' is no dtype"}),
        ({"a": A, "b": B.astype(np.complex64), "c": C}, {"b": "'complex64' is no dtype"}),
        ({"a": A, "b": B.astype(ml_dtypes.bfloat16), "c": C}, {"b": "is bf16[2, 3]"}),
    ],
)
@ONE_LOOP
async def test_one_error_names_everything_wrong(
    ex: fa.Executor, rig: Rig, feeds: Mapping[str, Any], told: Mapping[str, str]
) -> None:
    g = counting()
    for again in range(2):  # before and after the graph was planned
        with pytest.raises(FeedError, match="feeds of graph 'counting'") as caught:
            await ex.run(g, feeds)
        assert caught.value.problems.keys() == told.keys()
        for name, part in told.items():
            assert part in caught.value.problems[name]
            assert part in str(caught.value)
        assert rig.calls == []
        if not again:
            await ex.run(g, a=A, b=B, c=C)
            rig.calls.clear()
    assert in_flight() == (0, 0)
    assert ex.statistics().runs_failed == 2


@ONE_LOOP
async def test_a_symbol_that_no_feed_gives_is_named(ex: fa.Executor) -> None:
    g = fa.Graph()
    n = fa.symbol("n")
    x = g.input("x", (n * 2,))
    g.output("y", x + x)
    with pytest.raises(FeedError) as caught:
        await ex.run(g, x=ones(6))
    assert caught.value.problems["n"] == "no feed gives the size of this symbol"


FIT: dict[str, Any] = {
    "as it is": np.arange(12, dtype=np.float32).reshape(3, 4),
    "transposed": np.arange(12, dtype=np.float32).reshape(4, 3).T,
    "strided": np.arange(48, dtype=np.float32).reshape(6, 8)[::2, ::2],
    "reversed": np.arange(12, dtype=np.float32).reshape(3, 4)[::-1, ::-1],
    "broadcast": np.broadcast_to(np.arange(4, dtype=np.float32), (3, 4)),
    "fortran": np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4)),
    "unaligned": np.frombuffer(b"x" + np.arange(12, dtype=np.float32).tobytes(), np.uint8)[1:]
    .view(np.float32)
    .reshape(3, 4),
    "a field": np.array([(1, 2.5)] * 12, dtype=[("a", "i1"), ("b", "f4")])["b"].reshape(3, 4),
    "read-only": np.arange(12, dtype=np.float32).reshape(3, 4),
    "over bytes": np.frombuffer(bytes(48), np.float32).reshape(3, 4),
    "a subclass": np.arange(12, dtype=np.float32).reshape(3, 4).view(np.matrix),
    "lists": [[1, 2.5, True, 4]] * 3,
    "tuples": ((1, 2, 3, 4),) * 3,
    "an array of arrays": [np.arange(4, dtype=np.float32)] * 3,
}
FIT["read-only"].flags.writeable = False


@pytest.mark.parametrize("feed", FIT.values(), ids=FIT)
@pytest.mark.parametrize("mode", ["inline", "lanes"])
@ONE_LOOP
async def test_arrays_are_read_however_they_lie(
    ex: fa.Executor, feed: Any, mode: str, request: pytest.FixtureRequest
) -> None:
    if mode == "lanes":
        request.getfixturevalue("on_lanes")
    g = fa.Graph()
    x = g.input("x", (3, 4))
    g.output("double", x + x)
    g.output("turned", x.T.contiguous())
    g.output("sum", x.sum(axis=0))
    g.output("itself", x)
    plain = np.asarray(feed, np.float32)
    before = plain.copy()
    for _ in range(4):
        found = await ex.run(g, x=feed)
        np.testing.assert_array_equal(found["double"], before + before)
        np.testing.assert_array_equal(found["turned"], before.T)
        np.testing.assert_array_equal(found["sum"], before.sum(0))
        np.testing.assert_array_equal(found["itself"], before)
        assert found["itself"].flags.writeable
        found["itself"][...] = -1
    np.testing.assert_array_equal(np.asarray(feed, np.float32), before)


@ONE_LOOP
async def test_numbers_bools_and_empty_arrays(ex: fa.Executor) -> None:
    g = fa.Graph()
    s = g.input("s", (), fa.f32)
    flags, empty = g.input("flags", (3,), fa.u8), g.input("empty", (0, 5))
    half = g.input("half", (2,), fa.bf16)
    x = g.input("x", (3,))
    g.output("picked", fa.where(flags, x, s))
    g.output("empty", empty + empty)
    g.output("rows", empty.sum(axis=0))
    g.output("s", s * 2)
    g.output("flags", flags)
    g.output("large", x > s)
    g.output("half", half + half)
    for s_feed in (2, 2.0, True, np.float32(2), np.array(2, np.float32), np.float64(2)):
        for flag_feed in ([True, False, True], np.array([True, False, True]), np.array([1, 0, 7], np.uint8)):
            found = await ex.run(
                g,
                s=s_feed,
                flags=flag_feed,
                empty=[[]] * 0 or np.empty((0, 5), np.float32),
                x=[1, 3, 5],
                half=[1, 1e30],
            )
            two = np.float32(s_feed)
            np.testing.assert_array_equal(found["picked"], [1, two, 5])
            assert found["empty"].shape == (0, 5)
            np.testing.assert_array_equal(found["rows"], np.zeros(5))
            assert found["s"].shape == ()
            assert found["s"] == two * 2
            assert found["flags"].dtype == np.uint8
            assert found["large"].dtype == np.bool_
            np.testing.assert_array_equal(found["large"], np.array([1, 3, 5]) > two)
            assert found["half"].dtype == ml_dtypes.bfloat16


@ONE_LOOP
async def test_results_on_the_device_are_feeds_and_speak_dlpack(ex: fa.Executor) -> None:
    g = fa.Graph()
    x = g.input("x", (2, 3))
    g.output("y", x + x)
    g.output("large", x > 1)
    g.output("total", x.sum())
    g.output("empty", x[:0])
    feed = np.arange(6, dtype=np.float32).reshape(2, 3)
    for _ in range(4):
        found = await ex.run(g, {"x": feed}, on_device=True)
        y, large = found["y"], found["large"]
        assert all(isinstance(one, DeviceArray) for one in found.values())
        assert y.device == CPU_DEVICE
        assert large.boolean
        np.testing.assert_array_equal(y.numpy(), feed * 2)
        np.testing.assert_array_equal(np.from_dlpack(y), feed * 2)
        np.testing.assert_array_equal(large.numpy(), feed > 1)
        assert np.asarray(large).dtype == np.bool_
        assert (found["total"].shape, float(found["total"].numpy())) == ((), 15.0)
        assert found["empty"].shape == (0, 3)
        again = await ex.run(g, x=y)
        np.testing.assert_array_equal(again["y"], feed * 4)
        assert not np.shares_memory(again["y"], y.numpy())
    masked = fa.Graph()
    masked.output("y", masked.input("flags", (2, 3), fa.u8).astype(fa.f32))
    np.testing.assert_array_equal((await ex.run(masked, flags=large))["y"], feed > 1)
    part = DeviceArray(y.storage, Layout.contiguous((2, 3)).permute((1, 0)))
    turned = fa.Graph()
    turned.output("y", turned.input("x", (3, 2)) * 1)
    np.testing.assert_array_equal((await ex.run(turned, x=part))["y"], feed.T * 2)


@ONE_LOOP
async def test_a_poisoned_feed_is_refused(ex: fa.Executor) -> None:
    storage = from_array(ones())
    storage.poison()
    with pytest.raises(FeedError, match="a writer failed half-way"):
        await ex.run(doubling(), x=DeviceArray(storage, Layout.contiguous((4,))))
    assert alloc_cpu(fa.f32, 4) is not None


async def test_large_feeds_that_must_be_copied_are_copied_off_the_loop(ex: fa.Executor) -> None:
    g = fa.Graph()
    x = g.input("x", (512, 512))
    g.output("y", x.sum(axis=0))
    feed = (np.arange(512 * 512) % 16).astype(np.float32).reshape(512, 512)  # sums are exact
    await ex.run(g, x=feed)
    worker = (await ex.engine()).session.worker
    before_ns = worker.busy_ns
    for _ in range(3):
        np.testing.assert_array_equal((await ex.run(g, x=feed.T))["y"], feed.sum(1))
        assert worker.busy_ns > before_ns
        before_ns = worker.busy_ns


async def test_small_feeds_may_be_written_as_soon_as_the_run_has_begun(ex: fa.Executor, rig: Rig) -> None:
    feed = ints(3)
    task = asyncio.create_task(ex.run(gated(), x=feed))
    await rig.gate.entered()
    feed[...] = 9
    rig.gate.open()
    np.testing.assert_array_equal((await task)["y"], ints(3))


async def test_names_of_feeds_are_those_of_python_too(ex: fa.Executor) -> None:
    """Any string names a feed in the mapping; keywords and mapping are joined."""
    g = fa.Graph()
    g.output("y", g.input("self", (4,)) + g.input("a name", (4,)) + g.input("graph", (4,)))
    found = await ex.run(g, {"self": ones(), "a name": ones()}, graph=ones() * 5)
    np.testing.assert_array_equal(found["y"], ones() * 7)
    feeds = {"self": ones(), "a name": ones(), "graph": ones()}
    await ex.run(g, feeds)
    assert list(feeds) == ["self", "a name", "graph"]


async def test_feeds_of_a_large_graph_are_checked_before_it_is_planned(ex: fa.Executor) -> None:
    g = chain(2_000)
    with pytest.raises(FeedError):
        await ex.run(g, x=ones(3))
    assert ex.statistics().plans_prepared == 0
    await turns()
    await settled(ex)


@pytest.mark.asyncio(loop_factories=["debug"])
@pytest.mark.parametrize("end", ["success", "failure", "cancellation"])
async def test_debug_mode_keeps_feeds_from_being_written_meanwhile(ex: fa.Executor, rig: Rig, end: str) -> None:
    g = fa.Graph()
    x = g.input("x", (4_096,), fa.i64)
    g.output("y", abs(-x))
    rig.works = end != "failure"
    feed = np.zeros(4_096, np.int64)
    task = asyncio.create_task(ex.run(g, x=feed))
    await rig.gate.entered()
    with pytest.raises(ValueError, match="read-only"):
        feed[0] = 1
    if end == "cancellation":
        task.cancel()
    rig.gate.open()
    await asyncio.wait([task])
    await settled(ex)
    feed[0] = 1
