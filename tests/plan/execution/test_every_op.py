"""Plans of random graphs over all ops, with the kernels and prices of the host."""

from __future__ import annotations

import pytest
from hypothesis import given

from fuel_async.cost import PriceSource
from fuel_async.dispatch import KernelCall, derive_backend_caps
from fuel_async.ir import FrozenGraph, Layout, OpKind
from fuel_async.plan import PlanOptions
from fuel_async.plan.execution.layouts import view_layouts
from fuel_async.plan.lower import lower
from fuel_async.testing import Case, graphs, random_graph
from fuel_async.testing.graphs import DTYPES
from tests.plan.execution.support import compiled
from tests.plan.rank.support import CPU, CUDA0, HOST, Links, caps_of
from tests.plan.support import table, target

HOSTS = table()
CAPS = derive_backend_caps(CPU, HOST, HOSTS)

#: The host, and a second device that runs the host's kernels, a thousand times as fast.
OPTIONS = PlanOptions(
    pinned_device=HOST,
    fallback_placements_for=lambda device: [(CPU, CUDA0)],
    capabilities_for=lambda backend, device: CAPS if device == HOST else caps_of(device, CPU, (1e3, 4e3)),
    transfer_estimator=Links(2_000, 1),
    input_residency=lambda node: HOST,
)


def bound(case: Case) -> FrozenGraph:
    return case.graph.freeze().bind(case.sizes)


def check(graph: FrozenGraph) -> int:
    """Whether every kernel is priced, as lowering prices it; return how many there are."""
    plan = compiled(graph, HOSTS, OPTIONS)
    rows = lower(graph, target(HOSTS))
    each = zip(rows.nodes, rows.calls, strict=True)
    calls: dict[int, KernelCall] = {node: call for node, call in each if call.kind is not OpKind.Copy}
    assert {node for node in plan.order if plan.alternatives(node) is not None} == calls.keys()
    for node, call in calls.items():
        found, runners = plan.alternatives(node), plan.runner_ups(node)
        assert found is not None
        for one in (*found, *(runners or ())):
            assert one.price_source is not PriceSource.UNPRICED
            assert one.effective_ns()
            assert one.op_params == call.params
        kernels = {id(one.kernel): one for one in found}
        if id(call.kernel) in kernels:
            assert kernels[id(call.kernel)].static_cost == call.estimate
    return len(calls)


@given(graphs(max_steps=8))
def test_every_kernel_of_every_graph_has_a_price(case: Case) -> None:
    check(bound(case))


@pytest.mark.parametrize("seed", range(3))
def test_every_op_has_a_price(seed: int) -> None:
    assert check(bound(random_graph(seed, 150, dtypes=DTYPES, batch=seed, window=16))) > 50


@given(graphs(max_steps=8))
def test_operands_lie_as_lowering_shows_them(case: Case) -> None:
    graph = bound(case)
    rows, views = lower(graph, target(HOSTS)), view_layouts(graph)
    for node in range(len(graph)):
        lowered = rows.layouts[node]
        if lowered is None or node in graph.outputs.values():
            continue
        shown = views.get(node) or Layout.contiguous(graph.types[node].shape)  # type: ignore[arg-type]  # concrete
        if node in views:
            assert shown == lowered
        else:  # a view that is copied
            assert lowered.is_contiguous
