"""The reference executor: a graph's outputs computed plainly, and how closely another executor must agree.

`reference` gives values; `expectations` gives them with bounds; `check_results` compares what an executor
delivered with them. Where a bound is infinite (a value that the feeds do not determine, such as a division by
something that may be 0) nothing is demanded; a bound of 0 demands equal values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fuel_async.ir import BY_NAME, BundleType, FrozenGraph, Graph, Symbolic, TensorType, bind
from fuel_async.testing.estimates import estimate, estimate_slots
from fuel_async.testing.estimates.bounds import Array, Estimate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.ir import Attrs, OpSpec, Shape

_INPUT, _CONSTANT = BY_NAME["input"], BY_NAME["constant"]


class Expectation(NamedTuple):
    """One output as it is delivered (truth values as bool), and how far each element may be off."""

    value: Array
    tolerance: Array


class Interpreter:
    """Values of the nodes of one graph, in order, for given sizes of its symbols."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = dict(sizes)
        #: By node; of several outputs the first.
        self.estimates: list[Estimate] = []
        self._slots: dict[int, tuple[Estimate, ...]] = {}

    def leaf(self, value: object) -> None:
        """Take the next node's value from outside; bool counts as uint8."""
        array = np.asarray(value)
        array = array.view(np.uint8) if array.dtype == np.bool_ else array
        self.estimates.append(Estimate(array, np.zeros(array.shape)))

    def compute(self, op: OpSpec, args: Sequence[int], attrs: Attrs, kind: TensorType) -> None:
        """Compute the next node."""
        if isinstance(kind, BundleType):
            operands = [self.estimates[arg] for arg in args]
            slots = [(self._sizes(view.shape), view.dtype) for view in kind.views]
            found = self._slots[len(self.estimates)] = estimate_slots(op.name, attrs, slots, operands)
            self.estimates.append(found[0])
            return
        operands = [self._slots[args[0]][attrs[0]]] if op.takes_bundle and attrs else [self.estimates[a] for a in args]
        self.estimates.append(estimate(op.name, self._bound(attrs), self._sizes(kind.shape), kind.dtype, operands))

    def _sizes(self, shape: Shape) -> tuple[int, ...]:
        return tuple([bind(dim, self.sizes) for dim in shape])

    def _bound(self, attrs: Any) -> Any:
        starts = getattr(attrs, "starts", None)
        return attrs if starts is None else attrs._replace(starts=[bind(start, self.sizes) for start in starts])


def sizes_of(graph: Graph | FrozenGraph, feeds: Mapping[str, object]) -> dict[str, int]:
    """Return the sizes of the symbols that are themselves a dimension of a feed."""
    frozen = graph.freeze() if isinstance(graph, Graph) else graph
    return {
        str(dim): size
        for name, node in frozen.inputs.items()
        for dim, size in zip(frozen.types[node].shape, np.shape(feeds[name]), strict=True)  # type: ignore[call-overload]
        if isinstance(dim, Symbolic) and str(dim).isidentifier()
    }


def expectations(graph: Graph | FrozenGraph, feeds: Mapping[str, object]) -> dict[str, Expectation]:
    """Return what each output must be, by name."""
    frozen = graph.freeze() if isinstance(graph, Graph) else graph
    names = {node: name for name, node in frozen.inputs.items()}
    interpreter = Interpreter(sizes_of(frozen, feeds))
    for node, op in enumerate(frozen.ops):
        if op is _INPUT:
            interpreter.leaf(feeds[names[node]])
        elif op is _CONSTANT:
            interpreter.leaf(frozen.constants[node])
        else:
            interpreter.compute(op, frozen.args[node], frozen.attrs[node], frozen.types[node])
    results = {name: interpreter.estimates[node] for name, node in frozen.outputs.items()}
    return {
        name: Expectation(value.astype(np.bool_) if name in frozen.boolean else value, error)
        for name, (value, error) in results.items()
    }


def reference(graph: Graph | FrozenGraph, feeds: Mapping[str, object]) -> dict[str, Array]:
    """Return each output by name, as `Executor.run` would: float64 throughout, rounded at each node."""
    return {name: expected.value for name, expected in expectations(graph, feeds).items()}


def check_results(graph: Graph | FrozenGraph, feeds: Mapping[str, object], results: Mapping[str, object]) -> None:
    """Raise `AssertionError`, naming output and element, unless `results` agree with the expectations."""
    check_expected(expectations(graph, feeds), results)


def check_expected(expected: Mapping[str, Expectation], results: Mapping[str, object]) -> None:
    """Raise `AssertionError`, naming output and element, unless `results` are what is expected."""
    if list(results) != list(expected):
        raise AssertionError(f"outputs {list(results)}, expected {list(expected)}")
    for name, (value, tolerance) in expected.items():
        got = np.asarray(results[name])
        if (got.shape, got.dtype) != (value.shape, value.dtype):
            found = f"{got.dtype}{got.shape}, expected {value.dtype}{value.shape}"
            raise AssertionError(f"output {name!r} is {found}")
        wrong = ~_agree(got, value, tolerance)
        if wrong.any():
            where = tuple(int(i) for i in np.argwhere(wrong)[0])
            found = f"{got[where]!r}, expected {value[where]!r} ± {tolerance[where]:.3g}"
            raise AssertionError(f"output {name!r} at {where} is {found}; {wrong.sum()} of {wrong.size} are off")


def _agree(got: Array, value: Array, tolerance: Array) -> Array:
    wide_got, wide_value = got.astype(np.float64), value.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(wide_got - wide_value) <= tolerance
    both_nan = np.isnan(wide_got) & np.isnan(wide_value)
    equal = (got == value) | both_nan
    return np.asarray(equal | near | np.isinf(tolerance))
