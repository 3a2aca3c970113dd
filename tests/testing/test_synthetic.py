"""The op that only takes time goes the way of every op."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fuel_async as fa
from fuel_async.backends.sim import REFERENCE, SimDeviceSpec, SimMachine
from fuel_async.backends.sim.spec import scaled
from fuel_async.dispatch import GivenParams, KernelBindingTable, OpParams
from fuel_async.errors import KernelArgumentError, UserError
from fuel_async.ir import CPU_DEVICE, DType, OpKind
from fuel_async.plan import Target, make_plan
from fuel_async.registry import global_bindings, topology_generation
from fuel_async.runtime import PipelinedExecutor
from fuel_async.storage import as_array
from fuel_async.testing import Synthetic, register_synthetic_kernel, synthetic_op
from fuel_async.testing.synthetic import KERNEL, SYNTHETIC, mix
from tests.backends.sim.support import on

U8 = DType.U8


def diamond(cost_ns: int = 100_000) -> fa.Graph:
    """x -> a, b -> y, of different sizes."""
    graph = fa.Graph("diamond")
    x = graph.input("x", (5, 3))
    a = synthetic_op(graph, [x], cost_ns=cost_ns, nbytes=100)
    b = synthetic_op(graph, [x, a], cost_ns=2 * cost_ns, nbytes=7)
    graph.output("y", synthetic_op(graph, [a, b], cost_ns=cost_ns, nbytes=12))
    return graph


def test_a_node_is_typed_and_described() -> None:
    frozen = diamond().freeze()
    node = frozen.outputs["y"]
    assert str(frozen.types[node]) == "u8[12]"
    text = frozen.describe(node)
    assert "synthetic(" in text
    assert "Synthetic(cost_ns=100000, nbytes=12, own_ns=())" in text


@pytest.mark.parametrize("wrong", [{"cost_ns": -1}, {"nbytes": -1}, {"own_ns": {CPU_DEVICE: -1}}])
def test_negative_numbers_are_refused(wrong: dict[str, Any]) -> None:
    graph = fa.Graph()
    with pytest.raises(UserError, match="a synthetic op cannot"):
        synthetic_op(graph, [graph.input("x", (1,))], **({"cost_ns": 1, "nbytes": 1} | wrong))


@pytest.mark.parametrize("speed", [0.5, 1.0, 4.0])
def test_it_is_planned_at_its_cost_divided_by_the_speed(speed: float) -> None:
    (device,) = SimMachine([SimDeviceSpec(speed=speed)]).devices
    plan = make_plan(diamond().freeze(), Target(global_bindings(), device.capabilities, device.rates))
    assert device.rates == scaled(REFERENCE, speed)
    assert plan.predicted_ns == int(400_000 / speed)
    assert plan.kernels == 3


async def test_executor_walker_and_simulated_device_give_the_same_bits() -> None:
    graph, x = diamond(), np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
    async with fa.Executor() as executor:
        ran = (await executor.run(graph, x=x))["y"]
        walked = await PipelinedExecutor(executor).realize(graph, "y", {"x": x})

    (device,) = SimMachine([SimDeviceSpec()]).devices
    plan = make_plan(graph.freeze(), Target(global_bindings(), device.capabilities, device.rates))
    arena, output = device.memory.allocate(plan.arena_nbytes), device.memory.allocate_array((12,), U8)
    handles = []
    for region in plan.regions:
        instance = device.instantiate(region.program, [], arena)
        feeds, outputs = [on(device, x) for _ in region.program.feeds], [output for _ in region.program.outputs]
        handles.append(device.lanes[0].submit(instance, feeds, outputs))
    assert handles[-1].wait().finished_ns == 400_000
    assert np.array_equal(output, ran)
    assert np.array_equal(output, as_array(*walked))


def test_the_kernel_is_published_once() -> None:
    diamond()
    before = topology_generation()
    diamond()
    assert topology_generation() == before
    table = KernelBindingTable()
    register_synthetic_kernel(table)
    count = len(table)
    register_synthetic_kernel(table)
    assert len(table.finalize()) == count
    assert table.backend_supports(OpKind.RuntimeFused, (DType.BF16, U8), CPU_DEVICE.backend)


def test_a_device_may_have_a_time_of_its_own() -> None:
    params = OpParams.Given(Synthetic(1_000, 4, ((3, 50), (4, 0))))
    at = [fa.ir.DeviceLocation.parse(f"sim:{ordinal}") for ordinal in (3, 4, 5)]
    assert [KERNEL.simulated_ns(params, location) for location in at] == [50, 1, None]


@pytest.mark.parametrize("params", [OpParams.NONE, OpParams.Given((1, 2, ()))])
def test_it_takes_its_own_parameters_only(params: OpParams) -> None:
    with pytest.raises(KernelArgumentError, match="synthetic: the parameters"):
        KERNEL.bind([], [], params, [])


def test_its_parameters_reach_it_through_dispatch() -> None:
    frozen = diamond().freeze()
    types = [frozen.types[arg] for arg in frozen.args[frozen.outputs["y"]]]
    node = frozen.outputs["y"]
    params = fa.dispatch.derive_params(SYNTHETIC, frozen.attrs[node], types, frozen.types[node])
    assert params == GivenParams(Synthetic(100_000, 12, ()))
    assert fa.dispatch.kernel_dtypes(SYNTHETIC, types, frozen.types[node]) == (U8, U8)


# --- its value ---


def mixed(inputs: list[bytes], nbytes: int, salt: int = 5) -> bytes:
    output = np.empty(nbytes, np.uint8)
    mix([np.frombuffer(given, np.uint8) for given in inputs], output, salt)
    return output.tobytes()


@given(st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=4), st.integers(1, 12), st.data())
def test_every_byte_of_every_operand_counts(inputs: list[bytes], nbytes: int, data: st.DataObject) -> None:
    which = data.draw(st.integers(0, len(inputs) - 1))
    at = data.draw(st.integers(0, len(inputs[which]) - 1))
    changed = bytearray(inputs[which])
    changed[at] ^= data.draw(st.integers(1, 255))
    others = [*inputs[:which], bytes(changed), *inputs[which + 1 :]]
    assert mixed(inputs, nbytes) == mixed(inputs, nbytes)
    assert mixed(inputs, nbytes) != mixed(others, nbytes)


def test_the_order_of_operands_and_the_node_count() -> None:
    assert mixed([b"ab", b"cd"], 4) != mixed([b"cd", b"ab"], 4)
    assert mixed([b"ab"], 4, 5) != mixed([b"ab"], 4, 6)


def test_nothing_and_strides_are_fine() -> None:
    assert mixed([b"ab"], 0) == b""
    assert mixed([b""], 3) == mixed([b"\0"], 3)
    wide = np.arange(12, dtype=np.float32).reshape(3, 4)
    outputs = [np.empty(5, np.uint8) for _ in range(2)]
    mix([wide.T], outputs[0], 1)
    mix([np.ascontiguousarray(wide.T)], outputs[1], 1)
    assert np.array_equal(outputs[0], outputs[1])
