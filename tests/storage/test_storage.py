"""Storages: leases that never wait, poison, and the host's numpy faces."""

from __future__ import annotations

import asyncio
import math
import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_async.errors import (
    BundleMisuse,
    DTypeMismatch,
    DTypeParseError,
    KernelArgumentError,
    NotAdoptable,
    ReadOnlyStorage,
    ShapeMismatch,
    StorageBusy,
    StoragePoisoned,
    UserError,
    WrongSubstrate,
)
from fuel_async.ir import (
    CPU_DEVICE,
    BackendId,
    DeviceLocation,
    DType,
    Layout,
    OutputView,
    SubstrateClass,
    compose_bundle,
)
from fuel_async.storage import (
    HOST_ALIGNMENT,
    Storage,
    alloc_bundle,
    alloc_cpu,
    as_array,
    cpu_input,
    cpu_output,
    from_array,
    read_storage,
    slot_arrays,
    write_storage,
)

ADDRESSABLE = [dtype for dtype in DType if dtype.np is not None]


@pytest.fixture
def storage() -> Storage:
    return alloc_cpu(DType.F32, 4, zeroed=True)


@pytest.fixture
def elsewhere() -> Storage:
    """A storage whose buffer numpy cannot address."""
    gpu = DeviceLocation(BackendId.CUDA, 1)
    return Storage(DType.F32, 16, gpu, SubstrateClass.CudaUntyped, object())


# --- leases ---


def test_many_readers_share_a_storage(storage: Storage) -> None:
    with read_storage(storage) as one, read_storage(storage) as two:
        assert one is two is storage


def test_a_writer_excludes_readers_and_the_error_names_the_storage(storage: Storage) -> None:
    with write_storage(storage) as held:
        assert held is storage
        with pytest.raises(StorageBusy, match=r"cannot read storage 0x\w+ \(f32, 16 bytes on cpu:0\)") as caught:
            read_storage(storage).__enter__()
        assert (caught.value.access, caught.value.holders) == ("read", "a writer")
    with read_storage(storage):
        pass


def test_a_writer_excludes_another_writer(storage: Storage) -> None:
    with write_storage(storage), pytest.raises(StorageBusy, match="cannot write"):
        write_storage(storage).__enter__()
    assert not storage.is_poisoned


def test_a_reader_excludes_writers(storage: Storage) -> None:
    with read_storage(storage), read_storage(storage), pytest.raises(StorageBusy) as caught:
        write_storage(storage).__enter__()
    assert caught.value.holders == "2 reader(s)"
    with write_storage(storage):
        pass


def test_one_storage_as_input_and_output_of_a_call_is_found_instead_of_deadlocking(storage: Storage) -> None:
    with pytest.raises(StorageBusy), read_storage(storage), write_storage(storage):
        pytest.fail("the lease was granted")


def test_a_refused_lease_leaves_the_leases_that_are_held(storage: Storage) -> None:
    with read_storage(storage):
        with pytest.raises(StorageBusy):
            write_storage(storage).__enter__()
        with read_storage(storage):
            pass
    with write_storage(storage):
        pass


def test_a_lease_is_refused_at_once_whatever_thread_holds_it(storage: Storage) -> None:
    refused: list[StorageBusy] = []

    def other() -> None:
        try:
            read_storage(storage).__enter__()
        except StorageBusy as error:
            refused.append(error)

    with write_storage(storage):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(5)
    assert len(refused) == 1


# --- poison ---


def test_an_error_of_ours_escaping_a_writer_does_not_poison(storage: Storage) -> None:
    with pytest.raises(KernelArgumentError), write_storage(storage):
        raise KernelArgumentError("add", "input 0", "i32", "f32")
    assert not storage.is_poisoned
    with read_storage(storage):
        pass


@pytest.mark.parametrize(
    "error",
    [
        ValueError("kernel died"),
        asyncio.CancelledError(),
        KeyboardInterrupt(),
        GeneratorExit(),
        MemoryError(),
    ],
)
def test_anything_else_escaping_a_writer_poisons(storage: Storage, error: BaseException) -> None:
    with pytest.raises(type(error)), write_storage(storage):
        raise error
    assert storage.is_poisoned
    with pytest.raises(StoragePoisoned, match="cannot read") as reading:
        read_storage(storage).__enter__()
    with pytest.raises(StoragePoisoned, match="cannot write") as writing:
        write_storage(storage).__enter__()
    assert (reading.value.access, writing.value.access) == ("read", "write")


