"""The double takes CuPy's place and gives it back."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

import pytest

from fuel_async.testing.cuda_double import DeviceModel, doubled, install, installed, uninstall
from fuel_async.testing.cuda_double.statuses import CUDARuntimeError


def test_what_was_imported_before_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before, part = ModuleType("cupy"), ModuleType("cupy.part")
    monkeypatch.setitem(sys.modules, "cupy", before)
    monkeypatch.setitem(sys.modules, "cupy.part", part)
    monkeypatch.delitem(sys.modules, "cupy_backends", raising=False)
    install(1)
    assert import_module("cupy") is not before
    assert "cupy.part" not in sys.modules
    uninstall()
    assert import_module("cupy") is before
    assert import_module("cupy.part") is part
    assert "cupy_backends" not in sys.modules


def test_uninstalling_leaves_nothing_and_can_be_repeated() -> None:
    before = {name for name in sys.modules if name.startswith("cupy")}
    install(1)
    uninstall()
    uninstall()
    assert {name for name in sys.modules if name.startswith("cupy")} == before


def test_a_double_replaces_another() -> None:
    first, second = install(1), install(3)
    assert first.is_over
    assert installed() is second
    assert import_module("cupy.cuda.runtime").getDeviceCount() == 3


def test_modules_are_imported_as_cupys_are() -> None:
    with doubled(1):
        from cupy.cuda import Device, cublas, runtime

        error = import_module("cupy_backends.cuda.api.runtime").CUDARuntimeError
        assert runtime.CUDARuntimeError is error is CUDARuntimeError
        assert import_module("cupy_backends.cuda.libs.cublas") is cublas
        assert Device(0).compute_capability == "80"
        with pytest.raises(ImportError):
            import_module("cupy.cuda.cublas")
        with pytest.raises(ImportError):
            import_module("cupy.linalg")


def test_what_is_left_of_a_machine_knows_that_it_is_over() -> None:
    install(1)
    cupy = import_module("cupy")
    stream, event, memory = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Event(), cupy.cuda.Memory(8)
    uninstall()
    for call in (stream.synchronize, event.synchronize, lambda: cupy.cuda.Memory(8)):
        with pytest.raises(CUDARuntimeError) as caught:
            call()
        assert caught.value.status == 4
    install(1)
    for call in (stream.synchronize, event.synchronize):
        with pytest.raises(CUDARuntimeError) as caught:
            call()
        assert caught.value.status == 400
    del stream, event, memory


def test_devices_are_as_their_models_say() -> None:
    models = [DeviceModel(), DeviceModel(memory_nbytes=1 << 30, compute_capability=(9, 0), name="Big", processors=132)]
    with doubled(models):
        cupy = import_module("cupy")
        device = cupy.cuda.Device(1)
        assert device.compute_capability == "90"
        assert device.mem_info == (1 << 30, 1 << 30)
        assert device.attributes["MultiProcessorCount"] == cupy.cuda.runtime.deviceGetAttribute(16, 1) == 132
        assert device.pci_bus_id != cupy.cuda.Device(0).pci_bus_id
        properties = cupy.cuda.runtime.getDeviceProperties(1)
        assert (properties["name"], properties["major"]) == (b"Big", 9)
        assert cupy.cuda.is_available()


def test_broken_rules_fail_at_the_end_of_a_block() -> None:
    with pytest.raises(AssertionError, match="a rule"), doubled(1) as machine:
        machine.violations.append("a rule")
    assert machine.is_over
