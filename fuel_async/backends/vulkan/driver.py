"""The loader library and one Vulkan instance of it: what finds physical devices.

Everything goes through the raw functions of the binding: its wrappers take twenty times as long, and let structs die
that the driver still reads. Nothing is loaded when this module is imported.
"""

from __future__ import annotations

import logging
import weakref
from collections import deque
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fuel_async.backends.vulkan.results import INCOMPLETE, SUCCESS, name_of
from fuel_async.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LOG = logging.getLogger("fuel_async.vulkan")

#: Timeline semaphores are part of the core from this version on.
LEAST_VERSION = (1, 2)
#: What is asked for; a device may offer less.
WANTED_VERSION = (1, 3)

VALIDATION_LAYER = "VK_LAYER_KHRONOS_validation"
_MESSENGER = "VK_EXT_debug_utils"

#: Severities that are listened to: warnings and errors; kinds: general, validation, performance.
_SEVERITIES, _ERROR, _KINDS = 0x1100, 0x1000, 0x7

#: Validation messages that are kept for who asks.
MESSAGES_KEPT = 1_000

#: Tries at reading a list that may grow between the question of its length and that of its items.
_TRIES = 8


class NoDriver(DeviceError):
    """There is no Vulkan here: `reason` says what is missing."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"no Vulkan driver: {reason}")


def version_of(number: int) -> tuple[int, int]:
    """Major and minor of a packed version."""
    return (number >> 22) & 0x7F, (number >> 12) & 0x3FF


def packed(version: tuple[int, int]) -> int:
    """A version as the driver takes it."""
    return version[0] << 22 | version[1] << 12


class Keep:
    """Makes structs and arrays and keeps all of them alive: the pointers in a struct keep nothing.

    One lives as long as whatever reads what it made.
    """

    __slots__ = ("_alive", "_ffi", "_lib")

    def __init__(self, ffi: Any, lib: Any) -> None:
        self._ffi, self._lib = ffi, lib
        self._alive: list[Any] = []

    def struct(self, kind: str, tag: str = "", /, **fields: Any) -> Any:
        """A pointer to a new `Vk…` struct; `tag` is its `VK_STRUCTURE_TYPE_…`, for those that have one."""
        made = self._ffi.new(f"Vk{kind} *")
        if tag:
            made.sType = getattr(self._lib, f"VK_STRUCTURE_TYPE_{tag}")
        for name, value in fields.items():
            setattr(made, name, value)
        self._alive.append(made)
        return made

    def array(self, kind: str, items: Any) -> Any:
        """A new array of `kind` with `items`; of so many zeros for a number."""
        made = self._ffi.new(f"{kind}[]", items)
        self._alive.append(made)
        return made

    def text(self, text: str) -> Any:
        """A new C string."""
        return self.array("char", text.encode())

    def texts(self, texts: Sequence[str]) -> Any:
        """A new array of C strings."""
        return self.array("char *", [self.text(text) for text in texts])

    def hold(self, value: Any) -> Any:
        """Keep `value` alive, too, and return it."""
        self._alive.append(value)
        return value


class Driver:
    """A Vulkan instance. Any thread. It ends with its last holder."""

    def __init__(self, *, validation: bool = False) -> None:
        """Load the loader and make an instance. `NoDriver` says what is missing. May take tens of milliseconds."""
        binding = _binding()
        self.ffi, self.lib = binding.ffi, binding.lib
        #: The latest messages of the validation layer, (id, text); empty without it.
        self.messages: deque[tuple[str, str]] = deque(maxlen=MESSAGES_KEPT)
        self._keep = Keep(self.ffi, self.lib)
        self.version = self._loader_version()
        if self.version < LEAST_VERSION:
            raise NoDriver(
                f"the loader offers Vulkan {_dotted(self.version)}, at least {_dotted(LEAST_VERSION)} needed"
            )
        if validation and VALIDATION_LAYER not in self._layers():
            raise NoDriver(f"{VALIDATION_LAYER} is not installed; turn validation off, or install it")
        self.handle = self._create([VALIDATION_LAYER] if validation else [], [_MESSENGER] if validation else [])
        destroy, handle = self.lib.vkDestroyInstance, self.handle
        messenger = self._listen() if validation else None
        self._end = weakref.finalize(self, _destroy_instance, self.ffi, destroy, handle, messenger, self._keep)
        self._end.atexit = False

    def physical_devices(self) -> list[Any]:
        """The handles of all physical devices, in the loader's order."""
        return self._listed("vkEnumeratePhysicalDevices", "VkPhysicalDevice", self.handle)

    def call(self, name: str, *args: Any) -> None:
        """Call a function that returns a result. `NoDriver` unless it succeeds."""
        code = getattr(self.lib, name)(*args)
        if code != SUCCESS:
            raise NoDriver(f"{name} gave {name_of(code)}")

    def _create(self, layers: Sequence[str], extensions: Sequence[str]) -> Any:
        keep, ffi = self._keep, self.ffi
        application = keep.struct(
            "ApplicationInfo",
            "APPLICATION_INFO",
            pApplicationName=keep.text("fuel_async"),
            apiVersion=packed(min(self.version, WANTED_VERSION)),
        )
        info = keep.struct(
            "InstanceCreateInfo",
            "INSTANCE_CREATE_INFO",
            pApplicationInfo=application,
            enabledLayerCount=len(layers),
            ppEnabledLayerNames=keep.texts(layers),
            enabledExtensionCount=len(extensions),
            ppEnabledExtensionNames=keep.texts(extensions),
        )
        found = ffi.new("VkInstance *")
        self.call("vkCreateInstance", info, ffi.NULL, found)
        return found[0]

    def _loader_version(self) -> tuple[int, int]:
        number = self.ffi.new("uint32_t *")
        self.call("vkEnumerateInstanceVersion", number)
        return version_of(number[0])

    def _layers(self) -> set[str]:
        found = self._listed("vkEnumerateInstanceLayerProperties", "VkLayerProperties")
        return {self.ffi.string(one.layerName).decode() for one in found}

    def _listed(self, name: str, kind: str, *args: Any) -> list[Any]:
        """The items of a function that gives their number first."""
        call, count = getattr(self.lib, name), self.ffi.new("uint32_t *")
        for _ in range(_TRIES):
            code = call(*args, count, self.ffi.NULL)
            if code != SUCCESS:
                break
            items = self.ffi.new(f"{kind}[]", count[0])
            code = call(*args, count, items)
            if code == SUCCESS:
                return [items[place] for place in range(count[0])]
            if code != INCOMPLETE:
                break
        raise NoDriver(f"{name} gave {name_of(code)}")

    # --- validation -------------------------------------------------------------------------------

    def _listen(self) -> tuple[Any, Any]:
        """Have the layer's messages come to `messages` and the log; what ends that, and its handle."""
        ffi, lib, keep = self.ffi, self.lib, self._keep
        heard = keep.hold(ffi.callback("PFN_vkDebugUtilsMessengerCallbackEXT", _ear(ffi, self.messages)))
        info = keep.struct(
            "DebugUtilsMessengerCreateInfoEXT",
            "DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT",
            messageSeverity=_SEVERITIES,
            messageType=_KINDS,
            pfnUserCallback=heard,
        )
        create, destroy = [
            ffi.cast(f"PFN_{name}", lib.vkGetInstanceProcAddr(self.handle, name.encode()))
            for name in ("vkCreateDebugUtilsMessengerEXT", "vkDestroyDebugUtilsMessengerEXT")
        ]
        made = ffi.new("VkDebugUtilsMessengerEXT *")
        code = create(self.handle, info, ffi.NULL, made)
        if code != SUCCESS:
            raise NoDriver(f"vkCreateDebugUtilsMessengerEXT gave {name_of(code)}")
        return destroy, made[0]


