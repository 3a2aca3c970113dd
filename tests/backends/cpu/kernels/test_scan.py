"""Selective scan: values against the recurrence written out in float64, and what is special."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from fuel_async.backends.cpu.kernels.base import T4
from fuel_async.dispatch import KernelBindingTable, OpParams
from fuel_async.ir import BackendId, DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Array = npt.NDArray[Any]
Sizes = tuple[int, int, int, int]

#: Largest error, relative to the largest magnitude of the result.
BOUNDS = {DType.F32: 2e-6, DType.F64: 1e-15, DType.BF16: 2**-8, DType.F16: 2**-11 + 1e-5}
SIZES: list[Sizes] = [(1, 1, 1, 1), (2, 7, 5, 3), (1, 33, 2, 16), (3, 2, 40, 1)]


@pytest.fixture
def scan(table: KernelBindingTable) -> Callable[[Sequence[Array], bool], tuple[Array, Array]]:
    """`scan(operands, softplus)`: y and the last state."""

    def run(operands: Sequence[Array], softplus: bool) -> tuple[Array, Array]:
        u, a = operands[0], operands[2]
        (batch, length, channels), states = u.shape, a.shape[1]
        params = OpParams.SelectiveScan(batch, length, channels, states, softplus)
        kernel: Any = table.lookup(OpKind.SelectiveScan, (DType.from_numpy(u.dtype),) * 6, BackendId.CPU)
        scratch = [np.full(n, 255, np.uint8) for n in kernel.scratch(params, [x.shape for x in operands], u.shape)]
        y, last = np.empty(u.shape, u.dtype), np.empty((batch, channels, states), u.dtype)
        function, args = kernel.bind(operands, [y, last], params, scratch)
        function(*args)
        return y, last

    return run


def written_out(operands: Sequence[Array], softplus: bool) -> tuple[Array, Array]:
    """One number at a time."""
    u, delta, a, b, c = (operand.astype(np.float64) for operand in operands)
    (batch, length, channels), states = u.shape, a.shape[1]
    y, h = np.zeros(u.shape), np.zeros((batch, channels, states))
    for i in range(batch):
        for t in range(length):
            for d in range(channels):
                step = np.log1p(np.exp(delta[i, t, d])) if softplus else delta[i, t, d]
                for n in range(states):
                    h[i, d, n] = np.exp(step * a[d, n]) * h[i, d, n] + step * u[i, t, d] * b[i, t, n]
                    y[i, t, d] += c[i, t, n] * h[i, d, n]
    return y, h


def operands_of(sizes: Sizes, dtype: DType, seed: int = 3) -> list[Array]:
    batch, length, channels, states = sizes
    rng, kind = np.random.default_rng(seed), dtype.require_np()
    along, beside = (batch, length, channels), (batch, length, states)
    made = [
        rng.normal(size=along), abs(rng.normal(size=along)), -rng.uniform(0.1, 2, (channels, states)),
        rng.normal(size=beside), rng.normal(size=beside),
    ]  # fmt: skip
    return [value.astype(kind) for value in made]


@pytest.mark.parametrize("dtype", T4, ids=str)
@pytest.mark.parametrize("softplus", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_values(
    scan: Callable[[Sequence[Array], bool], tuple[Array, Array]], sizes: Sizes, dtype: DType, softplus: bool
) -> None:
    operands = operands_of(sizes, dtype)
    if softplus:
        operands[1] *= np.resize([1, -1], operands[1].shape).astype(operands[1].dtype)
    for found, wanted in zip(scan(operands, softplus), written_out(operands, softplus), strict=True):
        error = np.abs(found.astype(np.float64) - wanted).max()
        assert error <= BOUNDS[dtype] * np.abs(wanted).max()


def test_selective_scan_of_one_step(scan: Callable[[Sequence[Array], bool], tuple[Array, Array]]) -> None:
    numbers = [3.0, 1.0, -1.0, 2.0, 0.5]
    operands = [np.full((1, 1) if n == 2 else (1, 1, 1), x, np.float32) for n, x in enumerate(numbers)]
    y, last = scan(operands, False)
    assert (y.tolist(), last.tolist()) == ([[[3]]], [[[6]]])


def test_the_first_step_has_no_state_to_decay(scan: Callable[[Sequence[Array], bool], tuple[Array, Array]]) -> None:
    """0 times infinity is not asked for"""
    operands = operands_of((1, 1, 2, 2), DType.F32)
    operands[1][...], operands[2][...] = 100, 100
    assert all(np.isfinite(found).all() for found in scan(operands, False))


def test_the_softplus_of_large_and_small_numbers(
    scan: Callable[[Sequence[Array], bool], tuple[Array, Array]],
) -> None:
    operands = [np.ones(shape, np.float64) for shape in ((1, 1, 4), (1, 1, 4), (4, 1), (1, 1, 1), (1, 1, 1))]
    operands[1][...] = [1000, -1000, 0, -40]
    y, _ = scan(operands, True)
    assert y.reshape(-1) == pytest.approx([1000, 0, np.log(2), np.exp(-40)], rel=1e-15)


@pytest.mark.parametrize("sizes", [(2, 0, 3, 4), (0, 2, 3, 4), (2, 3, 0, 4), (2, 3, 4, 0)], ids=str)
def test_nothing_to_scan(scan: Callable[[Sequence[Array], bool], tuple[Array, Array]], sizes: Sizes) -> None:
    """no steps leave the state at 0, no states give results of 0"""
    for found in scan(operands_of(sizes, DType.F32), False):
        assert not found.any()
