"""Programs by hand: compiling CUDA C, loading what comes of it, and launching its kernels on a stream that is named.

What the compiler gives holds the program's text and options; it is compiled for the CPU then, and again looked up when
it is loaded.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from fuel_async.testing.cuda_double import statuses
from fuel_async.testing.cuda_double.current import current_stream
from fuel_async.testing.cuda_double.machine import installed
from fuel_async.testing.cuda_double.raw import compiled_function, compiled_program, launch_on
from fuel_async.testing.cuda_double.statuses import CUDARuntimeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.testing.cuda_double.raw import Compiled

#: What a loaded program begins with.
_MARK = b"double "


def compile_using_nvrtc(
    source: str,
    options: tuple[str, ...] = (),
    arch: str | None = None,
    filename: str = "kern.cu",
    name_expressions: Sequence[str] | None = None,
    log_stream: Any = None,
    cache_in_memory: bool = False,
    jitify: bool | None = None,
    method: str | None = None,
) -> tuple[bytes, None]:
    """Compile a program for an architecture, by default that of the current device. `CompileException`."""
    machine = installed()
    machine.demand_driver()
    compiled_program(source, options)
    machine.count("compiles")
    return _MARK + pickle.dumps((source, tuple(options))), None


class Module:
    """`cupy.cuda.function.Module`: a program on a device."""

    def __init__(self) -> None:
        self.ptr = 0
        self._program: tuple[str, tuple[str, ...]] | None = None

    def load(self, cubin: bytes) -> None:
        """Load what the compiler gave, on the current device: a call that a capture forbids."""
        installed().enter("moduleLoadData", place="compile", unsafe=True)
        if not cubin.startswith(_MARK):
            raise CUDARuntimeError(statuses.INVALID_IMAGE)
        self._program = pickle.loads(cubin[len(_MARK) :])
        self.ptr = id(self)

    def get_function(self, name: str) -> Function:
        """Return a kernel by its name."""
        return Function(self, name)


class Function:
    """`cupy.cuda.function.Function`: a kernel that is loaded."""

    def __init__(self, module: Module, funcname: str) -> None:
        self.module = module  # it stays loaded
        self.ptr = 0
        self._name = funcname
        if module._program is None:
            raise CUDARuntimeError(statuses.INVALID_HANDLE)
        self._compiled: Compiled = installed().kernels.get(funcname) or compiled_function(*module._program, funcname)

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[Any],
        shared_mem: int = 0,
        stream: Any = None,
        enable_cooperative_groups: bool = False,
    ) -> None:
        """Launch it on a stream, by default the current one."""
        for sizes, what in ((grid, "grid"), (block, "block")):
            if not isinstance(sizes, tuple):
                raise TypeError(f"Argument {what!r} has incorrect type (expected tuple, got {type(sizes).__name__})")
        work = current_stream() if stream is None else installed().stream(stream.ptr)
        launch_on(work, self._compiled, grid, block, args, shared_mem)
