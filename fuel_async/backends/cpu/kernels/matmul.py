"""Matrix products over batches, by numpy's `matmul` (BLAS), which reads transposed operands in place.

Each batch dimension of the left equals the right's or is a multiple of it; then consecutive batches of the
left share one of the right (grouped query heads). Nothing is copied for that: batches that share a right
operand become rows of one larger product where the left is row-major, and a broadcast view where it is not.
An operand that BLAS cannot read (reversed, or with a step in both of its last axes) is copied to memory of
the bound call's own. Half types are widened to float32 whole, and the product narrowed once. All `m` rows are
computed, whatever `m_compute` asks for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fuel_async.backends.cpu.kernels.base import F32, HALVES, T4, HostKernel, Rule
from fuel_async.backends.cpu.kernels.blocks import PLANE_ALIGN, Array, Bound, Shape
from fuel_async.dispatch import MatmulParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

Product = Callable[[Array, Array, Array], object]


def _check(left: Shape, right: Shape, output: Shape, params: MatmulParams) -> None:
    op = OpKind.MatMul.value
    batches = params.lhs_batch_dims, params.rhs_batch_dims
    if len(batches[0]) != len(batches[1]) or not all(map(_serves, *batches)):
        raise KernelArgumentError(op, "the batch dims", batches, "equal, or multiples on the left")
    wanted = (
        (*batches[0], params.m, params.k),
        (*batches[1], params.k, params.n),
        (*batches[0], params.m, params.n),
    )
    for name, got, right_shape in zip(
        ("left", "right", "output"), (left, right, output), wanted, strict=True
    ):
        if got != right_shape:
            raise KernelArgumentError(op, f"the shape of the {name} operand", got, right_shape)


def _serves(left: int, right: int) -> bool:
    return left == right or (right > 0 and left > right and left % right == 0)


def product(params: MatmulParams) -> Product:
    """Return the call that multiplies two operands of one float type into a third, in the cheapest
    grouping.
    """
    left_batch, right_batch, m, n, k = (
        params.lhs_batch_dims, params.rhs_batch_dims, params.m, params.n, params.k,
    )  # fmt: skip
    if left_batch == right_batch:
        return np.matmul
    batch, rows = _merged(left_batch, right_batch, m)
    # The left's batches split as (right's batch, share), the right's with a 1 for the share.
    split = [
        (right, left // right if right else 1) for left, right in zip(left_batch, right_batch, strict=True)
    ]
    outer = tuple(size for pair in split for size in pair)
    shared = tuple(size for right, _ in split for size in (right, 1))
    outer_merged = tuple(size for pair in batch for size in pair)
    shared_merged = tuple(size for right, _ in batch for size in (right, 1))

    def grouped(left: Array, right: Array, output: Array) -> None:
        if left.flags.c_contiguous:
            np.matmul(
                left.reshape((*outer_merged, rows, k)),
                right.reshape((*shared_merged, k, n)),
                output.reshape((*outer_merged, rows, n)),
            )
        else:
            np.matmul(
                left.reshape((*outer, m, k)),
                right.reshape((*shared, k, n)),
                output.reshape((*outer, m, n)),
            )

    return grouped


def _merged(left_batch: Shape, right_batch: Shape, m: int) -> tuple[list[tuple[int, int]], int]:
    """Batch pairs (right's size, share) after trailing shares became rows, and the number of those rows."""
    pairs = [
        (right, left // right if right else 1) for left, right in zip(left_batch, right_batch, strict=True)
    ]
    while pairs:
        right, share = pairs.pop()
        m *= share
        if right != 1:
            pairs.append((right, 1))
            break
    return pairs, m


def _readable(operand: Array) -> bool:
    """Whether BLAS can read the matrices of `operand` where they are, row by row or column by column."""
    rows, columns = operand.shape[-2:]
    down, across = operand.strides[-2:]
    size = operand.itemsize

    def lines(step: int, line: int, count: int, length: int) -> bool:
        return (step == size or length == 1) and (count == 1 or (line % size == 0 and line >= length * size))

    return operand.size == 0 or lines(across, down, rows, columns) or lines(down, across, columns, rows)


def _staged(call: Product, position: int, operand: Array) -> Product:
    """Return `call` with its operand at `position` copied to row-major memory first, made here once."""
    dense = np.empty(operand.shape, operand.dtype)

    def staged_left(left: Array, right: Array, output: Array) -> None:
        dense[...] = left
        call(dense, right, output)

    def staged_right(left: Array, right: Array, output: Array) -> None:
        dense[...] = right
        call(left, dense, output)

    return staged_right if position else staged_left


def _matmul(inputs: Sequence[Array], output: Array, params: MatmulParams, scratch: Sequence[Array]) -> Bound:
    left, right = inputs
    _check(left.shape, right.shape, output.shape, params)
    call = product(params)
    for position, operand in enumerate(inputs):
        if not _readable(operand):
            call = _staged(call, position, operand)
    return call, (left, right, output)


def _wide_matmul(
    inputs: Sequence[Array], output: Array, params: MatmulParams, scratch: Sequence[Array]
) -> Bound:
    left, right = inputs
    _check(left.shape, right.shape, output.shape, params)
    call = product(params)
    wide_left, wide_right, wide = (
        np.ndarray(operand.shape, F32, memory)
        for operand, memory in zip((left, right, output), scratch, strict=True)
    )

    def widened(left: Array, right: Array, output: Array) -> None:
        wide_left[...] = left
        wide_right[...] = right
        call(wide_left, wide_right, wide)
        output[...] = wide

    return widened, (left, right, output)


def _wide_nbytes(params: MatmulParams, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
    return tuple(max(math.prod(shape) * F32.itemsize, PLANE_ALIGN) for shape in (*inputs, output))


def _kernel(dtype: DType) -> HostKernel:
    half = dtype in HALVES
    rule: Rule = _wide_matmul if half else _matmul
    if half:
        return HostKernel(OpKind.MatMul, (dtype,) * 3, rule, MatmulParams, scratch=_wide_nbytes)
    return HostKernel(OpKind.MatMul, (dtype,) * 3, rule, MatmulParams)


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each dtype."""
    return tuple(_kernel(dtype) for dtype in T4)
