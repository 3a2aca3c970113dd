"""`fuel-async devices`: the devices found here, and why there are no others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.backends import Absent, BackendSpec, DeviceInfo, discovery
from fuel_async.cli.devices import COLUMNS
from fuel_async.ir import CPU_DEVICE, BackendId, DeviceLocation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.cli.conftest import Outcome


def cells(line: str, heading: str) -> list[str]:
    """Take a line apart where two blanks or more are; the headings say how many cells there are."""
    found = [cell.strip() for cell in line.split("  ") if cell.strip()]
    assert len(found) == len(heading.split()), line
    return found


def test_the_host_is_listed_with_its_facts(fuel: Callable[..., Outcome]) -> None:
    status, out, err = fuel("devices")
    assert (status, err) == (0, "")
    heading, host, *rest = out
    assert heading.split() == [column.heading for column in COLUMNS]
    location, _, memory, budget, lanes, *speeds = cells(host, heading)
    assert (location, lanes) == ("cpu:0", "1")
    units = ("GiB", "GiB", "GFLOP/s", "GFLOP/s", "GB/s", "us")
    for text, unit in zip((memory, budget, *speeds), units, strict=True):
        number, found = text.split()
        assert float(number) > 0
        assert found == unit
    for line in rest:
        by_name = line.startswith("vulkan:") and "uuid" in line
        assert by_name or ": absent: " in line or line == "No other backend is installed."


def test_devices_can_be_asked_for_by_name(fuel: Callable[..., Outcome]) -> None:
    status, out, _ = fuel("devices", "cpu")
    assert status == 0
    assert out[1].startswith("cpu:0")


def test_a_device_that_is_not_there_is_status_1_with_the_reason(fuel: Callable[..., Outcome]) -> None:
    status, out, err = fuel("devices", "nowhere:3")
    assert (status, out) == (1, [])
    assert err.startswith("fuel-async: no device nowhere:3 here (found: cpu:0")


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretend that these backends are installed, and nothing else."""

    def instead(**loads: Callable[[], object]) -> None:
        points = [SimpleNamespace(name=name, load=load) for name, load in loads.items()]
        monkeypatch.setattr(discovery, "entry_points", lambda group: points)

    return instead


def broken() -> BackendSpec:
    raise ImportError("libnpu.so is missing")


def spec(name: str, found: Sequence[DeviceInfo] | Absent, device: Any = None) -> Callable[[], BackendSpec]:
    return lambda: BackendSpec(BackendId(name), lambda: found, lambda info, options: device(info))


def test_backends_without_devices_are_listed_with_the_reason(
    fuel: Callable[..., Outcome], install: Callable[..., None]
) -> None:
    host = next(iter(discovery.discover().found))
    install(cpu=lambda: host.spec, npu=broken, tpu=spec("tpu", Absent("no driver")))
    status, out, _ = fuel("devices")
    assert status == 0
    assert out[2:] == ["npu: absent: ImportError: libnpu.so is missing", "tpu: absent: no driver"]


def test_without_any_device_the_reasons_are_the_error(
    fuel: Callable[..., Outcome], install: Callable[..., None]
) -> None:
    install(npu=spec("npu", Absent("no driver")))
    status, out, err = fuel("devices")
    assert (status, out) == (1, [])
    assert "npu: no driver" in err


def test_what_a_device_cannot_tell_is_unknown(fuel: Callable[..., Outcome], install: Callable[..., None]) -> None:
    def device(info: DeviceInfo) -> Any:
        rates = SimpleNamespace(flops_per_ns=1.0, dense_flops_per_ns=2.0, bytes_per_ns=3.0, call_ns=None)
        memory = SimpleNamespace(budget_nbytes=1 << 30)
        return SimpleNamespace(
            info=info, location=info.location, rates=rates, memory=memory, lanes=(), slot_capacity=2,
            memory_location=CPU_DEVICE, close=lambda: None, pending_work_count=lambda: 0, pending_work_ns=lambda: 0,
                lost=None,
        )  # fmt: skip

    info = DeviceInfo(DeviceLocation(BackendId("npu"), 1), "An NPU", None)
    install(npu=spec("npu", [info], device))
    status, out, _ = fuel("devices")
    assert status == 0
    assert cells(out[1], out[0]) == [
        "npu:1", "An NPU", "unknown", "1.0 GiB", "0", "1.0 GFLOP/s", "2.0 GFLOP/s", "3.0 GB/s", "unknown",
    ]  # fmt: skip
