"""Backward ops against difference quotients of their forward ops, which the reference computes in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.ir import (
    DType,
    Graph,
    Tensor,
    bind,
    layer_norm_backward,
    log_softmax_backward,
    max_to_backward,
    pad,
    pad_backward,
    powi_backward,
    rms_norm_backward,
    softmax_backward,
)
from fuel_async.testing.reference import Expectation, reference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fuel_async.testing.estimates.bounds import Array

    #: The forward op, and the backward op of (operand, result, upstream).
    Pair = tuple[Callable[[Tensor], Tensor], Callable[[Tensor, Tensor, Tensor], Tensor]]

_WIDTHS = ((1, 2), (2, 1))
_STEP = 1e-6


def _padding(mode: Any) -> Pair:
    return lambda x: pad(x, _WIDTHS, mode), lambda x, y, g: pad_backward(g, _WIDTHS, mode)


PAIRS: Mapping[str, tuple[Pair, ...]] = {
    "powi_backward": tuple(
        (lambda x, exp=exp: x.powi(exp), lambda x, y, g, exp=exp: powi_backward(x, g, exp))  # type: ignore[misc]
        for exp in (3, 1, 0, -2)
    ),
    "softmax_backward": ((lambda x: x.softmax(), lambda x, y, g: softmax_backward(y, g)),),
    "log_softmax_backward": ((lambda x: x.log_softmax(), lambda x, y, g: log_softmax_backward(y, g)),),
    "layer_norm_backward": ((lambda x: x.layer_norm(eps=0.01), lambda x, y, g: layer_norm_backward(x, g, eps=0.01)),),
    "rms_norm_backward": ((lambda x: x.rms_norm(eps=0.01), lambda x, y, g: rms_norm_backward(x, g, eps=0.01)),),
    "reduce_max_to_backward": (
        (lambda x: x.max_to((1, 4)), lambda x, y, g: max_to_backward(x, g)),
        (lambda x: x.max_to((3, 1)), lambda x, y, g: max_to_backward(x, g)),
    ),
    "pad_backward": (_padding("constant"), _padding("reflect"), _padding("replicate")),
}


def gradient_graph(name: str, feeds: dict[str, Array]) -> tuple[Graph, dict[str, Expectation]]:
    """Return a graph with one output for each pair of the op, and what they must be; adds its feeds to `feeds`."""
    graph, expected, rng = Graph(name), dict[str, Expectation](), np.random.default_rng(7)
    # Apart from each other and from 0: no step changes which of them is the largest.
    feeds["x"] = rng.permutation(np.linspace(-1.75, 1.5, 12)).reshape(3, 4)
    x = graph.input("x", (3, 4), DType.F64)
    for number, (forward, backward) in enumerate(PAIRS[name]):
        y = forward(x)
        shape = tuple([bind(dim, {}) for dim in y.shape])
        upstream = f"g{number}"
        feeds[upstream] = rng.uniform(-1, 1, shape)
        output = f"y{number}"
        graph.output(output, backward(x, y, graph.input(upstream, shape, DType.F64)))
        expected[output] = _quotients(forward, feeds["x"], feeds[upstream])
    return graph, expected


def _quotients(forward: Callable[[Tensor], Tensor], x: Array, upstream: Array) -> Expectation:
    graph = Graph("forward")
    graph.output("y", forward(graph.input("x", x.shape, DType.F64)))
    found = np.empty_like(x)
    for place in np.ndindex(x.shape):
        sides: list[Array] = []
        for step in (_STEP, -_STEP):
            moved = x.copy()
            moved[place] += step
            sides.append(reference(graph, {"x": moved})["y"])
        found[place] = ((sides[0] - sides[1]) * upstream).sum() / (2 * _STEP)
    return Expectation(found, 1e-6 * (1 + np.abs(found)))
