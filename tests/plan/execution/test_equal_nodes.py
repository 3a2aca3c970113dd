"""What is worked out once for equal nodes is what is worked out for each of them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

from fuel_async.ir import Graph, derive_ordering, no_breath
from fuel_async.plan import PlanOptions, PrecisionRequirement
from fuel_async.plan.execution.compile import _Compilation
from fuel_async.testing import Case, graphs, random_graph
from fuel_async.testing.graphs import DTYPES
from tests.plan.execution.support import ABS, NEG, apply, chain, compiled
from tests.plan.execution.support import table as priced_table
from tests.plan.execution.test_every_op import HOSTS, OPTIONS, bound
from tests.plan.rank.support import CPU, CUDA, CUDA0, HOST, VK0, Links, caps_of

if TYPE_CHECKING:
    from fuel_async.dispatch import KernelBindingTable
    from fuel_async.ir import BackendId, DType, FrozenGraph, OpKind, SizeClass
    from fuel_async.plan import AlternativeSet, ExecutionPlan


class Measured:
    """Measured times of every other kind of kernel, by their size."""

    def measured_latency_ns(
        self, op: OpKind, dtype: DType, size_class: SizeClass, backend: BackendId, kernel_source: str
    ) -> int | None:
        return None if len(op.value) % 2 else 10 * len(repr(size_class))


RATES = {HOST: (1.0, 4.0), CUDA0: (1e3, 4e3), VK0: (3.0, 12.0)}
#: The host, and two devices that run its kernels; the first does so quickly, but is far.
THREE = replace(
    OPTIONS,
    fallback_placements_for=lambda device: [(CPU, CUDA0), (CPU, VK0)],
    capabilities_for=lambda backend, device: caps_of(device, CPU, RATES[device]),
    transfer_estimator=Links(300, 1),
)
#: The same where a node that is pinned to a card finds kernels.
ON_CARD = replace(THREE, placements_for_device=lambda device: [CPU])
WAYS = {
    "two devices": OPTIONS,
    "three devices": THREE,
    "free links": replace(THREE, transfer_estimator=Links(0)),
    "no prices": THREE.without_cost_population(),
    "no placement by prices": THREE.without_cost_placement(),
    "no links": replace(THREE, transfer_estimator=None),
    "inputs anywhere": replace(THREE, input_residency=None),
    "inputs apart": replace(THREE, input_residency=lambda node: (HOST, CUDA0, VK0, None)[node % 4]),
    "exact": replace(THREE, precision_requirement=PrecisionRequirement.BIT_STABLE),
    "measured": replace(THREE, judge=Measured()),
    "elsewhere": replace(THREE, pinned_device=CUDA0, fallback_placements_for=lambda device: [(CPU, HOST)],
                         placements_for_device=lambda device: [CPU]),
}  # fmt: skip


class Forgetful(dict[Any, Any]):
    """Keeps what was put into it, and says that it has nothing."""

    def __contains__(self, key: object) -> bool:
        return False

    def get(self, key: object, default: Any = None) -> Any:
        return default

    def setdefault(self, key: object, default: Any = None) -> Any:
        return default


def each_for_itself(graph: FrozenGraph, bindings: KernelBindingTable, options: PlanOptions) -> ExecutionPlan:
    """The plan that is made when nothing is remembered from one node to the next."""
    compilation = _Compilation(graph, derive_ordering(graph).order, bindings, options, no_breath)
    for column in ("drafts", "times", "settled", "coupled"):
        assert getattr(compilation, column) == {}
        setattr(compilation, column, Forgetful())
    if compilation.dp is not None:
        compilation.dp._ways, compilation.dp._devices = Forgetful(), Forgetful()
    return compilation.run()


def told(found: AlternativeSet | None) -> object:
    return None if found is None else (found.alternatives(), found.context, found.conditions)


def check(graph: FrozenGraph, bindings: KernelBindingTable, options: PlanOptions) -> ExecutionPlan:
    plan, other = compiled(graph, bindings, options), each_for_itself(graph, bindings, options)
    assert plan.order == other.order
    for node in plan.order:
        assert plan.device(node) == other.device(node)
        assert told(plan.alternatives(node)) == told(other.alternatives(node))
        assert told(plan.runner_ups(node)) == told(other.runner_ups(node))
    return plan


@pytest.mark.parametrize("way", WAYS)
def test_any_graph_with_any_options(way: str) -> None:
    graph = bound(random_graph(len(way), 60, dtypes=DTYPES, batch=2, window=12))
    plan = check(graph, HOSTS, WAYS[way])
    check(graph, HOSTS, replace(WAYS[way], reuse_plan=plan))


@given(graphs(max_steps=6))
@settings(max_examples=25)
def test_every_graph(case: Case) -> None:
    check(bound(case), HOSTS, THREE)


def test_layers_are_ranked_once() -> None:
    """Whether there are ten of them or forty: there is a draft for each kind of node, and for each that is pinned."""
    for count in (10, 40):
        g = Graph()
        value = g.input("x", (4,))
        for number in range(count):
            with g.on(CUDA0) if number == count // 2 else nullcontext():
                value = apply("neg", value) + apply("abs", value)
        g.output("y", value)
        frozen = g.freeze()
        compilation = _Compilation(frozen, derive_ordering(frozen).order, HOSTS, ON_CARD, no_breath)
        compilation.run()
        assert len(compilation.drafts) == 6
        check(frozen, HOSTS, ON_CARD)


def test_what_differs_is_told_apart() -> None:
    """Two equal nodes whose operands come from different devices keep different prices."""
    bindings = priced_table({NEG: {CPU: 5_000, CUDA: 10}, ABS: {CPU: 100}})
    options = replace(THREE, placements_for_device=None, fallback_placements_for=lambda device: [(CUDA, CUDA0)],
                      capabilities_for=lambda backend, device: caps_of(device, backend))  # fmt: skip
    plan = check(chain("neg", "abs", "neg", "abs", "abs").freeze(), bindings, options)
    found = [plan.alternatives(node) for node in plan.order[1:]]
    assert [one.devices() for one in found if one is not None] == [(CUDA0,), (HOST,), (CUDA0,), (HOST,), (HOST,)]
    inbound = [one.alternatives()[0].inbound_transfer_ns for one in found if one is not None]
    assert inbound[3] > inbound[4] == 0


def test_pins_tell_equal_nodes_apart() -> None:
    """One is free, one must stay where it would be asked for anyway, two must go to cards."""
    g = Graph()
    value = g.input("x", (4,))
    for device in (None, HOST, CUDA0, VK0):
        with nullcontext() if device is None else g.on(device):
            value = apply("neg", value)
    g.output("y", value)
    plan = check(g.freeze(), HOSTS, ON_CARD)
    assert [plan.device(node) for node in plan.order[2:]] == [HOST, CUDA0, VK0]
    assert [plan.runner_ups(node) is None for node in plan.order[1:]] == [False, True, True, True]
