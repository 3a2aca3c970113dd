"""An executor as an asynchronous fixture of every scope: entered in one task, used in others, left in a third.

Each scope has its own loop with pytest-asyncio; the executor is opened on that loop and used on those of the tests.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np
import pytest
import pytest_asyncio

import fuel_async as fa
from tests.runtime.support import chain, doubling, ones

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

#: Tasks that entered an executor, to see that tests run in others.
ENTERED: dict[str, asyncio.Task[object] | None] = {}


async def opened(scope: str) -> AsyncIterator[fa.Executor]:
    ENTERED[scope] = asyncio.current_task()
    async with fa.Executor() as executor:
        yield executor
        await executor.run(doubling(), x=ones())


@pytest_asyncio.fixture
async def of_function() -> AsyncIterator[fa.Executor]:
    async for executor in opened("function"):
        yield executor


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def of_module() -> AsyncIterator[fa.Executor]:
    async for executor in opened("module"):
        yield executor


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def of_session() -> AsyncIterator[fa.Executor]:
    async for executor in opened("session"):
        yield executor


async def use(executor: fa.Executor, scope: str) -> None:
    assert ENTERED[scope] is not asyncio.current_task()
    small, large = doubling(), chain(200)
    for _ in range(4):
        found = await asyncio.gather(executor.run(small, x=ones()), executor.run(large, x=ones(16)))
        assert (found[0]["y"][0], found[1]["y"][0]) == (2, 201)
    run = executor.submit(small, x=ones())
    np.testing.assert_array_equal((await run)["y"], ones() * 2)


async def test_of_function_scope(of_function: fa.Executor) -> None:
    await use(of_function, "function")


@pytest.mark.asyncio(loop_scope="module")
async def test_of_module_scope(of_module: fa.Executor) -> None:
    await use(of_module, "module")


@pytest.mark.asyncio(loop_scope="module")
async def test_of_module_scope_again(of_module: fa.Executor) -> None:
    await use(of_module, "module")


@pytest.mark.asyncio(loop_scope="session")
async def test_of_session_scope(of_session: fa.Executor) -> None:
    await use(of_session, "session")


async def test_wider_scopes_are_used_on_a_tests_own_loop(of_module: fa.Executor, of_session: fa.Executor) -> None:
    await use(of_module, "module")
    await use(of_session, "session")


@pytest.mark.asyncio(loop_scope="session")
async def test_of_session_scope_again(of_session: fa.Executor, of_module: fa.Executor) -> None:
    await use(of_session, "session")
    await use(of_module, "module")
