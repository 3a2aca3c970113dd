"""The façade's ranker, cost and plan, used the way a reader of the seeds would."""

from __future__ import annotations

import pytest

from fuel_async import cost as own_cost
from fuel_async import fuel_dispatch
from fuel_async import plan as own_plan
from fuel_async.dispatch import FUSED_OPS, BackendImpl, FusedOpId, FusedOpParams
from fuel_async.errors import FilterRejected
from fuel_async.fuel_dispatch import cost, dispatch, fused_cost, kernel, plan, ranker
from fuel_async.ir import CPU_DEVICE, BackendId, CostEstimate, DeviceLocation, DType, Graph, Layout, OpKind, SizeClass
from fuel_async.registry import SystemTopology

CPU, ADD = BackendId.CPU, OpKind.AddElementwise
F32: kernel.KernelDTypes = (DType.F32, DType.F32, DType.F32)
AWAY = DeviceLocation(BackendId("npu"))
SHAPES: list[tuple[int, ...]] = [(1000,)] * 3


def capabilities(backend: BackendId, device: DeviceLocation) -> dispatch.BackendCapabilities | None:
    """The host as it is; another device that runs the host's kernels ten times as fast."""
    rates = (1.0, 4.0) if device == CPU_DEVICE else (10.0, 40.0)
    return dispatch.derive_backend_caps(backend, device, kernel.KernelBindingTable(), rates=rates)


class Links:
    """Copies that take a microsecond."""

    def estimate_transfer_ns(self, source: DeviceLocation, destination: DeviceLocation, nbytes: int) -> int:
        return 0 if source == destination else 1000


def host_table() -> kernel.KernelBindingTable:
    table = kernel.KernelBindingTable()
    dispatch.register_cpu_kernels(table)
    return table.finalize()


def test_candidates_are_enumerated_filtered_priced_and_ranked() -> None:
    table, lookup = host_table(), capabilities
    known: ranker.CapabilitiesLookup = lookup
    found = ranker.enumerate_candidates(ADD, F32, [(CPU, CPU_DEVICE), (CPU, AWAY)], kernel.OpParams.NONE, table)
    assert isinstance(found, ranker.AlternativeSet)
    context = ranker.FilterContext(ADD, F32, (Layout.contiguous((1000,)),) * 2)
    ranker.apply_filter_chain(found, ranker.default_chain(ranker.PrecisionRequirement.BIT_STABLE), context)
    ranker.compute_static_costs(found, ADD, F32, SHAPES, table, known)
    links: ranker.TransferEstimator = Links()
    ranker.apply_inbound_transfer_costs(found, [(CPU_DEVICE, 4000)], links)
    found.rank_by_cost()
    winner = found.winner()
    assert isinstance(winner, ranker.Candidate)
    assert [(one.device, one.effective_ns()) for one in found] == [(AWAY, 50 + 300 + 1000), (CPU_DEVICE, 50 + 3000)]
    found.retain_per_device_frontier(ranker.KEEP_PER_DEVICE)
    assert found.devices() == (AWAY, CPU_DEVICE)
    assert ranker.composite_ns(winner.static_cost, 1.0, 4.0) == 3050


def test_the_filters_of_planning() -> None:
    chain: tuple[ranker.AlternativeFilter, ...] = ranker.default_chain(ranker.PrecisionRequirement(max_ulp=0))
    filters = (ranker.PrecisionFloorFilter, ranker.StridedInputPreferenceFilter, ranker.BitStablePreferenceFilter)
    assert tuple(map(type, chain)) == filters
    assert chain[0].classification() == ranker.FilterClass.Hard
    assert chain[1].classification() == chain[2].classification() == ranker.FilterClass.Soft(1)
    found = ranker.enumerate_candidates(ADD, F32, [(CPU, CPU_DEVICE)], kernel.OpParams.NONE, host_table())
    with pytest.raises(FilterRejected):
        ranker.apply_filter_chain(found, [ranker.PrecisionFloorFilter(ranker.PrecisionRequirement(max_ulp=0))], NEVER)


