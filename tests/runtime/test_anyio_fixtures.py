"""Executors of every scope under anyio's pytest plugin, in a process of its own: it stands back for pytest-asyncio."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SUITE = """
import asyncio
import anyio
import numpy as np
import pytest
import fuel_async as fa
from tests.runtime.support import chain, doubling, ones

pytestmark = pytest.mark.anyio


@pytest.fixture(
    scope="session",
    params=[("asyncio", {}), ("asyncio", {"debug": True}), ("asyncio", {"use_uvloop": True})],
    ids=["default", "debug", "uvloop"],
)
def anyio_backend(request):
    return request.param


def scoped(scope):
    @pytest.fixture(scope=scope)
    async def executor():
        async with fa.Executor() as one:
            yield one
            await one.run(doubling(), x=ones())

    return executor


of_function, of_module, of_session = scoped("function"), scoped("module"), scoped("session")


@pytest.mark.parametrize("scope", ["function", "module", "session"])
@pytest.mark.parametrize("again", [1, 2])
async def test_runs(scope, again, of_function, of_module, of_session):
    executor = {"function": of_function, "module": of_module, "session": of_session}[scope]
    found = []

    async def one(graph, size):
        found.append((await executor.run(graph, x=ones(size)))["y"][0])

    small, large = doubling(), chain(200)
    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(one, small, 4)
            group.start_soon(one, large, 16)
    assert sorted(found) == [2] * 10 + [201] * 10
    with anyio.move_on_after(0) as scope:
        while True:
            await executor.run(small, x=ones())
    assert scope.cancelled_caught
    assert [out["y"][0] async for out in executor.map(small, [{"x": ones()}] * 5)] == [2] * 5
    stream_in, stream_out = anyio.create_memory_object_stream(3)
    async with stream_in, stream_out:
        for _ in range(3):
            await stream_in.send({"x": ones()})
        stream_in.close()
        assert [out["y"][0] async for out in executor.map(small, stream_out)] == [2] * 3

"""


@pytest.mark.parametrize("debug", [False, True], ids=["", "-X dev"])
def test_executors_of_every_scope(tmp_path: Path, debug: bool) -> None:
    suite = tmp_path / "test_suite.py"
    suite.write_text(SUITE)
    flags = ["-X", "dev"] if debug else []
    command = [
        sys.executable,
        *flags,
        "-W",
        "error",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:asyncio",
        "-p",
        "no:cacheprovider",
    ]
    options = [
        "-c",
        "/dev/null",
        "--rootdir",
        str(tmp_path),
        "--import-mode=importlib",
        "-o",
        "pythonpath=" + str(ROOT),
    ]
    done = subprocess.run([*command, *options, str(suite)], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "18 passed" in done.stdout
