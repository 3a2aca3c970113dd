"""A kernel that fails: its run is told which node, line, device and cause; nothing else is disturbed."""

from __future__ import annotations

import asyncio
import gc
import traceback
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.errors import KernelFailed, NoBackendForOp
from tests.runtime.support import Rig, doubling, failing, forgotten, in_flight, ints, ones, settled

if TYPE_CHECKING:
    from collections.abc import Callable

THIS_FILE = "test_errors.py"


def line_of(function: Callable[..., Any], offset: int) -> str:
    return f"{THIS_FILE}:{function.__code__.co_firstlineno + offset}"


def half_failing() -> fa.Graph:
    """y = x + x, and z = abs(x) at the second line, which fails."""
    g = fa.Graph("half failing")
    x = g.input("x", (4,), fa.i64)
    g.output("y", x + x)
    g.output("z", abs(x + x))
    return g


async def failed(ex: fa.Executor, g: fa.Graph, **feeds: Any) -> KernelFailed:
    with pytest.raises(KernelFailed) as caught:
        await ex.run(g, feeds)
    return caught.value


class Told(BaseException):
    """What no handler of Exception sees."""


@pytest.mark.parametrize("in_place", [False, True], ids=["lane", "in place"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: ArithmeticError("as told"),
        lambda: KeyError("key"),
        lambda: OSError(2, "no such thing"),
        lambda: UnicodeDecodeError("ascii", b"x", 0, 1, "why"),
        lambda: KeyboardInterrupt("stop"),
        lambda: SystemExit(3),
        lambda: StopIteration("next"),
        lambda: StopAsyncIteration("next"),
        lambda: GeneratorExit("end"),
        lambda: asyncio.CancelledError("not you"),
        lambda: MemoryError(),
        lambda: Told("base"),
        lambda: ExceptionGroup("several", [ValueError("one"), TypeError("two")]),
    ],
    ids=lambda make: type(make()).__name__,
)
async def test_whatever_a_kernel_raises_fails_its_run_alone(
    ex: fa.Executor, rig: Rig, make: Callable[[], BaseException], in_place: bool
) -> None:
    g = failing()
    if in_place:
        await rig.warm(ex, g)
    rig.error = make
    told = await failed(ex, g, x=ints())
    kind = type(make()).__name__
    assert told.node.startswith("node %1 abs(%0 i64[4]) -> i64[4], built at ")
    assert "support.py:" in told.node
    assert told.node_id == 1
    assert told.device == "cpu:0"
    assert told.cause.startswith(f"{kind}: ")
    assert f"failed on cpu:0: {kind}" in str(told)
    assert type(told.__cause__) is type(make())
    assert any("raise self.error()" in note for note in told.__cause__.__notes__)
    assert told.__suppress_context__  # what is printed is the kernel's error and this one
    # The lane and the loop live on.
    assert ((await ex.run(doubling(), x=ones()))["y"] == 2).all()
    await settled(ex)
    assert ex.statistics().runs_failed == 1


@pytest.mark.parametrize("in_place", [False, True], ids=["lane", "in place"])
async def test_graphs_of_equal_structure_name_their_own_lines(ex: fa.Executor, rig: Rig, in_place: bool) -> None:
    def build() -> tuple[fa.Graph, fa.Graph]:
        one, two = fa.Graph("one"), fa.Graph("two")
        x, y = one.input("x", (4,), fa.i64), two.input("x", (4,), fa.i64)
        one.output("y", abs(x))
        two.output("y", abs(y))
        return one, two

    one, two = build()
    if in_place:
        await rig.warm(ex, one)
        await rig.warm(ex, two)
    for g, offset in ((one, 3), (two, 4), (one, 3)):
        told = await failed(ex, g, x=ints())
        assert line_of(build, offset) in told.node
    assert len((await ex.engine()).cache._plans) == 1


async def test_other_runs_go_on_beside_a_failing_one(ex: fa.Executor, rig: Rig) -> None:
    g, sound = half_failing(), doubling()
    outcomes = await asyncio.gather(
        *[ex.run(g, x=ints()) if number % 3 else ex.run(sound, x=ones()) for number in range(90)],
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, KernelFailed) for outcome in outcomes) == 60
    assert all((outcome["y"] == 2).all() for outcome in outcomes[::3] if isinstance(outcome, dict))
    await settled(ex)
    assert ex.statistics().runs == 30
    assert ex.statistics().runs_failed == 60