NEVER = ranker.FilterContext(ADD, F32, ())


def test_what_was_measured_and_what_was_decided_beside_it_count() -> None:
    judge = ranker.HashMapJudge()
    oracle: ranker.JudgeOracle = judge
    judge.insert(ADD, DType.F32, SizeClass.from_elem_count(1000), CPU, "", 70)
    table = host_table()
    found = ranker.enumerate_candidates(ADD, F32, [(CPU, CPU_DEVICE)], kernel.OpParams.NONE, table)
    ranker.compute_static_costs(found, ADD, F32, SHAPES, table, capabilities, oracle)
    assert isinstance(oracle, ranker.JudgeOracle)
    (one,) = found
    source = table.lookup_entry(ADD, F32, CPU).kernel_source
    assert one.effective_ns() == (70 if source == "" else 3050)
    coupled = ranker.Candidate(
        one.kernel, CPU, CPU_DEVICE, measured_ns=70, coupling=(ranker.CouplingAdjustment("warm", -20),)
    )
    assert (coupled.effective_ns(), coupled.effective_ns({"warm"})) == (70, 50)
    assert ranker.CouplingAdjustment() == ranker.CouplingAdjustment("", 0)


def test_a_graph_is_planned() -> None:
    g = Graph()
    g.output("z", g.input("x", (1000,)) + g.input("y", (1000,)))
    options = plan.PlanOptions(
        pinned_device=CPU_DEVICE,
        fallback_placements_for=lambda device: [(CPU, AWAY)],
        capabilities_for=capabilities,
        transfer_estimator=Links(),
        input_residency=lambda node: CPU_DEVICE,
    )
    made = plan.compile_plan(g.freeze(), [0, 1, 2], host_table(), options)
    assert isinstance(made, plan.ExecutionPlan)
    assert made.device(2) == CPU_DEVICE  # 3050 against 350 and three copies
    runners = made.runner_ups(2)
    assert runners is not None
    assert runners.devices() == (AWAY,)
    assert plan.ExecutionPlan.empty().order == ()


def test_a_topology_prices_copies() -> None:
    links: ranker.TransferEstimator = SystemTopology.of([])
    assert isinstance(links, ranker.TransferEstimator)
    assert links.estimate_transfer_ns(CPU_DEVICE, CPU_DEVICE, 1 << 20) == 0


def test_a_call_is_priced_by_its_kind() -> None:
    caps = capabilities(CPU, CPU_DEVICE)
    assert caps is not None
    assert (
        cost.default_cost_for_op_kind(ADD) is cost.cost_elementwise_binary_cpu is own_cost.cost_elementwise_binary_cpu
    )
    assert cost.cost_elementwise_binary_cpu(SHAPES, F32, kernel.OpParams.NONE, caps) == CostEstimate(1000, 12_000, 50)
    assert cost.unknown_cost(SHAPES, F32, kernel.OpParams.NONE, caps).is_unpriced


def test_a_fused_op_is_priced_by_its_parts() -> None:
    caps = capabilities(CPU, CPU_DEVICE)
    assert caps is not None
    impl = BackendImpl(host_table().lookup(OpKind.SoftmaxLastDim, F32[:2], CPU), F32[:2])
    assert FusedOpId.SOFTMAX_LAST_DIM in FUSED_OPS
    asked = FusedOpId.SOFTMAX_LAST_DIM, [(2, 5)], [DType.F32], FusedOpParams.SoftmaxLastDim(), caps
    assert fused_cost.is_fused_cost_sentinel(impl.cost)
    composed = fused_cost.cost_from_decompose(*asked)
    assert fused_cost.fused_layer1_cost(impl, *asked) == composed == CostEstimate(140, 80, 50)


def test_the_facade_gives_the_packages_own_objects() -> None:
    assert ranker.AlternativeSet is fuel_dispatch.AlternativeSet is own_plan.AlternativeSet
    assert ranker.composite_ns is fuel_dispatch.composite_ns is own_cost.composite_ns
    assert plan.compile_plan is fuel_dispatch.compile_plan is own_plan.compile_plan
