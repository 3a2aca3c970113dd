"""What a program was made into for the arrays that it was given: the latest few are kept.

A repeated submission over the same arrays finds what was made for the first. Arrays are told apart by block and offset:
the number of a block is never given again, so where these are equal the addresses are.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from fuel_async.backends.grids.planning import given_spaces, placed
from fuel_async.dispatch import BINDABLE
from fuel_async.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fuel_async.backends.blocks import Block
    from fuel_async.backends.grids.operands import Space
    from fuel_async.dispatch import LaneProgram


class Lying(Protocol):
    """An array as it is told from others."""

    @property
    def block(self) -> Block:
        """Where its bytes lie."""

    offset: int


A = TypeVar("A", bound=Lying)
R = TypeVar("R")

#: Recordings kept for different given arrays.
RECORDINGS = 4


class Recordings(Generic[A, R]):
    """The recordings of one program over its arena and constants. One thread at a time."""

    __slots__ = ("_arena", "_constants", "_found", "_program", "_spaces")

    def __init__(self, program: LaneProgram, arena: A, constants: Sequence[A]) -> None:
        self._program, self._arena, self._constants = program, arena, constants
        #: What a submission gives, in order: (class, place).
        self._spaces = given_spaces(program)
        self._found: OrderedDict[tuple[tuple[int, int], ...], R] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[R]:
        return iter(self._found.values())

    @property
    def is_always_the_same(self) -> bool:
        """Whether submissions give nothing: then one recording is all that there can be."""
        return not self._spaces

    def split(self, given: Sequence[Sequence[Any]]) -> tuple[list[A], Sequence[Any]]:
        """Return the arrays and the scalars of a submission. `InternalError` unless all are there."""
        *groups, scalars = given if len(given) == len(BINDABLE) else ((), (), (), ())
        arrays = [array for group in groups for array in group]
        wanted, got = len(self._spaces), len(arrays) + len(scalars)
        if got != wanted:
            raise InternalError(f"{wanted} arrays must be given to {self._program!r}, got {got}")
        return arrays, scalars

    def get(self, arrays: Sequence[A], record: Callable[[Callable[[Space], A], R | None], R]) -> R:
        """Return the recording over these arrays, those of scalars among them.

        Without one `record(place, old)` makes it, for where each space lies; `old` is the one that goes for it, if any.
        """
        key = tuple([(array.block.number, array.offset) for array in arrays])
        found = self._found.get(key)
        if found is None:
            old = self._found.popitem(last=False)[1] if len(self._found) == RECORDINGS else None
            given = dict(zip(self._spaces, arrays, strict=True))
            found = self._found[key] = record(placed(given, self._arena, self._constants), old)
        elif len(self._found) > 1:
            self._found.move_to_end(key)
        return found
