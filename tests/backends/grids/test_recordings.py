"""Recordings: found again by the arrays that they are over, the latest few kept, the oldest handed on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fuel_async.backends.blocks import Block
from fuel_async.backends.grids.recordings import RECORDINGS, Recordings
from fuel_async.dispatch import SlotClass
from fuel_async.errors import InternalError


class Array:
    """Bytes at a place."""

    def __init__(self, number: int, offset: int = 0) -> None:
        self.block, self.offset = Block(number, 64), offset


ARENA, CONSTANT = Array(100), Array(101)


def recordings(feeds: int = 1, outputs: int = 1, scalars: int = 0) -> Recordings[Array, Any]:
    ports = tuple([tuple(range(count)) for count in (feeds, outputs, 0, scalars)])
    program: Any = SimpleNamespace(ports=ports)
    return Recordings(program, ARENA, [CONSTANT])


def test_equal_places_are_one_recording_whatever_the_objects() -> None:
    found, made = recordings(), list[Any]()

    def record(place: Any, old: Any) -> object:
        made.append(old)
        return object()

    first = found.get([Array(1), Array(2, 64)], record)
    assert found.get([Array(1), Array(2, 64)], record) is first
    assert found.get([Array(1), Array(2)], record) is not first
    assert found.get([Array(2, 64), Array(1)], record) is not first
    assert (made, len(found)) == ([None, None, None], 3)
    assert first in list(found)


def test_the_one_that_was_longest_not_used_makes_room_and_is_handed_on() -> None:
    found, handed = recordings(), list[Any]()

    def run(number: int) -> Any:
        def record(place: Any, old: Any) -> int:
            handed.append(old)
            return number

        return found.get([Array(number), Array(0)], record)

    for number in range(RECORDINGS):
        run(number)
    run(0)
    run(RECORDINGS)
    assert handed[RECORDINGS:] == [1], "0 was used later than 1"
    assert sorted(found) == [0, *range(2, RECORDINGS + 1)]
    assert run(0) == 0
    assert len(handed) == RECORDINGS + 1


def test_spaces_lie_in_the_arena_the_constants_and_what_is_given() -> None:
    found, feed, output, scalar = recordings(scalars=1), Array(1), Array(2), Array(3)
    place = found.get([feed, output, scalar], lambda place, _: place)
    wanted = {
        (SlotClass.TEMPORARY, 0): ARENA,
        (SlotClass.CONSTANT, 0): CONSTANT,
        (SlotClass.FEED, 0): feed,
        (SlotClass.OUTPUT, 0): output,
        (SlotClass.SCALAR, 0): scalar,
    }
    assert {space: place((int(space[0]), space[1])) for space in wanted} == wanted


def test_what_is_given_is_arrays_in_order_and_scalars() -> None:
    found = recordings(2, 1, scalars=1)
    a, b, c = Array(1), Array(2), Array(3)
    assert found.split([[a, b], [c], [], [2.5]]) == ([a, b, c], [2.5])
    assert not found.is_always_the_same
    nothing = recordings(0, 0)
    assert nothing.split(()) == ([], ())
    assert nothing.is_always_the_same


@pytest.mark.parametrize("given", [(), ([1], [], [], []), ([1], [2], [], [3]), ([1], [2])])
def test_too_few_and_too_many_are_refused(given: Any) -> None:
    with pytest.raises(InternalError, match="2 arrays must be given to"):
        recordings().split(given)
