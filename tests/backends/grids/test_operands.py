"""Operands as kernels see them, and the hazards between dispatches over them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fuel_async.backends.grids.operands import Bound, Hazards, bound, is_same
from fuel_async.ir import DType, Layout


def _piece(space: int, low: int, high: int) -> Bound:
    made = bound(DType.U8, Layout.contiguous((high - low,)), (2, space), low, 16, LIMITS)
    assert (made.low, made.high) == (low, high)
    return made


LIMITS: Any = type("Limits", (), {"max_range_nbytes": 1 << 20})


def test_hazards_agree_with_looking_at_every_byte() -> None:
    chance = random.Random(3)
    for _ in range(200):
        hazards, read, written = Hazards(), set[tuple[int, int]](), set[tuple[int, int]]()
        for _ in range(30):
            pieces = []
            for _ in range(3):
                low = chance.randrange(64)
                pieces.append(_piece(chance.randrange(2), low, low + chance.randint(0, 8)))
            *reads, write = pieces
            touched = [{(one.space[1], at) for at in range(one.low, one.high)} for one in pieces]
            due = bool(written & (touched[0] | touched[1] | touched[2])) or bool(read & touched[2])
            assert hazards.step(reads, [write]) == due
            if due:
                read, written = set(), set()
            read |= touched[0] | touched[1]
            written |= touched[2]


@pytest.mark.parametrize(("shape", "strides", "offset"), [((3, 4), (4, 1), 0), ((3,), (-2,), 9), ((2, 0), (1, 1), 5)])
def test_an_operand_touches_the_bytes_of_its_elements(
    shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> None:
    layout = Layout(shape, strides, offset)
    found = bound(DType.F32, layout, (2, 0), 512 + 8, 256, LIMITS)
    span = layout.span()
    assert found.start % 256 == 0
    assert found.nbytes % 4 == 0
    assert found.nbytes >= 4
    first = found.start + 4 * found.operand.offset
    assert first == 520 + 4 * offset
    if span is not None:
        assert (found.low, found.high) == (520 + 4 * span[0], 520 + 4 * span[1] + 4)
        assert found.start <= found.low
        assert found.high <= found.start + found.nbytes


def test_only_the_same_elements_in_the_same_order_are_the_same() -> None:
    def lying(space: int, base: int, *strides: int) -> Bound:
        return bound(DType.F32, Layout((3, 3), strides, 0), (2, space), base, 256, LIMITS)

    assert is_same(lying(0, 512, 3, 1), lying(0, 512, 3, 1))
    for other in (lying(1, 512, 3, 1), lying(0, 768, 3, 1), lying(0, 516, 3, 1), lying(0, 512, 1, 3)):
        assert not is_same(lying(0, 512, 3, 1), other)
