"""Reductions to a shape that broadcasts to the operand's: sum, maximum, and the gradient of the maximum."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.cpu.kernels.base import F32, HALVES, T4, HostKernel
from fuel_async.backends.cpu.kernels.blocks import Array, Bound, Shape, bind_body, scratch_nbytes
from fuel_async.backends.cpu.kernels.rows import nothing
from fuel_async.dispatch import ReduceMaxToBackwardParams, ReduceMaxToParams, ReduceSumToParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BOOL = np.dtype(np.bool_)

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


def _sum_to(dtype: DType) -> HostKernel:
    op, half = OpKind.ReduceSumTo, dtype in HALVES

    def rule(inputs: Sequence[Array], output: Array, params: ReduceSumToParams, scratch: Sequence[Array]) -> Bound:
        axes, kept = _folded(op, inputs[0].shape, output.shape, params)
        if not half:

            def sum_to(source: Array, output: Array) -> None:
                _add_reduce(source, axes, None, output.reshape(kept), True)

            return sum_to, (inputs[0], output)
        wide = np.ndarray(kept, F32, scratch[0])

        def sum_wide_to(source: Array, output: Array) -> None:
            _add_reduce(source, axes, F32, wide, True)
            output[...] = wide.reshape(output.shape)

        return sum_wide_to, (inputs[0], output)

    if half:
        return HostKernel(op, (dtype, dtype), rule, ReduceSumToParams, scratch=_wide_nbytes)
    return HostKernel(op, (dtype, dtype), rule, ReduceSumToParams)


def _max_to(dtype: DType) -> HostKernel:
    op = OpKind.ReduceMaxTo

    def rule(inputs: Sequence[Array], output: Array, params: ReduceMaxToParams, scratch: Sequence[Array]) -> Bound:
        axes, kept = _folded(op, inputs[0].shape, output.shape, params)
        _check_extreme(op, inputs[0].shape, output.shape)
        if not output.size:
            return nothing, (inputs[0], output)

        def max_to(source: Array, output: Array) -> None:
            _maximum_reduce(source, axes, None, output.reshape(kept), True)

        return max_to, (inputs[0], output)

    return HostKernel(op, (dtype, dtype), rule, ReduceMaxToParams)


def _is_maximum(x: Array, maximum: Array, out: Array, true: Array) -> None:
    np.equal(x, maximum, true)
    out[...] = true


def _share(share: Array, out: Array) -> None:
    np.multiply(out, share, out)


def _share_wide(share: Array, out: Array, wide: Array) -> None:
    wide[...] = out
    np.multiply(wide, share, wide)
    out[...] = wide


def _max_to_backward(dtype: DType) -> HostKernel:
    op, half = OpKind.ReduceMaxToBackward, dtype in HALVES
    compute = F32 if half else dtype.require_np()
    # Maxima are compared as they are; counts and shares are of the compute dtype.
    reduced = (dtype.require_np(), compute)
    narrow = (F32,) if half else ()

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
        maximum, share = (np.ndarray(kept, kind, memory) for kind, memory in zip(reduced, scratch[:2], strict=True))
        mark, (_, _, _, *marked) = bind_body(_is_maximum, (source, maximum), output, (BOOL,), scratch[2:3])
        spread, (_, _, *wide) = bind_body(_share_wide if half else _share, (share,), output, narrow, scratch[3:])

        def max_to_backward(source: Array, upstream: Array, output: Array) -> None:
            _maximum_reduce(source, axes, None, maximum, True)
            mark(source, maximum, output, *marked)
            _add_reduce(output, axes, compute, share, True)
            np.divide(upstream.reshape(kept), share, share)
            spread(share, output, *wide)

        return max_to_backward, (source, upstream, output)

    def working(params: object, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        count = max(math.prod(inputs[1]), 1)
        return (
            *(count * kind.itemsize for kind in reduced),
            *scratch_nbytes((BOOL,), output),
            *scratch_nbytes(narrow, output),
        )

    return HostKernel(op, (dtype, dtype, dtype), rule, ReduceMaxToBackwardParams, scratch=working)


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    return (
        *(_sum_to(dtype) for dtype in T4),
        *(_max_to(dtype) for dtype in T4),
        *(_max_to_backward(dtype) for dtype in T4),
    )
