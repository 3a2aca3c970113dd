"""`Executor.submit`: a run that is under way while its caller does something else."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

import fuel_async as fa
from fuel_async.errors import ExecutorClosed, FeedError, KernelFailed, Overloaded
from tests.runtime.support import Rig, chain, doubling, failing, gated, in_place, ints, ones, settled, turns


async def test_a_run_is_awaited_any_number_of_times(ex: fa.Executor) -> None:
    run = ex.submit(doubling(), x=ones())
    assert not run.done()
    found = await asyncio.gather(run, run, *[_wait(run) for _ in range(3)])
    assert all((one["y"] == 2).all() for one in found)
    assert run.done()
    assert run.exception() is None
    assert "ended" in repr(run)
    assert ((await run)["y"] == 2).all()


async def _wait(run: fa.Run) -> dict[str, object]:
    return dict(await run)


async def test_progress_is_told_by_regions(rig: Rig) -> None:
    g = fa.Graph("heavy")
    x = g.input("x", (4,), fa.i32)
    for _ in range(3):  # regions of their own, each behind its gate
        x = -x
    g.output("y", x)
    async with fa.Executor() as ex:
        run = ex.submit(g, x=ints(dtype="int32"))  # type: ignore[arg-type]
        assert run.progress == (0, 0)
        for number in range(3):
            await rig.other.entered()
            assert run.progress == (number, 3)
            assert f"{number} of 3 regions" in repr(run)
            rig.other.open()
        await run
        assert run.progress == (3, 3)
        await in_place(ex, doubling(), x=ones())


async def test_a_run_is_cancelled(ex: fa.Executor, rig: Rig) -> None:
    run = ex.submit(gated(), x=ints())
    await rig.gate.entered()
    assert run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert run.done()
    assert not run.cancel()
    with pytest.raises(asyncio.CancelledError):
        run.exception()
    rig.gate.open()
    await settled(ex)
    early = ex.submit(gated(), x=ints())
    early.cancel()  # before its first step
    with pytest.raises(asyncio.CancelledError):
        await early
    await settled(ex)
    assert rig.gate.passed == 1


async def test_a_run_times_out(ex: fa.Executor, rig: Rig) -> None:
    run = ex.submit(gated(), x=ints(), timeout_s=0.02)
    with pytest.raises(TimeoutError):
        await run
    rig.gate.open()
    await settled(ex)


async def test_cancelling_who_awaits_a_run_cancels_the_run(ex: fa.Executor, rig: Rig) -> None:
    run = ex.submit(gated(), x=ints())
    await rig.gate.entered()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await run
    assert run.done()
    shielded = ex.submit(doubling(), x=ones())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await asyncio.shield(shielded.task)
    rig.gate.open()
    assert ((await shielded)["y"] == 2).all()


async def test_too_many_are_refused(rig: Rig) -> None:
    async with fa.Executor(max_inflight=2, max_queued=3) as ex:
        g = gated()
        runs = [ex.submit(g, x=ints(number)) for number in range(5)]
        with pytest.raises(Overloaded, match=r"3 runs are queued, the limit is 3") as caught:
            ex.submit(g, x=ints())
        assert (caught.value.queued, caught.value.limit) == (3, 3)
        rig.gate.open(5)
        found = await asyncio.gather(*runs)
        assert [one["y"][0] for one in found] == [0, 1, 2, 3, 4]
        await turns(2)
        rig.gate.open()
        await ex.submit(g, x=ints())


async def test_a_cancelled_run_makes_room(rig: Rig) -> None:
    async with fa.Executor(max_inflight=1, max_queued=1) as ex:
        first, second = [ex.submit(gated(), x=ints()) for _ in range(2)]
        await rig.gate.entered()
        with pytest.raises(Overloaded):
            ex.submit(gated(), x=ints())
        second.cancel()
        await turns(3)
        third = ex.submit(doubling(), x=ones())
        rig.gate.open()
        await asyncio.gather(first, third)


@pytest.mark.parametrize("dropped", ["before the end", "after the end"])
async def test_a_failed_run_that_nobody_asked_for_is_logged_once(
    ex: fa.Executor, rig: Rig, caplog: pytest.LogCaptureFixture, dropped: str
) -> None:
    with caplog.at_level(logging.DEBUG):
        run = ex.submit(failing("forgotten"), x=ints())
        task = run.task
        if dropped == "before the end":
            del run
        await asyncio.wait([task])
        await turns(2)
        run = None  # type: ignore[assignment]
        del task
        gc.collect()
        await turns(2)
    records = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(records) == 1
    assert records[0].name == "fuel_async"
    message = records[0].getMessage()
    assert "'forgotten' failed and nobody asked" in message
    assert "ArithmeticError: as told" in message


@pytest.mark.parametrize("asked", ["await", "exception", "cancel"])
async def test_a_failed_run_that_somebody_asked_for_is_not_logged(
    ex: fa.Executor, rig: Rig, caplog: pytest.LogCaptureFixture, asked: str
) -> None:
    with caplog.at_level(logging.DEBUG):
        run = ex.submit(failing(), x=ints())
        await asyncio.wait([run.task])
        if asked == "await":
            with pytest.raises(KernelFailed):
                await run
        elif asked == "exception":
            assert isinstance(run.exception(), KernelFailed)
        else:
            assert not run.cancel()
        del run
        gc.collect()
        await turns(2)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_run_that_succeeds_may_be_forgotten(
    ex: fa.Executor, rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        for _ in range(3):
            ex.submit(doubling(), x=ones())
        gc.collect()
        await turns(3)
        await settled(ex)
        while ex.statistics().runs < 3:
            await turns()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_errors_come_with_the_run(ex: fa.Executor) -> None:
    run = ex.submit(doubling(), x=ones(5))
    with pytest.raises(FeedError):
        await run
    with pytest.raises(asyncio.InvalidStateError):
        ex.submit(doubling(), x=ones()).exception()


async def test_what_was_submitted_is_done_before_the_executor_closes() -> None:
    async with fa.Executor() as ex:
        runs = [ex.submit(chain(length), x=ones(16)) for length in (3, 100, 300)]
    assert [run.done() for run in runs] == [True] * 3
    assert [(await run)["y"][0] for run in runs] == [4, 101, 301]
    unopened = fa.Executor()
    run = unopened.submit(doubling(), x=ones())
    await unopened.aclose()
    assert ((await run)["y"] == 2).all()
    with pytest.raises(ExecutorClosed):
        unopened.submit(doubling(), x=ones())


async def test_priority_goes_first(rig: Rig, on_lanes: None) -> None:
    order: list[int] = []
    async with fa.Executor(max_inflight=1) as ex:
        held = ex.submit(gated(), x=ints())
        await rig.gate.entered()
        runs = []
        for priority in (0, 2, 1):
            run = ex.submit(chain(priority + 2), x=ones(16), priority=priority)
            run.task.add_done_callback(lambda _, priority=priority: order.append(priority))  # type: ignore[misc]
            runs.append(run)
        await turns(3)
        rig.gate.open()
        await asyncio.gather(held, *runs)
    assert order == [2, 1, 0]
