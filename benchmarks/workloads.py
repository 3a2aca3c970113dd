"""What is run: graphs, and beside each the same numpy calls without any executor.

A workload's steps are its baseline and its reference at once. They write over what nobody reads any more, as a program
that plans its memory does: both keep the same few buffers in the cache.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy._core import umath

import fuel_async as fa
from benchmarks.report import WrongResult
from benchmarks.timing import timed_ns

Array: TypeAlias = npt.NDArray[Any]
Step: TypeAlias = tuple[Callable[..., object], tuple[Array, ...]]

SIZES = (16, 64, 256)

_LIMITS = (np.array(0, np.float32), np.array(np.inf, np.float32))

#: The graph's op, numpy's (one that takes its output by position), and what that takes between operands and output.
_OPS: Mapping[str, tuple[Callable[..., fa.Tensor], Callable[..., object], tuple[Array, ...]]] = {
    "add": (lambda a, b: a + b, np.add, ()),
    "sub": (lambda a, b: a - b, np.subtract, ()),
    "mul": (lambda a, b: a * b, np.multiply, ()),
    "neg": (lambda a: -a, np.negative, ()),
    "abs": (abs, np.absolute, ()),
    "relu": (fa.Tensor.relu, umath.clip, _LIMITS),  # type: ignore[attr-defined]
}
_UNARY, _JOINS = ("neg", "abs", "relu"), ("add", "sub")


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A graph with feeds, and the numpy calls that it stands for."""

    graph: fa.Graph
    feeds: Mapping[str, Array]
    steps: Sequence[Step]
    #: Where the steps leave each output.
    results: Mapping[str, Array]

    def __len__(self) -> int:
        return len(self.steps)

    def bare(self) -> None:
        """Run the steps."""
        for call, args in self.steps:
            call(*args)

    def bare_ns(self) -> float:
        """The time of a step, now."""
        return timed_ns(self.bare) / len(self.steps)

    def check(self, results: Mapping[str, Array]) -> None:
        """`WrongResult` unless a run gave bit for bit what the steps give."""
        self.bare()
        for name, expected in self.results.items():
            if not np.isfinite(expected).all() or not np.array_equal(results[name], expected):
                raise WrongResult(f"output {name!r} of {self.graph!r} is not what numpy gives")


@dataclass(frozen=True, slots=True, eq=False)
class _Value:
    """A value as the graph knows it and as numpy does."""

    tensor: fa.Tensor
    array: Array
    #: Whether a step computed it, so that the last one to read it may write over it.
    computed: bool = False


class _Builder:
    """Builds graph and steps side by side."""

    def __init__(self, name: str, seed: int) -> None:
        self.graph = fa.Graph(name)
        self.numbers = np.random.default_rng(seed)
        self.feeds: dict[str, Array] = {}
        self.steps: list[Step] = []
        self.results: dict[str, Array] = {}
        self._free: dict[int, list[Array]] = {}

    def input(self, name: str, size: int) -> _Value:
        """Declare a feed."""
        array = self.feeds[name] = self.numbers.uniform(-1, 1, size).astype(np.float32)
        return _Value(self.graph.input(name, (size,)), array)

    def constant(self, size: int, low: float, high: float) -> _Value:
        array = self.numbers.uniform(low, high, size).astype(np.float32)
        return _Value(self.graph.constant(array), array)

    def apply(self, op: str, *operands: _Value, last: bool = True) -> _Value:
        """Append a step. It is the `last` to read its operands, unless told otherwise."""
        size = operands[0].array.size
        free = self._free.setdefault(size, [])
        dead = [value.array for value in operands if value.computed] if last else []
        out = dead[0] if dead else free.pop() if free else np.empty(size, np.float32)
        free.extend(dead[1:])
        build, call, between = _OPS[op]
        self.steps.append((call, (*[value.array for value in operands], *between, out)))
        return _Value(build(*[value.tensor for value in operands]), out, computed=True)

    def output(self, name: str, value: _Value) -> None:
        self.graph.output(name, value.tensor)
        self.results[name] = value.array

    def workload(self) -> Workload:
        return Workload(self.graph, self.feeds, self.steps, self.results)


