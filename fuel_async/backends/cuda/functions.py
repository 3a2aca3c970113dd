"""Kernels as the driver has them: compiled from CUDA C, each once a device.

CuPy keeps what NVRTC gives on disk, by source, options and architecture, so a process that comes later only loads it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from fuel_async.backends.cuda.kernels.code import ENTRY, code_of
from fuel_async.errors import InternalError

if TYPE_CHECKING:
    from fuel_async.backends.cuda.context import Context
    from fuel_async.backends.grids.kernel import Limits, Shader


class Functions:
    """All compiled kernels of a device; they live as long as its context. Any thread."""

    def __init__(self, context: Context, limits: Limits) -> None:
        self._context, self._limits, self._lock = context, limits, threading.RLock()
        self._made: dict[Shader, Any] = context.own({})

    def __len__(self) -> int:
        return len(self._made)

    def get(self, shader: Shader) -> Any:
        """What launches a shader: (grid, block, args). Takes up to a second the first time on a machine. `DeviceError`.

        `InternalError` has the compiler's log where it refuses the source.
        """
        found = self._made.get(shader)
        if found is None:
            with self._lock:
                found = self._made.get(shader)
                if found is None:
                    found = self._made[shader] = self._make(shader)
        return found

    def _make(self, shader: Shader) -> Any:
        context = self._context
        lacking = shader.needs - self._limits.features
        if lacking:
            raise InternalError(f"shader {shader.name} needs {', '.join(sorted(lacking))}, which {context.name} lacks")
        code = code_of(shader)
        try:
            with context.here():
                return context.driver.cupy.RawModule(code=code.text, options=code.options).get_function(ENTRY)
        except context.cuda.compiler.CompileException as error:
            raise InternalError(
                f"shader {shader.name} was refused by the compiler of {context.name}: {error}"
            ) from None
        except Exception as error:
            raise context.failed(error, f"loading {shader.name}") from None
