"""Plans of one device: entries, decision devices, fallbacks, pins, and what a plan says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.errors import FilterRejected, NoBackendForOp, NoDecisionDevice, UserError
from fuel_async.ir import DType, Graph, OpKind, PrecisionGuarantee, SizeClass, derive_ordering
from fuel_async.plan import (
    DecisionContext,
    ExecutionPlan,
    PlanOptions,
    PrecisionRequirement,
    compile_plan,
)
from tests.plan.execution.support import (
    ABS,
    ADD,
    F32,
    MATMUL,
    NEG,
    SQR,
    apply,
    chain,
    compiled,
    places,
    relaxed,
    table,
    winners,
)
from tests.plan.rank.support import CPU, CUDA, CUDA0, HOST, STABLE, VK0, VULKAN, Kernel, Links, cost, everybody

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir import BackendId, DeviceLocation

ON_HOST = PlanOptions(pinned_device=HOST)
BOTH = {CPU: 100, CUDA: 100, VULKAN: 100}


def to(*others: tuple[BackendId, DeviceLocation]) -> Any:
    """A callback that always offers these."""
    return lambda device: list(others)


# --- entries ---


def test_cc_16_something_is_decided_of_kernels_alone() -> None:
    g = Graph()
    total = g.constant([1.0, 2.0]) + g.constant([3.0, 4.0])
    g.output("y", total.reshape((2, 1)))
    plan = compiled(g, table({ADD: {CPU: 100}}), ON_HOST)
    assert [plan.alternatives(node) is not None for node in plan.order] == [False, False, True, False]
    assert (len(plan), len(plan.order)) == (1, 4)
    found = plan.alternatives(2)
    assert found is not None
    assert found.context == DecisionContext(ADD, F32, SizeClass.from_elem_count(2))
    assert [plan.device(node) for node in plan.order] == [None, None, HOST, HOST]


def test_an_empty_plan_says_nothing() -> None:
    plan = ExecutionPlan.empty()
    assert (plan.order, plan.generation, len(plan)) == ((), 0, 0)
    assert [plan.alternatives(0), plan.runner_ups(0), plan.device(0)] == [None] * 3


def test_a_plan_has_the_generation_that_its_options_speak_of() -> None:
    assert compiled(chain("neg"), table({NEG: BOTH}), replace(ON_HOST, generation=7)).generation == 7


def test_cc_17_what_nobody_has_is_an_error_that_says_what_there_is() -> None:
    g = Graph()
    g.output("y", g.input("a", (2, 2)) @ g.input("b", (2, 2)))
    with pytest.raises(NoBackendForOp) as caught:
        compiled(g, table({}), ON_HOST)
    assert (caught.value.op, caught.value.dtypes) == ("matmul", ("F32",) * 3)
    assert "matmul" in caught.value.__notes__[0]

    # Of the original's [F32, BF16, F32] there is no graph here: the builder casts, or refuses.
    doubles = Graph()
    doubles.output("y", doubles.input("a", (2, 2), DType.F64) @ doubles.input("b", (2, 2), DType.F64))
    with pytest.raises(NoBackendForOp, match=r"backends asked: Cpu.*matmul is there for Cpu: \[F32, F32, F32\]"):
        compiled(doubles, table({MATMUL: {CPU: 100}}), ON_HOST)


def test_limitation_13_dtypes_are_never_put_right_behind_ones_back() -> None:
    """The original casts operands for a kernel, at no price. Here a cast is a node, with a price as all others."""
    g = Graph()
    g.output("y", g.input("a", (2, 2)) @ g.input("b", (2, 2), DType.BF16))
    bindings = table({MATMUL: {CPU: 100}}).copy()
    bindings.register(OpKind.Cast, (DType.BF16, F32), CPU, Kernel())
    plan = compiled(g, bindings.finalize(), relaxed())
    assert [(one.effective_ns()) for one in winners(plan)] == [50 + (8 + 16) // 4, 100]


def test_cc_18_a_device_has_the_backend_it_is_named_after_or_those_that_are_said() -> None:
    bindings = table({NEG: BOTH})
    counts = []
    for placements in (None, [CPU, CUDA], [CPU, CUDA, VULKAN]):
        callback: Any = None if placements is None else lambda device, found=placements: found
        plan = compiled(chain("neg"), bindings, relaxed(placements_for_device=callback, fallback_placements_for=None))
        found = plan.alternatives(1)
        assert found is not None
        assert {one.device for one in found} == {HOST}
        counts.append(len(found))
    assert counts == [1, 2, 3]


def test_cc_19_a_graphs_pin_and_a_default_come_to_the_same_candidates() -> None:
    """The original stamps nodes with backends; here a graph pins them to devices, by `Graph.on`."""
    pinned = Graph()
    with pinned.on(HOST):
        pinned.output("y", apply("neg", pinned.input("x", (4,))))
    bindings = table({NEG: BOTH})
    one = compiled(pinned, bindings, PlanOptions())
    other = compiled(chain("neg"), bindings, ON_HOST)
    found, wanted = one.alternatives(1), other.alternatives(1)
    assert found is not None
    assert wanted is not None
    assert found.alternatives() == wanted.alternatives()


def test_cc_19_without_any_device_there_is_no_plan() -> None:
    with pytest.raises(NoDecisionDevice, match=r"no device for node %1 neg.*Graph.on\(\) or give PlanOptions"):
        compiled(chain("neg"), table({NEG: BOTH}), PlanOptions())


def test_cc_20_copies_and_moves_have_no_entry() -> None:
    g = Graph()
    x = apply("neg", g.input("x", (4,)))
    g.output("y", apply("abs", x.to(CUDA0)))
    g.output("z", apply("sqr", apply("copy", x)))
    plan = compiled(g, table({op: {CPU: 1, CUDA: 1} for op in (NEG, ABS, SQR)}), ON_HOST)
    ops = {g.freeze().ops[node].name: node for node in plan.order if plan.alternatives(node) is not None}
    assert ops.keys() == {"neg", "abs", "sqr"}
    kinds = [(g.freeze().ops[node].name, plan.device(node)) for node in plan.order[1:]]
    assert kinds == [("neg", HOST), ("copy", CUDA0), ("abs", HOST), ("copy", HOST), ("sqr", HOST)]


# --- fallbacks ---


def test_cc_20_where_the_device_has_no_kernel_another_may_stand_in() -> None:
    options = PlanOptions(pinned_device=CUDA0, fallback_placements_for=to((CPU, HOST)))
    plan = compiled(chain("neg"), table({NEG: {CPU: 100}}), options)
    assert places(plan) == [HOST]
    found = plan.alternatives(1)
    assert found is not None
    assert len(found) == 1
    assert plan.runner_ups(1) is None


def test_cc_20_a_fallback_is_frozen_to_one_winner_and_not_asked_without_need() -> None:
    bindings = table({NEG: {CPU: 100, VULKAN: 90}}).copy()
    bindings.register(NEG, (F32, F32), CPU, Kernel(), precision=STABLE)
    final, asked = bindings.finalize(), list[object]()

    def others(device: DeviceLocation) -> Sequence[tuple[BackendId, DeviceLocation]]:
        asked.append(device)
        return [(CPU, HOST), (VULKAN, VK0)]

    options = PlanOptions(pinned_device=CUDA0, fallback_placements_for=others)
    plan = compiled(chain("neg"), final, options)
    found, runners = plan.alternatives(1), plan.runner_ups(1)
    assert found is not None
    assert runners is not None
    assert [one.device for one in found] == [HOST]
    assert [one.device for one in runners] == [VK0]  # the original drops it
    assert asked == [CUDA0]
    local = compiled(chain("neg"), final, replace(options, pinned_device=HOST))
    siblings = local.alternatives(1)
    assert siblings is not None
    assert (len(siblings), local.runner_ups(1)) == (2, None)


def test_cc_20_an_op_that_writes_over_its_operand_stays_on_its_device() -> None:
    g = Graph()
    g.output("y", apply("neg", g.input("x", (4,))).square_inplace())
    with pytest.raises(NoBackendForOp):
        compiled(g, table({NEG: BOTH, OpKind.SqrInplace: {CPU: 1}}), relaxed(CPU, pinned_device=CUDA0))
    plan = compiled(g, table({NEG: BOTH, OpKind.SqrInplace: {CPU: 10**6, CUDA: 1}}), relaxed(links=Links(0)))
    assert places(plan) == [HOST, HOST]
    assert plan.runner_ups(2) is None


def test_a_graphs_pin_is_hard() -> None:
    """In the original a fallback is asked for it, too."""
    g = Graph()
    with g.on(CUDA0):
        g.output("y", apply("neg", g.input("x", (4,))))
    with pytest.raises(NoBackendForOp) as caught:
        compiled(g, table({NEG: {CPU: 100}}), relaxed(CPU, pinned_device=CUDA0))
    assert f"pinned to {CUDA0}" in caught.value.__notes__[0]
    plan = compiled(g, table({NEG: {CPU: 1, CUDA: 10**6}}), relaxed(CPU))
    assert places(plan) == [CUDA0]
    assert plan.runner_ups(1) is None


def test_a_device_whose_kernels_miss_the_floor_is_stood_in_for() -> None:
    bindings = table({NEG: {CUDA: 1}}, PrecisionGuarantee.UNAUDITED).copy()
    bindings.register(NEG, (F32, F32), CPU, Kernel(), precision=PrecisionGuarantee.REFERENCE)
    final = bindings.finalize()
    options = PlanOptions(
        precision_requirement=PrecisionRequirement(max_ulp=1),
        pinned_device=CUDA0,
        fallback_placements_for=to((CPU, HOST)),
    )
    assert places(compiled(chain("neg"), final, options)) == [HOST]
    for others in (None, to((VULKAN, VK0))):  # nobody stands in
        with pytest.raises(FilterRejected, match="precision-floor") as caught:
            compiled(chain("neg"), final, replace(options, fallback_placements_for=others))
        assert "node %1 neg" in caught.value.__notes__[0]
    both = replace(options, precision_requirement=PrecisionRequirement(max_ulp=1, max_absolute=0.0))
    assert places(compiled(chain("neg"), final, both)) == [HOST]
    too_much = table({NEG: BOTH}, PrecisionGuarantee.UNAUDITED)
    with pytest.raises(FilterRejected):
        compiled(chain("neg"), too_much, options)


def test_cc_28_prices_of_copies_can_be_required() -> None:
    options = PlanOptions(pinned_device=HOST, require_transfer_pricing=True)
    bindings = table({NEG: BOTH})
    with pytest.raises(UserError, match="transfer_estimator"):
        compiled(chain("neg"), bindings, options)
    assert places(compiled(chain("neg"), bindings, replace(options, transfer_estimator=Links()))) == [HOST]


def test_cc_28_without_an_estimator_nothing_is_inbound() -> None:
    options = relaxed(transfer_estimator=None, placements_for_device=lambda device: [CUDA, CPU])
    plan = compiled(chain("neg", "neg"), table({NEG: BOTH}), options)
    every = [one for node in (1, 2) if (found := plan.alternatives(node)) for one in found]
    assert len(every) == 4
    assert {one.inbound_transfer_ns for one in every} == {0}


# --- prices ---


def test_without_prices_candidates_stay_in_the_order_of_registration() -> None:
    """Trap: the original's last step ranks them all the same, by precision and accuracy."""
    bindings = table({}).copy()
    kernels = [Kernel(name) for name in "abc"]
    for kernel, precision in zip(
        kernels, (STABLE, PrecisionGuarantee(True, max_ulp=1), PrecisionGuarantee.REFERENCE), strict=True
    ):
        bindings.register(NEG, (F32, F32), CPU, kernel, precision=precision, cost=cost(flops=5))
    final = bindings.finalize()
    for options in (ON_HOST, relaxed().without_cost_population()):
        found = compiled(chain("neg"), final, options).alternatives(1)
        assert found is not None
        assert [one.kernel for one in found] == kernels
        assert all(one.effective_ns() is None for one in found)
    priced = compiled(chain("neg"), final, relaxed(fallback_placements_for=None)).alternatives(1)
    assert priced is not None
    assert [one.kernel for one in priced] == kernels[2:]


