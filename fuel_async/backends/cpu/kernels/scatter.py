"""Kernels that address single elements by an index operand: gather, index_add, scatter_add.

Block by block, indices become positions in row-major memory: index · stride along the axis, plus the place along every
other axis. Positions are then taken from, or added to, in one call. Additions to one place happen in row-major order
of what is added, so the bits of a sum depend on the operands alone. An index out of range is found before anything is
written.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fuel_async.backends.cpu.kernels.base import F32, HALVES, T4, T9, HostKernel
from fuel_async.backends.cpu.kernels.blocks import (
    Array,
    Blocks,
    Bound,
    Index,
    NumpyDType,
    Shape,
    block_limit,
    broadcast_index,
    carve,
    constants,
    scratch_nbytes,
)
from fuel_async.dispatch import GatherParams, IndexAddParams, OpParams, ScatterAddParams
from fuel_async.errors import IndexOutOfRange, KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Sequence

POSITION = np.dtype(np.intp)


class _Step(NamedTuple):
    """One block: where it lies in the operands, and working arrays of its shape."""

    at: Index
    at_index: Index
    positions: Array
    #: Places along the other axes, in elements, each varying along its own axis.
    places: tuple[Array, ...]
    planes: tuple[Array, ...]


class _Walk:
    """The blocks of an index operand over row-major memory of shape `over`."""

    __slots__ = ("axis", "limit", "op", "steps", "stride")

    def __init__(
        self,
        op: OpKind,
        shape: Shape,
        index: Shape,
        over: Shape,
        axis: int,
        planes: Sequence[NumpyDType],
        memory: Array,
    ) -> None:
        """`shape` is that of the elements addressed, to which the index's broadcasts."""
        self.op, self.axis, self.limit = op, axis, over[axis]
        (self.stride,) = constants(POSITION, math.prod(over[axis + 1 :]))
        self.steps: list[_Step] = []
        if not math.prod(shape):
            return
        rank = len(shape)
        vectors = []
        for at in range(rank):
            if at != axis and shape[at] > 1:
                places = np.arange(shape[at], dtype=POSITION) * math.prod(over[at + 1 :])
                vectors.append(places.reshape((-1, *(1,) * (rank - 1 - at))))
        cut = Blocks(shape, block_limit((POSITION, *planes)))
        made = {part: carve((POSITION, *planes), part, memory) for part in cut.part_shapes()}
        for at_block, part in cut.pieces():
            positions, *rest = made[part]
            picked = tuple([vector[broadcast_index(at_block, shape, vector.shape)] for vector in vectors])
            at_index = broadcast_index(at_block, shape, index)
            self.steps.append(_Step(at_block, at_index, positions, picked, tuple(rest)))

    def check(self, index: Array) -> None:
        """`IndexOutOfRange` unless every index is inside the axis."""
        if index.size:
            highest = int(np.maximum.reduce(index, None))
            if highest >= self.limit:
                raise IndexOutOfRange(self.op.value, highest, self.limit)

    def place(self, step: _Step, index: Array) -> None:
        """Fill in the positions of one block."""
        positions = step.positions
        positions[...] = index[step.at_index]
        np.multiply(positions, self.stride, positions)
        for places in step.places:
            np.add(positions, places, positions)


def _check_index(op: OpKind, of: Array, index: Array, axis: int, rank: int) -> None:
    if not 0 <= axis < of.ndim:
        raise KernelArgumentError(op.value, "axis", axis, f"an axis of {of.shape}")
    if index.ndim != rank:
        raise KernelArgumentError(op.value, "the index's rank", index.ndim, rank)


def _check_within(op: OpKind, of: Shape, index: Shape, axis: int) -> None:
    if any(dim > most for at, (dim, most) in enumerate(zip(index, of, strict=True)) if at != axis):
        raise KernelArgumentError(op.value, "the index's shape", index, f"at most {of} but for axis {axis}")


# --- gather -----------------------------------------------------------------------------------------------


def _gather(inputs: Sequence[Array], output: Array, params: GatherParams, scratch: Sequence[Array]) -> Bound:
    source, index = inputs
    axis, op = params.dim, OpKind.Gather
    _check_index(op, source, index, axis, source.ndim)
    _check_within(op, source.shape, index.shape, axis)
    if output.shape != index.shape:
        raise KernelArgumentError(op.value, "the output's shape", output.shape, index.shape)
    walk = _Walk(op, index.shape, index.shape, source.shape, axis, (), scratch[0])

    def gather(source: Array, index: Array, output: Array) -> None:
        walk.check(index)
        if source.flags.c_contiguous:
            elements = source.reshape(-1)
            for step in walk.steps:
                walk.place(step, index)
                # "clip" never clips here; it lets numpy write where it is told.
                elements.take(step.positions, None, output[step.at], "clip")
        else:
            _gather_strided(walk, source, index, output)

    return gather, (source, index, output)


