"""What the kernel tests share: the table, a call with everything but the operands derived, and sample
operands.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

from fuel_async.backends.cpu.kernels import register_cpu_kernels
from fuel_async.backends.cpu.kernels.base import HostKernel
from fuel_async.dispatch import KernelBindingTable, OpParams
from fuel_async.ir import BackendId, DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Array: TypeAlias = npt.NDArray[Any]


class Sample(NamedTuple):
    """Operands and parameters of one call; of several outputs the other shapes, too."""

    inputs: tuple[Array, ...]
    shape: tuple[int, ...]
    params: OpParams
    others: tuple[tuple[int, ...], ...] = ()


@pytest.fixture(autouse=True)
def _as_lanes_run() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


@pytest.fixture(scope="session")
def table() -> KernelBindingTable:
    made = KernelBindingTable()
    register_cpu_kernels(made)
    return made.finalize()


def bound_call(kernel: HostKernel, sample: Sample, out: Array) -> tuple[Callable[..., object], tuple[Any, ...]]:
    shapes = [operand.shape for operand in sample.inputs]
    sizes = kernel.scratch(sample.params, shapes, out.shape)
    # Filled with NaN patterns: what is read before it is written shows.
    scratch = [np.full(nbytes, 255, np.uint8) for nbytes in sizes]
    return kernel.bind(sample.inputs, [out], sample.params, scratch)


@pytest.fixture(scope="session")
def bind() -> Callable[[HostKernel, Sample, Array], tuple[Callable[..., object], tuple[Any, ...]]]:
    return bound_call


@pytest.fixture
def call(table: KernelBindingTable) -> Callable[..., Array]:
    """`call(op, inputs, shape, params, dtype=…)`: the result of the kernel for those dtypes, in a new
    array.
    """

    def run(
        op: OpKind,
        inputs: Sequence[Array],
        shape: tuple[int, ...],
        params: OpParams = OpParams.NONE,
        dtype: DType | None = None,
        out: Array | None = None,
    ) -> Array:
        kinds = [DType.from_numpy(operand.dtype) for operand in inputs]
        result = dtype or kinds[-1]
        key = (kinds[0], result) if op is OpKind.Concat else (*kinds, result)
        kernel = table.lookup(op, key, BackendId.CPU)
        assert isinstance(kernel, HostKernel)
        if out is None:
            out = np.empty(shape, result.require_np())
        function, args = bound_call(kernel, Sample(tuple(inputs), shape, params), out)
        function(*args)
        return out

    return run


def values(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Random values that exercise the type: both signs where there are two, magnitudes around 1 for
    floats.
    """
    kind = dtype.require_np()
    if dtype.is_int:
        info = np.iinfo(kind)
        return rng.integers(max(info.min, -100), 100, shape).astype(kind)
    return rng.normal(0, 2, shape).astype(kind)


def _matmul(batch: int, m: int, k: int, n: int) -> tuple[list[tuple[int, ...]], tuple[int, ...], OpParams]:
    return [(batch, m, k), (batch, k, n)], (batch, m, n), OpParams.Matmul((batch,), (batch,), m, n, k)


