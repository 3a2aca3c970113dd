"""The validation layer: that it is heard, and what the newer one finds between submissions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fuel_async.backends.base import Absent
from fuel_async.backends.vulkan.context import Context
from fuel_async.backends.vulkan.discovery import physical_devices
from fuel_async.backends.vulkan.driver import VALIDATION_LAYER, Driver, NoDriver
from fuel_async.backends.vulkan.options import VulkanOptions
from fuel_async.ir import BackendId, DeviceLocation
from tests.backends.vulkan.support import DEMANDED, VALIDATED, point_at_drivers

#: The layer that comes with Chromium, which looks for missing barriers between dispatches and between submissions.
NEWER = Path("/usr/lib/chromium/libVkLayer_khronos_validation.so")
FILES = ("lane", "executor", "recording", "memory", "conformance")


def validated() -> Driver:
    try:
        return Driver(validation=True)
    except NoDriver as error:
        if os.environ.get(DEMANDED):
            raise
        pytest.skip(error.reason)


def test_what_the_layer_says_is_kept_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A buffer without a size is the layer's business, not the driver's."""
    point_at_drivers()
    driver = validated()
    found = physical_devices(VulkanOptions(), driver)
    assert not isinstance(found, Absent)
    context = Context(found[0], DeviceLocation(BackendId.VULKAN), VulkanOptions())
    assert not driver.messages
    keep = context.keep()
    info = keep.struct("BufferCreateInfo", "BUFFER_CREATE_INFO", size=0, usage=0x20)
    made = driver.ffi.new("VkBuffer *")
    driver.lib.vkCreateBuffer(context.handle, info, driver.ffi.NULL, made)
    assert [name for name, _ in driver.messages] == ["VUID-VkBufferCreateInfo-size-00912"]
    assert "VUID-VkBufferCreateInfo-size-00912" in caplog.text
    if made[0] != driver.ffi.NULL:
        driver.lib.vkDestroyBuffer(context.handle, made[0], driver.ffi.NULL)


def test_a_layer_that_is_not_there_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    point_at_drivers()
    monkeypatch.setenv("VK_LAYER_PATH", str(tmp_path))
    with pytest.raises(NoDriver, match="VK_LAYER_KHRONOS_validation is not installed"):
        Driver(validation=True)


@pytest.mark.slow
def test_no_barrier_is_missing(tmp_path: Path) -> None:
    """The backend's tests once more, under the newer layer with synchronization validation."""
    if not NEWER.exists():
        pytest.skip(f"{NEWER} is not there: apt install chromium-common")
    layer = {
        "name": VALIDATION_LAYER,
        "type": "GLOBAL",
        "library_path": str(NEWER),
        "api_version": "1.4.300",
        "implementation_version": "1",
        "description": "validation",
        "instance_extensions": [
            {"name": name, "spec_version": "2"} for name in ("VK_EXT_debug_utils", "VK_EXT_validation_features")
        ],
    }
    manifest: dict[str, Any] = {"file_format_version": "1.2.0", "layer": layer}
    (tmp_path / "layer.json").write_text(json.dumps(manifest))
    environment = {
        "VK_LAYER_PATH": str(tmp_path),
        "VK_LAYER_VALIDATE_SYNC": "1",
        "VK_LAYER_SYNCVAL_SHADER_ACCESSES_HEURISTIC": "1",
        VALIDATED: "1",
    }
    here = Path(__file__).parent
    tests = [str(here / f"test_{name}.py") for name in FILES]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *tests],
        env={**os.environ, **environment},
        cwd=here.parents[2],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-4_000:]
