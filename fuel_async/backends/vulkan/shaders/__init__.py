"""Compiled shaders: SPIR-V modules by name, made of the GLSL files in this folder."""

from __future__ import annotations

import struct
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

# The SPIR-V specification, 2.3 and 3: words of the header, opcodes, and what GLSL has no words for.
_HEADER, _CAPABILITY, _ENTRY_POINT, _EXECUTION_MODE = 5, 17, 15, 16
_PRESERVE_CAPABILITY, _PRESERVE_MODE = 4466, 4461


@cache
def code(name: str, preserves: int = 0) -> bytes:
    """Return the SPIR-V of a module of the catalog. Any thread; read once in a process.

    With `preserves` it demands that floats of so many bits keep their NaN, infinities and signs of zero.
    """
    raw = (_folder() / f"{name}.spv").read_bytes()
    return _preserving(raw, preserves) if preserves else raw


@cache
def _folder() -> Traversable:
    return files(__name__) / "spv"


def _preserving(raw: bytes, bits: int) -> bytes:
    words = struct.unpack(f"<{len(raw) // 4}I", raw)
    after = {_CAPABILITY: _HEADER, _ENTRY_POINT: _HEADER}
    entry, at = 0, _HEADER
    while at < len(words):
        opcode, count = words[at] & 0xFFFF, words[at] >> 16
        if opcode in after:
            after[opcode] = at + count
            entry = words[at + 2] if opcode == _ENTRY_POINT else entry
        at += count
    first, second = after[_CAPABILITY], after[_ENTRY_POINT]
    made = (
        *words[:first], 2 << 16 | _CAPABILITY, _PRESERVE_CAPABILITY,
        *words[first:second], 4 << 16 | _EXECUTION_MODE, entry, _PRESERVE_MODE, bits,
        *words[second:],
    )  # fmt: skip
    return struct.pack(f"<{len(made)}I", *made)