def sample_for(kernel: HostKernel, rng: np.random.Generator, rows: int = 6) -> Sample:
    """Operands of [rows, 7]-like shapes for any kernel."""
    op, dtypes = kernel.op, kernel.dtypes
    shape: tuple[int, ...] = (rows, 7)
    params: OpParams = OpParams.NONE
    others: tuple[tuple[int, ...], ...] = ()
    shapes: list[tuple[int, ...]] = [shape] * (len(kernel.dtypes if kernel.slots else kernel.operands) - 1)
    match op:
        case OpKind.MatMul:
            shapes, shape, params = _matmul(2, rows, 7, 5)
        case OpKind.FusedLinear:
            shapes, shape, params = _matmul(2, rows, 7, 5)
            shapes.append((5,))
        case OpKind.SumReduce | OpKind.MeanReduce | OpKind.MaxReduce | OpKind.MinReduce:
            shape, params = (rows,), OpParams.Reduce((1,))
        case OpKind.ClampElementwise | OpKind.ClampInplace:
            params = OpParams.Clamp(-1.0, 1.5)
        case OpKind.Cast:
            params = OpParams.Cast()
        case OpKind.Concat:
            shapes, shape, params = [(rows, 3), (rows, 4)], (rows, 7), OpParams.Concat(rows, (3, 4), 1, 1)
        case OpKind.SoftmaxLastDim:
            params = OpParams.SoftmaxLastDim(rows, 7)
        case OpKind.SoftmaxLastDimBackward:
            params = OpParams.SoftmaxLastDim(rows, 7)
        case OpKind.LogSoftmaxLastDim | OpKind.LogSoftmaxLastDimBackward:
            params = OpParams.LogSoftmaxLastDim(rows, 7)
        case OpKind.RmsNormLastDim | OpKind.RmsNormLastDimBackward | OpKind.LayerNormLastDimBackward:
            params = OpParams.NormLastDim(rows, 7, 1e-5)
        case OpKind.FusedSoftmaxCrossEntropy:
            shapes, shape = [(rows, 7), (rows,)], (rows,)
            params = OpParams.FusedSoftmaxCrossEntropy(rows, 7, "none", 3)
        case OpKind.ReduceSumTo:
            shape, params = (rows, 1), OpParams.ReduceSumTo((rows, 7), (rows, 1))
        case OpKind.ReduceMaxTo:
            shape, params = (7,), OpParams.ReduceMaxTo((rows, 7), (7,))
        case OpKind.ReduceMaxToBackward:
            shapes, params = [shape, (rows, 1)], OpParams.ReduceMaxToBackward(shape, (rows, 1))
        case OpKind.ArgMaxDim | OpKind.ArgMinDim:
            shape, params = (rows,), OpParams.Reduce((1,))
        case OpKind.CumSum:
            params = OpParams.CumSum(rows, 7, 1, 1)
        case OpKind.Rope:
            shape = (2, rows, 8)
            shapes, params = [shape, (rows, 8), (rows, 8)], OpParams.Rope(2, rows, 8)
        case OpKind.SelectiveScan:
            shape, beside = (2, 5, rows), (2, 5, 3)
            shapes, others = [shape, shape, (rows, 3), beside, beside], ((2, rows, 3),)
            params = OpParams.SelectiveScan(2, 5, rows, 3, True)
        case OpKind.Affine | OpKind.InplaceAffine:
            params = OpParams.Affine(1.5, -0.75)
        case OpKind.PowIElementwise | OpKind.PowIElementwiseBackward | OpKind.PowIInplace:
            params = OpParams.PowI(3)
        case OpKind.LayerNormLastDim:
            params = OpParams.NormLastDim(rows, 7, 1e-5)
        case OpKind.IndexSelect:
            shapes, shape = [(rows, 7), (4,)], (4, 7)
            params = OpParams.IndexSelect(1, rows, 4, 7, 0)
        case OpKind.Flip:
            params = OpParams.Flip(rows, 7, 1, 1)
        case OpKind.Roll:
            params = OpParams.Roll(rows, 7, 1, 1, -2)
        case OpKind.Pad:
            shape = (rows + 3, 9)
            fill = np.ones((), dtypes[0].require_np()).tobytes()
            params = OpParams.Pad((rows, 7), shape, ((1, 2), (0, 2)), 0, fill)
        case OpKind.PadBackward:
            shapes = [(rows + 3, 8)]
            params = OpParams.PadBackward(shape, shapes[0], ((1, 2), (0, 1)), 1)
        case OpKind.Triu | OpKind.Tril:
            params = OpParams.Triangular(1, rows, 7, 1)
        case OpKind.MaskedFill:
            params = OpParams.MaskedFill(np.ones((), dtypes[0].require_np()).tobytes())
        case OpKind.Gather:
            params = OpParams.Gather(shape, shape, 0)
        case OpKind.IndexAdd:
            shapes, params = [shape, (7,), shape], OpParams.IndexAdd(rows, 7, 7, 1, 1)
        case OpKind.ScatterAdd:
            params = OpParams.ScatterAdd(shape, shape, 0)
        case OpKind.WriteSlice:
            shapes, params = [shape, (2, 3)], OpParams.WriteSlice(shape, ((1, 3), (4, 7)))
        case OpKind.WriteSliceDoff:
            shapes, params = [shape, (2, 3), ()], OpParams.WriteSliceDoff(shape, 0, ((0, 2), (4, 7)))
        case OpKind.WriteSliceRotating:
            shapes, params = [shape, (3, 3), ()], OpParams.WriteSliceRotating(shape, 0, 5, ((0, 3), (4, 7)))
        case _:
            pass
    kinds = [dtypes[0]] * len(shapes) if op is OpKind.Concat else kernel.operands[: -(1 + len(others))]
    inputs = [values(rng, kind, of) for kind, of in zip(kinds, shapes, strict=True)]
    if op is OpKind.IndexSelect:
        inputs[1] = rng.integers(0, rows, 4).astype(np.uint32)
    if op in (OpKind.Gather, OpKind.IndexAdd, OpKind.ScatterAdd):
        inputs[1] = rng.integers(0, min(rows, 7), shapes[1]).astype(np.uint32)
    if op is OpKind.FusedSoftmaxCrossEntropy:
        inputs[1] = rng.integers(0, 7, rows)
    if op in (OpKind.WriteSliceDoff, OpKind.WriteSliceRotating):
        inputs[2] = np.array(rng.integers(0, 5), inputs[2].dtype)
    if op is OpKind.SelectiveScan:
        inputs[2] = -abs(inputs[2])
    if op is OpKind.Where:
        inputs[0] = rng.integers(0, 3, shapes[0]).astype(np.uint8)
    return Sample(tuple(inputs), shape, params, others)


