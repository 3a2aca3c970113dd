"""One call for each kind of kernel of the host: operands of [rows, 100], and parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from benchmarks.kernel_expressions import EPS, HALF, WIDTH, Array
from fuel_async.dispatch import OpParams
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fuel_async.backends.cpu.kernels.base import HostKernel

Shape: TypeAlias = tuple[int, ...]

#: Of a scan: steps of a sequence, and states of a channel.
_STEPS, _STATES = 10, 4

#: Kinds whose first operands are positive: others would measure how fast NaN is made.
_POSITIVE = frozenset(
    OpKind[name] for stem in ("Log", "Sqrt", "Rsqrt") for name in (f"{stem}Elementwise", f"{stem}Inplace")
) | {OpKind.PowElementwise, OpKind.Cast}


@dataclass(frozen=True, slots=True)
class Case:
    """The operands and parameters of one call."""

    inputs: tuple[Array, ...]
    shape: Shape
    params: OpParams
    #: Shapes of the outputs after the first, whose values nobody looks at.
    others: tuple[Shape, ...] = ()


def _shapes_for(op: OpKind, dtype: DType, inputs: int, rows: int) -> tuple[list[Shape], Shape, OpParams]:
    """The shapes of the operands and of the result, and the parameters."""
    whole: Shape = (rows, WIDTH)
    alike: list[Shape] = [whole] * inputs
    match op:
        case OpKind.MatMul:
            return [whole, (WIDTH, WIDTH)], whole, OpParams.Matmul((), (), rows, WIDTH, WIDTH)
        case OpKind.FusedLinear:
            return [whole, (WIDTH, WIDTH), (WIDTH,)], whole, OpParams.Matmul((), (), rows, WIDTH, WIDTH)
        case OpKind.SumReduce | OpKind.MeanReduce | OpKind.MaxReduce | OpKind.MinReduce:
            return alike, (rows,), OpParams.Reduce((1,))
        case OpKind.ArgMaxDim | OpKind.ArgMinDim:
            return alike, (rows,), OpParams.Reduce((1,))
        case OpKind.ReduceSumTo:
            return alike, (WIDTH,), OpParams.ReduceSumTo(whole, (WIDTH,))
        case OpKind.ReduceMaxTo:
            return alike, (WIDTH,), OpParams.ReduceMaxTo(whole, (WIDTH,))
        case OpKind.ReduceMaxToBackward:
            return [whole, (WIDTH,)], whole, OpParams.ReduceMaxToBackward(whole, (WIDTH,))
        case OpKind.FusedSoftmaxCrossEntropy:
            return [whole, (rows,)], (), OpParams.FusedSoftmaxCrossEntropy(rows, WIDTH, "mean", -100)
        case OpKind.Concat:
            return [(rows, HALF)] * 2, whole, OpParams.Concat(rows, (HALF, HALF), 1, 1)
        case OpKind.IndexSelect:
            return [whole, (rows,)], whole, OpParams.IndexSelect(1, rows, rows, WIDTH, 0)
        case OpKind.Gather:
            return alike, whole, OpParams.Gather(whole, whole, 1)
        case OpKind.IndexAdd:
            return [whole, (rows,), whole], whole, OpParams.IndexAdd(1, rows, rows, WIDTH, 0)
        case OpKind.ScatterAdd:
            return alike, whole, OpParams.ScatterAdd(whole, whole, 1)
        case OpKind.Rope:
            heads, angles = (2, rows // 2, WIDTH), (rows // 2, WIDTH)
            return [heads, angles, angles], heads, OpParams.Rope(2, rows // 2, WIDTH)
        case OpKind.SelectiveScan:
            steps = min(rows, _STEPS)
            along, beside = (rows // steps, steps, WIDTH), (rows // steps, steps, _STATES)
            params = OpParams.SelectiveScan(rows // steps, steps, WIDTH, _STATES, False)
            return [along, along, (WIDTH, _STATES), beside, beside], along, params
        case OpKind.Pad:
            wide, border = (rows + 2, WIDTH + 2), ((1, 1), (1, 1))
            return alike, wide, OpParams.Pad(whole, wide, border, 0, np.ones((), dtype.require_np()).tobytes())
        case OpKind.PadBackward:
            wide, border = (rows + 2, WIDTH + 2), ((1, 1), (1, 1))
            return [wide], whole, OpParams.PadBackward(whole, wide, border, 0)
        case OpKind.WriteSlice:
            ranges = ((0, rows), (0, HALF))
            return [whole, (rows, HALF)], whole, OpParams.WriteSlice(whole, ranges)
        case OpKind.WriteSliceDoff:
            ranges = ((0, rows // 2), (0, HALF))
            return [whole, (rows // 2, HALF), ()], whole, OpParams.WriteSliceDoff(whole, 0, ranges)
        case OpKind.WriteSliceRotating:
            ranges = ((0, rows // 2), (0, HALF))
            return [whole, (rows // 2, HALF), ()], whole, OpParams.WriteSliceRotating(whole, 0, rows, ranges)
        case _:
            return alike, whole, OpParams.NONE


def _params_for(kernel: HostKernel, rows: int) -> OpParams | None:
    """The parameters of what is computed element by element or row by row."""
    match kernel.op:
        case OpKind.Cast:
            return OpParams.Cast()
        case OpKind.Affine | OpKind.InplaceAffine:
            return OpParams.Affine(1.5, -0.75)
        case OpKind.ClampElementwise | OpKind.ClampInplace:
            return OpParams.Clamp(-1.0, 1.5)
        case OpKind.PowIElementwise | OpKind.PowIInplace | OpKind.PowIElementwiseBackward:
            return OpParams.PowI(3)
        case OpKind.SoftmaxLastDim | OpKind.SoftmaxLastDimBackward:
            return OpParams.SoftmaxLastDim(rows, WIDTH)
        case OpKind.LogSoftmaxLastDim | OpKind.LogSoftmaxLastDimBackward:
            return OpParams.LogSoftmaxLastDim(rows, WIDTH)
        case OpKind.RmsNormLastDim | OpKind.RmsNormLastDimBackward:
            return OpParams.NormLastDim(rows, WIDTH, EPS)
        case OpKind.LayerNormLastDim | OpKind.LayerNormLastDimBackward:
            return OpParams.NormLastDim(rows, WIDTH, EPS)
        case OpKind.CumSum:
            return OpParams.CumSum(rows, WIDTH, 1, 1)
        case OpKind.Flip:
            return OpParams.Flip(rows, WIDTH, 1, 1)
        case OpKind.Roll:
            return OpParams.Roll(rows, WIDTH, 1, 1, -2)
        case OpKind.Triu | OpKind.Tril:
            return OpParams.Triangular(1, rows, WIDTH, 1)
        case OpKind.MaskedFill:
            return OpParams.MaskedFill(np.ones((), kernel.dtypes[0].require_np()).tobytes())
        case _:
            return None


#: Operands repeat themselves after so many elements, a prime: making ten million takes longer than most kernels.
_PERIOD = 99_991


def _values(rng: np.random.Generator, dtype: DType, shape: Shape) -> Array:
    """Magnitudes around 1 of both signs, for a dtype without a sign of one; small counts for integers."""
    kind = dtype.require_np()
    if dtype.is_int:
        return np.resize(rng.integers(0, 100, _PERIOD).astype(kind), shape)
    magnitudes = rng.uniform(0.25, 2, _PERIOD)
    if dtype is not DType.F8E8M0:
        magnitudes *= rng.choice([-1, 1], _PERIOD)
    return np.resize(magnitudes.astype(kind), shape)


#: The largest index and the like that an operand holds, by kind and the operand's place.
_BELOW: Mapping[OpKind, tuple[int, Callable[[int], int]]] = {
    OpKind.IndexSelect: (1, lambda rows: rows),
    OpKind.IndexAdd: (1, lambda rows: rows),
    OpKind.Gather: (1, lambda rows: WIDTH),
    OpKind.ScatterAdd: (1, lambda rows: WIDTH),
    OpKind.FusedSoftmaxCrossEntropy: (1, lambda rows: WIDTH),
    OpKind.WriteSliceDoff: (2, lambda rows: rows // 2),
    OpKind.WriteSliceRotating: (2, lambda rows: rows),
    OpKind.MaskedFill: (1, lambda rows: 2),
    OpKind.Where: (0, lambda rows: 2),
}


def case_for(kernel: HostKernel, elements: int, seed: int = 0) -> Case:
    """Return a call over so many elements, a multiple of 200, with operands that are the same for a seed."""
    rng, rows = np.random.default_rng(seed), elements // WIDTH
    outputs = len(kernel.slots) or 1
    shapes, shape, params = _shapes_for(kernel.op, kernel.dtypes[0], len(kernel.operands) - outputs, rows)
    dtypes = [kernel.dtypes[0]] * len(shapes) if kernel.variadic else kernel.operands[:-outputs]
    inputs = [_values(rng, dtype, of) for dtype, of in zip(dtypes, shapes, strict=True)]
    if kernel.op in _POSITIVE:
        inputs = [np.abs(operand) for operand in inputs]
    if kernel.op in _BELOW:
        place, below = _BELOW[kernel.op]
        inputs[place] = np.asarray(rng.integers(0, below(rows), shapes[place])).astype(inputs[place].dtype)
    others = ((shape[0], WIDTH, _STATES),) if kernel.op is OpKind.SelectiveScan else ()
    return Case(tuple(inputs), shape, _params_for(kernel, rows) or params, others)