def small_ops(count: int, seed: int = 7) -> Workload:
    """Three chains with diamonds in them, of 16, 64 and 256 floats; six elementwise ops in a random, fixed order."""
    build, draw = _Builder("small ops", seed), random.Random(seed)
    last = {size: build.input(f"x{size}", size) for size in SIZES}
    # Shifts keep the numbers from dying out, scales below 1 from growing: numpy's speed depends on neither then.
    shifts = {size: build.constant(size, -0.5, 0.5) for size in SIZES}
    scales = {size: build.constant(size, 0.3, 0.6) for size in SIZES}
    while len(build.steps) < count:
        size = draw.choice(SIZES)
        x, op = last[size], draw.choice(list(_OPS))
        if draw.random() < 0.15 and len(build.steps) + 3 <= count:
            left = build.apply("mul", x, scales[size], last=False)
            right = build.apply(draw.choice(_UNARY), x)
            last[size] = build.apply(draw.choice(_JOINS), left, right)
        elif op in _UNARY:
            last[size] = build.apply(op, x)
        else:
            last[size] = build.apply(op, x, scales[size] if op == "mul" else shifts[size])
    for size, value in last.items():
        build.output(f"y{size}", value)
    return build.workload()


def chain(count: int, size: int = 64) -> Workload:
    """One vector, `count` additions."""
    build = _Builder(f"chain of {size} floats", 7)
    value, shift = build.input("x", size), build.constant(size, 1e-3, 2e-3)
    for _ in range(count):
        value = build.apply("add", value, shift)
    build.output("y", value)
    return build.workload()


def rare_release(count: int, every: int = 500, size: int = 4_096) -> Workload:
    """Additions of 64 floats, and now and then one of so many that numpy lets go of the interpreter meanwhile.

    Each release restarts the clock of a thread that waits for the interpreter: the worst neighbour of an event loop.
    """
    build = _Builder("rare releases", 7)
    small, large = build.input("x", 64), build.input("z", size)
    small_shift, large_shift = build.constant(64, 1e-3, 2e-3), build.constant(size, 1e-3, 2e-3)
    for index in range(count):
        if index % every:
            small = build.apply("add", small, small_shift)
        else:
            large = build.apply("add", large, large_shift)
    build.output("y", small)
    build.output("w", large)
    return build.workload()


# --- fresh graphs of mixed ops ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """A graph of matrix products, elementwise ops, reductions and views, of 8 x 8 floats; no two seeds are alike."""

    seed: int
    blocks: int
    graph: fa.Graph
    feeds: Mapping[str, Array]

    def check(self, results: Mapping[str, Array]) -> None:
        """`WrongResult` unless a run gave what numpy gives for the same expressions."""
        expected = _mixed(self.seed, self.feeds["x"], _WEIGHTS, lambda x: np.maximum(x, 0), self.blocks, lambda: False)[
            0
        ]
        if not np.isfinite(expected).all() or not np.allclose(results["y"], expected, rtol=1e-4, atol=1e-5):
            raise WrongResult(f"{self.graph!r} is not what numpy gives")


_NUMBERS = np.random.default_rng(7)
#: A product's weights (it halves a vector at least), shifts of a matrix and of a row of 64, and scales below 1.
_WEIGHTS: Sequence[Array] = tuple(
    _NUMBERS.uniform(low, high, shape).astype(np.float32)
    for low, high, shape in ((-0.05, 0.05, (8, 8)), (-0.5, 0.5, (8, 8)), (-0.5, 0.5, 64), (0.2, 0.8, (8, 8)))
)


def mixed(count: int, seed: int) -> Mixed:
    """Build a graph of about `count` nodes; what is timed of it is building it, too."""
    graph = fa.Graph("mixed")
    x = graph.input("x", (8, 8))
    weights = [graph.constant(array) for array in _WEIGHTS]
    y, blocks = _mixed(seed, x, weights, fa.Tensor.relu, count, lambda: len(graph) >= count)
    graph.output("y", y)
    return Mixed(seed, blocks, graph, {"x": _WEIGHTS[1]})


def _mixed(
    seed: int, x: Any, weights: Sequence[Any], relu: Callable[[Any], Any], most: int, full: Callable[[], bool]
) -> tuple[Any, int]:
    """The expressions, over tensors or arrays alike: up to `most` blocks, or until `full`; the value and the blocks."""
    draw = random.Random(seed)
    product, shift, row, scale = weights
    t, kept, blocks = x, x, 0
    while blocks < most and not full():
        u = t @ product
        t = relu((u + shift) * scale) + u
        match draw.randrange(16):
            case 0:
                t = t - t.sum(axis=1, keepdims=True) * scale
            case 1:
                t = t - t.max(axis=0, keepdims=True)
            case 2:
                t = t.T + shift
            case 3:
                t = (t.reshape((64,)) + row).reshape((8, 8))
            case 4:
                t = t + t[0:1]
            case 5:
                t = t + kept * scale
                kept = t
            case _:
                pass
        blocks += 1
    return t, blocks
