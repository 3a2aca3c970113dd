"""What is recorded: barriers where one dispatch depends on another and nowhere else; pipelines made once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.dispatch import SlotClass
from fuel_async.errors import InternalError, KernelFailed
from tests.backends.grids.devices import PATIENCE_S, planned, put, values
from tests.backends.vulkan.support import FaultyLib

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
