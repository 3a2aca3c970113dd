"""The walker: values, identity of storages, order, counters, and what becomes of a failure or a cancellation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.errors import (
    ExecutorClosed,
    FeedError,
    GraphError,
    KernelFailed,
    MissingInput,
    NoBackendForOp,
)
from fuel_async.ir import DType, Layout
from fuel_async.runtime import PipelinedExecutor, pipelined
from fuel_async.storage import as_array, from_array
from tests.runtime.support import Rig, in_flight, ints

if TYPE_CHECKING:
    from collections.abc import Callable

Build: TypeAlias = "Callable[[fa.Graph], fa.Tensor]"
NAN = float("nan")

one_loop = pytest.mark.asyncio(loop_factories=["default"])


def c(g: fa.Graph, values: Any, dtype: type[np.generic] = np.float32) -> fa.Tensor:
    return g.constant(np.array(values, dtype))


def iota(g: fa.Graph, *shape: int) -> fa.Tensor:
    """1, 2, 3, … as a constant."""
    return g.constant(np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape))


def compared(name: str, left: list[float], right: list[float]) -> Build:
    return lambda g: getattr(c(g, left), f"__{name}__")(c(g, right))


VALUES: dict[str, tuple[Build, Any]] = {
    "matmul": (
        lambda g: iota(g, 2, 3) @ c(g, [[7, 8], [9, 10], [11, 12]]),
        [[58, 64], [139, 154]],
    ),
    "matmul of batches": (
        lambda g: c(g, [[[1, 2], [3, 4]], [[1, 2], [3, 4]]]) @ c(g, [[[5, 6], [7, 8]], [[10, 0], [0, 10]]]),
        [[[19, 22], [43, 50]], [[10, 20], [30, 40]]],
    ),
    "matmul of grouped queries": (
        lambda g: iota(g, 4, 1, 2) @ c(g, [[[1], [0]], [[0], [1]]]).reshape((2, 2, 1)),
        [[[1]], [[3]], [[6]], [[8]]],
    ),
    "matmul by a transposed view": (
        lambda g: iota(g, 2, 2) @ c(g, [[5, 6], [7, 8]]).T,
        [[17, 23], [39, 53]],
    ),
    "linear": (
        lambda g: iota(g, 2, 3) @ c(g, [[1, 0], [0, 1], [1, 1]]) + c(g, [10, 20]),
        [[14, 25], [20, 31]],
    ),
    "relu": (lambda g: c(g, [-1, 0, 0.5, -3.5, 7.25]).relu(), [0, 0, 0.5, 0, 7.25]),
    "chained adds": (lambda g: c(g, [1, 2]) + c(g, [10, 20]) + c(g, [100, 200]), [111, 222]),
    "add of a number": (lambda g: c(g, [1, 2]) + 10, [11, 12]),
    "maximum": (lambda g: fa.maximum(c(g, [1, 5, -2]), c(g, [3, 4, -7])), [3, 5, -2]),
    "clamp": (lambda g: c(g, [-5, 0.5, 100]).clip(-2, 2), [-2, 0.5, 2]),
    "cast up": (lambda g: c(g, [1, 2, -3, 0.5]).astype(DType.F64), [1, 2, -3, 0.5]),
    "cast through bf16": (
        lambda g: c(g, [1, 2, -3, 0.5]).astype(DType.BF16).astype(DType.F32),
        [1, 2, -3, 0.5],
    ),
    "eq": (compared("eq", [1, 2, 3, NAN, 0], [1, 5, 3, NAN, -0.0]), [1, 0, 1, 0, 1]),
    "ne": (compared("ne", [1, 2, 3, NAN, 0], [1, 5, 3, NAN, -0.0]), [0, 1, 0, 1, 0]),
    "lt": (compared("lt", [1, 5, 3, NAN, -1], [2, 5, 3, 0, 0]), [1, 0, 0, 0, 1]),
    "le": (compared("le", [1, 5, 3, NAN, -1], [2, 5, 2, 0, 0]), [1, 1, 0, 0, 1]),
    "gt": (compared("gt", [3, 5, 2, NAN, 1], [2, 5, 3, 0, 0]), [1, 0, 0, 0, 1]),
    "ge": (compared("ge", [3, 5, 2, NAN, 0], [2, 5, 3, 0, 0]), [1, 1, 0, 0, 1]),
    "where": (
        lambda g: fa.where(c(g, [1, 0, 1, 0, 1], np.uint8), iota(g, 5), c(g, [10, 20, 30, 40, 50])),
        [1, 20, 3, 40, 5],
    ),
    "sum of rows": (lambda g: iota(g, 2, 3).sum(1), [6, 15]),
    "sum of columns": (lambda g: iota(g, 2, 3).sum(0), [5, 7, 9]),
    "sum of all": (lambda g: iota(g, 2, 3, 4).sum(), 300),
    "max of columns": (lambda g: c(g, [[1, 7, 3], [4, 2, 6]]).max(0), [4, 7, 6]),
    "max of rows, kept": (lambda g: iota(g, 2, 3).max(1, keepdims=True), [[3], [6]]),
    "mean and min": (lambda g: iota(g, 2, 3).mean(1) - iota(g, 2, 3).min(1), [1, 1]),
    "take": (lambda g: iota(g, 3, 2).take(c(g, [2, 0, 2], np.uint32)), [[5, 6], [1, 2], [5, 6]]),
    "concat of rows": (lambda g: fa.concat([iota(g, 1, 2), iota(g, 2, 2)]), [[1, 2], [1, 2], [3, 4]]),
    "concat of columns": (
        lambda g: fa.concat([iota(g, 2, 1), iota(g, 2, 2)], axis=1),
        [[1, 1, 2], [2, 3, 4]],
    ),
    "softmax": (lambda g: c(g, [3, 3, 3, 3]).softmax(), [0.25] * 4),
    "softmax over rows": (lambda g: c(g, [[1, 2], [1, 2]]).softmax(0), [[0.5, 0.5]] * 2),
    "layer norm": (lambda g: c(g, [1, 3]).layer_norm(eps=0.0), [-1, 1]),
    "root mean square": (
        lambda g: c(g, [3, 4]) * c(g, [3, 4]).square().mean(keepdims=True).rsqrt(),
        [3 / 12.5**0.5, 4 / 12.5**0.5],
    ),
    "flip, then relu": (lambda g: iota(g, 4).flip().relu(), [4, 3, 2, 1]),
    "reshape of a transpose": (lambda g: iota(g, 2, 3).T.reshape((6,)), [1, 4, 2, 5, 3, 6]),
    "nothing": (lambda g: iota(g, 2, 3)[:, 1:1].exp(), [[], []]),
}


@one_loop
@pytest.mark.parametrize(("build", "wanted"), VALUES.values(), ids=VALUES.keys())
async def test_values(ex: fa.Executor, build: Build, wanted: Any) -> None:
    g = fa.Graph("values")
    target = build(g)
    storage, layout = await PipelinedExecutor(ex).realize(g, target)
    assert storage.dtype is target.dtype
    np.testing.assert_allclose(as_array(storage, layout), np.array(wanted), rtol=2e-6, strict=False)
    assert as_array(storage, layout).shape == np.shape(wanted)


# --- identity and layout ---

#: What is done to `x` of shape (2, 3, 4), and how its value then lies in the very storage of `x`.
VIEWS: dict[str, tuple[Callable[[fa.Tensor], fa.Tensor], Layout]] = {
    "itself": (lambda x: x, Layout.contiguous((2, 3, 4))),
    "transpose": (lambda x: x[0].T, Layout((4, 3), (1, 4))),
    "permute": (lambda x: x.permute_dims((2, 0, 1)), Layout((4, 2, 3), (1, 12, 4))),
    "flip": (lambda x: x.reshape((6, 4)).flip(0), Layout((6, 4), (-4, 1), 20)),
    "slice": (lambda x: x.reshape((24,))[1:4], Layout((3,), (1,), 1)),
    "steps backwards": (lambda x: x.reshape((24,))[20:10:-5], Layout((2,), (-5,), 20)),
    "broadcast": (lambda x: x[0, 0].broadcast_to((4, 4)), Layout((4, 4), (0, 1))),
    "reshape": (lambda x: x.reshape((4, 6)), Layout.contiguous((4, 6))),
    "reshape of a slice": (lambda x: x[1].reshape((2, 6)), Layout.contiguous((2, 6), 12)),
    "contiguous": (lambda x: x.contiguous(), Layout.contiguous((2, 3, 4))),
    "expanded and squeezed": (lambda x: x[:, None, 1].squeeze(1), Layout((2, 4), (12, 1), 4)),
}


@one_loop
@pytest.mark.parametrize(("view", "layout"), VIEWS.values(), ids=VIEWS.keys())
async def test_views_are_the_same_storage_object(
    ex: fa.Executor, view: Callable[[fa.Tensor], fa.Tensor], layout: Layout
) -> None:
    g = fa.Graph()
    x = g.input("x", (2, 3, 4))
    storage = from_array(np.arange(24, dtype=np.float32))
    assert await PipelinedExecutor(ex).realize(g, view(x), {"x": storage}) == (storage, layout)


@one_loop
@pytest.mark.parametrize(
    ("copy", "wanted"),
    [
        (lambda x: x.T.reshape((6,)), [0, 3, 1, 4, 2, 5]),
        (lambda x: x.T.contiguous(), [[0, 3], [1, 4], [2, 5]]),
        (lambda x: x[1:].contiguous(), [[3, 4, 5]]),
        (lambda x: x[0].broadcast_to((2, 3)).contiguous(), [[0, 1, 2]] * 2),
        (lambda x: x + 0.0, [[0, 1, 2], [3, 4, 5]]),
    ],
)
async def test_copies_and_kernels_are_new_storage_objects(
    ex: fa.Executor, copy: Callable[[fa.Tensor], fa.Tensor], wanted: Any
) -> None:
    g = fa.Graph()
    x = g.input("x", (2, 3))
    given = from_array(np.arange(6, dtype=np.float32))
    storage, layout = await PipelinedExecutor(ex).realize(g, copy(x), {"x": given})
    assert storage is not given
    assert layout == Layout.contiguous(np.shape(wanted))
    assert as_array(storage, layout).tolist() == wanted


@one_loop
async def test_a_row_major_feed_is_adopted_and_any_other_is_copied(ex: fa.Executor) -> None:
    g = fa.Graph()
    x = g.input("x", (3, 2))
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    for feed, shared in ((rows, True), (rows.reshape(2, 3).T, False)):
        storage, layout = await PipelinedExecutor(ex).realize(g, x, {"x": feed})
        assert np.shares_memory(as_array(storage, layout), feed) is shared
        assert as_array(storage, layout).tolist() == feed.tolist()


# --- what is asked for ---


async def test_no_targets_are_no_results(ex: fa.Executor) -> None:
    assert await PipelinedExecutor(ex).realize_many(fa.Graph(), [], {"whatever": 1}) == []


async def test_results_come_in_the_order_asked_for_and_repeated_targets_are_one_object(
    ex: fa.Executor,
) -> None:
    g = fa.Graph()
    x = g.input("x", (2,))
    added, multiplied = x + x, x * x
    g.output("sum", added)
    walker = PipelinedExecutor(ex)
    results = await walker.realize_many(
        g, [multiplied, added, multiplied, "sum", x.index], {"x": np.array([3, 5], np.float32)}
    )
    assert [as_array(*one).tolist() for one in results] == [[9, 25], [6, 10], [9, 25], [6, 10], [3, 5]]
    assert results[0][0] is results[2][0]
    assert results[1][0] is results[3][0]


async def test_a_shared_part_is_computed_once(ex: fa.Executor, rig: Rig) -> None:
    g = fa.Graph()
    shared = g.input("x", (4,), fa.i64).sign()
    left, right = shared + shared, shared.reshape((2, 2))
    realized = await PipelinedExecutor(ex).realize_many(g, [left, right, shared], {"x": ints(3)})
    assert [as_array(*one).tolist() for one in realized] == [[6] * 4, [[3, 3]] * 2, [3] * 4]
    assert len(rig.calls) == 1


async def test_only_the_inputs_that_a_target_needs_must_be_given(ex: fa.Executor) -> None:
    g = fa.Graph()
    x, other = g.input("x", (2,)), g.input("other", ("n",))
    g.output("both", other + other)
    walker = PipelinedExecutor(ex)
    assert as_array(*await walker.realize(g, x + x, {"x": [1, 2]})).tolist() == [2, 4]
    assert as_array(*await walker.realize(g, x + x, {"x": [1, 2], "other": "unread"})).tolist() == [2, 4]
    with pytest.raises(MissingInput, match=r"input 'other'.* is not among the inputs"):
        await walker.realize(g, "both", {"x": [1, 2]})


@pytest.mark.parametrize(
    ("feeds", "problem"),
    [
        ({"x": [1, 2, 3], "y": [1]}, "'x': is f32"),
        ({"x": np.ones(2), "y": [1]}, "'x': is f64"),
        ({"x": [1, 2], "y": [1], "z": 3}, "'z': is not an input"),
        ({"x": from_array(np.ones(1, np.float32)), "y": [1]}, "'x': is a <storage .* does not hold f32"),
        ({"x": from_array(np.ones(2)), "y": [1]}, "'x': is a <storage .* does not hold f32"),
        ({"x": [1, 2], "y": from_array(np.ones(1, np.float32))}, "'y': is a Storage, which has no shape"),
    ],
)
async def test_inputs_that_do_not_fit_are_refused_before_anything_runs(
    ex: fa.Executor, feeds: dict[str, Any], problem: str
) -> None:
    g = fa.Graph()
    target = g.input("x", (2,)) + g.input("y", ("n",))[0:1]
    with pytest.raises(FeedError, match=problem):
        await PipelinedExecutor(ex).realize(g, target, feeds)


async def test_targets_that_are_not_there_are_refused(ex: fa.Executor) -> None:
    g = fa.Graph()
    x = g.input("x", (2,))
    g.output("y", x)
    foreign = fa.Graph("foreign").constant(1)
    for target, said in (
        ("z", "there are: y"), (7, "node 7"), (-1, "node -1"), (foreign, "'foreign'"),
    ):  # fmt: skip
        with pytest.raises(GraphError, match=said):
            await PipelinedExecutor(ex).realize(g, target, {"x": [1, 2]})


async def test_an_op_without_a_kernel_says_which_node_asked(ex: fa.Executor) -> None:
    g = fa.Graph()
    total = g.constant(np.arange(3)) + g.constant(np.arange(3))
    with pytest.raises(NoBackendForOp, match="add on") as caught:
        await PipelinedExecutor(ex).realize(g, total)
    assert any("test_pipelined.py" in note for note in caught.value.__notes__)


async def test_symbols_are_bound_by_the_feeds(ex: fa.Executor) -> None:
    g = fa.Graph()
    x = g.input("x", ("rows", 2))
    for rows in (1, 3):
        storage, layout = await PipelinedExecutor(ex).realize(g, x.sum(0), {"x": np.ones((rows, 2), np.float32)})
        assert as_array(storage, layout).tolist() == [rows, rows]


# --- in flight ---


async def test_a_kernel_under_way_is_in_flight_and_a_success_returns_to_the_base_line(
    ex: fa.Executor, rig: Rig
) -> None:
    g = fa.Graph()
    x = g.input("x", (4,), fa.i64)
    task = asyncio.create_task(PipelinedExecutor(ex).realize(g, (-x).sign() + x, {"x": ints(2)}))
    await rig.gate.entered()
    assert 1 <= in_flight()[0] <= 3
    rig.gate.open()
    assert as_array(*await task).tolist() == [4] * 4
    assert in_flight() == (0, 0)


async def test_a_failure_names_its_node_and_stops_what_needs_it(ex: fa.Executor, rig: Rig) -> None:
    g = fa.Graph("doomed")
    x = g.input("x", (4,), fa.i64)
    failed = abs(x)
    with pytest.raises(KernelFailed, match=r"abs\(.*test_pipelined\.py:\d+.* failed on cpu:0: Arith") as one:
        await PipelinedExecutor(ex).realize(g, failed.reshape((2, 2)).sign(), {"x": ints()})
    assert isinstance(one.value.__cause__, ArithmeticError)
    assert rig.calls == []
    assert in_flight() == (0, 0)


@pytest.mark.parametrize("error", [StopIteration, asyncio.CancelledError, KeyboardInterrupt])
async def test_whatever_a_kernel_raises_is_its_failure(ex: fa.Executor, rig: Rig, error: type[BaseException]) -> None:
    rig.error = error
    g = fa.Graph()
    with pytest.raises(KernelFailed) as caught:
        await PipelinedExecutor(ex).realize(g, abs(g.input("x", (4,), fa.i64)), {"x": ints()})
    assert isinstance(caught.value.__cause__, error)


async def test_a_cancellation_comes_out_when_the_lane_is_through(ex: fa.Executor, rig: Rig) -> None:
    g = fa.Graph()
    x = g.input("x", (4,), fa.i64)
    task = asyncio.create_task(PipelinedExecutor(ex).realize(g, (-x).sign(), {"x": ints()}))
    await rig.gate.entered()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    rig.gate.open()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (rig.gate.passed, rig.calls, in_flight()) == (1, [], (0, 0))


async def test_closing_the_executor_ends_a_walk_with_its_own_error(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelined, "LOOKAHEAD", 1)
    executor = fa.Executor()
    g = fa.Graph()
    x = g.input("x", (4,), fa.i64)
    task = asyncio.create_task(PipelinedExecutor(executor).realize(g, (-x).sign(), {"x": ints()}))
    await rig.gate.entered()
    closing = asyncio.create_task(executor.aclose())
    await asyncio.sleep(0)
    rig.gate.open()
    with pytest.raises(ExecutorClosed):
        await task
    await closing
    assert in_flight() == (0, 0)