def _gather_strided(walk: _Walk, source: Array, index: Array, output: Array) -> None:
    """Pick from memory of any strides by an indexing expression, which makes each block once and copies it."""
    others = np.ogrid[tuple(slice(size) for size in index.shape)]
    for step in walk.steps:
        picks: list[Any] = [other[broadcast_index(step.at, index.shape, other.shape)] for other in others]
        step.positions[...] = index[step.at_index]
        picks[walk.axis] = step.positions
        output[step.at] = source[tuple(picks)]


def _gather_nbytes(params: GatherParams, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
    return scratch_nbytes((POSITION,), output)


# --- index_add and scatter_add ----------------------------------------------------------------------------


def _index_add_shapes(inputs: Sequence[Array], params: IndexAddParams) -> tuple[int, Shape]:
    """The axis, and the index's shape with a dimension of 1 for each axis of the base behind that."""
    op, (base, index, source) = OpKind.IndexAdd, inputs
    axis = params.axis
    _check_index(op, base, index, axis, 1)
    wanted = (*base.shape[:axis], index.shape[0], *base.shape[axis + 1 :])
    if source.shape != wanted:
        raise KernelArgumentError(op.value, "the source's shape", source.shape, wanted)
    return axis, (index.shape[0], *(1,) * (base.ndim - 1 - axis))


def _scatter_add_shapes(inputs: Sequence[Array], params: ScatterAddParams) -> tuple[int, Shape]:
    op, (base, index, source) = OpKind.ScatterAdd, inputs
    axis = params.dim
    _check_index(op, base, index, axis, base.ndim)
    _check_within(op, base.shape, index.shape, axis)
    if source.shape != index.shape:
        raise KernelArgumentError(op.value, "the source's shape", source.shape, index.shape)
    return axis, index.shape


_SHAPES: dict[OpKind, Any] = {OpKind.IndexAdd: _index_add_shapes, OpKind.ScatterAdd: _scatter_add_shapes}


def _adding(op: OpKind, dtype: DType, takes: type[OpParams]) -> HostKernel:
    half, shapes = dtype in HALVES, _SHAPES[op]
    compute: NumpyDType = F32 if half else dtype.require_np()

    def rule(inputs: Sequence[Array], output: Array, params: Any, scratch: Sequence[Array]) -> Bound:
        base, index, source = inputs
        axis, of_index = shapes(inputs, params)
        if output.shape != base.shape:
            raise KernelArgumentError(op.value, "the output's shape", output.shape, base.shape)
        walk = _Walk(op, source.shape, of_index, base.shape, axis, (compute,), scratch[0])
        wide = np.ndarray(base.shape, F32, scratch[1]) if half else None

        def add(base: Array, index: Array, source: Array, output: Array) -> None:
            walk.check(index)
            total = output if wide is None else wide
            total[...] = base
            elements, index = total.reshape(-1), index.reshape(of_index)
            for step in walk.steps:
                walk.place(step, index)
                given = source[step.at]
                if half or not given.flags.c_contiguous:
                    step.planes[0][...] = given
                    given = step.planes[0]
                np.add.at(elements, step.positions.reshape(-1), given.reshape(-1))
            if wide is not None:
                output[...] = wide

        return add, (base, index, source, output)

    def working(params: Any, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        blocks = scratch_nbytes((POSITION, compute), inputs[2])
        return (*blocks, max(math.prod(output), 1) * F32.itemsize) if half else blocks

    return HostKernel(op, (dtype, DType.U32, dtype, dtype), rule, takes, scratch=working)


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each op and dtype."""
    return (
        *(
            HostKernel(OpKind.Gather, (dtype, DType.U32, dtype), _gather, GatherParams, scratch=_gather_nbytes)
            for dtype in T9
        ),
        *(_adding(OpKind.IndexAdd, dtype, IndexAddParams) for dtype in T4),
        *(_adding(OpKind.ScatterAdd, dtype, ScatterAddParams) for dtype in T4),
    )
