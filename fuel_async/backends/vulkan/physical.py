"""Physical devices as data: limits, features, memory, queues, driver, and what each lacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fuel_async.backends.grids.kernel import Limits
from fuel_async.backends.vulkan.driver import LEAST_VERSION, Driver, Keep, version_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: By VkPhysicalDeviceType: the word, and how early in the order of devices.
KINDS: Mapping[int, tuple[str, int]] = {
    0: ("other", 3),
    1: ("integrated", 1),
    2: ("discrete", 0),
    3: ("virtual", 2),
    4: ("software", 4),
}
SOFTWARE = "software"

#: Feature words and the fields that grant them, by the struct that has them.
FEATURES: Mapping[str, Mapping[str, str]] = {
    "core": {"float64": "shaderFloat64", "int64": "shaderInt64", "int16": "shaderInt16"},
    "11": {"int16_storage": "storageBuffer16BitAccess"},
    "12": {
        "float16": "shaderFloat16",
        "int8": "shaderInt8",
        "int8_storage": "storageBuffer8BitAccess",
        "timeline": "timelineSemaphore",
        "host_query_reset": "hostQueryReset",
        "vulkan_memory_model": "vulkanMemoryModel",
        "scalar_block": "scalarBlockLayout",
    },
}

#: Feature words of properties: what floats keep, by the field of the float controls.
FLOAT_CONTROLS: Mapping[str, str] = {
    "nan_preserve_f16": "shaderSignedZeroInfNanPreserveFloat16",
    "nan_preserve_f32": "shaderSignedZeroInfNanPreserveFloat32",
    "nan_preserve_f64": "shaderSignedZeroInfNanPreserveFloat64",
    "denorm_preserve_f16": "shaderDenormPreserveFloat16",
    "denorm_preserve_f32": "shaderDenormPreserveFloat32",
    "denorm_preserve_f64": "shaderDenormPreserveFloat64",
    "round_even_f16": "shaderRoundingModeRTEFloat16",
    "round_even_f32": "shaderRoundingModeRTEFloat32",
    "round_even_f64": "shaderRoundingModeRTEFloat64",
}

#: Feature words of subgroups, by the bit of the operations.
SUBGROUP: Mapping[str, int] = {"subgroup_basic": 0x1, "subgroup_arithmetic": 0x4, "subgroup_shuffle": 0x10}

COMPUTE = 0x2
DEVICE_LOCAL, HOST_VISIBLE, HOST_COHERENT, HOST_CACHED = 0x1, 0x2, 0x4, 0x8


@dataclass(frozen=True, slots=True)
class MemoryType:
    """One kind of memory: its flags, its heap, and that heap's size."""

    number: int
    flags: int
    heap: int
    heap_nbytes: int

    def has(self, flags: int) -> bool:
        """Whether it has all of these flags."""
        return self.flags & flags == flags


@dataclass(frozen=True, slots=True)
class QueueFamily:
    """Queues of one kind."""

    number: int
    flags: int
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class PhysicalDevice:
    """What a driver says of one device. Immutable; `driver` keeps the handle valid."""

    driver: Driver
    handle: Any
    name: str
    kind: str
    version: tuple[int, int]
    driver_id: int
    driver_name: str
    driver_info: str
    uuid: str
    limits: Limits
    #: Alignment of what is bound to a shader, and the most that one allocation may have.
    alignment: int
    max_allocation_nbytes: int
    memory_types: tuple[MemoryType, ...]
    families: tuple[QueueFamily, ...]

    @property
    def lacks(self) -> str | None:
        """Why it cannot be used; None when it can."""
        if self.version < LEAST_VERSION:
            return f"{self.name} offers Vulkan {self.version[0]}.{self.version[1]}, at least 1.2 is needed"
        if "timeline" not in self.limits.features:
            return f"{self.name} has no timeline semaphores; update its driver"
        if self.compute_family is None:
            return f"{self.name} has no queue that computes"
        return None

    @property
    def compute_family(self) -> QueueFamily | None:
        """The queues to compute on: those for nothing but computing where there are such."""
        fit = [family for family in self.families if family.flags & COMPUTE and family.count]
        return min(fit, key=lambda family: (family.flags.bit_count(), -family.count), default=None)

    @property
    def is_software(self) -> bool:
        """Whether it is the host's processor in disguise."""
        return self.kind == SOFTWARE

    @property
    def total_nbytes(self) -> int:
        """The size of its largest heap of memory of its own."""
        return max(
            (kind.heap_nbytes for kind in self.memory_types if kind.has(DEVICE_LOCAL)),
            default=max((kind.heap_nbytes for kind in self.memory_types), default=0),
        )

    @property
    def order(self) -> tuple[int, int, str, str]:
        """What devices are sorted by: the loader's order changes from run to run."""
        rank = next(rank for word, rank in KINDS.values() if word == self.kind)
        return rank, self.driver_id, self.uuid, self.name


