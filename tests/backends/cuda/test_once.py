"""Single kernels over storages of a device: called by their plain signature, waited for, with leases and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fuel_async.dispatch import NoParams, OpParams
from fuel_async.errors import DeviceLost, ExecutorClosed, StorageBusy, StoragePoisoned
from fuel_async.ir import BackendId, DType, Layout, OpKind
from fuel_async.registry import global_bindings
from fuel_async.storage import read_storage, stored
from tests.backends.cuda.support import ILLEGAL_ADDRESS, Doubled
from tests.backends.grids.devices import put, values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.cuda.device import CudaDevice

F32 = DType.F32


def kernel(op: OpKind, dtypes: Sequence[DType]) -> Any:
    return global_bindings().lookup(op, tuple(dtypes), BackendId.CUDA)


def lying(device: CudaDevice, array: Any) -> Any:
    return stored(put(device, array), device.location)


def test_a_kernel_reads_strides_and_writes_its_output(device: CudaDevice) -> None:
    x, y = lying(device, values(12)), lying(device, np.zeros(6, np.float32))
    turned = Layout((3, 2), (1, 3), 6)
    kernel(OpKind.NegElementwise, (F32, F32))([x], [y], [turned, Layout.contiguous((3, 2))], NoParams())
    np.testing.assert_array_equal(y.buffer.read().reshape(3, 2), -values(12)[6:].reshape(2, 3).T)


def test_a_kernel_has_the_working_memory_that_it_asks_for(device: CudaDevice) -> None:
    count = 200_000
    x, y = lying(device, values(count)), lying(device, np.zeros(1, np.float32))
    sums = kernel(OpKind.SumReduce, (F32, F32))
    params = OpParams.Reduce((0,))
    assert sums.scratch(params, [(count,)], ())
    sums([x], [y], [Layout.contiguous((count,)), Layout.contiguous(())], params)
    assert y.buffer.read()[0] == pytest.approx(values(count).sum(dtype=np.float64), rel=1e-3)


def test_a_product_is_computed_by_itself(device: CudaDevice) -> None:
    x, y = lying(device, values(16).reshape(4, 4)), lying(device, np.zeros((4, 4), np.float32))
    product, square = kernel(OpKind.MatMul, (F32, F32, F32)), Layout.contiguous((4, 4))
    product([x, x], [y], [square] * 3, OpParams.Matmul((), (), 4, 4, 4))
    np.testing.assert_allclose(
        y.buffer.read(), values(16).reshape(4, 4) @ values(16).reshape(4, 4), rtol=1e-5, atol=1e-6
    )


def test_storages_are_leased_meanwhile(device: CudaDevice) -> None:
    x, y = lying(device, values(4)), lying(device, np.zeros(4, np.float32))
    negate, layouts = kernel(OpKind.NegElementwise, (F32, F32)), [Layout.contiguous((4,))] * 2
    with read_storage(y), pytest.raises(StorageBusy):
        negate([x], [y], layouts, NoParams())
    x.poison()
    with pytest.raises(StoragePoisoned):
        negate([x], [y], layouts, NoParams())
    x.clear_poison()
    negate([x], [y], layouts, NoParams())
    np.testing.assert_array_equal(y.buffer.read(), -values(4))


def test_a_kernel_that_crashes_poisons_what_it_wrote(one: Doubled) -> None:
    (device,) = one.devices
    x, y = lying(device, values(4)), lying(device, np.zeros(4, np.float32))
    one.machine.inject_error(0, ILLEGAL_ADDRESS, at="launch")
    with pytest.raises(DeviceLost, match="illegal memory access"):
        kernel(OpKind.NegElementwise, (F32, F32))([x], [y], [Layout.contiguous((4,))] * 2, NoParams())
    assert (x.is_poisoned, y.is_poisoned) == (False, True)


def test_a_closed_device_runs_none(device: CudaDevice) -> None:
    x, y = lying(device, values(4)), lying(device, np.zeros(4, np.float32))
    device.close()
    with pytest.raises(ExecutorClosed):
        kernel(OpKind.NegElementwise, (F32, F32))([x], [y], [Layout.contiguous((4,))] * 2, NoParams())
