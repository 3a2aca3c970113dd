"""Names of backends and devices are open values."""

from __future__ import annotations

import pickle

import pytest

from fuel_async.errors import UserError
from fuel_async.ir import CPU_DEVICE, BackendId, DeviceLocation, SubstrateClass


def test_the_seeds_backends_keep_their_names() -> None:
    named = [BackendId.CPU, BackendId.CUDA, BackendId.VULKAN, BackendId.METAL]
    assert [backend.as_str() for backend in named] == ["cpu", "cuda", "vulkan", "metal"]
    assert [backend.variant for backend in named] == ["Cpu", "Cuda", "Vulkan", "Metal"]


def test_a_third_party_backend_is_just_another_name() -> None:
    npu = BackendId("my_npu")
    assert npu == BackendId("my_npu")
    assert npu != BackendId.CPU
    assert npu.variant == "MyNpu"
    assert npu.default_substrate == SubstrateClass("my_npu_buffer")
    assert BackendId.CUDA.default_substrate is SubstrateClass.CudaUntyped
    assert str(npu) == "my_npu"
    assert str(SubstrateClass.HostBytes) == "host_bytes"


@pytest.mark.parametrize("name", ["", "CPU", "1st", "two words", "cpu:0"])
def test_a_name_that_could_not_be_read_back_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="lowercase"):
        BackendId(name)
    with pytest.raises(UserError, match="lowercase"):
        SubstrateClass(name)


def test_devices_print_and_parse_as_backend_and_ordinal() -> None:
    assert str(CPU_DEVICE) == "cpu:0"
    assert DeviceLocation.parse("cuda:3") == DeviceLocation(BackendId.CUDA, 3)
    assert DeviceLocation.parse("cpu") == CPU_DEVICE


@pytest.mark.parametrize("text", ["cuda:", "cuda:x", "cuda:-1", "cuda:1:2", ":0", "cuda:²"])
def test_text_that_names_no_device_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        DeviceLocation.parse(text)


def test_a_negative_ordinal_is_refused() -> None:
    with pytest.raises(UserError, match="counted from 0"):
        DeviceLocation(BackendId.CPU, -1)


def test_devices_are_values_that_hash_order_and_pickle() -> None:
    devices = [DeviceLocation(BackendId.CUDA, 1), CPU_DEVICE, DeviceLocation(BackendId.CUDA, 0)]
    assert [str(device) for device in sorted(devices)] == ["cpu:0", "cuda:0", "cuda:1"]
    assert {CPU_DEVICE: 1}[DeviceLocation(BackendId("cpu"))] == 1
    assert pickle.loads(pickle.dumps(devices)) == devices


def test_only_the_host_backend_is_the_host() -> None:
    assert CPU_DEVICE.is_host
    assert not DeviceLocation(BackendId("sim")).is_host
