"""What the code of an elementwise module depends on, whatever language it is printed in, and what it is given.

A thread computes `ITEMS` elements, in turn. Operands are read through any strides; those that are dense, or one element
for all, have no index arithmetic. Everything about shapes is in the words that a dispatch pushes, so one module serves
all shapes of a rank; where they do not fit, they are written into the module.

The words are: count, offset of the output, offsets of the inputs; with strided inputs the sizes of all axes but the
outermost, and the strides of each; then the numbers that the tree takes from there. Axes go from the innermost
outwards; all words are U32, strides and offsets modulo 2^32, numbers of 64 bits with their lower word first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from fuel_async.backends.grids.catalog import LOCAL as LOCAL

if TYPE_CHECKING:
    from fuel_async.ir import DType, Step

#: Elements of a thread; a group has `LOCAL` threads.
ITEMS = 4
#: Every device has room for so many words.
MOST_WORDS = 32


class Access(Enum):
    """How an input is read."""

    #: As the output is written.
    DENSE = "dense"
    #: The same element for all.
    ONE = "one"
    STRIDED = "strided"


@dataclass(frozen=True, slots=True)
class ModuleForm:
    """All that a module's code depends on."""

    #: A constant without a `key` is taken from the words that are pushed.
    steps: tuple[Step, ...]
    #: The dtypes of the inputs, and how each is read.
    inputs: tuple[tuple[DType, Access], ...]
    #: The number of axes; 0 where no input is strided.
    rank: int = 0
    #: The words, if they are written into the module.
    baked: tuple[int, ...] = ()
    #: Forms are keys of what was made of them, and their steps many: the hash is computed once.
    _hash: int = field(init=False, compare=False, repr=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.steps, self.inputs, self.rank, self.baked)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def result(self) -> DType:
        """The dtype of the output."""
        return self.steps[-1].dtype


def words_of(form: ModuleForm) -> int:
    """Return the number of words that a module is given."""
    return places_words(form) + sum(dtype_words(step.dtype) for step in form.steps if is_given(step))


def numbers_given(steps: tuple[Step, ...]) -> tuple[tuple[Step, ...], tuple[int, ...]]:
    """Return the steps with all constants to be taken from the words, and the words that they are."""
    words = list[int]()
    for step in steps:
        if isinstance(step.key, bytes):
            number = int.from_bytes(step.key, "little", signed=step.dtype.is_signed_int)
            words += [number >> shift & 0xFFFFFFFF for shift in range(0, 32 * dtype_words(step.dtype), 32)]
    return tuple([step._replace(key=None) if isinstance(step.key, bytes) else step for step in steps]), tuple(words)


def is_given(step: Step) -> bool:
    """Return whether a step is a constant that comes with the words."""
    return step.op is None and step.key is None


def dtype_words(dtype: DType) -> int:
    """Return the words of a number that is given."""
    return 2 if dtype.bits == 64 else 1


def places_words(form: ModuleForm) -> int:
    """Return the number of words that say where elements are, which come first."""
    strided = sum(access is Access.STRIDED for _, access in form.inputs)
    return 2 + len(form.inputs) + (form.rank - 1 + strided * form.rank if strided else 0)