def test_an_error_escaping_a_reader_poisons_nothing(storage: Storage) -> None:
    with pytest.raises(ValueError, match="reader"), read_storage(storage):
        raise ValueError("reader")
    with write_storage(storage):
        pass


def test_a_cleared_poison_lets_the_storage_be_used_again(storage: Storage) -> None:
    storage.poison()
    assert "poisoned" in repr(storage)
    with pytest.raises(StoragePoisoned, match="clear_poison"):
        write_storage(storage).__enter__()
    storage.clear_poison()
    with write_storage(storage):
        pass
    with read_storage(storage):
        pass
    assert "poisoned" not in repr(storage)


# --- identity and allocation ---


def test_storages_are_compared_by_identity() -> None:
    array = np.zeros(2, np.float32)
    one, two = from_array(array), from_array(array)
    assert one != two
    assert len({one, two}) == 2


@given(st.sampled_from(ADDRESSABLE), st.integers(0, 300), st.booleans())
def test_allocated_memory_is_aligned_and_as_large_as_asked(dtype: DType, count: int, zeroed: bool) -> None:
    storage = alloc_cpu(dtype, count, zeroed=zeroed)
    if count:  # numpy gives no address away for an empty array
        assert storage.buffer.__array_interface__["data"][0] % HOST_ALIGNMENT == 0
    assert storage.nbytes == storage.buffer.nbytes == count * dtype.nbytes
    assert (storage.elem_count, storage.device, storage.substrate) == (
        count,
        CPU_DEVICE,
        SubstrateClass.HostBytes,
    )
    if zeroed:
        assert not storage.buffer.any()


def test_allocation_can_be_for_another_device_of_host_memory() -> None:
    sim = DeviceLocation(BackendId("sim"), 3)
    assert alloc_cpu(DType.F32, 1, device=sim).device == sim


@pytest.mark.parametrize("dtype", [DType.F4, DType.F6E2M3, DType.F8E6M2])
def test_memory_for_a_type_without_numpy_form_is_refused(dtype: DType) -> None:
    with pytest.raises(DTypeMismatch):
        alloc_cpu(dtype, 8)


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(UserError, match="not negative"):
        alloc_cpu(DType.F32, -1)


def test_a_sub_byte_storage_has_bytes_but_no_whole_elements() -> None:
    gpu = DeviceLocation(BackendId.CUDA)
    assert Storage(DType.F4, 8, gpu, SubstrateClass.CudaUntyped, object()).elem_count == 0


# --- adopting arrays ---


def test_an_adopted_array_is_the_storage() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    storage = from_array(array)
    assert (storage.dtype, storage.nbytes, storage.elem_count) == (DType.F32, 24, 6)
    cpu_output(storage)[0] = 7
    assert array[0, 0] == 7


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)])
def test_scalars_and_empty_arrays_are_adopted_too(shape: tuple[int, ...]) -> None:
    storage = from_array(np.ones(shape, np.int64))
    assert storage.elem_count == math.prod(shape)
    assert as_array(storage, Layout.contiguous(shape)).shape == shape


def test_a_bool_array_is_adopted_as_u8() -> None:
    storage = from_array(np.array([True, False]))
    assert storage.dtype is DType.U8
    assert cpu_input(storage).tolist() == [1, 0]


def test_a_strided_array_is_not_adopted() -> None:
    with pytest.raises(NotAdoptable, match="ascontiguousarray"):
        from_array(np.zeros((2, 3), np.float32).T)


@pytest.mark.parametrize("dtype", [np.uint16, np.complex64, object, ">f4"])
def test_an_array_of_a_foreign_dtype_is_not_adopted(dtype: Any) -> None:
    with pytest.raises(DTypeParseError):
        from_array(np.zeros(2, dtype))


