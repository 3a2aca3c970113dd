"""The laws of single kernels over storages of a device: their plain signature, leases, memory, and what they refuse.

A module of tests that imports them has the fixture `device`, and `two_devices`, of one backend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fuel_async.dispatch import NoParams, OpParams
from fuel_async.errors import KernelArgumentError, StorageBusy, StoragePoisoned
from fuel_async.ir import DType, Layout, OpKind
from fuel_async.registry import global_bindings
from fuel_async.storage import from_array, read_storage, stored
from tests.backends.grids.devices import Device, put, values

if TYPE_CHECKING:
    from collections.abc import Sequence

F32 = DType.F32
ROW = [Layout.contiguous((4,))] * 2


def kernel(device: Device, op: OpKind, dtypes: Sequence[DType]) -> Any:
    return global_bindings().lookup(op, tuple(dtypes), device.location.backend)


def negate(device: Device, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """y = -x, of four elements."""
    kernel(device, OpKind.NegElementwise, (F32, F32))(inputs, outputs, ROW, NoParams())


def lying(device: Device, array: Any) -> Any:
    return stored(put(device, array), device.location)


def row_and_room(device: Device) -> tuple[Any, Any]:
    """Four elements, and where as many may be written."""
    return lying(device, values(4)), lying(device, np.zeros(4, np.float32))


def test_a_kernel_reads_strides_and_writes_its_output(device: Device) -> None:
    x, y = lying(device, values(12)), lying(device, np.zeros(6, np.float32))
    turned = Layout((3, 2), (1, 3), 6)
    kernel(device, OpKind.NegElementwise, (F32, F32))([x], [y], [turned, Layout.contiguous((3, 2))], NoParams())
    np.testing.assert_array_equal(y.buffer.read().reshape(3, 2), -values(12)[6:].reshape(2, 3).T)


def test_a_kernel_has_the_working_memory_that_it_asks_for(device: Device) -> None:
    count = 200_000
    x, y = lying(device, values(count)), lying(device, np.zeros(1, np.float32))
    sums = kernel(device, OpKind.SumReduce, (F32, F32))
    params = OpParams.Reduce((0,))
    assert sums.scratch(params, [(count,)], ())
    sums([x], [y], [Layout.contiguous((count,)), Layout.contiguous(())], params)
    assert y.buffer.read()[0] == pytest.approx(values(count).sum(dtype=np.float64), rel=1e-3)


def test_a_product_is_computed_by_itself(device: Device) -> None:
    a, b = values(12).reshape(3, 4), values(20, 1).reshape(4, 5)
    there = [lying(device, array) for array in (a, b, np.zeros((3, 5), np.float32))]
    layouts = [Layout.contiguous(shape) for shape in ((3, 4), (4, 5), (3, 5))]
    product = kernel(device, OpKind.MatMul, (F32, F32, F32))
    product(there[:2], there[2:], layouts, OpParams.Matmul((), (), 3, 5, 4))
    np.testing.assert_allclose(there[2].buffer.read(), a @ b, rtol=1e-5, atol=1e-6)


def test_an_operand_may_be_given_twice(device: Device) -> None:
    square, layouts = lying(device, values(16).reshape(4, 4)), [Layout.contiguous((4, 4))] * 3
    y = lying(device, np.zeros((4, 4), np.float32))
    kernel(device, OpKind.MatMul, (F32, F32, F32))([square, square], [y], layouts, OpParams.Matmul((), (), 4, 4, 4))
    wanted = values(16).reshape(4, 4) @ values(16).reshape(4, 4)
    np.testing.assert_allclose(y.buffer.read(), wanted, rtol=1e-5, atol=1e-6)


def test_storages_are_leased_meanwhile(device: Device) -> None:
    x, y = row_and_room(device)
    with read_storage(y), pytest.raises(StorageBusy):
        negate(device, [x], [y])
    x.poison()
    with pytest.raises(StoragePoisoned):
        negate(device, [x], [y])
    x.clear_poison()
    negate(device, [x], [y])
    np.testing.assert_array_equal(y.buffer.read(), -values(4))


def test_storages_of_the_host_are_refused(device: Device) -> None:
    x, _ = row_and_room(device)
    for wrong in (from_array(values(4)), stored(np.zeros(4, np.float32), device.location)):
        with pytest.raises(KernelArgumentError, match="host_bytes"):
            negate(device, [x], [wrong])


def test_storages_of_two_devices_do_not_meet_in_one_kernel(two_devices: Sequence[Device]) -> None:
    first, second = two_devices
    with pytest.raises(KernelArgumentError, match="the devices of its operands"):
        negate(first, [lying(first, values(4))], [lying(second, values(4))])
