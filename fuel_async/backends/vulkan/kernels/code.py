"""What a shader's code is as SPIR-V: a compiled module of the catalog, or one written from its form."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from fuel_async.backends.grids.form import ModuleForm
from fuel_async.backends.vulkan.shaders import code
from fuel_async.backends.vulkan.spirv.kernel import module_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuel_async.backends.grids.kernel import Shader

#: The feature of a device that can be told to keep NaN and the like, by the width of the floats.
KEEPING: Mapping[int, str] = {32: "nan_preserve_f32", 64: "nan_preserve_f64"}

#: Written modules that are remembered, for the next device.
REMEMBERED = 1_024


def code_of(shader: Shader, features: frozenset[str]) -> bytes:
    """Return the SPIR-V of a shader for a device with these features, entry point `main`. Pure; any thread.

    Floats keep NaN, infinities and signs of zero where the device can be told so. A form takes milliseconds, the first
    time.
    """
    keeps = tuple([width for width, feature in KEEPING.items() if feature in features])
    if isinstance(shader.code, ModuleForm):
        return _written(shader.code, keeps)
    module = shader.code
    return code(module.name, module.floats if module.floats in keeps else 0)


@lru_cache(REMEMBERED)
def _written(form: ModuleForm, keeps: tuple[int, ...]) -> bytes:
    return module_of(form, keeps)
