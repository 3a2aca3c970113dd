"""Which modules of fixed code there are: a name, a source file, macros, and the interface they have.

Each backend has a source file of each name, in its own language, and makes the modules of them: ahead of time, or when
they are asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Threads of a group of the modules that have one element each; every device allows so many.
LOCAL = 128
#: Device features that elements of so many bits need.
NEEDS: Mapping[int, frozenset[str]] = {
    8: frozenset({"int8_storage"}),
    16: frozenset({"int16_storage"}),
    32: frozenset(),
    64: frozenset({"float64"}),
}
#: The same for elements that are moved and not computed with, by their bytes.
MOVED_NEEDS: Mapping[int, frozenset[str]] = {1: NEEDS[8], 2: NEEDS[16], 4: NEEDS[32], 8: NEEDS[32]}


@dataclass(frozen=True, slots=True)
class Module:
    """One module."""

    name: str
    #: The file it is made of, without its suffix.
    source: str
    defines: tuple[str, ...]
    #: Storage buffers 0 .. bindings - 1.
    bindings: int
    needs: frozenset[str] = frozenset()
    #: Bits of the floats in which it computes; 0 when it computes with none.
    floats: int = 0
    #: Threads of a group: so many, or where there are sides the product of the first so many constants.
    threads: int = LOCAL
    sides: int = 0

    def threads_of(self, spec: tuple[int, ...]) -> int:
        """Return the threads of a group of the module made with these constants."""
        return math.prod(spec[: self.sides]) if self.sides else self.threads


#: Files compiled for each size of an element, in bytes: (file, bindings, sizes).
_MOVING = (
    ("move", 2, (1, 2, 4, 8)),
    ("place", 3, (1, 2, 4, 8)),
    ("pick", 3, (1, 2, 4, 8)),
    ("pad", 2, (1, 2, 4, 8)),
    ("triangle", 2, (1, 2, 4, 8)),
    ("fill", 3, (1, 2, 4, 8)),
)
#: Files compiled for floats: (file, macro, bindings, (bits that come in, bits that go out) …).
_SAME = ((16, 16), (32, 32), (64, 64))
_ANY = (*_SAME, (16, 32), (32, 16))
#: Files whose groups have as many threads as the first constants say, and those with another number than most.
_SIDES = {"reduce": 1, "arg": 1, "rows": 1, "losses": 1, "cumulate": 1, "matmul": 2}
_THREADS = {"ratio": 1}
_COMPUTING = (
    ("reduce", "", 2, (*_ANY, (64, 32))),
    ("reduce", "COUNT", 3, ((16, 32), (32, 32), (64, 64))),
    ("arg", "", 2, _SAME),
    ("share", "", 5, _SAME),
    ("rows", "SOFTMAX", 2, _SAME),
    ("rows", "LOG_SOFTMAX", 2, _SAME),
    ("rows", "LAYER_NORM", 2, _SAME),
    ("rows", "RMS_NORM", 2, _SAME),
    ("rows", "SOFTMAX_BACKWARD", 3, _SAME),
    ("rows", "LOG_SOFTMAX_BACKWARD", 3, _SAME),
    ("rows", "LAYER_NORM_BACKWARD", 3, _SAME),
    ("rows", "RMS_NORM_BACKWARD", 3, _SAME),
    ("losses", "", 4, ((16, 32), (32, 32), (64, 64))),
    ("ratio", "", 3, ((32, 32), (64, 32))),
    ("cumulate", "", 2, _SAME),
    ("rope", "", 4, _SAME),
    ("scatter", "", 3, ((16, 32), (32, 32), (64, 64))),
    ("unpad", "", 2, _ANY),
)
#: Elements of a product that one invocation has, along each side of a tile.
TILES = (1, 4)


def float_name(source: str, bits: tuple[int, int], macro: str = "") -> str:
    """Return the name of a module for floats of so many bits."""
    return f"{(macro or source).lower()}_{bits[0]}_{bits[1]}"


def matmul_name(bits: tuple[int, int], each: int, *, bias: bool) -> str:
    """Return the name of a module for matrix products; 8 bits are integers."""
    return f"{'linear' if bias else 'matmul'}_{bits[0]}_{bits[1]}_tile{each}"


def _needs(*bits: int) -> frozenset[str]:
    return frozenset[str]().union(*[NEEDS[each] for each in bits])


def _moving() -> Iterator[Module]:
    for source, bindings, sizes in _MOVING:
        for size in sizes:
            needs = MOVED_NEEDS[size] | (NEEDS[8] if source == "fill" else frozenset())
            yield Module(f"{source}_{size}", source, (f"SIZE={size}",), bindings, needs)


def _computing() -> Iterator[Module]:
    for source, macro, bindings, sizes in _COMPUTING:
        for bits in sizes:
            macros = [macro, "BACKWARD"] if macro.endswith("_BACKWARD") else [macro] if macro else []
            defines = (f"IN={bits[0]}", f"OUT={bits[1]}", *macros)
            name, needs = float_name(source, bits, macro), _needs(*bits)
            sides, threads = _SIDES.get(source, 0), _THREADS.get(source, LOCAL)
            yield Module(name, source, defines, bindings, needs, max(*bits, 32), threads, sides)


def _products() -> Iterator[Module]:
    sides = _SIDES["matmul"]
    for each in TILES:
        for bits in (*_SAME, (16, 32)):
            for bias in (False, True):
                defines = (f"IN={bits[0]}", f"OUT={bits[1]}", f"EACH={each}", *(["BIAS"] if bias else []))
                name = matmul_name(bits, each, bias=bias)
                yield Module(name, "matmul", defines, 3 + bias, _needs(*bits), max(*bits, 32), sides=sides)
    yield Module(matmul_name((8, 8), 1, bias=False), "matmul", ("EACH=1",), 3, NEEDS[8], sides=sides)


MODULES: Mapping[str, Module] = {module.name: module for module in (*_moving(), *_computing(), *_products())}
