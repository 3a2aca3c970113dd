"""Picking entries along an axis by a u32 index."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fuel_async.backends.cpu.kernels.base import T9
from fuel_async.dispatch import OpParams
from fuel_async.errors import IndexOutOfRange, KernelArgumentError
from fuel_async.ir import DType, OpKind

Array = npt.NDArray[Any]
Call = Callable[..., Array]
Select = Callable[..., Array]


@pytest.fixture
def select(call: Call) -> Select:
    def run(source: Array, index: Sequence[int] | Array, axis: int, out: Array | None = None) -> Array:
        picks = np.asarray(index, np.uint32)
        shape = (*source.shape[:axis], len(picks), *source.shape[axis + 1 :])
        params = OpParams.IndexSelect(
            math.prod(source.shape[:axis]),
            source.shape[axis],
            len(picks),
            math.prod(source.shape[axis + 1 :]),
            axis,
        )
        kind = DType.from_numpy(source.dtype)
        return call(OpKind.IndexSelect, [source, picks], shape, params, dtype=kind, out=out)

    return run


@pytest.mark.parametrize("dtype", T9, ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_axis_and_layout(axis: int, dtype: DType, select: Select, strided: Callable[..., Array]) -> None:
    source = np.arange(60).reshape(3, 4, 5).astype(dtype.require_np())
    index = [2, 0, 2, 1]
    wanted = np.take(source, index, axis)
    views = [source, strided(source), np.ascontiguousarray(source.T).T]
    for view in views:
        assert select(view, index, axis).tobytes() == wanted.tobytes()


def test_no_index_and_no_elements(select: Select) -> None:
    assert select(np.ones((3, 4), np.float32), [], 0).shape == (0, 4)
    assert select(np.ones((3, 0), np.float32), [1, 1], 0).shape == (2, 0)
    assert select(np.ones((0, 4), np.float32), [], 0).shape == (0, 4)


@pytest.mark.parametrize("index", [[0, 3], [2**32 - 1], [2**31]])
def test_an_index_out_of_range_fails_before_anything_is_written(index: list[int], select: Select) -> None:
    source, out = np.ones((3, 2), np.float32), np.full((len(index), 2), 7, np.float32)
    with pytest.raises(IndexOutOfRange, match="is outside the indexed dimension; it has 3") as caught:
        select(source, index, 0, out)
    assert (caught.value.index, caught.value.limit) == (max(index), 3)
    assert (out == 7).all()
    with pytest.raises(IndexOutOfRange):
        select(np.ones((0, 2), np.float32), [0], 0)


def test_a_strided_index(select: Select) -> None:
    source = np.arange(10, dtype=np.float32)
    assert select(source, np.arange(10, dtype=np.uint32)[::-3], 0).tolist() == [9, 6, 3, 0]


def test_operands_that_do_not_fit_are_refused(call: Call) -> None:
    source, index = np.ones((3, 2), np.float32), np.zeros(2, np.uint32)
    cases: list[tuple[list[Array], tuple[int, ...], int, str]] = [
        ([source, index[None]], (2, 2), 0, "the index's rank"),
        ([source, index], (2, 2), 2, "axis"),
        ([source, index], (3, 3), 0, "the output's shape"),
    ]
    for inputs, shape, axis, text in cases:
        with pytest.raises(KernelArgumentError, match=text):
            call(OpKind.IndexSelect, inputs, shape, OpParams.IndexSelect(1, 3, 2, 2, axis), dtype=DType.F32)
