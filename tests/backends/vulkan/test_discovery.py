"""Finding devices: quiet where there is nothing, the environment's drivers and no others, options that choose."""

from __future__ import annotations

from dataclasses import replace
from glob import glob
from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.backends import Discovery, Found
from fuel_async.backends.base import Absent
from fuel_async.backends.vulkan import BACKEND, discover, open_devices
from fuel_async.backends.vulkan.discovery import physical_devices
from fuel_async.backends.vulkan.driver import Keep, packed, version_of
from fuel_async.backends.vulkan.options import VARIABLE, VulkanOptions
from fuel_async.backends.vulkan.physical import COMPUTE, PhysicalDevice, QueueFamily
from fuel_async.errors import DeviceLost, UserError
from tests.backends.fresh_process import asked, hiding
from tests.backends.vulkan.support import MANIFESTS, options

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuel_async.backends.vulkan.device import VulkanDevice


def ask(hook: str = "", **environment: str) -> Any:
    return asked("fuel_async.backends.vulkan", ("vulkan",), hook, **environment)


def test_importing_the_backend_touches_nothing() -> None:
    early, _ = ask()
    assert early == []


def test_the_environment_says_which_drivers_there_are(driver_name: str) -> None:
    paths = glob(MANIFESTS[driver_name])
    if not paths:
        pytest.skip(f"the driver {driver_name} is not installed")
    _, names = ask(VK_DRIVER_FILES=paths[0], VK_ICD_FILENAMES=paths[0])
    assert len(names) == 1
    assert driver_name in names[0].lower()


def test_no_driver_is_a_reason(tmp_path: Any) -> None:
    _, reason = ask(VK_DRIVER_FILES=str(tmp_path / "none.json"), VK_ICD_FILENAMES=str(tmp_path / "none.json"))
    assert reason == "vkCreateInstance gave incompatible driver (-9)"


def test_no_loader_and_no_package_are_reasons() -> None:
    """An OSError is what the binding raises without a loader, an ImportError what Python does without the binding."""
    for error, words in (("OSError", "the Vulkan loader"), ("ImportError", "the Python package")):
        assert ask(hiding("vulkan", error))[1].startswith(f"{words} is not installed (not here)")


def test_a_device_is_told_with_all_that_matters(device: VulkanDevice) -> None:
    info = device.info
    physical = device.context.physical
    assert info.location.backend.name == "vulkan"
    assert (info.name, info.by_default) == (physical.name, False)
    for word in ("software", physical.driver_name, physical.uuid, "Vulkan 1.", "1 queues"):
        assert word in info.detail
    assert info.total_nbytes == physical.total_nbytes > 1 << 28


def test_software_devices_are_used_only_where_they_are_named(device: VulkanDevice) -> None:
    found = Discovery((Found(BACKEND, device.info), Found(BACKEND, replace(device.info, by_default=True))), {})
    assert found.select(None) == found.found[1:]
    assert found.select((device.location,))[0].info.location == device.location


def test_the_order_of_devices_is_their_own(device: VulkanDevice) -> None:
    """Whatever order the loader has: better kinds first, and by identity among them."""
    physical = device.context.physical
    kinds = ["software", "other", "virtual", "integrated", "discrete"]
    some = [replace(physical, kind=kind, uuid=uuid) for kind in kinds for uuid in ("b", "a")]
    ordered = sorted(some, key=lambda one: one.order)
    assert [one.kind for one in ordered[::2]] == ["discrete", "integrated", "virtual", "other", "software"]
    assert all(before.uuid < after.uuid for before, after in zip(ordered[::2], ordered[1::2], strict=True))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda one: replace(one, version=(1, 1)), "at least 1.2 is needed"),
        (lambda one: replace(one, limits=replace(one.limits, features=frozenset())), "no timeline semaphores"),
        (lambda one: replace(one, families=(QueueFamily(0, 0x4, 1),)), "no queue that computes"),
        (lambda one: one, None),
    ],
)
def test_a_device_that_cannot_be_used_says_why(
    device: VulkanDevice, change: Callable[[PhysicalDevice], PhysicalDevice], why: str | None
) -> None:
    lacks = change(device.context.physical).lacks
    assert lacks is None if why is None else lacks is not None and why in lacks


def test_queues_for_nothing_but_computing_are_preferred(device: VulkanDevice) -> None:
    plain, alone, copies = QueueFamily(0, 0x7, 16), QueueFamily(1, COMPUTE | 0x4, 8), QueueFamily(2, 0x4, 2)
    assert replace(device.context.physical, families=(plain, copies)).compute_family == plain
    assert replace(device.context.physical, families=(copies, plain, alone)).compute_family == alone


def test_the_filter_and_the_number_of_logical_devices(device: VulkanDevice) -> None:
    word = device.info.name[:8].upper()
    found = discover(options(devices=(word,), logical=3))
    assert not isinstance(found, Absent)
    assert [str(one.location) for one in found] == ["vulkan:0", "vulkan:1", "vulkan:2"]
    assert {one.name for one in found} == {device.info.name}
    missing = physical_devices(options(devices=("no such device",)))
    assert isinstance(missing, Absent)
    assert device.info.name in missing.reason
    with pytest.raises(DeviceLost, match="fits no such device"):
        open_devices(options(devices=("no such device",)))


def test_options_are_read_from_the_environment() -> None:
    text = "devices=llvm*, swift ; logical=2; staged=1;deadline_s=2.5; validation=0; queues=1"
    read = VulkanOptions.from_environment({VARIABLE: text})
    assert read == VulkanOptions(("llvm*", "swift"), 2, 1, staged=True, validation=False, deadline_s=2.5)
    assert VulkanOptions.from_environment({}) == VulkanOptions()


@pytest.mark.parametrize("text", ["speed=3", "logical=two", "logical=0", "deadline_s=-1"])
def test_options_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(UserError):
        VulkanOptions.from_environment({VARIABLE: text})


def test_versions_are_packed_as_the_driver_packs_them() -> None:
    assert (packed((1, 2)), version_of(packed((1, 3)) | 275)) == (4202496, (1, 3))


def test_structs_keep_what_they_point_to_alive(device: VulkanDevice) -> None:
    """The pointers in a struct keep nothing: names and priorities would be read after they were freed."""
    driver = device.context.driver
    keep = Keep(driver.ffi, driver.lib)
    stages = [
        keep.struct("PipelineShaderStageCreateInfo", "PIPELINE_SHADER_STAGE_CREATE_INFO", pName=keep.text(f"main{at}"))
        for at in range(200)
    ]
    queues = [
        keep.struct("DeviceQueueCreateInfo", "DEVICE_QUEUE_CREATE_INFO", pQueuePriorities=keep.array("float", [0.75]))
        for _ in range(200)
    ]
    [bytearray(64) for _ in range(10_000)]  # something to overwrite freed memory with
    assert [driver.ffi.string(stage.pName).decode() for stage in stages] == [f"main{at}" for at in range(200)]
    assert {queue.pQueuePriorities[0] for queue in queues} == {0.75}
