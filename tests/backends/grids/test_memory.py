"""Arrays, arenas and memory of devices of grids, over blocks that are plain arrays of the host."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.backends.blocks import BLOCK_NBYTES, DEFAULT_BUDGET_SHARE, Block
from fuel_async.backends.grids.memory import GridArray, GridMemory
from fuel_async.dispatch import SlotClass
from fuel_async.errors import DeviceLost, FuelError, InternalError, OutOfMemory
from fuel_async.ir import DType
from tests.backends.grids.devices import planned

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


class Fate:
    """A device that may be lost."""

    name = "plain:0"

    def __init__(self) -> None:
        self.lost: FuelError | None = None
        self.on_lost: Callable[[], object] = lambda: None

    def lose(self, error: DeviceLost) -> None:
        self.lost = error
        self.on_lost()


class Bytes(Block):
    __slots__ = ("data",)

    def __init__(self, number: int, nbytes: int) -> None:
        super().__init__(number, nbytes)
        self.data = np.zeros(nbytes, np.uint8)


class Plain(GridArray):
    __slots__ = ()
    block: Bytes

    @property
    def seen(self) -> NDArray[Any]:
        return np.ndarray(self.shape, self.dtype.require_np(), self.block.data, self.offset)

    def _read_into(self, copy: NDArray[Any]) -> None:
        copy[...] = self.seen


class Memory(GridMemory[Plain]):
    context: Fate

    def __init__(self, budget_nbytes: int | None = 1 << 20, freed: Any = None) -> None:
        super().__init__(Fate(), Plain, 1 << 20, budget_nbytes, 64, freed)
        self.error: Exception | None = None

    def _make(self, nbytes: int, number: int) -> Bytes:
        if self.error is not None:
            raise self.error
        return Bytes(number, nbytes)


def test_the_budget_is_a_share_of_the_memory_unless_it_is_given() -> None:
    assert Memory(None).budget_nbytes == int((1 << 20) * DEFAULT_BUDGET_SHARE)
    assert Memory(4_096).budget_nbytes == 4_096 < BLOCK_NBYTES


def test_arrays_are_apart_aligned_and_read_as_copies() -> None:
    memory = Memory()
    first, second = memory.allocate_array((3, 5), DType.F32), memory.allocate_array((7,), DType.I64)
    assert (first.nbytes, second.nbytes, first.offset % 64, second.offset % 64) == (60, 56, 0, 0)
    first.seen[...], second.seen[...] = 1.5, 7
    copy = first.read()
    first.seen[...] = 0
    assert (copy == 1.5).all()
    assert (second.read() == 7).all()
    assert repr(first) == "<Plain f32[3, 5] on plain:0>"


def test_a_part_keeps_the_whole() -> None:
    memory = Memory()
    whole = memory.allocate_array((64,), DType.U8)
    whole.seen[...] = np.arange(64)
    part = whole.part(16, (2, 4), DType.U8)
    inner = part.part(4, (4,), DType.U8)
    del whole, part
    gc.collect()
    assert memory.used_nbytes == 64
    np.testing.assert_array_equal(inner.read(), [20, 21, 22, 23])
    del inner
    gc.collect()
    assert memory.used_nbytes == 0


def test_freed_bytes_are_told_of_before_they_are_given_again() -> None:
    told = list[tuple[int, int]]()
    memory = Memory(freed=lambda stretch: told.append((stretch.offset, stretch.nbytes)))
    array: Any = memory.allocate_array((100,), DType.U8)
    assert memory.reserved_nbytes == 1 << 20
    place = array.offset
    del array
    gc.collect()
    assert memory.allocate_array((1,), DType.U8).offset == place
    assert told == [(place, 128)]


def test_an_arena_has_the_temporaries_of_a_plan() -> None:
    from fuel_async.backends.base import OpenOptions
    from fuel_async.backends.cpu import BACKEND

    (info,) = BACKEND.discover()  # type: ignore[misc]
    host = BACKEND.open(info, OpenOptions())

    def build(graph: fa.Graph) -> None:
        x = graph.input("x", (8, 8), fa.f32)
        graph.output("y", (x @ x) @ x)

    (region,) = planned(host, build).regions
    slots, arena = region.program.slots, Memory().allocate(region.program.arena_nbytes)
    by_class = {SlotClass(cls): slot for slot, cls in enumerate(slots.classes)}
    found = arena.array(slots, by_class[SlotClass.TEMPORARY])
    assert (found.shape, found.dtype, found.owner) == ((8, 8), DType.F32, arena.bytes)
    assert found.offset == arena.bytes.offset + slots.places[by_class[SlotClass.TEMPORARY]]
    assert arena.array(slots, by_class[SlotClass.TEMPORARY]) is found
    with pytest.raises(InternalError, match="is not in the arena"):
        arena.array(slots, by_class[SlotClass.FEED])


def test_a_refusal_says_what_there_is() -> None:
    memory = Memory()
    with pytest.raises(OutOfMemory, match="plain:0"):
        memory.allocate_array(((1 << 20) + 1,), DType.U8)
    memory.error = OutOfMemory("plain:0", 1, 2)
    with pytest.raises(OutOfMemory):
        memory.allocate_array((4,), DType.U8)
    assert (memory.used_nbytes, memory.reserved_nbytes) == (0, 0)


def test_a_lost_device_gives_and_shows_nothing() -> None:
    memory = Memory()
    array = memory.allocate_array((4,), DType.U8)
    memory.context.lost = DeviceLost("plain:0", "gone")
    for call in (array.read, lambda: memory.allocate_array((4,), DType.U8), lambda: memory.allocate(4)):
        with pytest.raises(DeviceLost, match="gone") as caught:
            call()
        assert caught.value is not memory.context.lost, "each caller has an error of its own"


def test_a_loss_at_an_allocation_is_noted_and_who_hears_of_it_may_allocate() -> None:
    memory, errors = Memory(), list[type[Exception]]()

    def hear() -> None:
        try:
            memory.allocate_array((4,), DType.U8)
        except DeviceLost as error:
            errors.append(type(error))

    memory.error, memory.context.on_lost = DeviceLost("plain:0", "gone"), hear
    with pytest.raises(DeviceLost):
        memory.allocate_array((4,), DType.U8)
    assert memory.context.lost is not None
    assert errors == [DeviceLost]
