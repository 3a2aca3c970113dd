"""Counting the elements and bytes of a call's operands: what the formulas of `cost.layer1` have in common. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from fuel_async.ir import DType

if TYPE_CHECKING:
    from fuel_async.dispatch import KernelDTypes

#: Of the inputs, then of the output.
Shapes: TypeAlias = Sequence[tuple[int, ...]]

#: Overhead of starting a simple kernel, a matrix product and an attention on the host, in nanoseconds.
CALL_NS, MATMUL_NS, ATTENTION_NS = 50, 100, 200


def nbytes(count: int, dtypes: KernelDTypes, position: int) -> int:
    """Bytes of `count` elements of an operand; 4 an element when its dtype is not said. Sub-byte types are
    packed.
    """
    bits = dtypes[position].bits if position < len(dtypes) else DType.F32.bits
    return (count * bits + 7) // 8


def counts(shapes: Shapes) -> tuple[int, int]:
    """Elements of all inputs together, and of the output."""
    sizes = [math.prod(shape) for shape in shapes] or [0]
    return sum(sizes[:-1]), sizes[-1]


def all_nbytes(shapes: Shapes, dtypes: KernelDTypes) -> int:
    """Bytes of all operands and the output, each visited once."""
    return sum(nbytes(math.prod(shape), dtypes, place) for place, shape in enumerate(shapes))