def _ear(ffi: Any, messages: deque[tuple[str, str]]) -> Callable[..., int]:
    """What the layer calls, on any thread; it must not raise."""

    def hear(severity: int, kind: int, data: Any, user: Any) -> int:
        name = "" if data.pMessageIdName == ffi.NULL else ffi.string(data.pMessageIdName).decode(errors="replace")
        text = "" if data.pMessage == ffi.NULL else ffi.string(data.pMessage).decode(errors="replace")
        messages.append((name, text))
        _LOG.log(logging.ERROR if severity >= _ERROR else logging.WARNING, "%s: %s", name, text)
        return 0

    return hear


def _binding() -> Any:
    try:
        return import_module("vulkan._vulkan")
    except ImportError as error:
        raise NoDriver(f"the Python package is not installed ({error}); install fuel_async[vulkan]") from error
    except OSError as error:  # it opens the loader when it is imported
        raise NoDriver(f"the Vulkan loader is not installed ({error}); on Debian: apt install libvulkan1") from error


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _destroy_instance(ffi: Any, destroy: Any, handle: Any, messenger: tuple[Any, Any] | None, keep: Keep) -> None:
    if messenger is not None:
        messenger[0](handle, messenger[1], ffi.NULL)
    destroy(handle, ffi.NULL)
    del keep
