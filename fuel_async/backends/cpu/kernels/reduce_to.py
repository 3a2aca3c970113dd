"""Reductions to a shape that broadcasts to the operand's: sum, maximum, and the gradient of the maximum."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.cpu.kernels.base import F32, HALVES, T4, HostKernel
from fuel_async.backends.cpu.kernels.blocks import (
    Array,
    Bound,
    NumpyDType,
    Shape,
    bind_body,
    block_limit,
    constants,
    scratch_nbytes,
)
from fuel_async.backends.cpu.kernels.rows import nothing
from fuel_async.dispatch import ReduceMaxToBackwardParams, ReduceMaxToParams, ReduceSumToParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    #: (operand, gradient of its maxima, gradient of the operand)
    Gradient = Callable[[Array, Array, Array], None]

BOOL, I16 = np.dtype(np.bool_), np.dtype(np.int16)
(_ZERO,) = constants(F32, 0.0)

#: `(source, axes, dtype, output, keepdims)`, all by position, which is what is cheapest to call.
_add_reduce: Callable[..., Any] = np.add.reduce
_maximum_reduce: Callable[..., Any] = np.maximum.reduce


def _folded(op: OpKind, source: Shape, result: Shape, params: Any) -> tuple[tuple[int, ...], Shape]:
    """The axes of `source` that are folded, and the result's shape with all of them kept."""
    if (params.input_shape, params.output_shape) != (source, result):
        raise KernelArgumentError(op.value, "the shapes in the parameters", params, f"{source} and {result}")
    missing = len(source) - len(result)
    kept = (*(1,) * missing, *result)
    if missing < 0 or any(have not in (1, size) for have, size in zip(kept, source, strict=True)):
        raise KernelArgumentError(op.value, "the reduced shape", result, f"one that broadcasts to {source}")
    pairs = enumerate(zip(kept, source, strict=True))
    return tuple(axis for axis, (have, size) in pairs if axis < missing or have != size), kept


def _check_extreme(op: OpKind, source: Shape, result: Shape) -> None:
    if 0 in source and 0 not in result:
        raise KernelArgumentError(op.value, f"the size of the axes folded of {source}", 0, "at least 1")


