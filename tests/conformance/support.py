"""Kernels that are wrong on purpose, put in the place of the host's."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from fuel_async.backends.cpu.kernels.base import HostKernel
from fuel_async.dispatch import KernelBindingTable
from fuel_async.registry import bindings, bump_topology_generation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from fuel_async.ir import OpKind

    Array = NDArray[Any]
    #: (the right kernel on an output, inputs, output): writes what is wrong.
    Wrong = Callable[[Callable[[Array], None], Sequence[Array], Array], object]


@contextmanager
def in_place_of(kind: OpKind, wrong: Wrong) -> Iterator[None]:
    """The host's kernels of a kind are wrong in this way."""
    store = bindings._BINDINGS
    before = store.snapshot()
    table = KernelBindingTable()
    for op, dtypes, backend, entry in before.iter_entries():
        kernel: Any = entry.kernel
        if op is kind and isinstance(kernel, HostKernel):
            kernel = replace(kernel, rule=_spoiled(kernel, wrong), direct=None)
        table.register(
            op, dtypes, backend, kernel, caps=entry.caps, precision=entry.precision, cost=entry.cost,
            kernel_source=entry.kernel_source,
        )  # fmt: skip
    store._table = table.finalize()
    bump_topology_generation()
    try:
        yield
    finally:
        store._table = before
        bump_topology_generation()


def _spoiled(kernel: HostKernel, wrong: Wrong) -> Any:
    def rule(inputs: Sequence[Array], output: Array, params: Any, scratch: Sequence[Array]) -> Any:
        kernel.rule(inputs, output, params, scratch)  # refuses what does not fit

        def call(*operands: Array) -> None:
            *given, out = operands

            def right(into: Array) -> None:
                function, args = kernel.rule(given, into, params, scratch)
                function(*args)

            wrong(right, given, out)

        return call, (*inputs, output)

    return rule


def then(spoil: Callable[[Sequence[Array], Array], object]) -> Wrong:
    """Right at first, and spoiled afterwards."""

    def wrong(right: Callable[[Array], None], given: Sequence[Array], out: Array) -> None:
        right(out)
        spoil(given, out)

    return wrong


def plainly(f: Callable[..., Array]) -> Wrong:
    """A formula of the inputs."""

    def wrong(right: Callable[[Array], None], given: Sequence[Array], out: Array) -> None:
        out[...] = f(*given)

    return wrong


def unstrided(value: Array) -> Array:
    """What lies in memory from the value's first element on, as if it were row-major."""
    if 0 in value.shape or not value.ndim or value.base is None or min(value.strides) < 0:
        return value
    inside = np.empty(value.shape, value.dtype).strides
    reach = sum((size - 1) * stride for size, stride in zip(value.shape, value.strides, strict=True))
    if reach < value.nbytes - value.itemsize:
        return value
    return as_strided(value, value.shape, inside)


def beyond_a_block(given: Sequence[Array], out: Array) -> None:
    """The last elements of a large result are left as they were."""
    if out.size > 65_536:
        out.reshape(-1)[65_536:] = 0


def without_duplicates(given: Sequence[Array], out: Array) -> None:
    """Of what meets in one place, the last alone is added."""
    base, index, source = given
    for axis in range(base.ndim):
        if (*base.shape[:axis], index.size, *base.shape[axis + 1 :]) == source.shape:
            out[...] = base
            place: Any = (*(slice(None),) * axis, index)
            out[place] = base[place] + source
            return


def written_over(given: Sequence[Array], out: Array) -> None:
    """The operand is written, too."""
    if given[0].flags.writeable:
        given[0][...] = out


def unsteady() -> Wrong:
    """Within the bounds, and another result at each call."""
    calls = count()
    return then(lambda given, out: np.multiply(out, 1 + next(calls) % 2 * 2e-7, out))
