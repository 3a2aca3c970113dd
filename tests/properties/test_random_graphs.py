"""Random graphs: a function of the seed, over all ops and odd shapes, with values worth comparing."""

from __future__ import annotations

import builtins
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from fuel_async.errors import UserError
from fuel_async.ir import BY_NAME, DType, Form, Symbolic, to_text, verify
from fuel_async.testing import Case, expectations, graphs, random_graph, reference
from fuel_async.testing.graphs import DTYPES


def op_counts(case: Case) -> Counter[str]:
    return Counter(op.name for op in case.graph.freeze().ops)


def test_a_seed_gives_one_case() -> None:
    first, again, other = (random_graph(seed, 300, dtypes=DTYPES, batch=2) for seed in (7, 7, 8))
    assert to_text(first.graph) == to_text(again.graph)
    assert first.graph.freeze().digest == again.graph.freeze().digest
    assert first.feeds.keys() == again.feeds.keys()
    for name, value in first.feeds.items():
        assert value.tobytes() == again.feeds[name].tobytes()
        assert (value.dtype, value.strides) == (again.feeds[name].dtype, again.feeds[name].strides)
    assert first.graph.freeze().digest != other.graph.freeze().digest


def test_the_global_generators_play_no_part() -> None:
    np.random.seed(1)
    first = to_text(random_graph(3, 200).graph)
    np.random.seed(2)
    assert to_text(random_graph(3, 200).graph) == first


@pytest.mark.slow
def test_all_ops_and_dtypes_occur() -> None:
    counts: Counter[str] = Counter()
    dtypes: set[DType] = set()
    for seed in range(16):
        case = random_graph(seed, 300, dtypes=DTYPES, batch=seed % 4, window=64)
        counts += op_counts(case)
        dtypes |= {kind.dtype for kind in case.graph.freeze().types}
    assert counts.keys() == BY_NAME.keys()
    assert min(counts.values()) >= 10
    assert dtypes == {dtype for dtype in DType if dtype.np is not None} - {DType.F8E8M0}


@pytest.mark.parametrize("nodes", [1, 10, 3_000])
def test_large_graphs_are_mostly_live(nodes: int) -> None:
    case = random_graph(1, nodes, shape=(16,))
    frozen = case.graph.freeze()
    verify(frozen)
    assert nodes <= len(case.graph) < nodes + 20
    assert len(frozen) >= 0.8 * nodes
    assert len(case.feeds) <= 16
    assert next(iter(case.feeds.values())).shape == (16,)


def test_ops_and_dtypes_can_be_chosen() -> None:
    case = random_graph(1, 500, ops=("add", "tanh", "softmax"), dtypes=(DType.F64,), shape=(4, 4))
    assert op_counts(case).keys() <= {"input", "constant", "add", "tanh", "softmax", "mul", "permute"}
    assert {kind.dtype for kind in case.graph.freeze().types} == {DType.F64}


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
def test_values_are_finite_moderate_and_determined(dtype: DType) -> None:
    case = random_graph(5, 1_500, dtypes=(dtype,), window=100, outputs=100)
    tolerances = []
    for value, tolerance in expectations(case.graph, case.feeds).values():
        assert np.isfinite(value.astype(np.float64)).all()
        assert np.isfinite(tolerance).all()
        if value.dtype == dtype.np and value.size:
            assert np.abs(value).max() <= 1e4
            tolerances.append(float(tolerance.max()))
    assert len(tolerances) >= 20
    assert np.median(tolerances) <= 1e-3


class Features:
    """What a case has of all that random graphs should have now and then."""

    def __init__(self, case: Case) -> None:
        self.case, self.graph = case, case.graph.freeze()
        graph = self.graph
        forms = [op.form for op in graph.ops]
        kernels = [kind.shape for kind, form in zip(graph.types, forms, strict=True) if form is Form.KERNEL]
        delivered = list(graph.outputs.values())
        uses = Counter(arg for args in graph.args for arg in args)
        feeds = case.feeds.values()
        self.found = {
            "a scalar": () in kernels,
            "no elements": any(0 in shape for shape in kernels),
            "four dimensions": any(len(shape) >= 4 for shape in kernels),
            "a symbol": any(isinstance(dim, Symbolic) for shape in kernels for dim in shape),
            "n = 0": case.sizes.get("n") == 0,
            "a bool feed": any(value.dtype == np.bool_ for value in feeds),
            "a strided feed": any(not value.flags.c_contiguous for value in feeds),
            "a read-only feed": any(not value.flags.writeable for value in feeds),
            "dead nodes": len(graph) < len(case.graph),
            "truth delivered": bool(graph.boolean),
            "an input as output": bool({*delivered} & {*graph.inputs.values()}),
            "a constant as output": bool({*delivered} & {*graph.constants}),
            "a node delivered twice": len({*delivered}) < len(delivered),
            "a view as output": any(forms[node] is Form.VIEW for node in delivered),
            "a view of a view": any(
                forms[node] is forms[args[0]] is Form.VIEW for node, args in enumerate(graph.args) if args
            ),
            "a shared value": max(uses.values(), default=0) > 1,
        }


@pytest.mark.slow
def test_drawn_graphs_have_all_that_is_promised() -> None:
    found: Counter[str] = Counter()

    @settings(max_examples=400, derandomize=True, database=None, phases=[Phase.generate])
    @given(graphs())
    def draw(case: Case) -> None:
        features = Features(case).found
        found.update(dict.fromkeys(features, 0))
        found.update(name for name, present in features.items() if present)

    draw()
    assert {name: count for name, count in found.items() if count < 3} == {}


def test_a_case_prints_as_text() -> None:
    case = random_graph(1, 5)
    assert repr(case).startswith('graph "random1"\n%0 = ')
    assert f"# {next(iter(case.feeds))} = " in repr(case)


@settings(max_examples=25)
@given(graphs(symbolic=False))
def test_graphs_can_be_drawn_without_symbols(case: Case) -> None:
    assert case.sizes == {}
    assert case.graph.freeze().symbols == ()
    first, again = reference(case.graph, case.feeds), reference(case.graph, case.feeds)
    assert all(value.tobytes() == again[name].tobytes() for name, value in first.items())


def test_without_hypothesis_only_drawing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without(name: str, *args: Any) -> Any:
        if name.startswith("hypothesis"):
            raise ImportError(name)
        return original(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    assert len(random_graph(1, 10).graph) >= 10
    with pytest.raises(UserError, match=r"install fuel_async\[test\]"):
        graphs()