def _wide_nbytes(params: object, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
    return (max(math.prod(output), 1) * F32.itemsize,)


def _fold(reduce: Callable[..., Any], source: Array, output: Array, axes: Shape, kept: Shape) -> Bound:
    """The call of a reduction: numpy's own where that leaves the result's shape."""
    missing = source.ndim - output.ndim
    if missing in (0, len(axes)):
        return reduce, (source, axes, None, output, not missing)

    def fold(source: Array, output: Array) -> None:
        reduce(source, axes, None, output.reshape(kept), True)

    return fold, (source, output)


def _sum_to(dtype: DType) -> HostKernel:
    op, half = OpKind.ReduceSumTo, dtype in HALVES

    def rule(inputs: Sequence[Array], output: Array, params: ReduceSumToParams, scratch: Sequence[Array]) -> Bound:
        axes, kept = _folded(op, inputs[0].shape, output.shape, params)
        if not half:
            return _fold(_add_reduce, inputs[0], output, axes, kept)
        wide = np.ndarray(kept, F32, scratch[0])

        def sum_wide_to(source: Array, output: Array) -> None:
            _add_reduce(source, axes, F32, wide, True)
            output[...] = wide.reshape(output.shape)

        return sum_wide_to, (inputs[0], output)

    if half:
        return HostKernel(op, (dtype, dtype), rule, ReduceSumToParams, scratch=_wide_nbytes)
    return HostKernel(op, (dtype, dtype), rule, ReduceSumToParams)


def _max_to(dtype: DType) -> HostKernel:
    op, half = OpKind.ReduceMaxTo, dtype in HALVES

    def rule(inputs: Sequence[Array], output: Array, params: ReduceMaxToParams, scratch: Sequence[Array]) -> Bound:
        axes, kept = _folded(op, inputs[0].shape, output.shape, params)
        _check_extreme(op, inputs[0].shape, output.shape)
        if not output.size:
            return nothing, (inputs[0], output)
        if not half:
            return _fold(_maximum_reduce, inputs[0], output, axes, kept)
        # In float32 maxima are as exact, and several times as fast as comparing halves.
        wide = np.ndarray(kept, F32, scratch[0])

        def max_wide_to(source: Array, output: Array) -> None:
            _maximum_reduce(source, axes, F32, wide, True)
            output[...] = wide.reshape(output.shape)

        return max_wide_to, (inputs[0], output)

    if half:
        return HostKernel(op, (dtype, dtype), rule, ReduceMaxToParams, scratch=_wide_nbytes)
    return HostKernel(op, (dtype, dtype), rule, ReduceMaxToParams)


# --- the gradient of the maximum: marks of the maxima, in the output's memory, then their shares ------------


def _is_maximum(x: Array, maximum: Array, out: Array, true: Array) -> None:
    np.equal(x, maximum, true)
    out[...] = true


def _share(share: Array, out: Array) -> None:
    np.multiply(out, share, out)


def _backward(source: Array, output: Array, axes: Shape, kept: Shape, scratch: Sequence[Array]) -> Gradient:
    maximum, share = _shaped(kept, (output.dtype,) * 2, scratch)
    mark, (_, _, _, *marked) = bind_body(_is_maximum, (source, maximum), output, (BOOL,), scratch[2:])
    spread, _ = bind_body(_share, (share,), output)

    def max_to_backward(source: Array, upstream: Array, output: Array) -> None:
        _maximum_reduce(source, axes, None, maximum, True)
        mark(source, maximum, output, *marked)
        _add_reduce(output, axes, None, share, True)
        np.divide(upstream.reshape(kept), share, share)
        spread(share, output)

    return max_to_backward


def _is_either(x: Array, top: Array, other: Array, out: Array, true: Array, too: Array) -> None:
    bits = x.getfield(I16)
    np.equal(bits, top, true)
    np.equal(bits, other, too)
    np.logical_or(true, too, true)
    out.getfield(I16)[...] = true


def _share_wide(share: Array, out: Array, wide: Array) -> None:
    wide[...] = out.getfield(I16)
    np.multiply(wide, share, wide)
    out[...] = wide


def _backward_of_half(source: Array, output: Array, axes: Shape, kept: Shape, scratch: Sequence[Array]) -> Gradient:
    if output.size <= block_limit((F32,)):
        return _backward_of_few(output, axes, kept, scratch)
    # Halves are slow to compare and to convert, so their bits are compared, and marks are integers.
    maximum, share = _shaped(kept, (F32, F32), scratch)
    top, other, is_nan = _shaped(kept, (output.dtype, output.dtype, BOOL), scratch[4:])
    tops = (top.view(I16), other.view(I16))
    mark, (_, _, _, _, *marked) = bind_body(_is_either, (source, *tops), output, (BOOL, BOOL), scratch[2:])
    spread, _ = bind_body(_share_wide, (share,), output, (F32,), scratch[3:])

    def max_to_backward(source: Array, upstream: Array, output: Array) -> None:
        _maximum_reduce(source, axes, F32, maximum, True)
        # Zeros of both signs are equal: x + 0 is 0 for both of them, -(0 - x) is -0 for 0 and x for all others.
        np.add(maximum, _ZERO, maximum)
        top[...] = maximum
        np.subtract(_ZERO, maximum, share)
        np.negative(share, share)
        other[...] = share
        mark(source, *tops, output, *marked)
        _add_reduce(output.getfield(I16), axes, F32, share, True)
        np.divide(upstream.reshape(kept), share, share)
        # NaN equals nothing, whatever its bits: its group has no shares.
        np.not_equal(maximum, maximum, is_nan)
        np.copyto(share, maximum, where=is_nan)
        spread(share, output)

    return max_to_backward


def _backward_of_few(output: Array, axes: Shape, kept: Shape, scratch: Sequence[Array]) -> Gradient:
    """Halves that fit one block are converted once, and their gradient is made in place."""
    wide = np.ndarray(output.shape, F32, scratch[3])
    gradient = _backward(wide, wide, axes, kept, scratch)

    def max_to_backward(source: Array, upstream: Array, output: Array) -> None:
        wide[...] = source
        gradient(wide, upstream, wide)
        output[...] = wide

    return max_to_backward


def _shaped(kept: Shape, kinds: Sequence[NumpyDType], scratch: Sequence[Array]) -> list[Array]:
    return [np.ndarray(kept, kind, memory) for kind, memory in zip(kinds, scratch, strict=False)]


def _max_to_backward(dtype: DType) -> HostKernel:
    op, half = OpKind.ReduceMaxToBackward, dtype in HALVES
    make, kind = _backward_of_half if half else _backward, dtype.require_np()

    def rule(
        inputs: Sequence[Array], output: Array, params: ReduceMaxToBackwardParams, scratch: Sequence[Array]
    ) -> Bound:
        source, upstream = inputs
        axes, kept = _folded(op, source.shape, upstream.shape, params)
        if output.shape != source.shape:
            raise KernelArgumentError(op.value, "the output's shape", output.shape, source.shape)
        _check_extreme(op, source.shape, upstream.shape)
        if not output.size:
            return nothing, (source, upstream, output)
        return make(source, output, axes, kept, scratch), (source, upstream, output)

    def working(params: object, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        groups = max(math.prod(inputs[1]), 1)
        if not half:
            return (groups * kind.itemsize, groups * kind.itemsize, *scratch_nbytes((BOOL,), output))
        # Maximum and share of each group, marks and a plane of a block; the bits of the maximum and whether it is NaN.
        marks, wide = scratch_nbytes((BOOL, BOOL), output), scratch_nbytes((F32,), output)
        return (groups * 4, groups * 4, *marks, *wide, groups * 2, groups * 2, groups)

    return HostKernel(op, (dtype, dtype, dtype), rule, ReduceMaxToBackwardParams, scratch=working)


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    return (
        *(_sum_to(dtype) for dtype in T4),
        *(_max_to(dtype) for dtype in T4),
        *(_max_to_backward(dtype) for dtype in T4),
    )
