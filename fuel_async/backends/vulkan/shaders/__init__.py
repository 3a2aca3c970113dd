"""Compiled shaders: SPIR-V modules by name, made of the GLSL files in this folder."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from fuel_async.backends.vulkan.shaders.catalog import MODULES as MODULES
from fuel_async.backends.vulkan.shaders.catalog import Module as Module


@cache
def code(name: str) -> bytes:
    """Return the SPIR-V of a module of the catalog. Any thread; read once in a process."""
    return (files(__name__) / "spv" / f"{name}.spv").read_bytes()
