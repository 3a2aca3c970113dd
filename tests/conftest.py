"""What every test runs under: seeds, loops, the slow option, and the watch for leaked threads.

An async test runs once on each loop of `pytest_asyncio_loop_factories`. Where one loop is enough, or timing
would suffer: `@pytest.mark.asyncio(loop_factories=["default"])`.
"""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
import sys
import threading
from typing import TYPE_CHECKING

import blockbuster as bb
import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PROFILE = "ci" if os.environ.get("CI") else "default"

#: Threads of the package carry names that begin so; none may outlive the session.
THREAD_PREFIX = "fuel_async"

hypothesis.settings.register_profile("default", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=False, database=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--run-slow", action="store_true", help="run the tests marked slow, too")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give the session one Hypothesis seed that can be printed and repeated."""
    if config.getoption("hypothesis_profile") is None:
        hypothesis.settings.load_profile(PROFILE)
    if config.getoption("hypothesis_seed") is None:
        config.option.hypothesis_seed = str(secrets.randbits(32))


def pytest_report_header(config: pytest.Config) -> str:
    seed = config.getoption("hypothesis_seed")
    return f"seed: --hypothesis-seed={seed}; loops: {', '.join(loop_factories())}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--run-slow"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


def pytest_collection_finish() -> None:
    """Keep what is there before the first test out of the collections that many tests make: it stays to the end."""
    gc.collect()
    gc.freeze()


class DebugLoop(asyncio.SelectorEventLoop):
    """The standard loop with its debug mode on, whatever the runner asks for."""

    def set_debug(self, enabled: bool) -> None:
        super().set_debug(True)


def _eager_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    if sys.version_info >= (3, 12):
        loop.set_task_factory(asyncio.eager_task_factory)
    return loop


def loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loops this interpreter has, by name."""
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
        "default": asyncio.new_event_loop,
        "debug": DebugLoop,
    }
    if sys.version_info >= (3, 12):
        loops["eager"] = _eager_loop
    if sys.platform != "win32" and sys.implementation.name == "cpython":
        import uvloop

        loops["uvloop"] = uvloop.new_event_loop
    return loops


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return loop_factories()


@pytest.fixture
def blockbuster() -> Iterator[bb.BlockBuster]:
    """Fails a test whose loop meets a blocking call of fuel_async: a sleep, a held lock, a file, a socket."""
    with bb.blockbuster_ctx("fuel_async") as guard:
        yield guard


@pytest.fixture(scope="session", autouse=True)
def _no_thread_outlives_the_session() -> Iterator[None]:
    yield
    ours = [thread for thread in threading.enumerate() if thread.name.startswith(THREAD_PREFIX)]
    for thread in ours:
        thread.join(timeout=2)
    leaked = [thread.name for thread in ours if thread.is_alive()]
    if leaked:
        pytest.fail(f"threads still run at the end of the session: {leaked}", pytrace=False)
