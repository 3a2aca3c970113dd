"""One call for each kind of kernel of the host, and the plain numpy expression of the same op beside it.

Operands are [rows, 100]; what a call computes with is told by `case_for`, what numpy users would write by the tables of
expressions. These make what the kernel makes, in its dtype: truth values in uint8, positions in uint32. numpy has no
arithmetic for half types that is rounded once, so theirs is the expression in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fuel_async.backends.cpu.kernels.base import HALVES, HostKernel
from fuel_async.dispatch import OpParams
from fuel_async.ir import DType, OpKind

Array: TypeAlias = npt.NDArray[Any]
Shape: TypeAlias = tuple[int, ...]
Expression: TypeAlias = Callable[..., Any]

WIDTH = 100
_EPS = 1e-5
_HALF = WIDTH // 2
#: Of a scan: steps of a sequence, and states of a channel.
_STEPS, _STATES = 10, 4


_exact_erf = np.vectorize(math.erf, otypes=[np.float64])


def _erf(x: Array) -> Array:
    # numpy has no error function. Python has one of numbers; for the others Abramowitz and Stegun, 7.1.26, is exact
    # to 1.5e-7.
    result: Array
    if x.dtype == np.float64:
        result = _exact_erf(x)
        return result
    t = 1 / (1 + 0.3275911 * np.abs(x))
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    result = np.sign(x) * (1 - series * np.exp(-x * x))
    return result


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    result: Array = powers / powers.sum(-1, keepdims=True)
    return result


def _log_softmax(x: Array) -> Array:
    shifted = x - x.max(-1, keepdims=True)
    result: Array = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return result


def _rms(x: Array) -> Array:
    result: Array = np.sqrt((x * x).mean(-1, keepdims=True) + _EPS)
    return result


def _rms_norm_backward(x: Array, g: Array) -> Array:
    scale = _rms(x)
    result: Array = (g - x * (x * g).mean(-1, keepdims=True) / scale**2) / scale
    return result


def _layer_norm(x: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    result: Array = centred / _rms(centred)
    return result


def _layer_norm_backward(x: Array, g: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    scale = _rms(centred)
    along = (centred * g).mean(-1, keepdims=True) / scale**2
    result: Array = (g - g.mean(-1, keepdims=True) - centred * along) / scale
    return result


def _max_to_backward(x: Array, g: Array) -> Array:
    most = x == x.max(0)
    result: Array = most * (g / most.sum(0, dtype=x.dtype))
    return result


def _cross_entropy(x: Array, targets: Array) -> Array:
    result: Array = -_log_softmax(x)[np.arange(len(x)), targets.astype(np.int64)].mean().astype(np.float32)
    return result


def _rope(x: Array, cos: Array, sin: Array) -> Array:
    turned = np.concatenate([-x[..., _HALF:], x[..., :_HALF]], -1)
    result: Array = x * cos + turned * sin
    return result


def _selective_scan(u: Array, delta: Array, a: Array, b: Array, c: Array) -> Array:
    state, y = np.zeros((len(u), *a.shape), u.dtype), np.empty_like(u)
    for t in range(u.shape[1]):
        step = delta[:, t, :, None]
        state = np.exp(step * a) * state + step * u[:, t, :, None] * b[:, t, None, :]
        y[:, t] = (state * c[:, t, None, :]).sum(-1)
    return y


def _index_add(base: Array, index: Array, source: Array) -> Array:
    out = base.copy()
    np.add.at(out, index.astype(np.int64), source)
    return out


def _scatter_add(base: Array, index: Array, source: Array) -> Array:
    out = base.copy()
    np.add.at(out, (np.arange(len(base))[:, None], index.astype(np.int64)), source)
    return out


def _write_slice(dest: Array, source: Array) -> Array:
    out = dest.copy()
    out[:, :_HALF] = source
    return out


def _write_slice_doff(dest: Array, source: Array, offset: Array) -> Array:
    out = dest.copy()
    out[int(offset) : int(offset) + len(source), :_HALF] = source
    return out


def _write_slice_rotating(dest: Array, source: Array, position: Array) -> Array:
    out = dest.copy()
    out[(int(position) + np.arange(len(source))) % len(dest), :_HALF] = source
    return out


_STEMS: Mapping[str, Expression] = {
    "Relu": lambda x: np.maximum(x, 0),
    "Neg": lambda x: -x,
    "Sqr": np.square,
    "Sqrt": np.sqrt,
    "Recip": lambda x: 1 / x,
    "Abs": np.abs,
    "Tanh": np.tanh,
    "Exp": np.exp,
    "Log": np.log,
    "Sin": np.sin,
    "Cos": np.cos,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Silu": lambda x: x / (1 + np.exp(-x)),
    "Gelu": lambda x: 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3))),
    "GeluErf": lambda x: 0.5 * x * (1 + _erf(x * 0.7071067811865476)),
    "Erf": _erf,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.round,
    "Sign": np.sign,
    "Rsqrt": lambda x: 1 / np.sqrt(x),
    "Clamp": lambda x: np.clip(x, -1.0, 1.5),
    "PowI": lambda x: x**3,
}

#: Arithmetic: in float32 for half types.
COMPUTED: Mapping[OpKind, Expression] = {
    **{OpKind[f"{stem}Elementwise"]: expression for stem, expression in _STEMS.items()},
    **{OpKind[f"{stem}Inplace"]: expression for stem, expression in _STEMS.items()},
    OpKind.StepElementwise: lambda x: (x > 0).astype(x.dtype),
    OpKind.Affine: lambda x: x * 1.5 - 0.75,
    OpKind.InplaceAffine: lambda x: x * 1.5 - 0.75,
    OpKind.PowIElementwiseBackward: lambda x, g: 3 * x**2 * g,
    OpKind.AddElementwise: np.add,
    OpKind.SubElementwise: np.subtract,
    OpKind.MulElementwise: np.multiply,
    OpKind.DivElementwise: np.divide,
    OpKind.MaximumElementwise: np.maximum,
    OpKind.MinimumElementwise: np.minimum,
    OpKind.PowElementwise: np.power,
    OpKind.RemElementwise: np.remainder,
    OpKind.EqualElementwise: lambda a, b: np.equal(a, b).view(np.uint8),
    OpKind.NotEqualElementwise: lambda a, b: np.not_equal(a, b).view(np.uint8),
    OpKind.LessElementwise: lambda a, b: np.less(a, b).view(np.uint8),
    OpKind.LessEqualElementwise: lambda a, b: np.less_equal(a, b).view(np.uint8),
    OpKind.GreaterElementwise: lambda a, b: np.greater(a, b).view(np.uint8),
    OpKind.GreaterEqualElementwise: lambda a, b: np.greater_equal(a, b).view(np.uint8),
    OpKind.SumReduce: lambda x: x.sum(-1),
    OpKind.MeanReduce: lambda x: x.mean(-1),
    OpKind.MaxReduce: lambda x: x.max(-1),
    OpKind.MinReduce: lambda x: x.min(-1),
    OpKind.ArgMaxDim: lambda x: x.argmax(-1).astype(np.uint32),
    OpKind.ArgMinDim: lambda x: x.argmin(-1).astype(np.uint32),
    OpKind.ReduceSumTo: lambda x: x.sum(0),
    OpKind.ReduceMaxTo: lambda x: x.max(0),
    OpKind.ReduceMaxToBackward: _max_to_backward,
    OpKind.CumSum: lambda x: np.cumsum(x, -1),
    OpKind.SoftmaxLastDim: _softmax,
    OpKind.SoftmaxLastDimBackward: lambda y, g: y * (g - (y * g).sum(-1, keepdims=True)),
    OpKind.LogSoftmaxLastDim: _log_softmax,
    OpKind.LogSoftmaxLastDimBackward: lambda y, g: g - np.exp(y) * g.sum(-1, keepdims=True),
    OpKind.RmsNormLastDim: lambda x: x / _rms(x),
    OpKind.RmsNormLastDimBackward: _rms_norm_backward,
    OpKind.LayerNormLastDim: _layer_norm,
    OpKind.LayerNormLastDimBackward: _layer_norm_backward,
    OpKind.FusedSoftmaxCrossEntropy: _cross_entropy,
    OpKind.MatMul: np.matmul,
    OpKind.FusedLinear: lambda x, weight, bias: x @ weight + bias,
    OpKind.Rope: _rope,
    OpKind.SelectiveScan: _selective_scan,
    OpKind.IndexAdd: _index_add,
    OpKind.ScatterAdd: _scatter_add,
    OpKind.PadBackward: lambda g: g[1:-1, 1:-1].copy(),
}

#: What moves elements as they are.
MOVED: Mapping[OpKind, Expression] = {
    OpKind.Where: lambda condition, a, b: np.where(condition, a, b),
    OpKind.Concat: lambda a, b: np.concatenate([a, b], -1),
    OpKind.Copy: np.copy,
    OpKind.IndexSelect: lambda x, index: x[index],
    OpKind.Gather: lambda x, index: np.take_along_axis(x, index, -1),
    OpKind.Flip: lambda x: np.flip(x, -1).copy(),
    OpKind.Roll: lambda x: np.roll(x, -2, -1),
    OpKind.Pad: lambda x: np.pad(x, 1, constant_values=1),
    OpKind.Triu: lambda x: np.triu(x, 1),
    OpKind.Tril: lambda x: np.tril(x, 1),
    OpKind.MaskedFill: lambda x, mask: np.where(mask, np.ones((), x.dtype), x),
    OpKind.WriteSlice: _write_slice,
    OpKind.WriteSliceDoff: _write_slice_doff,
    OpKind.WriteSliceRotating: _write_slice_rotating,
}

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


def expression_for(kernel: HostKernel) -> Expression:
    """Return what numpy users would write for what the kernel computes, over its operands."""
    op, out = kernel.op, kernel.operands[-1].require_np()
    if op is OpKind.Cast:
        return lambda x: x.astype(out)
    if op in MOVED:
        return MOVED[op]
    compute = COMPUTED[op]
    if op is OpKind.MatMul and kernel.operands[0].is_int:
        low, high = np.iinfo(out).min, np.iinfo(out).max
        return lambda a, b: (a.astype(np.int32) @ b.astype(np.int32)).clip(low, high).astype(out)
    if any(dtype in HALVES for dtype in kernel.operands):
        halves = [dtype in HALVES for dtype in kernel.operands]
        return lambda *operands: np.asarray(
            compute(*[x.astype(np.float32) if half else x for x, half in zip(operands, halves, strict=False)])
        ).astype(out, copy=False)
    return compute


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
            return [(rows, _HALF)] * 2, whole, OpParams.Concat(rows, (_HALF, _HALF), 1, 1)
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
            ranges = ((0, rows), (0, _HALF))
            return [whole, (rows, _HALF)], whole, OpParams.WriteSlice(whole, ranges)
        case OpKind.WriteSliceDoff:
            ranges = ((0, rows // 2), (0, _HALF))
            return [whole, (rows // 2, _HALF), ()], whole, OpParams.WriteSliceDoff(whole, 0, ranges)
        case OpKind.WriteSliceRotating:
            ranges = ((0, rows // 2), (0, _HALF))
            return [whole, (rows // 2, _HALF), ()], whole, OpParams.WriteSliceRotating(whole, 0, rows, ranges)
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
            return OpParams.NormLastDim(rows, WIDTH, _EPS)
        case OpKind.LayerNormLastDim | OpKind.LayerNormLastDimBackward:
            return OpParams.NormLastDim(rows, WIDTH, _EPS)
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
