"""Prices of candidates, copies of their operands, and what was decided beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_async.cost import PriceSource
from fuel_async.dispatch import KernelBindingTable, OpParams, RuntimeFused
from fuel_async.errors import UserError
from fuel_async.ir import CostEstimate, DType, Layout, OpKind, SizeClass
from fuel_async.plan import (
    AlternativeSet,
    CapabilitiesLookup,
    HashMapJudge,
    JudgeOracle,
    TransferEstimator,
    apply_inbound_transfer_costs,
    compute_static_costs,
    couple_producers,
    couple_strides,
    enumerate_candidates,
)
from tests.plan.rank.support import (
    AT_HOME,
    CPU,
    CUDA,
    CUDA0,
    CUDA1,
    HOST,
    MOST,
    VK0,
    VULKAN,
    Kernel,
    Links,
    candidate,
    caps_of,
    cost,
    everybody,
    priced,
    times,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.dispatch import BackendCapabilities, CostFn, KernelDTypes
    from fuel_async.ir import BackendId, DeviceLocation

NEG, MATMUL = OpKind.NegElementwise, OpKind.MatMul
F32 = (DType.F32, DType.F32)
THREE: list[tuple[int, ...]] = [(3,), (3,)]


class TwiceN:
    """A declared price of two flops an element; of no others than those it knows."""

    def __init__(self, known: bool = True) -> None:
        self.known = known

    def evaluate(
        self, shapes: Sequence[tuple[int, ...]], dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
    ) -> CostEstimate | None:
        return CostEstimate(flops=2 * shapes[0][0]) if self.known else None


def of(
    function: CostFn,
    *,
    op: OpKind | RuntimeFused = NEG,
    dtypes: KernelDTypes = F32,
    params: OpParams = OpParams.NONE,
    placements: Sequence[tuple[BackendId, DeviceLocation]] = AT_HOME,
    expr: TwiceN | None = None,
    source: str = "",
) -> tuple[AlternativeSet, KernelBindingTable]:
    """Candidates of one kernel for each backend, and the table that they are from."""
    table = KernelBindingTable()
    for backend in dict.fromkeys(backend for backend, _ in placements):
        table.register(op, dtypes, backend, Kernel(), cost=function, cost_expr=expr, kernel_source=source)
    return enumerate_candidates(op, dtypes, placements, params, table), table


# --- prices ---


def test_cc_6_a_measured_time_goes_before_a_count() -> None:
    """The original clamps a measured time to the 32 bits of an overhead, and puts it there; here it is kept apart."""
    found, table = of(cost(flops=1000), source="mine")
    judge = HashMapJudge()
    judge.insert(NEG, DType.F32, SizeClass.from_elem_count(3), CPU, "mine", 250)
    compute_static_costs(found, NEG, F32, THREE, table, everybody, judge)
    (one,) = found
    assert (one.effective_ns(), one.price_source) == (250, PriceSource.MEASURED)
    assert replace(one, rates=(99.0, 99.0)).effective_ns() == 250
    judge.insert(NEG, DType.F32, SizeClass.from_elem_count(3), CPU, "mine", MOST)
    compute_static_costs(found, NEG, F32, THREE, table, everybody, judge)
    assert times(found) == [MOST]


@pytest.mark.parametrize(
    ("known", "flops", "source"), [(True, 6, PriceSource.DECLARED), (False, 42, PriceSource.COUNTED)]
)
def test_cc_6_a_declared_price_that_covers_the_call_is_used(known: bool, flops: int, source: PriceSource) -> None:
    found, table = of(cost(flops=42), expr=TwiceN(known))
    compute_static_costs(found, NEG, F32, THREE, table, everybody)
    (one,) = found
    assert (one.static_cost.flops, one.price_source) == (flops, source)


def test_limitation_6_a_measured_time_leaves_the_bytes() -> None:
    """In the original it erases them, and with them the axis of memory and what an output is taken to need."""
    found, table = of(cost(bytes_moved=4000))
    judge = HashMapJudge()
    judge.insert(NEG, DType.F32, SizeClass(1), CPU, "", 5)
    compute_static_costs(found, NEG, F32, THREE, table, everybody, judge)
    (one,) = found
    assert (one.effective_ns(), one.static_cost.bytes_moved) == (5, 4000)
    memory = one.vector().memory
    assert memory is not None
    assert memory.host_ram_bytes == 4000


def test_limitation_5_products_are_priced_with_their_own_parameters() -> None:
    """In the original parameters are not known when plans are made, and unmeasured products are free."""
    dtypes, shapes = (DType.F32,) * 3, [(8, 16), (16, 4), (8, 4)]
    table = KernelBindingTable()
    table.register(MATMUL, dtypes, CPU, Kernel())
    found = enumerate_candidates(MATMUL, dtypes, AT_HOME, OpParams.Matmul((), (), 8, 4, 16), table)
    compute_static_costs(found, MATMUL, dtypes, shapes, table, everybody)
    (one,) = found
    assert one.static_cost == CostEstimate(2 * 8 * 4 * 16, 4 * (128 + 64 + 32), 100)
    assert (one.effective_ns(), one.price_source) == (1124, PriceSource.LAYER1)


def test_an_unknown_device_is_unpriced_and_not_free() -> None:
    """Trap (a): in the original it is priced at nothing, and wins."""
    found, table = of(cost(flops=1000), placements=[(CUDA, CUDA0), (CPU, HOST)])
    lookup: CapabilitiesLookup = lambda backend, device: caps_of(device) if device == HOST else None  # noqa: E731
    compute_static_costs(found, NEG, F32, THREE, table, lookup)
    assert times(found) == [None, 1000]
    found.rank_by_cost()
    assert [one.device for one in found] == [HOST, CUDA0]
    assert found.alternatives()[1].price_source is PriceSource.UNPRICED


def test_nobody_prices_a_kernel_that_is_not_in_the_table() -> None:
    found, table = of(cost(flops=1000))
    stranger = replace(found.alternatives()[0], kernel=Kernel(), static_cost=CostEstimate(5))
    found.put(0, stranger)
    compute_static_costs(found, NEG, F32, THREE, table, everybody)
    assert times(found) == [5]


def test_equal_cards_are_priced_apart_by_what_each_advertises() -> None:
    found, table = of(cost(flops=6000), placements=[(CUDA, CUDA0), (CUDA, CUDA1)])
    compute_static_costs(
        found,
        NEG,
        F32,
        THREE,
        table,
        lambda backend, device: caps_of(device, rates=(30.0 if device == CUDA0 else 60.0, 40.0)),
    )
    assert times(found) == [200, 100]


def test_products_have_the_rate_that_a_device_has_for_them() -> None:
    dtypes, shapes = (DType.F32,) * 3, [(8, 16), (16, 4), (8, 4)]
    params = OpParams.Matmul((), (), 8, 4, 16)
    times_of = {}
    for op in (MATMUL, OpKind.AddElementwise):
        found, table = of(cost(flops=6000), op=op, dtypes=dtypes, params=params, placements=[(CUDA, CUDA0)])
        compute_static_costs(
            found,
            op,
            dtypes,
            shapes,
            table,
            lambda backend, device: caps_of(device, dense_throughput_flops_per_ns=600.0),
        )
        times_of[op] = times(found)
    assert times_of == {MATMUL: [10], OpKind.AddElementwise: [200]}


def test_layer_1_has_the_overhead_of_the_device() -> None:
    """Defect (e)."""
    table = KernelBindingTable()
    for backend in (CPU, CUDA, VULKAN):
        table.register(NEG, F32, backend, Kernel())
    placements = [(CPU, HOST), (CUDA, CUDA0), (VULKAN, VK0)]
    found = enumerate_candidates(NEG, F32, placements, OpParams.NONE, table)
    known = {HOST: None, CUDA0: None, VK0: 7_000}
    compute_static_costs(
        found, NEG, F32, THREE, table, lambda backend, device: caps_of(device, launch_overhead_ns=known[device])
    )
    assert [one.static_cost.kernel_overhead_ns for one in found] == [50, 5_000, 7_000]


def test_regions_fused_at_run_time_are_priced_by_their_kernel_alone() -> None:
    op = RuntimeFused(0x8001)
    found, table = of(cost(flops=7), op=op)
    compute_static_costs(found, op, F32, THREE, table, everybody, HashMapJudge())
    assert times(found) == [7]


def test_a_judge_knows_what_it_was_told_and_nothing_else() -> None:
    judge = HashMapJudge()
    oracle: JudgeOracle = judge
    assert isinstance(judge, JudgeOracle)
    assert judge.is_empty()
    key = (NEG, DType.F32, SizeClass(4), CPU, "mkl")
    judge.insert(*key, 9)
    judge.insert(*key, 7)
    assert (len(judge), oracle.measured_latency_ns(*key)) == (1, 7)
    for other in (
        (OpKind.AbsElementwise, *key[1:]),
        (NEG, DType.F64, *key[2:]),
        (NEG, DType.F32, SizeClass(5), CPU, "mkl"),
        (NEG, DType.F32, SizeClass(4), CUDA, "mkl"),
        (NEG, DType.F32, SizeClass(4), CPU, ""),
    ):
        assert oracle.measured_latency_ns(*other) is None
    with pytest.raises(UserError, match="-1 ns"):
        judge.insert(*key, -1)


@given(st.integers(0, 2**40), st.integers(0, 2**40), st.integers(0, 2**20), st.booleans())
def test_unpriced_is_never_zero(flops: int, moved: int, overhead: int, known: bool) -> None:
    function = priced(lambda shapes: CostEstimate(flops, moved, overhead))
    found, table = of(function, op=OpKind.RuntimeFused)
    compute_static_costs(
        found, OpKind.RuntimeFused, F32, THREE, table, everybody if known else lambda backend, device: None
    )
    (one,) = found
    counted = known and bool(flops or moved or overhead)
    assert (one.effective_ns() is not None) is counted
    assert (one.price_source is not PriceSource.UNPRICED) is counted


# --- copies ---


def test_cc_7_operands_are_brought_to_the_candidate() -> None:
    links: TransferEstimator = Links(100, 1)
    assert isinstance(links, TransferEstimator)
    found = AlternativeSet.from_candidates([candidate(1), candidate(1, CUDA0)])
    apply_inbound_transfer_costs(found, [(HOST, 12), (HOST, 8)], links)
    assert [one.inbound_transfer_ns for one in found] == [0, (100 + 12) + (100 + 8)]
    apply_inbound_transfer_costs(found, [(HOST, 0)] * 2, Links(MOST))
    assert [one.inbound_transfer_ns for one in found] == [0, MOST]
    apply_inbound_transfer_costs(found, [], links)
    assert [one.inbound_transfer_ns for one in found] == [0, 0]


@pytest.mark.parametrize(("local", "remote", "device"), [(600, 500, HOST), (20_000, 10_000, CUDA0)])
def test_cc_7_a_device_is_worth_its_copies(local: int, remote: int, device: DeviceLocation) -> None:
    found = AlternativeSet.from_candidates([candidate(local), candidate(remote, CUDA0)])
    apply_inbound_transfer_costs(found, [(HOST, 4)], Links(1000))
    found.rank_by_cost()
    winner = found.winner()
    assert winner is not None
    assert winner.device == device


# --- couplings ---


def test_limitation_13_a_kernel_that_reads_no_strides_pays_for_the_copy() -> None:
    """In the original layouts are put right after kernels are chosen, at no price."""
    turned = Layout.contiguous((4, 8)).permute((1, 0))
    found = AlternativeSet.from_candidates([candidate(100), candidate(150, strided=True), candidate(60, CUDA0)])
    couple_strides(found, [Layout.contiguous((8, 4)), turned], (DType.F32,) * 3, everybody)
    assert found.conditions == {"operand 1 strided"}
    copied = 2 * 32 * 4 // 4 + 50
    planned = [one.effective_ns(found.conditions) for one in found]
    assert planned == [100 + copied, 150, 60 + 5_000 + 2 * 32 * 4 // 40]
    found.rank_by_cost()
    winner = found.winner()
    assert winner is not None
    assert winner.caps.strided_input


def test_plain_operands_and_unknown_devices_add_nothing() -> None:
    found = AlternativeSet.from_candidates([candidate(100)])
    couple_strides(found, [Layout.contiguous((8, 4))], F32, everybody)
    assert (found.conditions, found.alternatives()[0].coupling) == (frozenset(), ())
    couple_strides(found, [Layout.contiguous((4,), offset=1)], F32, lambda backend, device: None)
    assert times([one for one in found if one.effective_ns(found.conditions) == 100]) == [100]


def test_a_producer_that_went_elsewhere_changes_the_way_of_its_value() -> None:
    found = AlternativeSet.from_candidates([candidate(100), candidate(100, CUDA0), candidate(100, VK0)])
    apply_inbound_transfer_costs(found, [(HOST, 8)], Links(1000, 1))
    couple_producers(found, [(0, HOST, 8, [HOST, CUDA0])], Links(1000, 1))
    assert times(found) == [100, 1108, 1108]
    moved = {"operand 0 on cuda:0"}
    assert [one.effective_ns(moved) for one in found] == [1108, 100, 1108]
    assert [one.device for one in (found.best_given(frozenset()), found.best_given(moved)) if one] == [HOST, CUDA0]
    unchanged = found.copy()
    couple_producers(unchanged, [(0, HOST, 8, [HOST])], Links())
    assert unchanged.alternatives() == found.alternatives()
