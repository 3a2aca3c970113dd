"""The plain numpy expression of each op that the host has kernels for: what a numpy user would write.

They make what the kernel makes, in its dtype: truth values in uint8, positions in uint32. numpy has no arithmetic for
half types that is rounded once, so theirs is the expression in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fuel_async.backends.cpu.kernels.base import HALVES, HostKernel
from fuel_async.ir import OpKind
from fuel_async.ir.erf import ERF_F64

Array: TypeAlias = npt.NDArray[Any]
Expression: TypeAlias = Callable[..., Any]

#: Elements of a row, and what half of one is.
WIDTH = 100
HALF = WIDTH // 2
EPS = 1e-5


def _erf(x: Array) -> Array:
    # numpy has no error function. Abramowitz and Stegun, 7.1.26, is exact to 1.5e-7; for float64 the formula that the
    # kernel has, a quotient of polynomials as a continued fraction.
    result: Array
    if x.dtype == np.float64:
        u = np.clip(x, -ERF_F64.limit, ERF_F64.limit)
        t = u * u
        (numerator, shift), *outer = ERF_F64.levels
        fraction = numerator / (t + shift)
        for numerator, shift in outer:
            fraction = numerator / (t + shift + fraction)
        result = np.tanh(u * (t * fraction + ERF_F64.c0))
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
    result: Array = np.sqrt((x * x).mean(-1, keepdims=True) + EPS)
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
    turned = np.concatenate([-x[..., HALF:], x[..., :HALF]], -1)
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
    out[:, :HALF] = source
    return out


def _write_slice_doff(dest: Array, source: Array, offset: Array) -> Array:
    out = dest.copy()
    out[int(offset) : int(offset) + len(source), :HALF] = source
    return out


def _write_slice_rotating(dest: Array, source: Array, position: Array) -> Array:
    out = dest.copy()
    out[(int(position) + np.arange(len(source))) % len(dest), :HALF] = source
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
