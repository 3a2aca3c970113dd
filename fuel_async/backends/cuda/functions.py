"""Kernels as the driver has them: compiled from CUDA C and loaded, each once a device."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from fuel_async.backends.cuda.compiling import Compiler
from fuel_async.backends.cuda.kernels.code import ENTRY, code_of
from fuel_async.backends.cuda.statuses import error_of
from fuel_async.errors import DeviceLost, InternalError

if TYPE_CHECKING:
    from fuel_async.backends.cuda.context import Context
    from fuel_async.backends.grids.kernel import Limits, Shader


class Functions:
    """All kernels of a device; they live as long as its context. Any thread."""

    def __init__(self, context: Context, limits: Limits) -> None:
        self._context, self._limits, self._lock = context, limits, threading.RLock()
        self._compiler = Compiler(context)
        self._made: dict[Shader, Any] = context.own({})

    def __len__(self) -> int:
        return len(self._made)

    def get(self, shader: Shader) -> Any:
        """What launches a shader: (grid, block, args, shared bytes, stream). Takes up to a second the first time.

        `DeviceError` when the driver refuses, `InternalError` when the compiler does.
        """
        found = self._made.get(shader)
        if found is None:
            try:
                with self._lock:
                    found = self._made.get(shader)
                    if found is None:
                        found = self._made[shader] = self._make(shader)
            except DeviceLost as error:
                raise self._context.noted(error) from None
        return found

    def _make(self, shader: Shader) -> Any:
        context = self._context
        lacking = shader.needs - self._limits.features
        if lacking:
            raise InternalError(f"shader {shader.name} needs {', '.join(sorted(lacking))}, which {context.name} lacks")
        code = code_of(shader)
        try:
            with context.here():
                kept = self._compiler.kept(code)
                if kept is not None:
                    with contextlib.suppress(RuntimeError):  # it may be damaged
                        return self._loaded(kept)
                return self._loaded(self._compiler.compiled(code))
        except Exception as error:
            raise error_of(context.name, f"loading {shader.name}", error) from None

    def _loaded(self, cubin: bytes) -> Any:
        module = self._context.cuda.function.Module()
        module.load(cubin)
        return module.get_function(ENTRY)
