"""Finding devices: quiet where there is nothing, no context on any device, options that choose."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fuel_async.backends import Discovery, Found
from fuel_async.backends.base import Absent
from fuel_async.backends.cuda import BACKEND, CudaOptions, discover, open_devices
from fuel_async.backends.cuda.discovery import driver_for, info_of, open_device
from fuel_async.backends.cuda.driver import dotted
from fuel_async.backends.cuda.options import VARIABLE
from fuel_async.backends.cuda.physical import look_at
from fuel_async.backends.cuda.priors import UNITS, host_link_of, rates_of
from fuel_async.errors import DeviceLost, UserError
from fuel_async.testing.cuda_double import DeviceModel, doubled

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.backends.cuda.support import Doubled

#: What a fresh process says of discovery, as JSON: modules loaded by the import, and what was found.
ASK = """
import json, sys
import fuel_async, fuel_async.backends.cuda as backend, fuel_async.backends.cuda.device
early = sorted(name for name in sys.modules if name.split(".")[0] in ("cupy", "cupy_backends", "cuda"))
found = backend.discover()
print(json.dumps([early, getattr(found, "reason", None) or [one.name for one in found]]))
"""

#: A finder that hides CuPy.
HIDE = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] == 'cupy': raise ImportError('not here')
sys.meta_path.insert(0, Finder())
"""

DOUBLE = "from fuel_async.testing.cuda_double import install\ninstall({})\n"


