"""What kernels along the last axis share: rows are processed in blocks that stay in the cache.

A *maker* takes the shape of a block, the parameters and working arrays, and returns the block's call: a function
of dense inputs in the compute dtype and a dense output, which may be any of the inputs. `row_kernel` makes the
kernel: it cuts the operands, copies what is not row-major, and widens half types to float32. Two primitives
replace numpy's own row reductions, whose price is a call a row: the row maximum is found by `argmax` and `take`
(`RowMaximum`), sums by `vecdot` with ones (BLAS dot products: several float32 accumulators a row, no slower at
adding squares).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fuel_async.backends.cpu.kernels.base import F32, HALVES, IN_PLACE, HostKernel
from fuel_async.backends.cpu.kernels.blocks import (
    Array,
    Blocks,
    Bound,
    NumpyDType,
    Shape,
    block_limit,
    carve,
    scratch_nbytes,
)
from fuel_async.errors import KernelArgumentError

if TYPE_CHECKING:
    from fuel_async.dispatch import OpParams
    from fuel_async.ir import DType, OpKind

POSITION = np.dtype(np.intp)

Planes: TypeAlias = tuple[Array, ...]
#: A block's function of (*input blocks, output block), made once for each shape of a block.
BlockCall = Callable[..., None]
#: (shape of a block, params, row planes, whole planes) -> its function. A row plane has one element for each
#: row, a whole plane has the shape of the block.
Maker = Callable[[Shape, Any, Planes, Planes], BlockCall]


class RowMaximum:
    """Finds the maximum of each row of dense blocks of one shape: a NaN, if there is one."""

    __slots__ = ("_found", "_starts")

    def __init__(self, part: Shape, found: Array) -> None:
        """`found` has one position for each row."""
        self._found = found
        self._starts = np.arange(0, math.prod(part), part[-1], dtype=POSITION).reshape(part[:-1])

    def __call__(self, x: Array, extent: Array) -> None:
        """Put the maxima of `x` into `extent`."""
        x.argmax(-1, self._found)
        self.take(x, self._found, extent)

    def take(self, x: Array, places: Array, picked: Array) -> None:
        """Put the elements at `places` of each row into `picked`; `places` is overwritten."""
        np.add(places, self._starts, places)
        x.reshape(-1).take(places, None, picked, "clip")


def dense(operand: Array, plane: Array) -> Array:
    """Return the operand itself if it is row-major and of the plane's dtype, else a copy of it in the plane."""
    if operand.flags.c_contiguous and operand.dtype == plane.dtype:
        return operand
    plane[...] = operand
    return plane


def nothing(*operands: Array) -> None:
    """The call for operands without elements."""


def row_kernel(
    op: OpKind,
    dtype: DType,
    takes: type[OpParams],
    make: Maker,
    row_planes: Sequence[NumpyDType],
    *,
    arity: int = 1,
    whole_planes: int = 0,
) -> HostKernel:
    """Return the kernel of a maker for `arity` inputs of the output's shape.

    Row planes of type F32 have the compute dtype, like whole planes. The output may be any of the inputs.
    """
    half = dtype in HALVES
    compute = F32 if half else dtype.require_np()
    rows = tuple(compute if plane is F32 else plane for plane in row_planes)
    # Inputs that are not dense are copied: a single one to the output, where it is of the compute dtype.
    copies = arity if half or arity > 1 else 0
    wholes = (compute,) * (copies + whole_planes)

    def block_call(part: Shape, params: Any, scratch: Sequence[Array]) -> BlockCall:
        planes = carve(wholes, part, scratch[1]) if wholes else ()
        call = make(part, params, carve(rows, part[:-1], scratch[0]), planes[copies:])
        return _densely(call, planes[:copies], half)

    def rule(inputs: Sequence[Array], output: Array, params: Any, scratch: Sequence[Array]) -> Bound:
        shape = output.shape
        for operand in inputs:
            _check(op, operand.shape, shape, params)
        if output.size == 0:
            return nothing, (*inputs, output)
        cut = Blocks(shape, block_limit((compute,), 1, shape), whole_axes=1)
        calls = {part: block_call(part, params, scratch) for part in cut.part_shapes()}
        if len(calls) == 1 and shape in calls:
            return calls[shape], (*inputs, output)

        steps = [(index, calls[part]) for index, part in cut.pieces()]

        def run(*operands: Array) -> None:
            for index, call in steps:
                call(*[operand[index] for operand in operands])

        return run, (*inputs, output)

    def working(params: Any, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        limit = block_limit((compute,), 1, output) if output else 1
        count = min(math.prod(output), limit)
        length = output[-1] if output else 1
        per_row = scratch_nbytes(rows, (count // max(length, 1),))
        return (*per_row, *scratch_nbytes(wholes, (count,), 1)) if wholes else per_row

    return HostKernel(op, (dtype,) * (arity + 1), rule, takes, IN_PLACE, working)


def _densely(call: BlockCall, copies: Planes, half: bool) -> BlockCall:
    """Return `call` for operands as they come: of any strides, and of a half type."""
    if half:

        def widened(*operands: Array) -> None:
            for plane, operand in zip(copies, operands, strict=False):
                plane[...] = operand
            call(*copies, copies[0])
            operands[-1][...] = copies[0]

        return widened
    if copies:

        def gathered(*operands: Array) -> None:
            call(*[dense(operand, plane) for operand, plane in zip(operands, copies, strict=False)], operands[-1])

        return gathered

    def single(x: Array, out: Array) -> None:
        if not x.flags.c_contiguous:
            out[...] = x
            x = out
        call(x, out)

    return single


def _check(op: OpKind, source: Shape, output: Shape, params: Any) -> None:
    if not source or source != output:
        raise KernelArgumentError(op.value, "the output's shape", output, f"{source}, of rank 1 or more")
    if source[-1] != params.last_dim:
        raise KernelArgumentError(op.value, "last_dim", params.last_dim, source[-1])
