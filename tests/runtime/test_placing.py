"""Ops that place elements anew, from the builder to what a run and a walk deliver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.errors import KernelFailed

if TYPE_CHECKING:
    from collections.abc import Callable

NINE = np.arange(1, 10, dtype=np.float32).reshape(3, 3)
FOUR = np.array([1, 2, 3, 4], np.float32)


def _indices(g: fa.Graph, *values: Any) -> fa.Tensor:
    return g.constant(np.array(values, np.uint32))


#: What is built of x, x, and what comes out.
KNOWN: dict[str, tuple[Callable[[fa.Tensor], fa.Tensor], np.ndarray[Any, Any], Any]] = {
    "flip then relu": (lambda x: x.flip(0).relu(), np.array([1, 2, -3, 4], np.float32), [4, 0, 2, 1]),
    "roll": (lambda x: fa.roll(x, 1, axis=0), FOUR, [4, 1, 2, 3]),
    "pad": (lambda x: fa.pad(x, (1, 2), fill=9), FOUR, [9, 1, 2, 3, 4, 9, 9]),
    "reflect": (lambda x: fa.pad(x, (2, 3), "reflect"), FOUR, [3, 2, 1, 2, 3, 4, 3, 2, 1]),
    "replicate": (lambda x: fa.pad(x, (2, 1), "replicate"), FOUR, [1, 1, 1, 2, 3, 4, 4]),
    "pad_backward": (lambda x: fa.pad_backward(x, (1, 1), "replicate"), FOUR, [3, 7]),
    "triu": (fa.triu, NINE, [[1, 2, 3], [0, 5, 6], [0, 0, 9]]),
    "tril": (fa.tril, NINE, [[1, 0, 0], [4, 5, 0], [7, 8, 9]]),
    "masked_fill": (lambda x: fa.masked_fill(x, x % 2 == 0, -1000), FOUR, [1, -1000, 3, -1000]),
    "gather": (lambda x: fa.gather(x, _indices(x.graph, [2, 0, 1]), axis=0), NINE, [[7, 2, 6]]),
    "take_along_axis": (lambda x: fa.take_along_axis(x, _indices(x.graph, [2]), axis=1), NINE, [[3], [6], [9]]),
    "index_add": (
        lambda x: fa.index_add(x, _indices(x.graph, 0, 0), x[:2]), np.array([10, 20, 30], np.float32), [40, 20, 30],
    ),
    "scatter_add": (
        lambda x: fa.scatter_add(fa.zeros(x.graph, (3, 2)), _indices(x.graph, [0, 1], [2, 0]), x.reshape((2, 2))),
        FOUR, [[1, 4], [0, 2], [3, 0]],
    ),
    "zeros": (fa.zeros_like, FOUR, [0, 0, 0, 0]),
    "iota": (lambda x: x + fa.iota(x.graph, 4), FOUR, [1, 3, 5, 7]),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
async def test_known_values(name: str, ex: fa.Executor) -> None:
    build, value, wanted = KNOWN[name]
    g = fa.Graph(name)
    g.output("y", build(g.input("x", value.shape)))
    assert (await ex.run(g, x=value))["y"].tolist() == wanted
    walk = ex.walk(g, x=value)
    async for _ in walk:
        pass
    assert walk.results["y"].tolist() == wanted


@pytest.mark.asyncio(loop_factories=["default"])
async def test_one_graph_at_several_sizes(ex: fa.Executor) -> None:
    g = fa.Graph()
    x = g.input("x", ("n", 3))
    g.output("y", fa.roll(fa.pad(fa.triu(x), ((1, 0), (0, 0)), "replicate"), 1, axis=0))
    for rows in (1, 4, 2):
        value = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
        wanted = np.roll(np.pad(np.triu(value), ((1, 0), (0, 0)), "edge"), 1, 0)
        assert (await ex.run(g, x=value))["y"].tolist() == wanted.tolist()


@pytest.mark.asyncio(loop_factories=["default"])
async def test_an_index_out_of_range_fails_the_run(ex: fa.Executor) -> None:
    g = fa.Graph()
    x = g.input("x", (3, 2))
    g.output("y", fa.gather(x, g.input("i", (1, 2), fa.u32)))
    feeds = {"x": np.ones((3, 2), np.float32), "i": np.array([[0, 3]], np.uint32)}
    with pytest.raises(KernelFailed, match="gather: index 3 is outside the indexed dimension; it has 3 entries"):
        await ex.run(g, feeds)
