"""Rotary position embedding, with the halves of a head as partners.

Blocks of positions stay in the cache; cosines and sines are read anew for each of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fuel_async.backends.cpu.kernels.base import F32, HALVES, T4, HostKernel
from fuel_async.backends.cpu.kernels.blocks import (
    Array,
    Blocks,
    Bound,
    Shape,
    block_limit,
    broadcast_index,
    carve,
    scratch_nbytes,
)
from fuel_async.backends.cpu.kernels.rows import nothing
from fuel_async.dispatch import RopeParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Sequence

_OP = OpKind.Rope.value


def _check(source: Shape, cos: Shape, sin: Shape, output: Shape, params: RopeParams) -> None:
    if len(source) < 2 or source[-1] % 2:
        raise KernelArgumentError(_OP, "the shape of the operand", source, "positions and an even last dimension")
    for name, found, wanted in (
        ("the shape of the cosines", cos, source[-2:]),
        ("the shape of the sines", sin, source[-2:]),
        ("the output's shape", output, source),
        ("(seq, head_dim)", (params.seq, params.head_dim), source[-2:]),
    ):
        if found != wanted:
            raise KernelArgumentError(_OP, name, found, wanted)


def _turn(x: Array, cos: Array, sin: Array, out: Array, work: Array) -> None:
    """One block: x · cos + [-right, left] · sin. `out` and `work` are none of the others."""
    half = x.shape[-1] // 2
    # Short rows are slow to compute with: one pass over each half, the rest over whole rows.
    np.negative(x[..., half:], work[..., :half])
    work[..., half:] = x[..., :half]
    np.multiply(work, sin, work)
    np.multiply(x, cos, out)
    np.add(out, work, out)


def _kernel(dtype: DType) -> HostKernel:
    half = dtype in HALVES
    compute = F32 if half else dtype.require_np()
    # Of a block: its turned halves, and for half types operand and result in float32.
    planes = (compute,) * (3 if half else 1)

    def rule(inputs: Sequence[Array], output: Array, params: RopeParams, scratch: Sequence[Array]) -> Bound:
        shape, angles = output.shape, inputs[1].shape
        _check(inputs[0].shape, angles, inputs[2].shape, shape, params)
        if not output.size:
            return nothing, (*inputs, output)
        cut = Blocks(shape, block_limit((compute,), 1, shape), whole_axes=1)
        made = {part: carve(planes, part, scratch[0]) for part in cut.part_shapes()}
        blocks = [(index, broadcast_index(index, shape, angles), made[part]) for index, part in cut.pieces()]

        def rope(x: Array, cos: Array, sin: Array, out: Array) -> None:
            for index, at, (work,) in blocks:
                _turn(x[index], cos[at], sin[at], out[index], work)

        if not half:
            return rope, (*inputs, output)
        wide_cos, wide_sin = carve((F32, F32), angles, scratch[1])

        def rope_of_half(x: Array, cos: Array, sin: Array, out: Array) -> None:
            wide_cos[...] = cos
            wide_sin[...] = sin
            for index, at, (work, wide_x, wide_out) in blocks:
                wide_x[...] = x[index]
                _turn(wide_x, wide_cos[at], wide_sin[at], wide_out, work)
                out[index] = wide_out

        return rope_of_half, (*inputs, output)

    def working(params: RopeParams, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        limit = block_limit((compute,), 1, output) if output else 1
        blocks = scratch_nbytes(planes, (min(math.prod(output), limit),), 1)
        return (*blocks, *scratch_nbytes((F32, F32), (max(math.prod(inputs[1]), 1),), 1)) if half else blocks

    return HostKernel(OpKind.Rope, (dtype,) * 4, rule, RopeParams, scratch=working)


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each dtype."""
    return tuple(_kernel(dtype) for dtype in T4)
