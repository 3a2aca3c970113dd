"""Matrix products over batches, with and without a bias: tiles in shared memory, operands read where they are.

Each batch dimension of the left equals the right's or is a multiple of it; then consecutive batches of the left share
one of the right (grouped query heads), by a stride of 0. Half types are summed in float32 and narrowed once; products
of 8-bit integers are exact and then limited to the range of the type. Long sums are cut, and their parts added up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fuel_async.backends.grids.catalog import NEEDS, matmul_name
from fuel_async.backends.grids.folds import SUM, Fold, fold
from fuel_async.backends.grids.grids import ITERATIONS, Axes, check, dispatch, folded, grid
from fuel_async.backends.grids.kernel import GridKernel, Operand
from fuel_async.backends.grids.widths import T4, Width
from fuel_async.dispatch import MatmulParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.grids.kernel import Dispatch, Limits, Shape

_BATCH_AXES = 5
#: Terms of a sum that one invocation adds up; a multiple of the depth of a tile.
DEPTH, TILE_DEPTH = 32_768, 16
#: Rows and columns from which an invocation has more than one element.
LARGE = 48
#: Iterations of an invocation for each tile of 16 terms of a 16 · 16 tile, one element each.
_ITERATIONS_A_TILE = 3


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a product is cut: invocations across and down a tile, and elements of each along either side."""

    across: int
    down: int
    each: int

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return self.down * self.each

    @property
    def columns(self) -> int:
        """Columns of a tile."""
        return self.across * self.each


def tiling(m: int, n: int, limits: Limits) -> Tiling:
    """Return the tiles of a product of m rows and n columns."""
    large = limits.max_invocations >= 256
    if m == 1:
        return Tiling(64, 1, 1)
    if m <= 4:
        return Tiling(32, 4, 1)
    down = 16 if large else 8
    needed = 2 * TILE_DEPTH * (16 * 4 + 1) * 8
    return Tiling(16, down, 4 if min(m, n) >= LARGE and limits.shared_nbytes >= needed else 1)


def check_shapes(op: OpKind, operands: Sequence[Operand], params: MatmulParams) -> None:
    """`KernelArgumentError` unless the shapes are those of the parameters."""
    batches = params.lhs_batch_dims, params.rhs_batch_dims
    served = len(batches[0]) == len(batches[1]) and all(map(_serves, *batches))
    if not served:
        raise KernelArgumentError(op.value, "the batch dims", batches, "equal, or multiples on the left")
    left, right, *bias, output = operands
    check(op.value, "the shape of the left operand", left.shape, (*batches[0], params.m, params.k))
    check(op.value, "the shape of the right operand", right.shape, (*batches[1], params.k, params.n))
    check(op.value, "the shape of the output", output.shape, (*batches[0], params.m, params.n))
    for operand in bias:
        check(op.value, "the bias's shape", operand.shape, (params.n,))


def _serves(left: int, right: int) -> bool:
    return right in (left, 1) or (left > right > 0 and left % right == 0)


def _batches(left: Operand, right: Operand, params: MatmulParams) -> Axes:
    """Each batch dimension as two: which of the right's, and which of those that share it."""
    sizes, lefts, rights = list[int](), list[int](), list[int]()
    for axis, (ours, theirs) in enumerate(zip(params.lhs_batch_dims, params.rhs_batch_dims, strict=True)):
        share = ours // theirs if theirs else 1
        sizes += [theirs, share]
        lefts += [left.strides[axis] * share, left.strides[axis]]
        rights += [right.strides[axis], 0]
    return folded(sizes, lefts, rights)


def splits_of(k: int, dtype: DType) -> int:
    """Return into how many parts a sum of `k` terms is cut; those of integers are not."""
    return max(-(-k // DEPTH), 1) if dtype.is_float else 1


def _product(
    op: OpKind, operands: Sequence[Operand], params: MatmulParams, into: tuple[int, int, DType], limits: Limits
) -> Dispatch:
    """Return the dispatch of the product into one operand: place, first element, and type."""
    left, right, bias = operands[0], operands[1], operands[2] if op is OpKind.FusedLinear else None
    place, target_at, out = into
    batches, tiles = _batches(left, right, params), tiling(params.m, params.n, limits)
    if not left.dtype.is_float:
        tiles = Tiling(16, tiles.down if tiles.down > 4 else 8, 1)
    splits = splits_of(params.k, left.dtype)
    words = [
        batches.count, splits, params.m, params.n, params.k, DEPTH if splits > 1 else params.k,
        left.offset, right.offset, bias.offset if bias else 0, target_at, len(batches.sizes),
        *left.strides[-2:], *right.strides[-2:], bias.strides[0] if bias else 0,
        *batches.words(_BATCH_AXES, op.value),
    ]  # fmt: skip
    loads = (int(abs(left.strides[-1]) <= abs(left.strides[-2])), int(abs(right.strides[-2]) < abs(right.strides[-1])))
    third = Width.of(left.dtype).spec(tiles.across, tiles.down, *loads)
    spec = third if left.dtype.is_float else (*third[:-1], int(left.dtype is DType.I8))
    count = -(-params.m // tiles.rows) * -(-params.n // tiles.columns) * batches.count * splits
    seen = (0, 1, 2, place) if bias else (0, 1, place)
    name = matmul_name((left.dtype.bits, out.bits), tiles.each, bias=bias is not None)
    return dispatch(name, seen, words, grid(count, limits), spec=spec)


def _kernel(op: OpKind, dtype: DType) -> GridKernel:
    arity = 3 if op is OpKind.FusedLinear else 2
    width = Width.of(dtype)

    def plan(operands: Sequence[Operand], params: MatmulParams, limits: Limits) -> Sequence[Dispatch]:
        check_shapes(op, operands[: arity + 1], params)
        output = operands[arity]
        if 0 in output.shape:
            return []
        splits = splits_of(params.k, dtype)
        if splits <= 1:
            if not dtype.is_float and params.k > ITERATIONS // _ITERATIONS_A_TILE // 2 * TILE_DEPTH:
                raise KernelArgumentError(op.value, "k", params.k, "a shorter sum")
            return [_product(op, operands, params, (arity, output.offset, dtype), limits)]
        place = arity + 1
        at = operands[place].offset // width.wide.nbytes
        count = math.prod(output.shape)
        views = [*operands]
        views[place] = Operand(width.wide, (splits, count), (count, 1), at)
        flat = Operand(dtype, (count,), (1,), output.offset)
        views[arity] = flat
        first = _product(op, operands, params, (place, at, width.wide), limits)
        return [first, *fold(op, views, Fold(SUM, place, arity), (0,), limits)]

    def scratch(params: Any, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        splits = splits_of(params.k, dtype)
        return (max(math.prod(output), 1) * splits * width.wide.nbytes,) if splits > 1 else ()

    return GridKernel(op, (dtype,) * (arity + 1), plan, MatmulParams, needs=NEEDS[dtype.bits], scratch=scratch)


def kernels() -> tuple[GridKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    return (
        *(_kernel(OpKind.MatMul, dtype) for dtype in (*T4, DType.I8, DType.U8)),
        *(_kernel(OpKind.FusedLinear, dtype) for dtype in T4),
    )
