"""Results belong to the caller: they share no memory with arenas, feeds, constants or one another."""

from __future__ import annotations

import asyncio
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.runtime import engine as engine_module
from tests.runtime.support import Rig, chain, in_place, ints, ones, settled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray


def everything() -> fa.Graph:
    """Every way for an output to be another value's bytes: inputs, constants, views, duplicates, dead ends."""
    g = fa.Graph("everything")
    x, row = g.input("x", (4, 6)), g.input("row", (6,))
    const = g.constant(np.arange(24, dtype=np.float32).reshape(4, 6))
    total = x + row
    for name in ("input", "the same input"):
        g.output(name, x)
    for name in ("constant", "the same constant"):
        g.output(name, const)
    for name in ("sum", "the same sum"):
        g.output(name, total)
    g.output("another sum", x + row)
    g.output("a row of the input", x[1])
    g.output("input turned", x.T)
    g.output("input flat", x.reshape((24,)))
    g.output("constant turned", const.T)
    g.output("constant spread", const[0].broadcast_to((4, 6)))
    g.output("sum turned", total.T)
    g.output("sum reversed", total.flip())
    g.output("sum contiguous", total.contiguous())
    g.output("part of the sum", total[1:3, ::2])
    g.output("nothing of the sum", total[:0])
    g.output("consumed", total * 2)
    g.output("scalar", total.sum())
    g.output("truth", total > 3)
    g.output("truth turned", (total > 3).T)
    return g


def expected(x: NDArray[Any], row: NDArray[Any]) -> dict[str, NDArray[Any]]:
    const = np.arange(24, dtype=np.float32).reshape(4, 6)
    total = x + row
    return {
        "input": x, "the same input": x, "constant": const, "the same constant": const,
        "sum": total, "the same sum": total, "another sum": total,
        "a row of the input": x[1], "input turned": x.T, "input flat": x.reshape(24),
        "constant turned": const.T, "constant spread": np.broadcast_to(const[0], (4, 6)),
        "sum turned": total.T, "sum reversed": total[::-1, ::-1], "sum contiguous": total,
        "part of the sum": total[1:3, ::2], "nothing of the sum": total[:0],
        "consumed": total * 2, "scalar": total.sum(), "truth": total > 3, "truth turned": (total > 3).T,
    }  # fmt: skip


def same(found: Mapping[str, NDArray[Any]], wanted: Mapping[str, NDArray[Any]]) -> None:
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
        assert found[name].dtype == value.dtype


async def owned_elsewhere(ex: fa.Executor) -> Iterator[NDArray[Any]]:
    """The bytes that no result may touch: arenas and constants."""
    found: list[NDArray[Any]] = []
    for prepared in (await ex.engine()).cache.all():
        found.extend(prepared.constants)
        found.extend(program._arena._buffer for instance in prepared.idle for program in instance.programs)  # type: ignore[attr-defined]
    return iter(found)


@pytest.mark.parametrize("lanes", [1, 2])
async def test_results_share_memory_with_nothing(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "INLINE_NS", 1 << 40)
    g, rng = everything(), np.random.default_rng(5)
    kept: list[Mapping[str, NDArray[Any]]] = []
    async with fa.Executor(host_lanes=lanes) as ex:
        for _ in range(6):  # on lanes first, then in place
            x, row = rng.random((4, 6), np.float32), rng.random(6, np.float32)
            found = await ex.run(g, x=x, row=row)
            same(found, expected(x, row))
            arrays = [array for array in found.values() if array.size]
            for one, other in combinations(arrays, 2):
                assert not np.shares_memory(one, other)
            for array in arrays:
                assert array.flags.writeable
                assert array.flags.c_contiguous
                for foreign in (x, row, *(await owned_elsewhere(ex))):
                    assert not np.shares_memory(array, foreign)
            kept.append(found)
            for array in found.values():  # the caller may do with them what it likes
                array[...] = 77
        assert ex.statistics().runs_inline >= 1
        x, row = rng.random((4, 6), np.float32), rng.random(6, np.float32)
        same(await ex.run(g, x=x, row=row), expected(x, row))
    for results in kept:  # and nothing has written them since
        assert all((array == np.asarray(77).astype(array.dtype)).all() for array in results.values())


async def test_constants_cannot_be_changed_through_a_feed_of_their_array(ex: fa.Executor) -> None:
    source = np.ones(4, np.float32)
    g = fa.Graph()
    g.output("y", g.input("x", (4,)) + g.constant(source))
    for _ in range(4):
        source += 1
        np.testing.assert_array_equal((await ex.run(g, x=source))["y"], source + 1)


async def test_graphs_of_equal_structure_keep_their_own_constants(ex: fa.Executor) -> None:
    graphs = []
    for value in range(5):
        g = fa.Graph()
        g.output("y", g.input("x", (4,)) * g.constant(np.full(4, value, np.float32)))
        graphs.append(g)
    for _ in range(4):
        found = await asyncio.gather(*[ex.run(g, x=ones() * 3) for g in graphs])
        assert [result["y"][0] for result in found] == [0, 3, 6, 9, 12]
    assert len((await ex.engine()).cache._plans) == 1


async def test_the_callers_error_state_reaches_no_kernel(ex: fa.Executor, on_lanes: None) -> None:
    await same_under_error_state(ex)


async def test_the_callers_error_state_reaches_no_kernel_in_place(ex: fa.Executor) -> None:
    await same_under_error_state(ex)
    assert ex.statistics().runs_inline > 0


async def same_under_error_state(ex: fa.Executor) -> None:
    g = fa.Graph()
    x = g.input("x", (4,))
    g.output("over", x * x)
    g.output("divided", x / (x - x))
    g.output("log", (-x).log())
    big = np.full(4, 1e30, np.float32)
    for _ in range(5):
        with np.errstate(all="raise"):
            found = await ex.run(g, x=big)
            assert np.geterr()["over"] == "raise"
        assert np.isinf(found["over"]).all()
        assert np.isinf(found["divided"]).all()
        assert np.isnan(found["log"]).all()


async def test_a_kernel_that_changes_the_error_state_changes_its_own(ex: fa.Executor, rig: Rig) -> None:
    def strict() -> BaseException:
        np.seterr(all="raise")
        return ArithmeticError()

    rig.error = strict
    g = fa.Graph()
    g.output("y", abs(g.input("x", (4,), fa.i64)))
    before = np.geterr()
    await rig.warm(ex, g)
    with pytest.raises(fa.DeviceError):
        await ex.run(g, x=ints())
    assert np.geterr() == before


async def test_a_repeated_run_reuses_one_instance(ex: fa.Executor, on_lanes: None) -> None:
    g = chain(300)
    for _ in range(20):
        await ex.run(g, x=ones(16))
    (prepared,) = (await ex.engine()).cache.all()
    assert len(prepared.idle) == 1
    await settled(ex)


async def test_runs_in_place_and_on_lanes_reuse_one_instance(ex: fa.Executor) -> None:
    g = chain(50)
    await in_place(ex, g, x=ones(16))
    await ex.run(g, x=ones(16))
    (prepared,) = (await ex.engine()).cache.all()
    assert len(prepared.idle) == 1
