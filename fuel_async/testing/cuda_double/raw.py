"""Kernels from CUDA C: `cupy.RawModule` and `cupy.RawKernel`, compiled for the CPU by `compiling`.

A kernel's arguments are read when it is launched and are not kept alive. When it runs, its pointers must lead to live
memory of its device, of a device that it may reach, or pinned: anything else ends the device with an illegal address,
as does a write just beside a block, once that is freed. Pointers are what is given as `numpy.uint64`, a
`MemoryPointer` or an array; a Python integer is taken for one if it lies in a block, freed or not.
"""

from __future__ import annotations

import threading
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fuel_async.testing.cuda_double import statuses
from fuel_async.testing.cuda_double.current import current_stream
from fuel_async.testing.cuda_double.machine import installed
from fuel_async.testing.cuda_double.memory import MemoryPointer
from fuel_async.testing.cuda_double.statuses import CompileException, CUDARuntimeError
from fuel_async.testing.cuda_double.work import Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fuel_async.testing.cuda_double.gpu import Gpu
    from fuel_async.testing.cuda_double.machine import Machine
    from fuel_async.testing.cuda_double.work import StreamWork

    #: Runs a kernel: grid, block, arguments, bytes of dynamic shared memory.
    Compiled = Callable[[tuple[int, int, int], tuple[int, int, int], Sequence[Any], int], None]

MOST_THREADS: Final = 1024
MOST_SHARED_NBYTES: Final = 48 << 10
MOST_BLOCK: Final = (1024, 1024, 64)
MOST_GRID: Final = (2**31 - 1, 65535, 65535)


def _three(sizes: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*sizes, 1, 1)[:3]
    return int(x), int(y), int(z)


def demand_launchable(grid: tuple[int, int, int], block: tuple[int, int, int], shared_nbytes: int) -> None:
    """Raise if a launch exceeds what devices can do, or has no threads. `CUDARuntimeError`."""
    sizes = zip((*grid, *block), (*MOST_GRID, *MOST_BLOCK), strict=True)
    if not all(1 <= size <= most for size, most in sizes) or prod(block) > MOST_THREADS:
        raise CUDARuntimeError(statuses.INVALID_CONFIGURATION)
    if not 0 <= shared_nbytes <= MOST_SHARED_NBYTES:
        raise CUDARuntimeError(statuses.INVALID_VALUE)


def argument_of(value: Any) -> tuple[Any, int | None]:
    """Return an argument as a kernel gets it, and its address if it is a pointer. `TypeError`."""
    if value is None:
        return np.uint64(0), None
    if isinstance(value, MemoryPointer):
        return np.uint64(value.ptr), value.ptr
    if isinstance(pointer := getattr(value, "data", None), MemoryPointer):
        return np.uint64(pointer.ptr), pointer.ptr
    if isinstance(value, np.ndarray):
        if value.size != 1:
            raise TypeError(
                f"You are trying to pass a numpy.ndarray of shape {value.shape} as a kernel parameter. "
                "Only numpy.ndarrays of size one can be passed by value. If you meant to pass a pointer to "
                "__global__ memory, you need to pass a cupy.ndarray instead."
            )
        return value.reshape(())[()].copy() if value.dtype.kind == "V" else value.reshape(())[()], None
    if isinstance(value, np.uint64):
        return value, int(value)
    if isinstance(value, np.void):
        return value.copy(), None
    if isinstance(value, np.generic):
        return value, None
    if isinstance(value, bool):
        return np.bool_(value), None
    if isinstance(value, int):
        known = installed().addresses.find(value) is not None
        return np.uint64(value & (2**64 - 1)), value if known else None
    if isinstance(value, float):
        return np.float64(value), None
    if isinstance(value, complex):
        return np.complex128(value), None
    raise TypeError(f"Unsupported type {type(value)}")


def demand_reachable(machine: Machine, gpu: Gpu, addresses: Iterable[int]) -> None:
    """Raise if a kernel may not use one of the addresses now. `CUDARuntimeError`."""
    for address in addresses:
        if address == 0:
            continue
        block = machine.addresses.find(address)
        if block is None or not block.is_live or block.device not in {None, gpu.index, *gpu.peers}:
            raise CUDARuntimeError(statuses.ILLEGAL_ADDRESS)


