"""Kernel parameters and table keys of a graph node: what is asked of dispatch before anything is priced or
bound.

`derive_params` turns a node's attrs and concrete operand shapes into the `OpParams` variant its kernel takes;
`kernel_dtypes` gives the key under which the kernel is registered. Both are total over the ops of the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from fuel_async.dispatch.params import OpParams
from fuel_async.ir import Attrs, OpKind, OpSpec, TensorType

if TYPE_CHECKING:
    from fuel_async.dispatch.kernel import KernelDTypes

Sizes: TypeAlias = tuple[int, ...]
_Rule: TypeAlias = Callable[[Any, Sequence[Sizes], Sizes], OpParams]


def _matmul(attrs: Attrs, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    left, right = inputs
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


def _layer_norm(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.NormLastDim(math.prod(output[:-1]), output[-1], attrs.eps)


def _clamp(attrs: Any, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.Clamp(attrs.low, attrs.high)


def _cast(attrs: Attrs, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.Cast()


def _as_given(attrs: Attrs, inputs: Sequence[Sizes], output: Sizes) -> OpParams:
    return OpParams.NONE if attrs is None else OpParams.Given(attrs)


#: Kinds that take parameters; all others take `OpParams.NONE`.
_RULES: Mapping[OpKind, _Rule] = {
    OpKind.MatMul: _matmul,
    OpKind.SumReduce: _reduce,
    OpKind.MeanReduce: _reduce,
    OpKind.MaxReduce: _reduce,
    OpKind.MinReduce: _reduce,
    OpKind.Concat: _concat,
    OpKind.IndexSelect: _index_select,
    OpKind.SoftmaxLastDim: _softmax,
    OpKind.LayerNormLastDim: _layer_norm,
    OpKind.ClampElementwise: _clamp,
    OpKind.Cast: _cast,
    OpKind.RuntimeFused: _as_given,
}


def derive_params(op: OpSpec, attrs: Attrs, inputs: Sequence[TensorType], output: TensorType) -> OpParams:
    """Return the parameters of the kernel that computes the node. All shapes are concrete."""
    rule = None if op.kind is None else _RULES.get(op.kind)
    if rule is None:
        return OpParams.NONE
    return rule(attrs, [_sizes(kind) for kind in inputs], _sizes(output))


def kernel_dtypes(op: OpSpec, inputs: Sequence[TensorType], output: TensorType) -> KernelDTypes:
    """Return the operand dtypes under which the node's kernel is registered: inputs in order, then the
    output.

    An op of any number of inputs is registered under the first of them, as (input, output).
    """
    if op.arity < 0:
        return inputs[0].dtype, output.dtype
    return (*[kind.dtype for kind in inputs], output.dtype)


def _sizes(kind: TensorType) -> Sizes:
    return kind.shape  # type: ignore[return-value]  # concrete once the graph's symbols are bound
