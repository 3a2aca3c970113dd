"""Gather, index_add and scatter_add."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fuel_async.backends.cpu.kernels.base import T4, T9
from fuel_async.dispatch import OpParams
from fuel_async.errors import IndexOutOfRange, KernelArgumentError
from fuel_async.ir import DType, OpKind

Array = npt.NDArray[Any]
Call = Callable[..., Array]


def gather(call: Call, source: Array, index: Array, axis: int, out: Array | None = None) -> Array:
    params = OpParams.Gather(source.shape, index.shape, axis)
    kind = DType.from_numpy(source.dtype)
    return call(OpKind.Gather, [source, index], index.shape, params, dtype=kind, out=out)


def scatter_add(call: Call, base: Array, index: Array, source: Array, axis: int, out: Array | None = None) -> Array:
    params = OpParams.ScatterAdd(base.shape, source.shape, axis)
    return call(OpKind.ScatterAdd, [base, index, source], base.shape, params, out=out)


def index_add(call: Call, base: Array, index: Array, source: Array, axis: int, out: Array | None = None) -> Array:
    sizes = (int(np.prod(base.shape[:axis])), base.shape[axis], len(index), int(np.prod(base.shape[axis + 1 :])))
    return call(OpKind.IndexAdd, [base, index, source], base.shape, OpParams.IndexAdd(*sizes, axis), out=out)


def along(index: Array, axis: int) -> tuple[Array, ...]:
    """The places that numpy's advanced indexing takes for an index along one axis."""
    places: list[Array] = list(np.indices(index.shape, sparse=True))
    places[axis] = index.astype(np.intp)
    return tuple(places)


def cases(rng: np.random.Generator, axis: int) -> list[tuple[tuple[int, ...], Array]]:
    """Shapes of three dimensions, and indices of their sizes and of smaller ones."""
    found: list[tuple[tuple[int, ...], Array]] = []
    for shape in ((3, 4, 5), (1, 4, 1), (5, 2, 3)):
        for shrink in (0, 1):
            sizes = [max(size - shrink, 1) for size in shape]
            sizes[axis] = 7
            found.append((shape, rng.integers(0, shape[axis], sizes).astype(np.uint32)))
    return found


