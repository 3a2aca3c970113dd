"""DeviceArray: numpy's, DLPack's and the caller's view of a result that stayed on its device."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from fuel_async.errors import NotExportable, StoragePoisoned, WrongSubstrate
from fuel_async.ir import CPU_DEVICE, BackendId, DeviceLocation, DType, Layout, SubstrateClass
from fuel_async.storage import DeviceArray, Storage, from_array


@pytest.fixture
def source() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def array(source: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> DeviceArray:
    return DeviceArray(from_array(source), Layout.contiguous((2, 3)))


@pytest.fixture
def elsewhere() -> DeviceArray:
    gpu = DeviceLocation(BackendId.CUDA, 1)
    return DeviceArray(Storage(DType.F32, 24, gpu, SubstrateClass.CudaUntyped, object()), Layout.contiguous((2, 3)))


def test_an_array_says_what_it_is(array: DeviceArray) -> None:
    assert (array.shape, array.ndim, array.dtype, array.device) == ((2, 3), 2, DType.F32, CPU_DEVICE)
    assert (array.nbytes, array.boolean) == (24, False)
    assert array.layout == Layout.contiguous((2, 3))
    assert repr(array) == "<DeviceArray f32[2, 3] on cpu:0>"


def test_numpy_shares_its_memory(array: DeviceArray) -> None:
    array.numpy()[0, 0] = 9
    assert array.numpy()[0, 0] == 9
    assert np.shares_memory(array.numpy(), array.storage.buffer)


def test_numpy_functions_take_it_without_a_copy_unless_one_is_asked_for(array: DeviceArray) -> None:
    assert np.shares_memory(np.asarray(array), array.storage.buffer)
    assert not np.shares_memory(np.array(array, copy=True), array.storage.buffer)
    assert np.asarray(array, np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="copy"):
        np.asarray(array, np.float64, copy=False)


def test_a_strided_array_comes_out_strided() -> None:
    storage = from_array(np.arange(6, dtype=np.int64))
    turned = DeviceArray(storage, Layout.contiguous((2, 3)).permute((1, 0)))
    assert turned.numpy().tolist() == [[0, 3], [1, 4], [2, 5]]
    assert np.from_dlpack(turned).tolist() == [[0, 3], [1, 4], [2, 5]]


def test_truth_values_come_out_as_bool() -> None:
    flags = DeviceArray(from_array(np.array([1, 0, 1], np.uint8)), Layout.contiguous((3,)), boolean=True)
    assert flags.dtype is DType.U8
    assert flags.numpy().dtype == np.bool_
    assert np.from_dlpack(flags).tolist() == [True, False, True]
    assert repr(flags) == "<DeviceArray bool[3] on cpu:0>"


def test_dlpack_round_trip_shares_memory(array: DeviceArray) -> None:
    back = np.from_dlpack(array)
    assert back.dtype == np.float32
    assert back.shape == (2, 3)
    assert np.shares_memory(back, array.storage.buffer)
    assert np.array_equal(back, array.numpy())


def test_dlpack_copies_on_request_only(array: DeviceArray) -> None:
    assert not np.shares_memory(np.from_dlpack(array, copy=True), array.storage.buffer)
    assert np.shares_memory(np.from_dlpack(array, copy=False), array.storage.buffer)


def test_dlpack_names_host_memory_and_exports_to_it_only(array: DeviceArray) -> None:
    assert array.__dlpack_device__() == (1, 0)
    assert np.from_dlpack(array, device="cpu").shape == (2, 3)
    with pytest.raises(BufferError) as caught:
        array.__dlpack__(dl_device=(2, 0))
    assert isinstance(caught.value, NotExportable)
    assert caught.value.__cause__ is not None


def test_dlpack_has_no_stream_to_wait_for_on_the_host(array: DeviceArray) -> None:
    with pytest.raises(NotExportable, match="no stream 1"):
        array.__dlpack__(stream=1)


def test_a_dtype_that_dlpack_cannot_carry_is_a_typed_buffer_error() -> None:
    half = DeviceArray(from_array(np.zeros(2, ml_dtypes.bfloat16)), Layout.contiguous((2,)))
    with pytest.raises(BufferError, match="another dtype") as caught:
        np.from_dlpack(half)
    assert isinstance(caught.value, NotExportable)


def test_an_array_elsewhere_is_a_reference_that_numpy_cannot_read(elsewhere: DeviceArray) -> None:
    assert (elsewhere.shape, str(elsewhere.device)) == ((2, 3), "cuda:1")
    with pytest.raises(WrongSubstrate):
        elsewhere.numpy()
    with pytest.raises(WrongSubstrate):
        elsewhere.__dlpack__()
    with pytest.raises(WrongSubstrate):
        elsewhere.__dlpack_device__()


def test_a_poisoned_array_gives_no_values_away(array: DeviceArray) -> None:
    array.storage.poison()
    with pytest.raises(StoragePoisoned):
        array.numpy()
    with pytest.raises(StoragePoisoned):
        np.from_dlpack(array)


def test_an_empty_and_a_zero_dimensional_array_round_trip() -> None:
    empty = DeviceArray(from_array(np.zeros((0, 3), np.float32)), Layout.contiguous((0, 3)))
    scalar = DeviceArray(from_array(np.array(2.5)), Layout.contiguous(()))
    assert np.from_dlpack(empty).shape == (0, 3)
    assert np.from_dlpack(scalar).shape == ()
    assert scalar.numpy()[()] == 2.5
