"""What is recorded: barriers where one dispatch depends on another and nowhere else; pipelines made once."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.backends.vulkan.operands import Bound, Hazards, bound
from fuel_async.dispatch import MatmulParams, NoParams, SlotClass
from fuel_async.errors import InternalError, KernelArgumentError, KernelFailed, StorageBusy
from fuel_async.ir import BackendId, DType, Layout, OpKind
from fuel_async.registry import global_bindings
from fuel_async.storage import read_storage, stored
from tests.backends.vulkan.support import PATIENCE_S, FaultyLib, planned, put, values

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.backends.vulkan.device import VulkanDevice
    from fuel_async.backends.vulkan.instance import VulkanInstance


def made(device: VulkanDevice, build: Callable[[fa.Graph], None]) -> VulkanInstance:
    (region,) = planned(device, build).regions
    return device.instantiate(region.program, [])


def test_barriers_stand_where_one_kernel_reads_what_another_wrote(device: VulkanDevice) -> None:
    def build(g: fa.Graph) -> None:
        x = g.input("x", (16, 16), fa.f32)
        g.output("y", ((x @ x) @ x) @ x)

    assert (made(device, build).dispatches, made(device, build).barriers) == (3, 2)


def test_kernels_that_share_nothing_need_no_barrier(device: VulkanDevice) -> None:
    def build(g: fa.Graph) -> None:
        x = g.input("x", (16, 16), fa.f32)
        for number in range(5):
            g.output(f"y{number}", x @ g.input(f"z{number}", (16, 16), fa.f32))

    assert (made(device, build).dispatches, made(device, build).barriers) == (5, 0)


def _piece(space: int, low: int, high: int) -> Bound:
    made = bound(DType.U8, Layout.contiguous((high - low,)), (2, space), low, 16, LIMITS)
    assert (made.low, made.high) == (low, high)
    return made


LIMITS: Any = type("Limits", (), {"max_range_nbytes": 1 << 20})


def test_hazards_agree_with_looking_at_every_byte() -> None:
    chance = random.Random(3)
    for _ in range(200):
        hazards, read, written = Hazards(), set[tuple[int, int]](), set[tuple[int, int]]()
        for _ in range(30):
            pieces = []
            for _ in range(3):
                low = chance.randrange(64)
                pieces.append(_piece(chance.randrange(2), low, low + chance.randint(0, 8)))
            *reads, write = pieces
            touched = [{(one.space[1], at) for at in range(one.low, one.high)} for one in pieces]
            due = bool(written & (touched[0] | touched[1] | touched[2])) or bool(read & touched[2])
            assert hazards.step(reads, [write]) == due
            if due:
                read, written = set(), set()
            read |= touched[0] | touched[1]
            written |= touched[2]


@pytest.mark.parametrize(("shape", "strides", "offset"), [((3, 4), (4, 1), 0), ((3,), (-2,), 9), ((2, 0), (1, 1), 5)])
def test_an_operand_touches_the_bytes_of_its_elements(
    shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> None:
    layout = Layout(shape, strides, offset)
    found = bound(DType.F32, layout, (2, 0), 512 + 8, 256, LIMITS)
    span = layout.span()
    assert found.start % 256 == 0
    assert found.nbytes % 4 == 0
    assert found.nbytes >= 4
    first = found.start + 4 * found.operand.offset
    assert first == 520 + 4 * offset
    if span is not None:
        assert (found.low, found.high) == (520 + 4 * span[0], 520 + 4 * span[1] + 4)
        assert found.start <= found.low
        assert found.high <= found.start + found.nbytes


def test_an_operand_larger_than_a_shader_may_see_is_refused(device: VulkanDevice) -> None:
    most = device.site.limits.max_range_nbytes

    def build(g: fa.Graph) -> None:
        g.output("y", g.input("x", (most // 4 + 1,), fa.f32))

    with pytest.raises(KernelFailed, match="on this device"):
        made(device, build)


def test_equal_shaders_are_one_pipeline(make: Callable[..., VulkanDevice]) -> None:
    lib = FaultyLib()
    device = make(lib)

    def build(g: fa.Graph) -> None:
        x = g.input("x", (16, 16), fa.f32)
        g.output("y", ((x @ x) @ x) @ x)

    for _ in range(3):
        made(device, build)
    assert lib.calls["vkCreateComputePipelines"] == len(device.site.pipelines) == 1


def test_the_wrong_number_of_arrays_is_a_bug(device: VulkanDevice) -> None:
    def build(g: fa.Graph) -> None:
        g.output("y", g.input("x", (4,), fa.f32))

    with pytest.raises(InternalError, match="2 arrays must be given"):
        device.lanes[0].submit(made(device, build), [], []).wait(PATIENCE_S)


def matmul() -> Any:
    return global_bindings().lookup(OpKind.MatMul, (DType.F32, DType.F32, DType.F32), BackendId.VULKAN)


def test_a_kernel_can_be_called_once_over_storages(device: VulkanDevice) -> None:
    a, b = values(12).reshape(3, 4), values(20, 1).reshape(4, 5)
    there = [stored(put(device, array), device.location) for array in (a, b, np.zeros((3, 5), np.float32))]
    layouts = [Layout.contiguous(shape) for shape in ((3, 4), (4, 5), (3, 5))]
    params = MatmulParams((), (), 3, 5, 4)
    matmul()(there[:2], there[2:], layouts, params)
    np.testing.assert_allclose(there[2].buffer.read(), a @ b, rtol=1e-5, atol=1e-6)
    with read_storage(there[2]), pytest.raises(StorageBusy):
        matmul()(there[:2], there[2:], layouts, params)


def test_a_kernel_refuses_storages_of_the_host(device: VulkanDevice) -> None:
    there = [stored(np.zeros((2, 2), np.float32), device.location) for _ in range(3)]
    with pytest.raises(KernelArgumentError, match="host_bytes"):
        matmul()(there[:2], there[2:], [Layout.contiguous((2, 2))] * 3, NoParams())


def test_numbers_of_a_submission_are_no_part_of_the_recording(make: Callable[..., VulkanDevice], staged: bool) -> None:
    """y = x * s, where s is given as a scalar: it changes from run to run, and nothing is recorded for that."""
    device = make(staged=staged)

    def build(g: fa.Graph) -> None:
        g.output("y", g.input("x", (64,), fa.f32) * g.input("s", (), fa.f32))

    (region,) = planned(device, build).regions
    program = region.program
    classes, places = bytearray(program.slots.classes), list(program.slots.places)
    for slot in range(len(classes)):
        if (classes[slot], places[slot]) == (SlotClass.FEED, 1):
            classes[slot], places[slot] = SlotClass.SCALAR, 0
    slots = replace(program.slots, classes=classes, places=places)
    instance = device.instantiate(replace(program, slots=slots, ports=((0,), (0,), (), (0,))), [])
    x, y = put(device, values(64)), put(device, np.zeros(64, np.float32))
    for number in (2.0, -1.5, 0.0):
        device.lanes[0].submit(instance, [x], [y], scalars=[number]).wait(PATIENCE_S)
        np.testing.assert_array_equal(y.read(), values(64) * np.float32(number))
    assert instance.recordings == 1
