"""A logical device: its handle, its queues, what is shared by all that works on it, and its loss.

Everything of the driver's that lives as long as the device is destroyed with the context, which ends with its last
holder: an array that a caller keeps holds it, too. Of a lost device nothing is destroyed before that, since work may
still be under way; of one that hangs nothing ever is.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from fuel_async.backends.losing import Losable
from fuel_async.backends.vulkan.driver import Keep
from fuel_async.backends.vulkan.physical import FEATURES, PhysicalDevice, feature_structs
from fuel_async.backends.vulkan.results import DEVICE_LOST, SUCCESS, error_of
from fuel_async.errors import DeviceError, DeviceLost

if TYPE_CHECKING:
    from fuel_async.backends.vulkan.options import VulkanOptions
    from fuel_async.ir import DeviceLocation


class Context(Losable):
    """One VkDevice. Any thread."""

    def __init__(
        self, physical: PhysicalDevice, location: DeviceLocation, options: VulkanOptions, lib: Any = None
    ) -> None:
        """Make the device. `DeviceError` when the driver refuses. `lib` stands in for the driver's functions."""
        super().__init__()
        self.physical, self.location, self.options = physical, location, options
        self.driver = physical.driver
        self.ffi, self.lib = self.driver.ffi, lib or self.driver.lib
        self.name = str(location)
        family = physical.compute_family
        assert family is not None  # discovery offers no other
        self.family = family.number
        self.queue_count = min(family.count, options.queues)
        self.handle = self._create()
        #: What is to be destroyed before the device, in order: (function, handle).
        self._children: list[tuple[Any, Any]] = []
        self._fate = _Fate()
        #: The same for what was given up after the loss.
        self._graves: list[tuple[Any, Any]] = []
        self._end = weakref.finalize(
            self, _destroy, self.ffi, self.lib, self.handle, self._children, self._graves, self._fate, self.driver
        )
        self._end.atexit = False

    # --- calling ----------------------------------------------------------------------------------

    def check(self, code: int, call: str, nbytes: int = 0, budget_nbytes: int = 0) -> None:
        """Raise what a result code means, unless it is success; a loss of the device is noted."""
        if code != SUCCESS:
            raise self.failed(code, call, nbytes, budget_nbytes)

    def failed(self, code: int, call: str, nbytes: int = 0, budget_nbytes: int = 0) -> DeviceError:
        """The error of a failed call; a loss of the device is noted."""
        error = error_of(self.name, call, code, nbytes, budget_nbytes)
        if code == DEVICE_LOST:
            assert isinstance(error, DeviceLost)
            self.lose(error)
        return error

    def create(self, call: str, info: Any, kind: str, *, child: str = "") -> Any:
        """Make an object by `vkCreate…`; `child` is what destroys it with the context, for those that live as long."""
        found = self.ffi.new(f"{kind} *")
        self.check(getattr(self.lib, call)(self.handle, info, self.ffi.NULL, found), call)
        if child:
            self.own(child, found[0])
        return found[0]

    def own(self, destroy: str, handle: Any) -> None:
        """Have `handle` destroyed with the context; what was noted last goes first."""
        self._children.append((getattr(self.lib, destroy), handle))

    def end_with(self, owner: object, destroy: str, handle: Any) -> None:
        """Have `handle` destroyed with its owner; the context lives until then."""
        weakref.finalize(owner, self.destroy, getattr(self.lib, destroy), handle).atexit = False

    def destroy(self, destroy: Any, handle: Any) -> None:
        """Destroy what nobody refers to any more: now, or after the loss with the context."""
        if self.lost is None:
            destroy(self.handle, handle, self.ffi.NULL)
        else:
            self._graves.append((destroy, handle))

    def keep(self) -> Keep:
        """A maker of structs."""
        return Keep(self.ffi, self.lib)

    @property
    def hangs(self) -> bool:
        """Whether it was lost with work that may go on: then nothing of it is ever destroyed."""
        return self._fate.hangs

    # --- loss -------------------------------------------------------------------------------------

    def lose(self, error: DeviceLost, *, hangs: bool = False) -> None:
        """Note that the device is lost, once, and tell who wants to know. With `hangs` it is never destroyed."""
        with self.lock:
            self._fate.hangs = self._fate.hangs or hangs
            if self.lost is not None:
                return
            self.lost = error
        for tell in self.to_tell():
            tell()

    # --- inside -----------------------------------------------------------------------------------

    def _create(self) -> Any:
        physical, keep, ffi = self.physical, self.keep(), self.ffi
        queues = keep.struct(
            "DeviceQueueCreateInfo",
            "DEVICE_QUEUE_CREATE_INFO",
            queueFamilyIndex=self.family,
            queueCount=self.queue_count,
            pQueuePriorities=keep.array("float", [1.0] * self.queue_count),
        )
        info = keep.struct(
            "DeviceCreateInfo",
            "DEVICE_CREATE_INFO",
            pNext=self._wanted_features(keep),
            queueCreateInfoCount=1,
            pQueueCreateInfos=queues,
        )
        found = ffi.new("VkDevice *")
        self.check(self.lib.vkCreateDevice(physical.handle, info, ffi.NULL, found), "vkCreateDevice")
        return found[0]

    def _wanted_features(self, keep: Keep) -> Any:
        """Of the features that there are those that kernels may need, and no others."""
        there = feature_structs(self.driver, self.physical.handle, keep)
        twelve = keep.struct("PhysicalDeviceVulkan12Features", "PHYSICAL_DEVICE_VULKAN_1_2_FEATURES")
        eleven = keep.struct("PhysicalDeviceVulkan11Features", "PHYSICAL_DEVICE_VULKAN_1_1_FEATURES", pNext=twelve)
        core = keep.struct("PhysicalDeviceFeatures2", "PHYSICAL_DEVICE_FEATURES_2", pNext=eleven)
        wanted = {"core": core.features, "11": eleven, "12": twelve}
        for place, words in FEATURES.items():
            source = there[place].features if place == "core" else there[place]
            for field in words.values():
                setattr(wanted[place], field, getattr(source, field))
        return core


class _Fate:
    """What becomes of the handle."""

    __slots__ = ("hangs",)

    def __init__(self) -> None:
        self.hangs = False


def _destroy(
    ffi: Any,
    lib: Any,
    handle: Any,
    children: list[tuple[Any, Any]],
    graves: list[tuple[Any, Any]],
    fate: _Fate,
    driver: object,
) -> None:
    if fate.hangs:
        return
    lib.vkDeviceWaitIdle(handle)
    for destroy, child in (*graves, *reversed(children)):
        destroy(handle, child, ffi.NULL)
    lib.vkDestroyDevice(handle, ffi.NULL)
