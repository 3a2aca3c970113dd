"""Matrix products over batches, by numpy's `matmul` (BLAS), which reads transposed operands in place.

Each batch dimension of the left equals the right's or is a multiple of it; then consecutive batches of the
left share one of the right (grouped query heads). Nothing is copied for that: batches that share a right
operand become rows of one larger product where the left is row-major, and a broadcast view where it is not.
Two kinds of operands are copied first: small right matrices of a batch that are not row-major, a few at a time
(BLAS would read each of them many times over), and what BLAS cannot read at all (reversed, or with a step in
both of its last axes). Half types are widened to float32 whole, and the product narrowed once. All `m` rows
are computed, whatever `m_compute` asks for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fuel_async.backends.cpu.kernels.base import F32, HALVES, T4, HostKernel
from fuel_async.backends.cpu.kernels.blocks import (
    BLOCK_NBYTES,
    PLANE_ALIGN,
    Array,
    Blocks,
    Bound,
    NumpyDType,
    Shape,
    carve,
    scratch_nbytes,
)
from fuel_async.dispatch import MatmulParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

Product = Callable[[Array, Array, Array], object]

#: Left rows from which it pays to make a small right matrix row-major: the copy costs about a dozen rows.
PACKED_ROWS = 16


def check_shapes(left: Shape, right: Shape, output: Shape, params: MatmulParams, op: str) -> None:
    """`KernelArgumentError`, naming `op`, unless the shapes are those of the parameters."""
    batches = params.lhs_batch_dims, params.rhs_batch_dims
    if len(batches[0]) != len(batches[1]) or not all(map(_serves, *batches)):
        raise KernelArgumentError(op, "the batch dims", batches, "equal, or multiples on the left")
    wanted = (
        (*batches[0], params.m, params.k),
        (*batches[1], params.k, params.n),
        (*batches[0], params.m, params.n),
    )
    for name, found, shape in zip(("left", "right", "output"), (left, right, output), wanted, strict=True):
        if found != shape:
            raise KernelArgumentError(op, f"the shape of the {name} operand", found, shape)


def _serves(left: int, right: int) -> bool:
    return right in (left, 1) or (left > right > 0 and left % right == 0)


def product(params: MatmulParams) -> Product:
    """Return the call that multiplies two operands of one float type into a third, cheapest grouping first."""
    if params.lhs_batch_dims == params.rhs_batch_dims:
        return np.matmul
    m, n, k = params.m, params.n, params.k
    # Each batch dimension of the left is (right's batch, share): batch i of the right serves `share` in a row.
    apart = [
        (right, left // right if right else 1)
        for left, right in zip(params.lhs_batch_dims, params.rhs_batch_dims, strict=True)
    ]
    merged, rows = _shares_to_rows(apart, m)

    def grouped(left: Array, right: Array, output: Array) -> None:
        pairs, height = (merged, rows) if left.flags.c_contiguous else (apart, m)
        batch = [size for pair in pairs for size in pair]
        serving = [size for of_right, _ in pairs for size in (of_right, 1)]
        np.matmul(
            left.reshape((*batch, height, k)),
            right.reshape((*serving, k, n)),
            output.reshape((*batch, height, n)),
        )

    return grouped


def _shares_to_rows(pairs: list[tuple[int, int]], m: int) -> tuple[list[tuple[int, int]], int]:
    """Return the pairs without the trailing shares, which follow each other in memory, and m with them."""
    rest = list(pairs)
    while rest:
        right, share = rest.pop()
        m *= share
        if right != 1:
            return [*rest, (right, 1)], m
    return rest, m


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


def _packed_count(params: MatmulParams, itemsize: int) -> int:
    """Return how many right matrices are made row-major at a time, 0 when they are read where they are."""
    batches = math.prod(params.lhs_batch_dims)
    matrix_nbytes = params.k * params.n * itemsize
    if params.lhs_batch_dims != params.rhs_batch_dims or batches < 2 or params.m < PACKED_ROWS:
        return 0
    return min(batches, BLOCK_NBYTES // matrix_nbytes) if matrix_nbytes else 0


def packed_nbytes(params: MatmulParams, dtype: NumpyDType) -> tuple[int, ...]:
    """Return the bytes that `bind_matmul` needs for the right matrices that it makes row-major; () if none."""
    count = _packed_count(params, dtype.itemsize)
    return scratch_nbytes((dtype,), (count, params.k, params.n)) if count else ()


def _packed(params: MatmulParams, count: int, right: Array, scratch: Array) -> Product:
    cut = Blocks(params.rhs_batch_dims, count)
    dense_of = {part: carve((right.dtype,), (*part, params.k, params.n), scratch)[0] for part in cut.part_shapes()}

    def packed(left: Array, right: Array, output: Array) -> None:
        for index, part in cut.pieces():
            dense = dense_of[part]
            dense[...] = right[index]
            np.matmul(left[index], dense, output[index])

    return packed


def bind_matmul(
    inputs: Sequence[Array],
    output: Array,
    params: MatmulParams,
    scratch: Sequence[Array],
    op: str = OpKind.MatMul.value,
) -> Bound:
    """The rule of the product in float32 and float64; `op` is what errors name."""
    left, right = inputs
    check_shapes(left.shape, right.shape, output.shape, params, op)
    size = right.itemsize
    count = _packed_count(params, size)
    if count and right.strides[-2:] != (params.n * size, size):
        call = _packed(params, count, right, scratch[0])
    else:
        call = product(params)
        if not _readable(right):
            call = _staged(call, 1, right)
    if not _readable(left):
        call = _staged(call, 0, left)
    return call, (left, right, output)


def _wide_matmul(inputs: Sequence[Array], output: Array, params: MatmulParams, scratch: Sequence[Array]) -> Bound:
    left, right = inputs
    check_shapes(left.shape, right.shape, output.shape, params, OpKind.MatMul.value)
    call = product(params)
    wide_left, wide_right, wide = (
        np.ndarray(operand.shape, F32, memory) for operand, memory in zip((left, right, output), scratch, strict=True)
    )

    def widened(left: Array, right: Array, output: Array) -> None:
        wide_left[...] = left
        wide_right[...] = right
        call(wide_left, wide_right, wide)
        output[...] = wide

    return widened, (left, right, output)


def wide_nbytes(params: MatmulParams, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
    """Return the bytes of float32 copies of all operands, the output's last."""
    return tuple(max(math.prod(shape) * F32.itemsize, PLANE_ALIGN) for shape in (*inputs, output))


def _kernel(dtype: DType) -> HostKernel:
    dtypes = (dtype, dtype, dtype)
    if dtype in HALVES:
        return HostKernel(OpKind.MatMul, dtypes, _wide_matmul, MatmulParams, scratch=wide_nbytes)

    def working(params: MatmulParams, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        return packed_nbytes(params, dtype.require_np())

    return HostKernel(OpKind.MatMul, dtypes, bind_matmul, MatmulParams, scratch=working)


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each dtype."""
    return tuple(_kernel(dtype) for dtype in T4)