@pytest.mark.parametrize(
    "buffer",
    [b"\0" * 16, np.zeros((2, 2), np.float32), np.zeros(8, np.float32)[::2], np.zeros(3, np.float32)],
)
def test_a_host_storage_takes_only_a_contiguous_row_of_its_own_size(buffer: Any) -> None:
    with pytest.raises(NotAdoptable, match="1-D numpy array"):
        Storage(DType.F32, 16, CPU_DEVICE, SubstrateClass.HostBytes, buffer)


# --- the host's faces ---


def test_an_input_is_a_read_only_view_of_the_storages_own_dtype(storage: Storage) -> None:
    face = cpu_input(storage)
    assert face.dtype == np.float32
    assert face.shape == (4,)
    assert np.shares_memory(face, storage.buffer)
    with pytest.raises(ValueError, match="read-only"):
        face[0] = 1
    assert cpu_output(storage).flags.writeable


def test_an_output_writes_through(storage: Storage) -> None:
    cpu_output(storage)[:] = [1, 2, 3, 4]
    assert cpu_input(storage).tolist() == [1, 2, 3, 4]


def test_an_adopted_read_only_array_is_no_output() -> None:
    array = np.zeros(2, np.float32)
    array.flags.writeable = False
    storage = from_array(array)
    assert cpu_input(storage).shape == (2,)
    assert not as_array(storage, Layout.contiguous((2,))).flags.writeable
    with pytest.raises(ReadOnlyStorage, match="read-only"):
        cpu_output(storage)


def test_a_storage_of_another_substrate_has_no_host_face(elsewhere: Storage) -> None:
    with pytest.raises(WrongSubstrate, match=r"input storage .* lives on cuda_untyped"):
        cpu_input(elsewhere)
    with pytest.raises(WrongSubstrate, match="output storage"):
        cpu_output(elsewhere)
    with pytest.raises(WrongSubstrate, match="insert a copy"):
        as_array(elsewhere, Layout.contiguous((4,)))
    with read_storage(elsewhere) as leased:
        assert leased.device == DeviceLocation(BackendId.CUDA, 1)


@pytest.mark.parametrize("dtype", ADDRESSABLE)
def test_a_layout_shows_the_same_elements_numpys_strides_would(dtype: DType) -> None:
    array = np.arange(12).reshape(3, 4).astype(dtype.require_np())
    storage, layout = from_array(array), Layout.contiguous((3, 4))
    views = [
        (layout, array),
        (layout.permute((1, 0)), array.T),
        (layout.flip((0, 1)), array[::-1, ::-1]),
        (layout.narrow(1, 1, 2), array[:, 1:3]),
        (layout.narrow(0, 1, 1).broadcast_to((2, 3, 4)), np.broadcast_to(array[1:2], (2, 3, 4))),
    ]
    for described, wanted in views:
        face = as_array(storage, described)
        assert (face.dtype, face.shape) == (wanted.dtype, wanted.shape)
        assert face.tobytes() == wanted.tobytes()
        assert np.shares_memory(face, array)


def test_a_strided_face_writes_through_when_the_storage_is_writable(storage: Storage) -> None:
    as_array(storage, Layout.contiguous((4,)).flip(0))[:] = [1, 2, 3, 4]
    assert cpu_input(storage).tolist() == [4, 3, 2, 1]


@pytest.mark.parametrize(
    "layout", [Layout((5,), (1,)), Layout((4,), (1,), 1), Layout((2,), (-1,), 0), Layout((1,), (1,), -1)]
)
def test_a_layout_that_leaves_the_storage_is_refused(storage: Storage, layout: Layout) -> None:
    with pytest.raises(ShapeMismatch, match="outside storage"):
        as_array(storage, layout)


def test_an_empty_layout_fits_anywhere(storage: Storage) -> None:
    assert as_array(storage, Layout((0, 3), (3, 1), 99)).shape == (0, 3)


def test_bfloat16_comes_out_as_ml_dtypes_has_it() -> None:
    storage = alloc_cpu(DType.BF16, 2)
    cpu_output(storage)[:] = [1.5, -2.0]
    assert as_array(storage, Layout.contiguous((2,))).dtype == ml_dtypes.bfloat16
    assert cpu_input(storage).astype(np.float32).tolist() == [1.5, -2.0]


