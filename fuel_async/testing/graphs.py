"""Random legal graphs over all ops, with feeds: drawn by Hypothesis (`graphs`), or from a seed
(`random_graph`).

They hold scalars, empty values, broadcasting, views of views, shared subgraphs, dead nodes, several outputs,
outputs that are inputs, constants, views or one another, and sometimes a symbolic batch dimension `n`. Values
stay moderate and finite. Discontinuous ops are among them: `reference.check_results` knows where their
results are undetermined. Two executions of one executor can always be compared by their bytes.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from fuel_async.errors import UserError
from fuel_async.ir import DType, Graph, to_text
from fuel_async.testing.builder import Builder
from fuel_async.testing.recipes import RECIPES
from fuel_async.testing.reference import sizes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hypothesis.strategies import SearchStrategy
    from numpy.typing import NDArray

    from fuel_async.ir import Shape

T = TypeVar("T")

#: Mostly float32: the other dtypes enter by casts, too.
DTYPES = (*[DType.F32] * 8, DType.F64, DType.F16, DType.BF16, DType.U8, DType.U8, DType.U32, DType.I64)


@dataclass(frozen=True, slots=True)
class Case:
    """A graph with feeds; its text is what Hypothesis prints."""

    graph: Graph
    feeds: Mapping[str, NDArray[Any]]

    @property
    def sizes(self) -> dict[str, int]:
        """What the feeds bind the graph's symbols to."""
        return sizes_of(self.graph, self.feeds)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Let Hypothesis print the text instead of the fields."""
        printer.text(f"\n{self!r}\n")

    def __repr__(self) -> str:
        feeds = "\n".join(f"# {name} = {value!r}" for name, value in self.feeds.items())
        return f"{to_text(self.graph)}{feeds}"


def graphs(
    *,
    max_steps: int = 12,
    ops: Sequence[str] = tuple(RECIPES),
    dtypes: Sequence[DType] = DTYPES,
    symbolic: bool = True,
) -> SearchStrategy[Case]:
    """Return a strategy of cases in which up to `max_steps` of `ops` are applied, others only on the way."""
    st = _strategies()

    def build(draw: Callable[[Any], Any]) -> Case:
        choices = _Drawn(draw, st)
        batch = choices.pick((None, None, 3, 2, 1, 0)) if symbolic else None
        builder = Builder(choices, "drawn", batch=batch, dtypes=dtypes)
        for _ in range(choices.integer(1, max_steps)):
            _step(builder, ops)
        return _finished(builder, choices.integer(1, 4))

    drawn: SearchStrategy[Case] = st.composite(build)()
    return drawn


def random_graph(
    seed: int,
    nodes: int,
    *,
    ops: Sequence[str] = tuple(RECIPES),
    dtypes: Sequence[DType] = (DType.F32,),
    shape: Shape | None = None,
    batch: int | None = None,
    outputs: int = 8,
    window: int = 32,
) -> Case:
    """Return the one case of about `nodes` nodes that belongs to the arguments.

    `shape` is that of all leaves (small random ones when None); a node's operands are among the last `window`
    tensors, so a larger window makes a wider graph. What ends unused is an output, and as much more as makes
    at least `outputs`.
    """
    choices = Rolled(random.Random(seed))
    builder = Builder(choices, f"random{seed}", batch=batch, dtypes=dtypes, shape=shape, window=window, thrifty=True)
    while len(builder.graph) < nodes:
        _step(builder, ops)
    return _finished(builder, outputs)


def _step(builder: Builder, ops: Sequence[str]) -> None:
    builder.begin()
    made = RECIPES[builder.choices.pick(ops)](builder)
    if made is not None:
        builder.keep(made)


def _finished(builder: Builder, outputs: int) -> Case:
    choices, pool = builder.choices, builder.pool
    if not pool:
        builder.fresh()
    unused = builder.unused()
    chosen = unused if builder.thrifty else unused[-outputs:]
    while len(chosen) < outputs:
        chosen.append(choices.pick(pool[-builder.window :]))
    if choices.chance(20):
        chosen.append(pool[0])  # a leaf
    if choices.chance(20):
        chosen.append(choices.pick(pool[-builder.window :]))  # a duplicate, or the middle of something
    for number, tensor in enumerate(chosen):
        builder.graph.output(f"y{number}", tensor)
    return Case(builder.graph, builder.feeds)


class Rolled:
    """Choices of a seeded generator."""

    def __init__(self, generator: random.Random) -> None:
        self._random = generator

    def integer(self, low: int, high: int) -> int:
        """Return an integer of [low, high]."""
        return self._random.randint(low, high)

    def pick(self, options: Sequence[T]) -> T:
        """Return one of `options`."""
        return self._random.choice(options)

    def chance(self, percent: int) -> bool:
        """Return True `percent` times out of a hundred."""
        return self._random.random() * 100 < percent


class _Drawn:
    """Choices of Hypothesis; the first option, the lowest integer and False are what it shrinks to."""

    def __init__(self, draw: Callable[[Any], Any], strategies: Any) -> None:
        self._draw, self._strategies = draw, strategies

    def integer(self, low: int, high: int) -> int:
        return int(self._draw(self._strategies.integers(low, high)))

    def pick(self, options: Sequence[T]) -> T:
        return options[self.integer(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        return self.integer(0, 99) >= 100 - percent


def _strategies() -> Any:
    try:
        from hypothesis import strategies
    except ImportError as error:
        raise UserError("graphs() draws with Hypothesis; install fuel_async[test]") from error
    return strategies