def launch_on(
    work: StreamWork,
    compiled: Compiled,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    args: Sequence[Any],
    shared_mem: int,
) -> None:
    """Give a kernel to a stream, which must be of the current device. `CUDARuntimeError`."""
    machine = installed()
    gpu = machine.enter("launchKernel", work.gpu)
    if gpu.index != machine.here.device:
        raise CUDARuntimeError(statuses.INVALID_HANDLE)
    sizes = _three(grid), _three(block)
    demand_launchable(*sizes, shared_mem)
    taken = [argument_of(value) for value in args]
    values = tuple(value for value, _ in taken)
    pointers = tuple(address for _, address in taken if address is not None)

    def run() -> None:
        demand_reachable(machine, gpu, pointers)
        compiled(*sizes, values, shared_mem)

    machine.count("launches")
    duration_s = gpu.model.kernel_s + gpu.model.thread_s * prod(sizes[0]) * prod(sizes[1])
    machine.submit(work, Operation("launch", run, "compute", duration_s))


class RawKernel:
    """`cupy.RawKernel`: a function of CUDA C, compiled at its first use on a device."""

    def __init__(
        self,
        code: str,
        name: str,
        options: tuple[str, ...] = (),
        backend: str = "nvrtc",
        *,
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        jitify: bool | None = None,
    ) -> None:
        self._module = RawModule(code, options=options, backend=backend)
        self.code, self.name, self.options, self.backend = code, name, self._module.options, backend

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], args: Sequence[Any], *, shared_mem: int = 0
    ) -> None:
        """Launch it on the current stream."""
        for sizes, what in ((grid, "grid"), (block, "block")):
            if not isinstance(sizes, tuple):
                raise TypeError(f"Argument {what!r} has incorrect type (expected tuple, got {type(sizes).__name__})")
        launch_on(current_stream(), self._module._function(self.name), grid, block, args, shared_mem)

    def compile(self, log_stream: Any = None) -> None:
        """Compile it for the current device."""
        self._module._function(self.name)


class RawModule:
    """`cupy.RawModule`: CUDA C with functions, compiled at its first use on a device."""

    def __init__(
        self,
        code: str | None = None,
        *,
        path: str | None = None,
        options: tuple[str, ...] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        name_expressions: Sequence[str] | None = None,
        jitify: bool | None = None,
    ) -> None:
        if not isinstance(options, tuple):
            raise TypeError(f"Argument 'options' has incorrect type (expected tuple, got {type(options).__name__})")
        if code is None or path is not None:
            raise TypeError("Exactly one of `code` and `path` should be given; the double takes code only.")
        self.code, self.options, self.backend = code, options, backend
        self._lock = threading.Lock()
        self._functions: dict[tuple[int, int, str], Compiled] = {}

    def get_function(self, name: str) -> RawKernel:
        """Return a function by its name; compiles for the current device."""
        self._function(name)
        kernel = RawKernel.__new__(RawKernel)
        kernel._module = self
        kernel.code, kernel.name, kernel.options, kernel.backend = str(self.code), name, self.options, self.backend
        return kernel

    def compile(self, log_stream: Any = None) -> None:
        """Compile it for the current device."""
        machine = installed()
        machine.enter("moduleLoadData", place="compile", unsafe=True)
        compiled_program(self.code, self.options)

    def _function(self, name: str) -> Compiled:
        """The function for the current device. Loading it there is a call that a capture forbids."""
        machine = installed()
        machine.demand_driver()
        key = (id(machine), machine.here.device, name)
        with self._lock:
            if key not in self._functions:
                machine.enter("moduleLoadData", place="compile", unsafe=True)
                machine.count("compiles")
                self._functions[key] = machine.kernels.get(name) or compiled_function(self.code, self.options, name)
            return self._functions[key]


def compiled_program(code: str, options: tuple[str, ...]) -> Any:
    """Compile a program for the CPU. `CompileException`."""
    from fuel_async.testing.cuda_double.compiling import CompilationFailed, compiled

    try:
        return compiled(code, options)
    except CompilationFailed as error:
        raise CompileException(error.log, code, "kernel.cu", options) from None


def compiled_function(code: str, options: tuple[str, ...], name: str) -> Compiled:
    """Return a kernel of a program. `CompileException`, and `CUDARuntimeError` when there is none of that name."""
    program = compiled_program(code, options)
    try:
        function: Compiled = program.function(name)
    except KeyError:
        raise CUDARuntimeError(statuses.NOT_FOUND) from None
    return function
