"""Single kernels over storages of a CUDA device: the laws of all of them, and what a crash or a closed device does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fuel_async.errors import DeviceLost, ExecutorClosed
from tests.backends.cuda.support import ILLEGAL_ADDRESS, Doubled
from tests.backends.grids.once_laws import (  # noqa: F401
    negate,
    row_and_room,
    test_a_kernel_has_the_working_memory_that_it_asks_for,
    test_a_kernel_reads_strides_and_writes_its_output,
    test_a_product_is_computed_by_itself,
    test_an_operand_may_be_given_twice,
    test_storages_are_leased_meanwhile,
    test_storages_of_the_host_are_refused,
    test_storages_of_two_devices_do_not_meet_in_one_kernel,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.cuda.device import CudaDevice


@pytest.fixture
def two_devices(make: Callable[..., Doubled]) -> Sequence[CudaDevice]:
    return make(2).devices


def test_a_kernel_that_crashes_poisons_what_it_wrote(one: Doubled) -> None:
    (device,) = one.devices
    x, y = row_and_room(device)
    one.machine.inject_error(0, ILLEGAL_ADDRESS, at="launch")
    with pytest.raises(DeviceLost, match="illegal memory access"):
        negate(device, [x], [y])
    assert (x.is_poisoned, y.is_poisoned) == (False, True)


def test_a_closed_device_runs_none(device: CudaDevice) -> None:
    x, y = row_and_room(device)
    device.close()
    with pytest.raises(ExecutorClosed):
        negate(device, [x], [y])
    assert not y.is_poisoned