@pytest.fixture(scope="session")
def sample() -> Callable[..., Sample]:
    return sample_for


def strided_copy(operand: Array) -> Array:
    """The same values reversed in memory along every axis, with gaps: a view with negative strides."""
    wide = np.empty(tuple(2 * size + 1 for size in operand.shape), operand.dtype)
    view: Array = wide[(*tuple(slice(2 * size, 0, -2) if size else slice(0) for size in operand.shape), ...)]
    view[...] = operand
    return view


def shifted_copy(operand: Array, by_elements: int) -> Array:
    """The same values row-major, beginning `by_elements` after a 64-byte boundary."""
    size = operand.dtype.itemsize
    raw = np.empty(operand.nbytes + 64 + by_elements * size, np.uint8)
    start = -raw.ctypes.data % 64 + by_elements * size
    view: Array = np.ndarray(operand.shape, operand.dtype, raw, start)
    view[...] = operand
    return view


@pytest.fixture(scope="session")
def strided() -> Callable[[Array], Array]:
    return strided_copy


@pytest.fixture(scope="session")
def shifted() -> Callable[[Array, int], Array]:
    return shifted_copy


def error_in_ulp(got: Array, exact: npt.NDArray[np.float64]) -> float:
    """The largest error in units of the last place of `got`'s type; equal specials count as none."""
    wide = got.astype(np.float64)
    unit = np.spacing(np.abs(exact).astype(np.float32 if got.dtype == np.float32 else np.float64))
    wrong = np.where((wide == exact) | (np.isnan(wide) & np.isnan(exact)), 0.0, np.abs(wide - exact) / unit)
    return math.inf if np.isnan(wrong).any() else float(wrong.max(initial=0.0))


@pytest.fixture(scope="session")
def ulps() -> Callable[[Array, npt.NDArray[np.float64]], float]:
    return error_in_ulp
