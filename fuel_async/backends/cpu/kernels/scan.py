"""Selective scan: a recurrence along the sequence, all channels and states of all sequences at once.

The formula stands at the op in `ir.ops.scan`. Each step needs the state before it, so the sequence is walked in Python,
seven passes over the states a step; what does not depend on the state is computed before, for all steps. Half types
compute in float32, the state between steps included, and are narrowed once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fuel_async.backends.cpu.kernels.base import F32, HALVES, T4, HostKernel
from fuel_async.backends.cpu.kernels.blocks import Array, Bound, Shape, carve, scratch_nbytes
from fuel_async.dispatch import SelectiveScanParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Sequence

_OP = OpKind.SelectiveScan.value


def _check(shapes: Sequence[Shape], params: SelectiveScanParams) -> None:
    """`shapes` are those of the operands in order, and of the two outputs."""
    batch, length, channels, states = params.batch, params.seqlen, params.dim, params.dstate
    along, beside = (batch, length, channels), (batch, length, states)
    wanted = (along, along, (channels, states), beside, beside, along, (batch, channels, states))
    names = ("u", "delta", "a", "b", "c", "y", "last_state")
    for name, found, shape in zip(names, shapes, wanted, strict=True):
        if found != shape:
            raise KernelArgumentError(_OP, f"the shape of {name}", found, shape)


def _planes(params: SelectiveScanParams, *, half: bool) -> tuple[Shape, ...]:
    """Shapes of the working arrays, as `_kernel` names them; for half types also b, c, and results of one step."""
    batch, length, channels, states = params.batch, params.seqlen, params.dim, params.dstate
    along, beside, state = (batch, length, channels), (batch, length, states), (batch, states, channels)
    wide = (beside, beside, (batch, channels)) if half else ()
    return along, along, (states, channels), state, state, state, *wide


class _States(NamedTuple):
    """Working arrays of [batch, states, channels]: passes run along the channels, which are many."""

    now: Array
    decay: Array
    added: Array


def _walk(
    steps: Array, driven: Array, turned_a: Array, b: Array, c: Array, y: Array, states: _States, row: Array | None
) -> None:
    """Carry the states through all steps. Results are computed in `row` where `y` has another dtype."""
    now, decay, added = states
    now.fill(0)
    for step in range(y.shape[1]):
        if step:  # the state is 0 before the first one, whatever it would be multiplied by
            np.multiply(steps[:, step, None, :], turned_a, decay)
            np.exp(decay, decay)
            np.multiply(now, decay, now)
        np.multiply(driven[:, step, None, :], b[:, step, :, None], added)
        np.add(now, added, now)
        np.multiply(now, c[:, step, :, None], added)
        np.add.reduce(added, 1, out=y[:, step] if row is None else row)
        if row is not None:
            y[:, step] = row


def _kernel(dtype: DType) -> HostKernel:
    half = dtype in HALVES
    compute = F32 if half else dtype.require_np()

    def rule(
        inputs: Sequence[Array], outputs: tuple[Array, Array], params: SelectiveScanParams, scratch: Sequence[Array]
    ) -> Bound:
        _check([array.shape for array in (*inputs, *outputs)], params)
        planes = _planes(params, half=half)
        steps, driven, turned_a, now, decay, added, *wide = (
            carve((compute,), shape, data)[0] for shape, data in zip(planes, scratch, strict=True)
        )
        states, softplus = _States(now, decay, added), params.delta_softplus

        def selective_scan(u: Array, delta: Array, a: Array, b: Array, c: Array, y: Array, last_state: Array) -> None:
            steps[...] = delta
            if softplus:
                np.logaddexp(steps, 0, steps)
            driven[...] = u
            np.multiply(driven, steps, driven)
            turned_a[...] = a.T
            row = None
            if wide:
                wide_b, wide_c, row = wide
                wide_b[...], wide_c[...] = b, c
                b, c = wide_b, wide_c
            _walk(steps, driven, turned_a, b, c, y, states, row)
            last_state[...] = now.swapaxes(1, 2)

        return selective_scan, (*inputs, *outputs)

    def working(params: SelectiveScanParams, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        return tuple([scratch_nbytes((compute,), shape, len(shape))[0] for shape in _planes(params, half=half)])

    return HostKernel(
        OpKind.SelectiveScan, (dtype,) * 6, rule, SelectiveScanParams, scratch=working, slots=(dtype, dtype)
    )


def kernels() -> tuple[HostKernel, ...]:
    """Return new kernels of this family: one for each dtype."""
    return tuple(_kernel(dtype) for dtype in T4)