@pytest.mark.parametrize("dtype", T9, ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather_along_any_axis(axis: int, dtype: DType, call: Call, strided: Callable[..., Array]) -> None:
    for shape, index in cases(np.random.default_rng(0), axis):
        source = np.arange(np.prod(shape)).reshape(shape).astype(dtype.require_np())
        wanted = source[along(index, axis)].tobytes()
        views = [source, strided(source), source.T.copy().T, np.broadcast_to(source, shape)]
        for view in views:
            assert gather(call, view, index, axis).tobytes() == wanted
            assert gather(call, view, strided(index), axis).tobytes() == wanted


def test_gather_from_what_is_repeated(call: Call) -> None:
    source = np.broadcast_to(np.arange(3, dtype=np.float32), (4, 3))
    index = np.array([[2, 0], [1, 1]], np.uint32)
    assert gather(call, source, index, 1).tolist() == [[2, 0], [1, 1]]


@pytest.mark.parametrize("dtype", T4, ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scatter_add_along_any_axis(axis: int, dtype: DType, call: Call, strided: Callable[..., Array]) -> None:
    rng = np.random.default_rng(0)
    for shape, index in cases(rng, axis):
        base = rng.integers(-4, 5, shape).astype(dtype.require_np())
        source = rng.integers(-4, 5, index.shape).astype(dtype.require_np())
        wanted = base.astype(np.float64)
        np.add.at(wanted, along(index, axis), source.astype(np.float64))
        for operands in ((base, index, source), (strided(base), strided(index), strided(source))):
            assert scatter_add(call, *operands, axis).astype(float).tolist() == wanted.tolist()


@pytest.mark.parametrize("dtype", T4, ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_index_add_along_any_axis(axis: int, dtype: DType, call: Call, strided: Callable[..., Array]) -> None:
    rng = np.random.default_rng(0)
    for shape in ((3, 4, 5), (1, 4, 1), (5, 2, 3)):
        index = rng.integers(0, shape[axis], 6).astype(np.uint32)
        base = rng.integers(-4, 5, shape).astype(dtype.require_np())
        source = rng.integers(-4, 5, (*shape[:axis], 6, *shape[axis + 1 :])).astype(dtype.require_np())
        wanted = base.astype(np.float64)
        np.add.at(np.moveaxis(wanted, axis, 0), index.astype(np.intp), np.moveaxis(source, axis, 0).astype(np.float64))
        assert index_add(call, base, index, source, axis).astype(float).tolist() == wanted.tolist()
        apart = index_add(call, strided(base), strided(index), strided(source), axis)
        assert apart.astype(float).tolist() == wanted.tolist()


def test_known_sums(call: Call) -> None:
    zeros, source = np.zeros((3, 2), np.float32), np.array([[1, 2], [3, 4]], np.float32)
    index = np.array([[0, 1], [2, 0]], np.uint32)
    assert scatter_add(call, zeros, index, source, 0).reshape(-1).tolist() == [1, 4, 0, 2, 3, 0]
    base, both = np.array([10, 20, 30], np.float32), np.zeros(2, np.uint32)
    assert index_add(call, base, both, np.array([1, 2], np.float32), 0).tolist() == [13, 20, 30]


def test_what_meets_is_added_in_order(call: Call) -> None:
    """Rounded after each addition, from the first source to the last: other orders give other bits."""
    base, index = np.zeros(1, np.float32), np.zeros(4, np.uint32)
    source = np.array([1e8, 3, -1e8, 3], np.float32)
    wanted = np.float32(0)
    for number in source:
        wanted += number
    assert wanted != source[::-1].sum()
    assert index_add(call, base, index, source, 0).tolist() == [wanted]
    assert scatter_add(call, base, index, source, 0).tolist() == [wanted]


def test_the_order_is_kept_across_blocks(call: Call) -> None:
    rng = np.random.default_rng(0)
    base, index = np.zeros((5, 2), np.float32), rng.integers(0, 5, (60_000, 2)).astype(np.uint32)
    source = rng.normal(size=index.shape).astype(np.float32)
    wanted = base.copy()
    np.add.at(wanted, along(index, 0), source)
    assert scatter_add(call, base, index, source, 0).tobytes() == wanted.tobytes()
    wanted = base.copy()
    np.add.at(wanted, index[:, 0], source)
    assert index_add(call, base, index[:, 0], source, 0).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16], ids=str)
def test_half_types_add_up_in_float32_and_round_once(dtype: DType, call: Call) -> None:
    """256 ones vanish beside 2048 (beside 256 in bf16) when each sum is rounded."""
    base = np.array([2048 if dtype is DType.F16 else 256], dtype.require_np())
    ones = np.ones(256, dtype.require_np())
    got = index_add(call, base, np.zeros(256, np.uint32), ones, 0)
    assert got.astype(float).tolist() == (base.astype(float) + 256).tolist()


def test_a_million_places(call: Call) -> None:
    rng = np.random.default_rng(0)
    source = rng.normal(size=(300, 350)).astype(np.float32)
    index = rng.integers(0, 300, source.shape).astype(np.uint32)
    assert gather(call, source, index, 0).tobytes() == np.take_along_axis(source, index.astype(np.intp), 0).tobytes()


def test_nothing_to_pick_and_nothing_to_add(call: Call) -> None:
    source, none = np.ones((3, 2), np.float32), np.zeros((0, 2), np.uint32)
    assert gather(call, source, none, 0).shape == (0, 2)
    assert gather(call, np.ones((0, 2), np.float32), none, 0).shape == (0, 2)
    assert scatter_add(call, source, none, np.ones((0, 2), np.float32), 0).tolist() == source.tolist()
    assert index_add(call, source, none[:, 0], np.ones((0, 2), np.float32), 0).tolist() == source.tolist()
    empty = np.ones((0, 2), np.float32)
    assert index_add(call, empty, none[:, 0], empty, 0).shape == (0, 2)


@pytest.mark.parametrize("highest", [3, 2**31, 2**32 - 1])
def test_an_index_out_of_range_fails_before_anything_is_written(highest: int, call: Call) -> None:
    base, out = np.ones((3, 2), np.float32), np.full((3, 2), 7, np.float32)
    index = np.array([[0, 0], [2, highest], [1, 1]], np.uint32)
    calls: list[Callable[[], Array]] = [
        lambda: gather(call, base, index, 0, out),
        lambda: gather(call, base.T.copy().T, index, 0, out),
        lambda: scatter_add(call, base, index, base, 0, out),
        lambda: index_add(call, base, index[:, 1], base, 0, out),
    ]
    for run in calls:
        with pytest.raises(IndexOutOfRange, match="is outside the indexed dimension; it has 3") as caught:
            run()
        assert (caught.value.index, caught.value.limit) == (highest, 3)
        assert (out == 7).all()
    with pytest.raises(IndexOutOfRange):
        gather(call, np.ones((0, 2), np.float32), np.zeros((1, 2), np.uint32), 0)


F, U = np.float32, np.uint32
INDEX_ADD, SCATTER_ADD = OpParams.IndexAdd(1, 3, 2, 1, 0), OpParams.ScatterAdd((3,), (3,), 0)


def _gather(*shape: int, dim: int = 0) -> OpParams:
    return OpParams.Gather((3, 2), shape, dim)


@pytest.mark.parametrize(
    ("op", "operands", "shape", "params", "text"),
    [
        (OpKind.Gather, [((3, 2), F), ((2,), U)], (2,), _gather(2), "the index's rank is 1, wanted 2"),
        (OpKind.Gather, [((3, 2), F), ((2, 2), U)], (2, 2), _gather(2, 2, dim=2), "axis is 2"),
        (OpKind.Gather, [((3, 2), F), ((2, 3), U)], (2, 3), _gather(2, 3), "the index's shape"),
        (OpKind.Gather, [((3, 2), F), ((2, 2), U)], (3, 2), _gather(2, 2), "the output's shape"),
        (OpKind.IndexAdd, [((3,), F), ((2, 1), U), ((2,), F)], (3,), INDEX_ADD, "the index's rank"),
        (OpKind.IndexAdd, [((3,), F), ((2,), U), ((3,), F)], (3,), INDEX_ADD, "the source's shape"),
        (OpKind.IndexAdd, [((3,), F), ((2,), U), ((2,), F)], (4,), INDEX_ADD, "the output's shape"),
        (OpKind.ScatterAdd, [((3,), F), ((2,), U), ((3,), F)], (3,), SCATTER_ADD, "the source's shape"),
        (OpKind.ScatterAdd, [((3,), F), ((2,), U), ((2,), F)], (3,), OpParams.ScatterAdd((3,), (2,), 1), "axis is 1"),
    ],
)
def test_operands_that_do_not_fit_are_refused(
    op: OpKind,
    operands: list[tuple[tuple[int, ...], Any]],
    shape: tuple[int, ...],
    params: OpParams,
    text: str,
    call: Call,
) -> None:
    with pytest.raises(KernelArgumentError, match=text) as caught:
        call(op, [np.zeros(of, kind) for of, kind in operands], shape, params, dtype=DType.F32)
    assert caught.value.op == op.value
