"""Kernel parameters and table keys of a graph node: what is asked of dispatch before anything is priced or
bound.

`derive_params` turns a node's attrs and concrete operand shapes into the `OpParams` variant its kernel takes;
`kernel_dtypes` gives the key under which the kernel is registered. Both are total over the ops of the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fuel_async.dispatch.params import OpParams
from fuel_async.ir import REDUCTION_NAMES, Attrs, OpKind, OpSpec, TensorType

if TYPE_CHECKING:
    from fuel_async.dispatch.kernel import KernelDTypes

Sizes: TypeAlias = tuple[int, ...]
_Rule: TypeAlias = Callable[[Any, Sequence[Sizes], Sizes], OpParams]


def _matmul(attrs: Attrs, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    left, right = inputs[:2]
    return OpParams.Matmul(left[:-2], right[:-2], left[-2], right[-1], left[-1])


def _reduce(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.Reduce(attrs.axes, attrs.keepdims)


def _concat(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    axis = attrs.axis
    sizes = tuple(shape[axis] for shape in inputs)
    return OpParams.Concat(math.prod(output[:axis]), sizes, math.prod(output[axis + 1 :]), axis)


def _index_select(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    axis, source = attrs.axis, inputs[0]
    return OpParams.IndexSelect(
        math.prod(source[:axis]), source[axis], inputs[1][0], math.prod(source[axis + 1 :]), axis
    )


def _softmax(attrs: Attrs, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.SoftmaxLastDim(math.prod(output[:-1]), output[-1])


def _norm(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.NormLastDim(math.prod(output[:-1]), output[-1], attrs.eps)


def _log_softmax(attrs: Attrs, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.LogSoftmaxLastDim(math.prod(output[:-1]), output[-1])


def _cross_entropy(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    scores = inputs[0]
    reduction = REDUCTION_NAMES[attrs.reduction]
    return OpParams.FusedSoftmaxCrossEntropy(math.prod(scores[:-1]), scores[-1], reduction, attrs.ignore_index)


def _selective_scan(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    batch, steps, channels = inputs[0]
    return OpParams.SelectiveScan(batch, steps, channels, inputs[2][1], attrs.delta_softplus)


def _reduce_sum_to(attrs: Attrs, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.ReduceSumTo(inputs[0], output)


def _reduce_max_to(attrs: Attrs, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.ReduceMaxTo(inputs[0], output)


def _reduce_max_to_backward(attrs: Attrs, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.ReduceMaxToBackward(*inputs)


def _arg_extreme(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.Reduce((attrs.axis,), attrs.keepdims)


def _cumsum(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    axis = attrs.axis
    return OpParams.CumSum(math.prod(output[:axis]), output[axis], math.prod(output[axis + 1 :]), axis)


def _rope(attrs: Attrs, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.Rope(math.prod(output[:-2]), *output[-2:])


def _affine(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.Affine(attrs.mul, attrs.add)


def _powi(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.PowI(attrs.exp)


def _clamp(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.Clamp(attrs.low, attrs.high)


def _cast(attrs: Attrs, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.Cast()


def _as_given(attrs: Attrs, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.NONE if attrs is None else OpParams.Given(attrs)


def _roll(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    axis = attrs.axis
    return OpParams.Roll(math.prod(output[:axis]), output[axis], math.prod(output[axis + 1 :]), axis, attrs.shift)


def _pad_backward(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.PadBackward(output, inputs[0], tuple(zip(attrs.befores, attrs.afters, strict=True)), attrs.mode)


def _triangular(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.Triangular(math.prod(output[:-2]), output[-2], output[-1], attrs.diagonal)


def _gather(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.Gather(inputs[0], output, attrs.axis)


def _index_add(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    axis = attrs.axis
    return OpParams.IndexAdd(math.prod(output[:axis]), output[axis], inputs[1][0], math.prod(output[axis + 1 :]), axis)


def _scatter_add(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.ScatterAdd(output, inputs[2], attrs.axis)


def _ranges(starts: Sequence[int], source: Sizes) -> tuple[tuple[int, int], ...]:
    return tuple([(start, start + length) for start, length in zip(starts, source, strict=True)])


def _write_slice(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.WriteSlice(output, _ranges(attrs.starts, inputs[1]))


def _write_slice_doff(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.WriteSliceDoff(output, attrs.axis, _ranges(attrs.starts, inputs[1]))


def _write_slice_rotating(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.WriteSliceRotating(output, attrs.axis, attrs.modulus, _ranges(attrs.starts, inputs[1]))


#: Kinds that take parameters; all others take `OpParams.NONE`.
_RULES: Mapping[OpKind, _Rule] = {
    OpKind.MatMul: _matmul,
    OpKind.FusedLinear: _matmul,
    OpKind.SumReduce: _reduce,
    OpKind.MeanReduce: _reduce,
    OpKind.MaxReduce: _reduce,
    OpKind.MinReduce: _reduce,
    OpKind.Concat: _concat,
    OpKind.IndexSelect: _index_select,
    OpKind.ArgMaxDim: _arg_extreme,
    OpKind.ArgMinDim: _arg_extreme,
    OpKind.ReduceSumTo: _reduce_sum_to,
    OpKind.ReduceMaxTo: _reduce_max_to,
    OpKind.ReduceMaxToBackward: _reduce_max_to_backward,
    OpKind.CumSum: _cumsum,
    OpKind.SoftmaxLastDim: _softmax,
    OpKind.SoftmaxLastDimBackward: _softmax,
    OpKind.LogSoftmaxLastDim: _log_softmax,
    OpKind.LogSoftmaxLastDimBackward: _log_softmax,
    OpKind.LayerNormLastDim: _norm,
    OpKind.LayerNormLastDimBackward: _norm,
    OpKind.RmsNormLastDim: _norm,
    OpKind.RmsNormLastDimBackward: _norm,
    OpKind.FusedSoftmaxCrossEntropy: _cross_entropy,
    OpKind.SelectiveScan: _selective_scan,
    OpKind.Rope: _rope,
    OpKind.Affine: _affine,
    OpKind.PowIElementwise: _powi,
    OpKind.PowIElementwiseBackward: _powi,
    OpKind.ClampElementwise: _clamp,
    OpKind.Cast: _cast,
    OpKind.RuntimeFused: _as_given,
    OpKind.Roll: _roll,
    OpKind.PadBackward: _pad_backward,
    OpKind.Triu: _triangular,
    OpKind.Tril: _triangular,
    OpKind.Gather: _gather,
    OpKind.IndexAdd: _index_add,
    OpKind.ScatterAdd: _scatter_add,
    OpKind.ClampInplace: _clamp,
    OpKind.PowIInplace: _powi,
    OpKind.InplaceAffine: _affine,
    OpKind.WriteSlice: _write_slice,
    OpKind.WriteSliceDoff: _write_slice_doff,
    OpKind.WriteSliceRotating: _write_slice_rotating,
}

#: Kinds of which neither the value written into nor the place in it is a part of the key.
_WRITES = frozenset({OpKind.WriteSlice, OpKind.WriteSliceDoff, OpKind.WriteSliceRotating})


def _pad(attrs: Any, inputs: Sequence[Sizes], output: Sizes, fill: bytes) -> OpParams:
    return OpParams.Pad(inputs[0], output, tuple(zip(attrs.befores, attrs.afters, strict=True)), attrs.mode, fill)


def _masked_fill(attrs: Any, inputs: Sequence[Sizes], output: Sizes, fill: bytes) -> OpParams:
    return OpParams.MaskedFill(fill)


#: Kinds that also take `attrs.value`, as the bytes of one element of the output's dtype.
_FILLING: Mapping[OpKind, Callable[[Any, Sequence[Sizes], Sizes, bytes], OpParams]] = {
    OpKind.Pad: _pad,
    OpKind.MaskedFill: _masked_fill,
}


def derive_params(op: OpSpec, attrs: Attrs, inputs: Sequence[TensorType], output: TensorType) -> OpParams:
    """Return the parameters of the kernel that computes the node. All shapes are concrete."""
    if op.kind is None:
        return OpParams.NONE
    shapes, result = [_sizes(kind) for kind in inputs], _sizes(output)
    rule, filling = _RULES.get(op.kind), _FILLING.get(op.kind)
    if filling is not None:
        fill: Any = attrs
        return filling(attrs, shapes, result, np.asarray(fill.value, output.dtype.require_np()).tobytes())
    return OpParams.NONE if rule is None else rule(attrs, shapes, result)


def kernel_dtypes(op: OpSpec, inputs: Sequence[TensorType], output: TensorType) -> KernelDTypes:
    """Return the operand dtypes under which the node's kernel is registered: inputs in order, then the
    output.

    An op of any number of inputs is registered under the first of them, as (input, output); a write into a slice as
    (what is written, output). The output is that of slot 0 where there are several.
    """
    if op.arity < 0:
        return inputs[0].dtype, output.dtype
    if op.kind in _WRITES:
        return inputs[1].dtype, output.dtype
    return (*[kind.dtype for kind in inputs], output.dtype)


def _sizes(kind: TensorType) -> Sizes:
    return kind.shape  # type: ignore[return-value]  # concrete once the graph's symbols are bound