def look_at(driver: Driver, handle: Any) -> PhysicalDevice:
    """Read everything off a physical device."""
    lib, keep = driver.lib, Keep(driver.ffi, driver.lib)
    plain = keep.struct("PhysicalDeviceProperties")
    lib.vkGetPhysicalDeviceProperties(handle, plain)
    version = version_of(plain.apiVersion)
    name = driver.ffi.string(plain.deviceName).decode(errors="replace")
    kind = KINDS.get(plain.deviceType, KINDS[0])[0]
    memory_types, families = tuple(_memory_types(driver, handle, keep)), tuple(_families(driver, handle))
    if version < LEAST_VERSION:
        nothing = Limits(0, (0, 0, 0), 0, 0, frozenset(), 0)
        return PhysicalDevice(
            driver, handle, name, kind, version, 0, "", "", "", nothing, 256, 0, memory_types, families
        )
    eleven = keep.struct("PhysicalDeviceVulkan11Properties", "PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES")
    twelve = keep.struct("PhysicalDeviceVulkan12Properties", "PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES", pNext=eleven)
    all_of_it = keep.struct("PhysicalDeviceProperties2", "PHYSICAL_DEVICE_PROPERTIES_2", pNext=twelve)
    lib.vkGetPhysicalDeviceProperties2(handle, all_of_it)
    limits = all_of_it.properties.limits
    return PhysicalDevice(
        driver=driver,
        handle=handle,
        name=name,
        kind=kind,
        version=version,
        driver_id=twelve.driverID,
        driver_name=driver.ffi.string(twelve.driverName).decode(errors="replace"),
        driver_info=driver.ffi.string(twelve.driverInfo).decode(errors="replace"),
        uuid=bytes(eleven.deviceUUID).hex(),
        limits=Limits(
            max_invocations=min(limits.maxComputeWorkGroupInvocations, *limits.maxComputeWorkGroupSize[0:2]),
            max_groups=tuple(limits.maxComputeWorkGroupCount),
            shared_nbytes=limits.maxComputeSharedMemorySize,
            subgroup=eleven.subgroupSize,
            features=frozenset(_features(driver, handle, eleven, twelve)),
            max_range_nbytes=limits.maxStorageBufferRange,
        ),
        alignment=max(256, limits.minStorageBufferOffsetAlignment),
        max_allocation_nbytes=eleven.maxMemoryAllocationSize,
        memory_types=memory_types,
        families=families,
    )


def feature_structs(driver: Driver, handle: Any, keep: Keep) -> dict[str, Any]:
    """The features that a device has, as structs chained from "core"."""
    twelve = keep.struct("PhysicalDeviceVulkan12Features", "PHYSICAL_DEVICE_VULKAN_1_2_FEATURES")
    eleven = keep.struct("PhysicalDeviceVulkan11Features", "PHYSICAL_DEVICE_VULKAN_1_1_FEATURES", pNext=twelve)
    core = keep.struct("PhysicalDeviceFeatures2", "PHYSICAL_DEVICE_FEATURES_2", pNext=eleven)
    driver.lib.vkGetPhysicalDeviceFeatures2(handle, core)
    return {"core": core, "11": eleven, "12": twelve}


def _features(driver: Driver, handle: Any, eleven: Any, twelve: Any) -> Iterator[str]:
    structs = feature_structs(driver, handle, Keep(driver.ffi, driver.lib))
    for place, words in FEATURES.items():
        fields = structs[place].features if place == "core" else structs[place]
        yield from (word for word, field in words.items() if getattr(fields, field))
    yield from (word for word, field in FLOAT_CONTROLS.items() if getattr(twelve, field))
    yield from (word for word, bit in SUBGROUP.items() if eleven.subgroupSupportedOperations & bit)


def _memory_types(driver: Driver, handle: Any, keep: Keep) -> Iterator[MemoryType]:
    found = keep.struct("PhysicalDeviceMemoryProperties")
    driver.lib.vkGetPhysicalDeviceMemoryProperties(handle, found)
    for number in range(found.memoryTypeCount):
        kind = found.memoryTypes[number]
        yield MemoryType(number, kind.propertyFlags, kind.heapIndex, found.memoryHeaps[kind.heapIndex].size)


def _families(driver: Driver, handle: Any) -> Iterator[QueueFamily]:
    count = driver.ffi.new("uint32_t *")
    driver.lib.vkGetPhysicalDeviceQueueFamilyProperties(handle, count, driver.ffi.NULL)
    found = driver.ffi.new("VkQueueFamilyProperties[]", count[0])
    driver.lib.vkGetPhysicalDeviceQueueFamilyProperties(handle, count, found)
    return (QueueFamily(place, found[place].queueFlags, found[place].queueCount) for place in range(count[0]))