async def test_regions_behind_a_failed_one_do_not_run(rig: Rig) -> None:
    async with fa.Executor(host_lanes=2) as ex:
        g = fa.Graph()
        x = g.input("x", (4,), fa.i32)
        bad = abs(x)  # a region of its own
        g.output("y", bad + bad)
        g.output("z", g.input("w", (4,), fa.i64).square().square().square())
        told = await failed(ex, g, x=ints(dtype=np.int32), w=ints())
        assert told.node_id in {1, 2}
        await settled(ex)


async def test_each_of_many_waiters_gets_an_error_of_its_own(ex: fa.Executor, rig: Rig) -> None:
    run = ex.submit(failing(), x=ints())

    async def wait() -> KernelFailed:
        with pytest.raises(KernelFailed) as caught:
            await run
        return caught.value

    errors = await asyncio.gather(*[wait() for _ in range(100)])
    assert len({id(error) for error in errors}) == 100
    assert len({str(error) for error in errors}) == 1
    assert all(len(traceback.extract_tb(error.__traceback__)) <= 4 for error in errors)
    errors[0].add_note("mine")
    assert not getattr(errors[1], "__notes__", [])


def caused() -> BaseException:
    try:
        raise LookupError("first")
    except LookupError as error:
        raise ValueError("second") from error


def beside_another() -> BaseException:
    """Its cause is one error, its context another."""
    try:
        raise LookupError("context")
    except LookupError:
        raise ValueError("second") from OSError("cause")


def grouped() -> BaseException:
    errors = []
    for _ in range(2):
        try:
            raise LookupError("member")
        except LookupError as error:
            errors.append(error)
    return ExceptionGroup("several", errors)


@pytest.mark.parametrize("in_place", [False, True], ids=["lane", "in place"])
@pytest.mark.parametrize("make", [caused, beside_another, grouped])
async def test_a_dropped_error_keeps_nothing(
    ex: fa.Executor, rig: Rig, make: Callable[[], BaseException], in_place: bool
) -> None:
    """Without a collection: no cycle holds feeds, results or the arena."""
    g = fa.Graph()
    x = g.input("x", (1 << 16,), fa.i64)
    g.output("y", abs(x + x))
    if in_place:
        await rig.warm(ex, g, np.zeros(1 << 16, np.int64))

    rig.error = make
    gc.collect()
    gc.disable()
    try:
        feed = np.arange(1 << 16)
        watched = weakref.ref(feed)
        told: KernelFailed | None = None
        try:  # pytest.raises would make a cycle of its own
            await ex.run(g, x=feed)
        except KernelFailed as error:
            told = error
        await forgotten(ex)
        (prepared,) = (await ex.engine()).cache.all()
        arena = weakref.ref(prepared.idle[0].programs[0])
        prepared.drop_idle()
        del feed, told
        assert watched() is None
        assert arena() is None
    finally:
        gc.enable()


async def test_no_kernel_for_a_node_is_said_before_anything_runs(ex: fa.Executor, rig: Rig) -> None:
    def build() -> fa.Graph:
        g = fa.Graph("unserved")
        x = g.input("x", (4,), fa.i64)
        g.output("z", x.sign())
        g.output("y", x.floor())
        return g

    g = build()
    for _ in range(2):
        with pytest.raises(NoBackendForOp, match=r"no kernel for floor on \[I64, I64\]") as caught:
            await ex.run(g, x=ints())
        assert any(line_of(build, 4) in note for note in caught.value.__notes__)
    assert rig.calls == []
    assert in_flight() == (0, 0)
    assert ex.statistics().runs_failed == 2


@pytest.mark.asyncio(loop_factories=["default"])
async def test_a_pin_to_a_device_that_is_not_there_is_refused() -> None:
    g = fa.Graph("elsewhere")
    x = g.input("x", (4,))
    with g.on("cpu:1"):
        g.output("y", x + 1.0)
    async with fa.Executor(devices=["cpu:0"]) as executor:
        with pytest.raises(fa.UserError, match="pinned to cpu:1, which is not among cpu:0"):
            await executor.run(g, x=np.ones(4, np.float32))
