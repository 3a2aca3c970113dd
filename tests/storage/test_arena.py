"""Host arenas: where slots lie, and the arrays over them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuel_async.dispatch import SlotClass, SlotTable
from fuel_async.errors import InternalError
from fuel_async.ir import DType, Layout, TensorType
from fuel_async.storage import HostArena, laid_out
from fuel_async.storage.arena import ALIGNMENT

TEMPORARY, FEED = SlotClass.TEMPORARY, SlotClass.FEED


def kind(shape: tuple[int, ...], dtype: DType = DType.F32) -> TensorType:
    return TensorType(shape, dtype, int(np.prod(shape, dtype=np.int64)) * dtype.nbytes)


def table(*slots: tuple[SlotClass, int, TensorType, Layout | None]) -> SlotTable:
    classes, places, types, layouts = zip(*slots, strict=True)
    return SlotTable(classes, places, types, layouts)


def address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


@pytest.mark.parametrize("nbytes", [0, 1, 256, 100_000])
def test_an_arena_begins_at_a_page(nbytes: int) -> None:
    arena = HostArena(nbytes)
    assert arena.nbytes == nbytes
    slots = table((TEMPORARY, 0, kind((nbytes,), DType.U8), None))
    assert address(arena.array(slots, 0)) % ALIGNMENT == 0


def test_slots_lie_where_the_plan_put_them() -> None:
    arena = HostArena(4_096)
    slots = table(
        (TEMPORARY, 0, kind((8,)), None),
        (TEMPORARY, 512, kind((4, 2), DType.F64), None),
        (TEMPORARY, 512, kind((3,), DType.U8), None),
    )
    first, second, third = (arena.array(slots, slot) for slot in range(3))
    assert (second.shape, second.dtype.name) == ((4, 2), "float64")
    assert address(second) - address(first) == 512
    assert np.shares_memory(second, third)
    assert not np.shares_memory(first, second)
    assert all(array.flags.writeable and array.flags.aligned and array.flags.c_contiguous for array in (first, second))


def test_a_view_shows_the_bytes_of_its_slot() -> None:
    arena = HostArena(1_024)
    layout = Layout((3, 2), (-2, 5), 9)
    slots = table((TEMPORARY, 256, kind((16,)), None), (TEMPORARY, 256, kind((3, 2)), layout))
    base, view = arena.array(slots, 0), arena.array(slots, 1)
    base[:] = np.arange(16)
    assert view.tolist() == [[9, 14], [7, 12], [5, 10]]
    view[0, 0] = 99
    assert base[9] == 99


def test_a_slot_has_one_array() -> None:
    arena = HostArena(256)
    slots = table((TEMPORARY, 0, kind((8,)), None))
    assert arena.array(slots, 0) is arena.array(slots, 0)


def test_only_temporaries_are_in_an_arena() -> None:
    with pytest.raises(InternalError, match="not in the arena"):
        HostArena(256).array(table((FEED, 0, kind((8,)), None)), 0)


def test_an_arena_holds_no_more_than_was_asked_for() -> None:
    arena = HostArena(256)
    with pytest.raises((TypeError, ValueError)):
        arena.array(table((TEMPORARY, 256 + ALIGNMENT, kind((8,)), None)), 0)


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16, DType.F8E4M3, DType.I64])
def test_every_element_type_can_lie_in_an_arena(dtype: DType) -> None:
    arena = HostArena(512)
    slots = table(
        (TEMPORARY, 256, kind((4,), dtype), None), (TEMPORARY, 256, kind((2,), dtype), Layout((2,), (-2,), 3))
    )
    base, view = arena.array(slots, 0), arena.array(slots, 1)
    base[:] = np.arange(4).astype(dtype.require_np())
    assert base.dtype == dtype.require_np()
    assert view.astype(np.float64).tolist() == [3, 1]


def test_values_without_elements() -> None:
    arena = HostArena(0)
    slots = table((TEMPORARY, 0, kind((0, 3)), None), (TEMPORARY, 0, kind((3, 0)), Layout((3, 0), (1, 3), 0)))
    assert arena.array(slots, 0).shape == (0, 3)
    assert arena.array(slots, 1).shape == (3, 0)


# --- laid_out ---


def test_no_layout_is_the_array_itself() -> None:
    array = np.zeros(3)
    assert laid_out(array, None) is array


def test_a_read_only_array_is_shown_read_only() -> None:
    array = np.arange(4.0)
    array.flags.writeable = False
    assert not laid_out(array, Layout((2,), (2,), 1)).flags.writeable


@given(
    st.sampled_from([np.float32, np.uint8, np.float64]),
    st.lists(st.integers(0, 4), min_size=1, max_size=3),
    st.data(),
)
@settings(max_examples=50)
def test_a_layout_is_what_numpy_makes_of_the_same_views(dtype: Any, shape: list[int], data: st.DataObject) -> None:
    array = np.arange(np.prod(shape), dtype=dtype).reshape(shape)
    layout, shown = Layout.contiguous(tuple(shape)), array
    for _ in range(data.draw(st.integers(0, 4))):
        match data.draw(st.sampled_from(["permute", "flip", "narrow", "expand", "spread"])):
            case "permute":
                axes = data.draw(st.permutations(range(layout.rank)))
                layout, shown = layout.permute(axes), shown.transpose(axes)
            case "flip":
                axis = data.draw(st.integers(0, layout.rank - 1))
                layout, shown = layout.flip(axis), np.flip(shown, axis)
            case "narrow":
                axis = data.draw(st.integers(0, layout.rank - 1))
                size = layout.shape[axis]
                start = data.draw(st.integers(0, size))
                length = data.draw(st.integers(0, size - start))
                layout = layout.narrow(axis, start, length)
                shown = shown.take(range(start, start + length), axis)
            case "expand":
                axis = data.draw(st.integers(0, layout.rank))
                layout, shown = layout.expand_dims(axis), np.expand_dims(shown, axis)
            case _:
                wanted = (2, *layout.shape)
                layout, shown = layout.broadcast_to(wanted), np.broadcast_to(shown, wanted)
    found = laid_out(array, layout)
    assert found.shape == shown.shape
    assert found.tobytes() == shown.tobytes()