# --- bundles ------------------------------------------------------------------------------------------------------


def packed(*slots: tuple[DType, tuple[int, ...]]) -> tuple[OutputView, ...]:
    return compose_bundle(slots)[1]


TWO = packed((DType.F32, (3,)), (DType.F64, (2, 2)))


def test_a_bundle_holds_whole_elements_of_slot_0() -> None:
    storage = alloc_bundle(packed((DType.F32, (1,)), (DType.U8, (3,))))
    assert (storage.dtype, storage.nbytes, storage.elem_count) == (DType.F32, 8, 2)
    assert [view.offset for view in storage.bundle or ()] == [0, 4]
    assert alloc_cpu(DType.F32, 2).bundle is None


def test_slots_are_views_of_one_storage() -> None:
    storage = alloc_bundle(TWO)
    first, second = slot_arrays(storage)
    first[...], second[...] = [1, 2, 3], 7
    assert [first.dtype, second.dtype] == [np.dtype(np.float32), np.dtype(np.float64)]
    assert (first.shape, second.shape) == ((3,), (2, 2))
    assert cpu_input(storage)[:3].tolist() == [1, 2, 3]
    assert as_array(storage, TWO[1].layout, DType.F64).tolist() == [[7, 7], [7, 7]]
    assert as_array(storage, TWO[0].layout).tolist() == [1, 2, 3]
    assert as_array(storage, Layout.contiguous((3,)).flip(0), DType.F32).tolist() == [3, 2, 1]
    assert np.shares_memory(as_array(storage, TWO[1].layout, DType.F64), second)


def test_a_slot_without_elements_takes_no_room() -> None:
    first, second = slot_arrays(alloc_bundle(packed((DType.F32, (0, 3)), (DType.I32, (2,)))))
    assert (first.shape, second.shape) == ((0, 3), (2,))


def test_only_dtypes_of_slots_are_seen_in_a_bundle() -> None:
    with pytest.raises(BundleMisuse, match="has no slot of dtype i64"):
        as_array(alloc_bundle(TWO), Layout.contiguous((2,)), DType.I64)
    with pytest.raises(BundleMisuse, match="has no slot of dtype f64"):
        as_array(alloc_cpu(DType.F32, 4), Layout.contiguous((2,)), DType.F64)
    assert as_array(from_array(np.ones(2, np.float32)), Layout.contiguous((2,)), DType.F32).tolist() == [1, 1]
    with pytest.raises(ShapeMismatch, match="outside"):
        as_array(alloc_bundle(TWO), Layout.contiguous((9,), 2), DType.F64)


def test_what_has_no_slots_gives_none() -> None:
    with pytest.raises(BundleMisuse, match="holds one value and has no slots"):
        slot_arrays(alloc_cpu(DType.F32, 4))


@pytest.mark.parametrize(
    ("views", "found"),
    [
        ((), "wanted a slot 0 of dtype f32"),
        (packed((DType.F64, (1,))), "wanted a slot 0 of dtype f32"),
        (packed((DType.F32, (5,))), "slot 0 takes bytes 0 to 20"),
        (packed((DType.F32, (2,)), (DType.F32, (3,))), "slot 1 takes bytes 8 to 20"),
        ((TWO[0], OutputView(DType.F32, (1,), 2)), "slot 1 takes bytes 2 to 6"),
        ((TWO[0], OutputView(DType.F32, (1,), -4)), "slot 1 takes bytes -4 to 0"),
    ],
)
def test_slots_that_do_not_fit_a_storage(views: tuple[OutputView, ...], found: str) -> None:
    storage = alloc_cpu(DType.F32, 4)
    with pytest.raises(BundleMisuse) as refused:
        storage.with_bundle(views)
    assert found in str(refused.value)
    assert storage.bundle is None


def test_slots_are_given_once() -> None:
    storage = alloc_bundle(TWO)
    with pytest.raises(BundleMisuse, match="has slots already"):
        storage.with_bundle(TWO)
    with pytest.raises(BundleMisuse, match="at least one slot"):
        alloc_bundle(())
