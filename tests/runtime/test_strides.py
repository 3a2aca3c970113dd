"""Kernels that read no strides are given row-major operands, on lanes and by the walker alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.ir import BackendId, OpKind
from fuel_async.registry import bindings, bump_topology_generation, extend_global_bindings
from fuel_async.storage import as_array, cpu_input, cpu_output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuel_async.dispatch import KernelBindingTable


def flat_add(inputs: Any, outputs: Any, layouts: Any, params: Any) -> None:
    """Add two storages element by element in the order of their bytes, whatever their layouts say."""
    np.add(cpu_input(inputs[0]), cpu_input(inputs[1]), out=cpu_output(outputs[0]))


@pytest.fixture
def flat_adder() -> Iterator[None]:
    def register(table: KernelBindingTable) -> None:
        table.register(OpKind.AddElementwise, (fa.i32, fa.i32, fa.i32), BackendId.CPU, flat_add)

    store = bindings._BINDINGS
    before = store.snapshot()
    extend_global_bindings(register)
    yield
    store._table = before
    bump_topology_generation()


async def test_strided_operands_are_copied_for_a_kernel_that_reads_none(ex: fa.Executor, flat_adder: None) -> None:
    g = fa.Graph()
    a, b = g.input("a", (2, 3), fa.i32), g.input("b", (3, 2), fa.i32)
    y = a.T + b
    g.output("y", y)
    feeds = {"a": np.arange(6, dtype=np.int32).reshape(2, 3), "b": np.ones((3, 2), np.int32)}
    wanted = feeds["a"].T + feeds["b"]
    storage, layout = await fa.PipelinedExecutor(ex).realize(g, y, feeds)
    np.testing.assert_array_equal(as_array(storage, layout), wanted)
    np.testing.assert_array_equal((await ex.run(g, feeds))["y"], wanted)
