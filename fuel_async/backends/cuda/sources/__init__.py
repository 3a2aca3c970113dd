"""The fixed kernels in CUDA C, one file for each source of the catalog, and how they are compiled and launched.

A file's kernel is `kernel_main`. It takes a pointer for each binding, in order, and then the words that a dispatch
pushes, as a struct by value. Spec constants are the macros SPEC0, SPEC1, ...; a catalog's macros are given as they are.
Threads of a block lie along x.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: The kernel of each file.
ENTRY = "kernel_main"
#: Files whose sums are of products, where one rounding for both is faster and closer. Elsewhere the time is that of
#: memory, and every operation is rounded by itself, so that results are the same on every device.
_FUSED = frozenset({"matmul"})

_INCLUDE = re.compile(r'^#include "(\w+\.cuh)"\n', re.MULTILINE)


@cache
def source(name: str) -> str:
    """Return the whole text of a file, with what it includes from here in place. Any thread; made once in a process."""
    return inlined(_text(f"{name}.cu"))


def inlined(text: str) -> str:
    """Return a program with each file of this folder that it includes in place, where it is first included. Pure."""
    included: set[str] = set()

    def put(found: re.Match[str]) -> str:
        if found[1] in included:
            return ""
        included.add(found[1])
        return _text(found[1])

    return _INCLUDE.sub(put, text)


def options(name: str, defines: Iterable[str], spec: Sequence[int]) -> tuple[str, ...]:
    """Return what a file is compiled with: the macros of the catalog and the spec constants, from 0."""
    constants = [f"-DSPEC{at}={value}" for at, value in enumerate(spec)]
    fused = "true" if name in _FUSED else "false"
    return ("--std=c++17", f"--fmad={fused}", *[f"-D{define}" for define in defines], *constants)


def _text(name: str) -> str:
    return (files(__name__) / name).read_text(encoding="utf-8")
