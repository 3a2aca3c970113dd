"""Calls of the fixed kernels that reach the modules which samples do not: large, long, and in several passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from fuel_async.backends.grids.matmul import DEPTH, LARGE
from fuel_async.dispatch import FusedSoftmaxCrossEntropyParams, MatmulParams, OpParams, PadBackwardParams
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Iterator

F32, F64, F16, BF16, I64 = DType.F32, DType.F64, DType.F16, DType.BF16, DType.I64
Shape = tuple[int, ...]


class Call(NamedTuple):
    """One call; its kernel is that of `op` for `dtypes`."""

    op: OpKind
    dtypes: tuple[DType, ...]
    inputs: tuple[Shape, ...]
    shape: Shape
    params: OpParams

    def __str__(self) -> str:
        return f"{self.op.value}-{self.dtypes[0]}-{'x'.join(map(str, self.inputs[0]))}"


def _products(dtype: DType, m: int, k: int, n: int) -> Iterator[Call]:
    params = MatmulParams((), (), m, n, k)
    yield Call(OpKind.MatMul, (dtype,) * 3, ((m, k), (k, n)), (m, n), params)
    yield Call(OpKind.FusedLinear, (dtype,) * 4, ((m, k), (k, n), (n,)), (m, n), params)


def _calls() -> Iterator[Call]:
    for dtype in (F32, F64, F16, BF16):
        yield from _products(dtype, LARGE + 2, 33, LARGE + 1)
        yield from _products(dtype, 2, DEPTH + 5, 3)
        params = FusedSoftmaxCrossEntropyParams(5, 7, "mean", -100)
        yield Call(OpKind.FusedSoftmaxCrossEntropy, (dtype, I64, F32), ((5, 7), (5,)), (), params)
        pad = PadBackwardParams((5, 6), (5, 9), ((0, 0), (1, 2)), 1)
        yield Call(OpKind.PadBackward, (dtype, dtype), ((5, 9),), (5, 6), pad)
    for dtype in (F16, BF16):
        yield from _products(dtype, LARGE, DEPTH + 5, LARGE)


CALLS = tuple(_calls())
#: The same as parameters of a test: sums of so many products, so often, take their time.
EACH = [
    pytest.param(call, id=str(call), marks=[pytest.mark.slow] if call.inputs[0] == (LARGE, DEPTH + 5) else [])
    for call in CALLS
]
