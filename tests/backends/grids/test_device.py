"""What a device of grids tells: its speeds among its capabilities, its memory, its loss, and one history a program."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import pytest

from fuel_async.backends.base import DeviceInfo
from fuel_async.backends.grids.device import GridDevice
from fuel_async.backends.losing import Losable
from fuel_async.cost import Rates
from fuel_async.dispatch import FitStatus
from fuel_async.errors import DeviceLost
from fuel_async.ir import BackendId, DeviceLocation, DType, OpKind
from fuel_async.registry import inflight_of

RATES = Rates(flops_per_ns=10.0, dense_flops_per_ns=40.0, bytes_per_ns=20.0, call_ns=3_000)


class Device(GridDevice):
    """One with a memory of 1,000 bytes."""

    def __init__(self, backend: BackendId, features: frozenset[str] = frozenset()) -> None:
        super().__init__(DeviceInfo(DeviceLocation(backend, 7), "a device", 1_000), RATES, features)
        self.context = Losable()
        memory: Any = SimpleNamespace(budget_nbytes=1_000, used_nbytes=0)
        self.memory = memory


@pytest.mark.parametrize("backend", [BackendId.CUDA, BackendId.VULKAN])
def test_capabilities_have_all_that_is_said_of_its_speed(backend: BackendId) -> None:
    caps = Device(backend).capabilities
    assert (caps.backend_id, caps.device_location) == (backend, DeviceLocation(backend, 7))
    assert (caps.compute_throughput_flops_per_ns, caps.mem_bandwidth_bytes_per_ns) == (10.0, 20.0)
    assert (caps.dense_throughput_flops_per_ns, caps.launch_overhead_ns) == (40.0, 3_000)
    assert (OpKind.AddElementwise, DType.F32) in caps.op_dtype_support


def test_they_are_derived_once_for_the_kernels_that_there_are() -> None:
    device = Device(BackendId.CUDA)
    assert device.capabilities is device.capabilities


def test_they_have_what_the_features_allow() -> None:
    features = frozenset({"float64", "int64"})
    without, with_it = Device(BackendId.CUDA), Device(BackendId.CUDA, features)
    more = with_it.capabilities.op_dtype_support - without.capabilities.op_dtype_support
    assert (OpKind.AddElementwise, DType.F64) in more
    assert with_it.capabilities.features == features


def test_what_would_fit_is_told_by_the_budget() -> None:
    device = Device(BackendId.CUDA)
    assert [device.would_fit(nbytes) for nbytes in (100, 1_001)] == [FitStatus.Comfortable, FitStatus.WontFit]


def test_work_is_counted_by_place() -> None:
    device = Device(BackendId.CUDA)
    inflight_of(device.location).begin(50)
    assert (device.pending_work_count(), device.pending_work_ns()) == (1, 50)
    inflight_of(device.location).end(50)
    assert (device.pending_work_count(), device.pending_work_ns()) == (0, 0)


def test_its_loss_is_that_of_its_context() -> None:
    device, told = Device(BackendId.CUDA), list[int]()
    end = device.on_lost(lambda: told.append(0))
    device.on_lost(lambda: told.append(1))
    end()
    assert device.lost is None
    device.context.lost = DeviceLost("cuda:7", "gone")
    for tell in device.context.to_tell():
        tell()
    assert told == [1]
    assert device.lost is device.context.lost


def test_instances_of_a_program_share_what_it_was_measured_to_take() -> None:
    class Program:
        predicted_ns = 77

    device, one, other = Device(BackendId.CUDA), Program(), Program()
    first: Any = device.history(one)  # type: ignore[arg-type]
    assert first.predicted_ns == 77
    assert device.history(one) is first  # type: ignore[arg-type]
    assert device.history(other) is not first  # type: ignore[arg-type]
    del one, other
    gc.collect()
    assert len(device._histories) == 0
