"""What a shader's code is as CUDA C: a file and macros for a module of the catalog, or a program that is printed."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from fuel_async.backends.cuda import sources
from fuel_async.backends.cuda.printing.module import printed
from fuel_async.backends.grids.form import ModuleForm

if TYPE_CHECKING:
    from fuel_async.backends.grids.kernel import Shader

#: The kernel of every program.
ENTRY = sources.ENTRY
#: What printed programs are compiled with: each operation is rounded by itself, as it is written.
PRINTED_OPTIONS = ("--std=c++17", "--fmad=false")

#: Printed programs that are remembered, for the next device.
REMEMBERED = 1_024


class Code(NamedTuple):
    """A program: what is compiled, and with which options. Equal programs are one module of a device.

    Its kernel takes a pointer for each binding, in order, and then, where there are any, the words that a dispatch
    pushes as one struct by value. A block has `Shader.threads` threads, along x.
    """

    text: str
    options: tuple[str, ...]


def code_of(shader: Shader) -> Code:
    """Return the program of a shader. Pure; any thread. Files are read, and forms printed, the first time."""
    if isinstance(shader.code, ModuleForm):
        return Code(_printed(shader.code), PRINTED_OPTIONS)
    module = shader.code
    return Code(sources.source(module.source), sources.options(module.source, module.defines, shader.spec))


_printed = lru_cache(REMEMBERED)(printed)