def ask(hook: str = "", **environment: str) -> Any:
    ended = subprocess.run(
        [sys.executable, "-c", hook + ASK],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stderr == ""
    return json.loads(ended.stdout)


def test_importing_the_backend_loads_nothing() -> None:
    assert ask(HIDE)[0] == []


def test_no_package_is_a_reason() -> None:
    assert ask(HIDE)[1] == "CuPy is not installed (not here); install fuel_async[cuda]"


@pytest.mark.parametrize(
    ("status", "words"), [(35, "no NVIDIA driver is installed"), (100, "the driver finds no device")]
)
def test_no_driver_and_no_device_are_reasons(status: int, words: str) -> None:
    with doubled(0, absence=status):
        found = discover()
    assert isinstance(found, Absent)
    assert words in found.reason
    assert "cudaError" in found.reason


def test_a_driver_that_was_forked_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with doubled(1):
        driver = driver_for()

        def fail() -> int:
            raise driver.runtime.CUDARuntimeError(3)

        monkeypatch.setattr(driver.runtime, "getDeviceCount", fail)
        found = discover()
    assert isinstance(found, Absent)
    assert found.reason.startswith("CUDA was in use before this process was forked")


def test_the_discovery_of_all_backends_tells_the_reason() -> None:
    _, reason = ask(DOUBLE.format("0"))
    assert reason.startswith("no NVIDIA driver is installed, or one that is too old for this CuPy (cudaError")


def test_a_driver_that_fails_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with doubled(1):
        driver = driver_for()

        def fail(ordinal: int) -> None:
            raise driver.runtime.CUDARuntimeError(999)

        monkeypatch.setattr(driver.runtime, "getDeviceProperties", fail)
        found = discover()
    assert isinstance(found, Absent)
    assert found.reason.startswith("the driver fails: cudaErrorUnknown")


def test_looking_makes_no_context_and_takes_no_memory() -> None:
    with doubled(2) as machine:
        assert len(discover()) == 2  # type: ignore[arg-type]
        assert not machine.leaks()
        calls = {call.name for call in machine.log}
    assert not calls & {"setDevice", "malloc", "memGetInfo", "streamCreateWithPriority"}


FORKING = """
import os, sys
from fuel_async.testing.cuda_double import install
machine = install(1)
import fuel_async.backends.cuda as backend
assert not machine.log
pid = os.fork()
if not pid:
    os._exit(0 if len(backend.discover()) == 1 else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_child_that_was_forked_before_anything_was_asked_finds_its_devices() -> None:
    subprocess.run([sys.executable, "-c", FORKING], timeout=60, check=True)


def test_a_device_is_told_with_all_that_matters(one: Doubled) -> None:
    (device,) = one.devices
    info = device.info
    assert (str(info.location), info.name, info.by_default) == ("cuda:0", "Double", True)
    for word in ("compute capability 8.0", "16 multiprocessors", "bus 0000:01:00.0", "ECC", "CUDA 12.9", "CuPy 14.2.0"):
        assert word in info.detail
    assert info.total_nbytes == 64 << 20


def test_devices_are_used_by_default_and_by_name(one: Doubled) -> None:
    found = Discovery((Found(BACKEND, one.devices[0].info),), {})
    assert found.select(None) == found.select((one.devices[0].location,)) == found.found


def test_devices_keep_the_drivers_numbers() -> None:
    models = [DeviceModel(name="Slow"), DeviceModel(name="Fast 100"), DeviceModel(name="Fast 200")]
    with doubled(models):
        found = discover(CudaOptions(devices=("FAST*",)))
        assert not isinstance(found, Absent)
        assert [(str(one.location), one.name) for one in found] == [("cuda:1", "Fast 100"), ("cuda:2", "Fast 200")]
        missing = discover(CudaOptions(devices=("no such device",)))
        assert isinstance(missing, Absent)
        assert "Fast 100" in missing.reason
        with pytest.raises(DeviceLost, match="fits no such device"):
            open_devices(CudaOptions(devices=("no such device",)))
        with pytest.raises(DeviceLost, match="it is there no more"):
            open_device(found[0], options=CudaOptions(devices=("Slow",)))


def test_a_device_that_is_too_old_says_so() -> None:
    with doubled([DeviceModel(compute_capability=(6, 1))]):
        found = discover()
    assert isinstance(found, Absent)
    assert found.reason == "Double has compute capability 6.1, at least 7.0 is needed"


def test_options_are_read_from_the_environment() -> None:
    text = "devices=H100*, a100 ; streams=3;capture=0; peers=0;poison=1;cache=/tmp/kept;deadline_s=2.5"
    read = CudaOptions.from_environment({VARIABLE: text})
    wanted = CudaOptions(
        ("H100*", "a100"), 3, capture=False, peers=False, poison=True, cache="/tmp/kept", deadline_s=2.5
    )
    assert read == wanted
    assert CudaOptions.from_environment({}) == CudaOptions()


@pytest.mark.parametrize("text", ["speed=3", "streams=two", "streams=0", "deadline_s=-1"])
def test_options_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(UserError):
        CudaOptions.from_environment({VARIABLE: text})


def test_an_executor_says_how_many_streams(make: Callable[..., Doubled]) -> None:
    from fuel_async.backends.base import OpenOptions

    one = make(streams=3)
    (device,) = one.devices
    assert len(device.lanes) == 3
    other = open_device(device.info, OpenOptions(lanes=1), CudaOptions(streams=3))
    assert len(other.lanes) == 1
    other.close()


def test_speeds_follow_from_the_hardware() -> None:
    """An H200 of 132 multiprocessors: 67 Tflop/s in f32 and 4.9 TB/s on paper."""
    with doubled(1):
        some = look_at(driver_for(), 0)
    h200 = replace(
        some,
        capability=(9, 0),
        multiprocessors=132,
        clock_khz=1_980_000,
        memory_clock_khz=3_201_000,
        memory_bits=6_144,
    )
    rates = rates_of(h200)
    assert rates.dense_flops_per_ns == pytest.approx(0.6 * 66_908, rel=0.01)
    assert rates.bytes_per_ns == pytest.approx(0.7 * 4_917, rel=0.01)
    assert rates_of(replace(h200, capability=(8, 0))).flops_per_ns == rates.flops_per_ns / 2
    assert rates_of(replace(h200, capability=(12, 1))) == rates, "a later one is like the last that is known"
    untold = rates_of(replace(h200, clock_khz=0, memory_clock_khz=0, memory_bits=0))
    assert 0 < untold.bytes_per_ns < rates.bytes_per_ns
    assert host_link_of(replace(h200, is_integrated=True)).latency_ns < host_link_of(h200).latency_ns
    assert list(UNITS) == sorted(UNITS)


def test_what_the_driver_does_not_tell_is_no_reason_to_do_without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    with doubled(1):
        driver = driver_for()
        real = driver.runtime.deviceGetAttribute

        def untold(number: int, ordinal: int) -> int:
            if number in (13, 36):  # clocks
                raise driver.runtime.CUDARuntimeError(1)
            return int(real(number, ordinal))

        monkeypatch.setattr(driver.runtime, "deviceGetAttribute", untold)
        found = look_at(driver, 0)
    assert (found.clock_khz, found.memory_clock_khz, found.multiprocessors) == (0, 0, 16)
    assert rates_of(found).flops_per_ns > 0


def test_without_cublas_products_are_the_kernels_own(monkeypatch: pytest.MonkeyPatch) -> None:
    import fuel_async as fa

    with doubled(1) as machine:
        monkeypatch.setitem(sys.modules, "cupy_backends.cuda.libs.cublas", None)
        (device,) = open_devices(CudaOptions(cache="0"))
        assert "cublas" not in device.capabilities.features
        x = np.arange(64, dtype=np.float32).reshape(8, 8)

        async def run() -> None:
            async with fa.Executor([device]) as executor:
                graph = fa.Graph("product")
                feed = graph.input("x", (8, 8), fa.f32)
                graph.output("y", feed @ feed)
                np.testing.assert_allclose((await executor.run(graph, x=x))["y"], x @ x)

        asyncio.run(run())
        device.close()
        device.join(30.0)
        assert "cublasGemm" not in machine.counts().calls


def test_versions_are_told_as_people_know_them() -> None:
    assert [dotted(12090), dotted(13000), dotted(11080)] == ["12.9", "13.0", "11.8"]


def test_infos_without_versions_are_told_too(one: Doubled) -> None:
    assert "CuPy" not in info_of(one.devices[0].context.physical).detail
