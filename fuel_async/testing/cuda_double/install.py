"""Putting the double in CuPy's place, and taking it out again.

```py
machine = install([DeviceModel(memory_nbytes=1 << 30), DeviceModel(kernel_s=0.001)])
...                      # `import cupy` gives the double
machine.inject_error(1, 700, at="launch")
uninstall()
```
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fuel_async.testing.cuda_double import (
    arrays,
    cublas,
    devices,
    events,
    graphs,
    memory,
    modules,
    pinned,
    raw,
    runtime,
    statuses,
    streams,
)
from fuel_async.testing.cuda_double.machine import MACHINE, Machine
from fuel_async.testing.cuda_double.model import DeviceModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

VERSION: Final = "14.2.0"

_DTYPES = (
    "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
)  # fmt: skip

#: What the modules have, by their names. A module's own submodules come on top.
MODULES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "cupy": {
            **{name: getattr(arrays, name) for name in arrays.__all__},
            **{name: getattr(np, name) for name in _DTYPES},
            "RawKernel": raw.RawKernel,
            "RawModule": raw.RawModule,
            "__version__": VERSION,
        },
        "cupy.cuda": {
            "Device": devices.Device,
            "Stream": streams.Stream,
            "get_current_stream": streams.get_current_stream,
            "Event": events.Event,
            "get_elapsed_time": events.get_elapsed_time,
            "Graph": graphs.Graph,
            "BaseMemory": memory.BaseMemory,
            "Memory": memory.Memory,
            "UnownedMemory": memory.UnownedMemory,
            "MemoryPointer": memory.MemoryPointer,
            "alloc": memory.alloc,
            "PinnedMemory": pinned.PinnedMemory,
            "PinnedMemoryPointer": pinned.PinnedMemoryPointer,
            "alloc_pinned_memory": pinned.alloc_pinned_memory,
            "is_available": devices.is_available,
        },
        "cupy.cuda.device": {"Device": devices.Device},
        "cupy.cuda.stream": {"Stream": streams.Stream, "Event": events.Event},
        "cupy.cuda.graph": {"Graph": graphs.Graph},
        "cupy.cuda.memory": {
            "OutOfMemoryError": statuses.OutOfMemoryError,
            "BaseMemory": memory.BaseMemory,
            "Memory": memory.Memory,
            "UnownedMemory": memory.UnownedMemory,
            "MemoryPointer": memory.MemoryPointer,
            "alloc": memory.alloc,
        },
        "cupy.cuda.pinned_memory": {
            "PinnedMemory": pinned.PinnedMemory,
            "PinnedMemoryPointer": pinned.PinnedMemoryPointer,
            "alloc_pinned_memory": pinned.alloc_pinned_memory,
        },
        "cupy.cuda.compiler": {
            "CompileException": statuses.CompileException,
            "compile_using_nvrtc": modules.compile_using_nvrtc,
        },
        "cupy.cuda.function": {"Module": modules.Module, "Function": modules.Function},
        "cupy.cuda.runtime": runtime.CONTENT,
        "cupy_backends": {},
        "cupy_backends.cuda": {},
        "cupy_backends.cuda.api": {},
        "cupy_backends.cuda.api.runtime": runtime.CONTENT,
        "cupy_backends.cuda.libs": {},
        "cupy_backends.cuda.libs.cublas": cublas.CONTENT,
    }
)
#: What is an attribute of a module, but cannot be imported under that name.
ALIASES: Mapping[str, str] = MappingProxyType({"cupy.cuda.cublas": "cupy_backends.cuda.libs.cublas"})
#: The modules that have others in them, and no files.
PACKAGES: Final = frozenset(name.rpartition(".")[0] for name in MODULES)


def install(
    devices: int | Sequence[DeviceModel] = 2,
    *,
    strict: bool = True,
    absence: int | None = None,
    kernels: Mapping[str, Callable[..., None]] | None = None,
) -> Machine:
    """Let `import cupy` give the double, with devices of its own, and return its machine.

    `devices` are their models, or how many plain ones. `strict` refuses the legacy default stream. `absence` is the
    status that calls raise on a machine without driver (35, also when there are no devices) or device (100). `kernels`
    are Python functions (grid, block, args, shared_nbytes) that run in place of compiled kernels of these names. What
    was imported as CuPy before comes back with `uninstall`. A double that is installed is uninstalled first.
    """
    uninstall()
    models = [DeviceModel()] * devices if isinstance(devices, int) else list(devices)
    if not models and absence is None:
        absence = statuses.INSUFFICIENT_DRIVER
    machine = Machine(models, absence=absence, is_strict=strict, kernels=kernels)
    machine.replaced = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_replaced(name)}
    made = {name: _module(name, content) for name, content in MODULES.items()}
    for name, module in made.items():
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(made[parent], child, module)
    for name, source in ALIASES.items():
        parent, _, child = name.rpartition(".")
        setattr(made[parent], child, made[source])
    setattr(made["cupy"], MACHINE, machine)
    sys.modules.update(made)
    return machine


def uninstall() -> None:
    """End the machine that is installed, if one is, and bring back what was imported as CuPy before."""
    machine = getattr(sys.modules.get("cupy"), MACHINE, None)
    if not isinstance(machine, Machine):
        return
    try:
        machine.close()
    finally:
        for name in [name for name in sys.modules if _is_replaced(name)]:
            del sys.modules[name]
        sys.modules.update(machine.replaced)


@contextmanager
def doubled(devices: int | Sequence[DeviceModel] = 2, **options: Any) -> Iterator[Machine]:
    """Install a double for a `with` block; at its end broken rules fail."""
    machine = install(devices, **options)
    try:
        yield machine
        machine.check()
    finally:
        uninstall()


def _is_replaced(name: str) -> bool:
    return name.split(".")[0] in ("cupy", "cupy_backends")


def _module(name: str, content: Mapping[str, Any]) -> ModuleType:
    module = ModuleType(name, f"A double of {name}.")
    vars(module).update(content)
    if name in PACKAGES:
        module.__path__ = []
    return module