def test_a_fallback_without_an_estimator_goes_to_the_cheapest_kernel() -> None:
    options = PlanOptions(
        pinned_device=CUDA0, fallback_placements_for=to((CPU, HOST), (VULKAN, VK0)), capabilities_for=everybody
    )
    assert places(compiled(chain("neg"), table({NEG: {CPU: 100, VULKAN: 90}}), options)) == [VK0]


def test_limitation_23_sizes_are_those_of_the_run() -> None:
    """Dimensions with names are bound before anything is priced: the live extent counts, not what there is room for."""
    g = Graph()
    g.output("y", apply("neg", g.input("x", ("n",))))
    bindings = table({}).copy()
    bindings.register(NEG, (F32, F32), CPU, Kernel())
    final, times = bindings.finalize(), []
    for n in (100, 1000):
        frozen = g.freeze().bind({"n": n})
        times += [one.effective_ns() for one in winners(compiled(frozen, final, relaxed()))]
    assert times == [50 + 200, 50 + 2000]


# --- plans that go on from others ---


def test_what_was_planned_stands() -> None:
    g = chain("neg")
    bindings = table({NEG: {CPU: 5000, CUDA: 10}, ABS: {CPU: 100}})
    first = compiled(g, bindings, relaxed())
    assert places(first) == [CUDA0]
    longer = chain("neg", "abs")
    dearer = table({NEG: {CPU: 1, CUDA: 10}, ABS: {CPU: 100}})
    second = compiled(longer, dearer, relaxed(reuse_plan=first))
    assert places(second) == [CUDA0, HOST]
    kept, earlier = second.alternatives(1), first.alternatives(1)
    assert kept is not None
    assert earlier is not None
    assert kept.alternatives()[0].kernel is earlier.alternatives()[0].kernel
    runners = second.runner_ups(1)
    assert runners is not None
    assert runners.devices() == (HOST,)
    third = compiled(longer, dearer, relaxed(reuse_plan=second))
    assert places(third) == [CUDA0, HOST]
    assert third.runner_ups(2) is None
    stale = compiled(longer, dearer, relaxed(reuse_plan=first, generation=1))
    assert places(stale) == [HOST, HOST]


def test_planning_gives_way() -> None:
    g = chain(*["neg"] * 200)
    frozen, breaths = g.freeze(), list[int]()
    compile_plan(frozen, derive_ordering(frozen).order, table({NEG: BOTH}), relaxed(), lambda: breaths.append(1))
    assert len(breaths) >= 4 * (200 // 64)
