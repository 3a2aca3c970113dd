"""Plans over several devices: when a node leaves its device, and what is kept of the others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_async.dispatch import KernelBindingTable
from fuel_async.errors import UserError
from fuel_async.ir import CostEstimate, Graph, OpKind
from fuel_async.plan import PlanOptions, operand_on
from tests.plan.execution.support import (
    ABS,
    ADD,
    F32,
    NEG,
    SQR,
    apply,
    chain,
    compiled,
    inbound,
    places,
    relaxed,
    table,
    winners,
)
from tests.plan.rank.support import CPU, CUDA, CUDA0, HOST, VK0, VULKAN, Kernel, Links, caps_of, cost, priced

if TYPE_CHECKING:
    from fuel_async.dispatch import BackendCapabilities
    from fuel_async.ir import BackendId, DeviceLocation
    from fuel_async.plan import ExecutionPlan

MS = 1_000_000


def pair() -> Graph:
    """One addition of two inputs."""
    g = Graph()
    g.output("z", g.input("x", (4,)) + g.input("y", (4,)))
    return g


def diamond() -> Graph:
    """One value that two nodes read, and one that reads both."""
    g = Graph()
    x = apply("neg", g.input("x", (4,)))
    g.output("y", apply("abs", x) + apply("sqr", x))
    return g


def devices_of(plan: ExecutionPlan, node: int) -> tuple[tuple[DeviceLocation, ...], tuple[DeviceLocation, ...]]:
    """Of the candidates where the node is planned, and of its runner-ups."""
    found, runners = plan.alternatives(node), plan.runner_ups(node)
    assert found is not None
    return found.devices(), () if runners is None else runners.devices()


def test_cc_21_a_stand_in_is_taken_where_the_operands_are() -> None:
    options = relaxed(CPU, VULKAN, pinned_device=CUDA0, input_residency=lambda node: VK0)
    bindings = table({NEG: {CPU: 100, VULKAN: 100}})
    for one in (options, options.without_cost_placement()):
        plan = compiled(chain("neg"), bindings, one)
        assert (places(plan), inbound(plan)) == ([VK0], [0])


@pytest.mark.parametrize(
    ("host_ns", "cuda_ns", "crossing", "device", "copies"),
    [(600, 10, MS, HOST, 0), (10 * MS, 10, 1000, CUDA0, 2000), (100, 100, 0, HOST, 0)],
)
def test_cc_22_prices_and_copies_decide(
    host_ns: int, cuda_ns: int, crossing: int, device: DeviceLocation, copies: int
) -> None:
    """The original's third case has no prices; a kernel without one is never free here, so there they are equal."""
    plan = compiled(pair(), table({ADD: {CPU: host_ns, CUDA: cuda_ns}}), relaxed(links=Links(crossing)))
    assert (places(plan), inbound(plan)) == ([device], [copies])
    here, others = devices_of(plan, 2)
    assert (here, len(others)) == ((device,), 1)


def test_limitation_4_runner_ups_on_other_devices_are_kept_for_run_time() -> None:
    """The original keeps candidates of the winner's device alone, so nothing is left to choose when it is busy."""
    options = relaxed(CUDA, VULKAN, links=Links(1000))
    plan = compiled(pair(), table({ADD: {CPU: 100, CUDA: 400, VULKAN: 300}}), options)
    assert devices_of(plan, 2) == ((HOST,), (VK0, CUDA0))
    runners = plan.runner_ups(2)
    assert runners is not None
    assert [one.effective_ns() for one in runners] == [2300, 2400]


def test_a_runner_up_knows_what_it_takes_where_its_producer_went_elsewhere() -> None:
    plan = compiled(chain("neg", "abs"), table({op: {CPU: 100, CUDA: 300} for op in (NEG, ABS)}), relaxed())
    assert places(plan) == [HOST, HOST]
    found, runners = plan.alternatives(2), plan.runner_ups(2)
    assert found is not None
    assert runners is not None
    moved = {operand_on(0, CUDA0)}
    here, there = found.best_given(moved), runners.best_given(moved)
    assert here is not None
    assert there is not None
    assert (here.effective_ns(), there.effective_ns()) == (100, 1300)
    assert (here.effective_ns(moved), there.effective_ns(moved)) == (1100, 300)


def lookup(
    known: tuple[DeviceLocation, ...],
) -> dict[str, object]:
    def capabilities(backend: BackendId, device: DeviceLocation) -> BackendCapabilities | None:
        return caps_of(device) if device in known else None

    return {"capabilities_for": capabilities}


def test_cc_23_a_device_that_advertises_nothing_does_not_win() -> None:
    """In the original its kernels are free but for their copies, and it wins: 200 against 600."""
    bindings = KernelBindingTable()
    bindings.register(NEG, (F32, F32), CPU, Kernel(), cost=cost(kernel_overhead_ns=600))
    bindings.register(NEG, (F32, F32), CUDA, Kernel(), cost=cost(flops=15_000, kernel_overhead_ns=200))
    final = bindings.finalize()
    for known in ((HOST,), (HOST, CUDA0)):
        plan = compiled(chain("neg"), final, relaxed(links=Links(0), **lookup(known)))
        assert places(plan) == [HOST]
        runners = plan.runner_ups(1)
        assert runners is not None
        assert [one.effective_ns() for one in runners] == ([700] if CUDA0 in known else [None])
    assert places(compiled(chain("neg"), final, relaxed(links=Links(0), **lookup((CUDA0,))))) == [CUDA0]


@pytest.mark.parametrize(("flops", "device"), [(100, HOST), (10 * MS, CUDA0)])
def test_cc_23_throughput_is_worth_a_copy_where_there_is_work(flops: int, device: DeviceLocation) -> None:
    bindings = KernelBindingTable()
    for backend in (CPU, CUDA):
        bindings.register(NEG, (F32, F32), backend, Kernel(), cost=cost(flops=flops))
    final = bindings.finalize()
    assert places(compiled(chain("neg"), final, relaxed())) == [device]
    stays = compiled(chain("neg"), final, relaxed().without_cost_placement())
    assert places(stays) == [HOST]
    assert stays.runner_ups(1) is None


def test_limitation_7_nodes_are_placed_by_the_rates_that_were_registered() -> None:
    """What ranks candidates is what places nodes: one price for one candidate."""
    bindings = KernelBindingTable()
    for backend in (CPU, CUDA):
        bindings.register(NEG, (F32, F32), backend, Kernel(), cost=cost(flops=30_000))
    fast = {HOST: 100.0, CUDA0: 10.0}
    options = relaxed(
        links=Links(0), capabilities_for=lambda backend, device: caps_of(device, rates=(fast[device], 40.0))
    )
    plan = compiled(chain("neg"), bindings.finalize(), options)  # 1000 by the defaults of CUDA
    assert places(plan) == [HOST]
    runners = plan.runner_ups(1)
    assert runners is not None
    assert [one.effective_ns() for one in (*winners(plan), *runners)] == [300, 3000]


def test_limitation_8_a_bit_stable_kernel_of_the_host_does_not_decide_where_nodes_run() -> None:
    bindings = table({NEG: {CPU: 10 * MS}}).copy()
    bindings.register(NEG, (F32, F32), CUDA, Kernel(), cost=cost(kernel_overhead_ns=10))
    assert places(compiled(chain("neg"), bindings.finalize(), relaxed())) == [CUDA0]


# --- chains ---


def test_cc_24_a_stretch_that_is_worth_it_moves_as_a_whole() -> None:
    bindings = table({SQR: {CPU: 100, CUDA: 5000}, NEG: {CPU: 800, CUDA: 100}})
    plan = compiled(chain("sqr", "neg", "neg", "neg", "sqr", constant=True), bindings, relaxed())
    assert places(plan) == [HOST, CUDA0, CUDA0, CUDA0, HOST]
    assert inbound(plan) == [0, 1000, 0, 0, 1000]
    shorter = compiled(chain("sqr", "neg", "neg", "sqr", constant=True), bindings, relaxed())
    assert places(shorter) == [HOST] * 4


def test_cc_25_a_node_is_not_stranded_by_what_is_cheap_alone() -> None:
    """One element grows into 256 between the first node and the second."""
    softmax = OpKind.SoftmaxLastDim
    bindings = table({NEG: {CPU: 100_000, CUDA: 100}, softmax: {CPU: 300, CUDA: 100}, SQR: {CPU: 100}}, strided=True)
    g = Graph()
    g.output("y", apply("sqr", apply("neg", g.input("x", (1,))).broadcast_to((256,)).softmax()))
    plan = compiled(g, bindings, relaxed(links=Links(10, 1)))
    assert places(plan) == [CUDA0, HOST, HOST]
    assert inbound(plan) == [14, 14, 0]


@pytest.mark.parametrize(("host_ns", "device", "copies"), [(50, HOST, 1000), (10 * MS, CUDA0, 0)])
def test_cc_26_the_way_to_the_caller_counts(host_ns: int, device: DeviceLocation, copies: int) -> None:
    options = relaxed(input_residency=lambda node: CUDA0)
    plan = compiled(chain("neg"), table({NEG: {CPU: host_ns, CUDA: 100}}), options)
    assert (places(plan), inbound(plan)) == ([device], [copies])


@pytest.mark.parametrize(
    ("cuda_ns", "crossing", "device"), [(10, MS, HOST), (10, 0, CUDA0), (100, 0, HOST), (100, 5, HOST)]
)
def test_cc_27_a_diamond_goes_where_it_is_cheap(cuda_ns: int, crossing: int, device: DeviceLocation) -> None:
    bindings = table({op: {CPU: 100, CUDA: cuda_ns} for op in (NEG, ABS, SQR, ADD)})
    assert places(compiled(diamond(), bindings, relaxed(links=Links(crossing)))) == [device] * 4


def test_cc_27_a_thousand_equal_nodes_stay() -> None:
    plan = compiled(chain(*["neg"] * 1000), table({NEG: {CPU: 100, CUDA: 100}}), relaxed())
    assert set(places(plan)) == {HOST}
    assert len(plan) == 1000


def test_cc_27_a_chain_goes_on_through_a_view() -> None:
    bindings = table({NEG: {CPU: 800, CUDA: 100}})
    plan = compiled(chain("neg", "reshape", "neg", "neg"), bindings, relaxed())  # 2300 against 2400
    assert places(plan) == [CUDA0] * 3
    assert [plan.alternatives(node) is not None for node in plan.order] == [False, True, False, True, True]
    assert plan.device(2) == CUDA0


def test_a_chain_ends_at_a_pinned_node() -> None:
    g = Graph()
    value = apply("neg", apply("neg", g.input("x", (4,))))
    with g.on(CUDA0):
        value = apply("abs", value)
    g.output("y", value)
    prices = {NEG: {CPU: 800, CUDA: 700}, ABS: {CPU: 1, CUDA: 1}}
    plan = compiled(g, table(prices), relaxed())
    assert places(plan) == [CUDA0] * 3
    assert inbound(plan) == [1000, 0, 0]


def test_a_chain_ends_at_a_copy_to_a_device() -> None:
    g = Graph()
    g.output("y", apply("neg", g.input("x", (4,))).to(CUDA0))
    plan = compiled(g, table({NEG: {CPU: 800, CUDA: 700}}), relaxed())
    assert [plan.device(node) for node in plan.order] == [HOST, CUDA0, CUDA0]
    away = Graph()
    away.output("y", apply("neg", away.input("x", (4,))).to(HOST))
    assert places(compiled(away, table({NEG: {CPU: 800, CUDA: 700}}), relaxed())) == [HOST]


def test_a_value_with_several_readers_commits_before_they_are_placed() -> None:
    """A chain does not see how many will read: whole graphs are for whoever schedules them."""
    bindings = table(
        {NEG: {CPU: 800, CUDA: 100}, ABS: {CPU: 800, CUDA: 100}, SQR: {CPU: 800, CUDA: 100}, ADD: {CPU: 1}}
    )
    assert places(compiled(diamond(), bindings, relaxed())) == [HOST] * 4


def test_what_the_caller_receives_and_others_read_commits_on_its_way_out() -> None:
    g = Graph()
    x = apply("neg", g.input("x", (4,)))
    g.output("x", x)
    g.output("y", apply("abs", x))
    bindings = table({NEG: {CPU: 1500, CUDA: 100}, ABS: {CPU: 5000, CUDA: 100}})
    assert places(compiled(g, bindings, relaxed())) == [HOST, CUDA0]  # 1500 against 2100, though 1100 would do


def test_an_operand_that_is_read_twice_is_brought_once() -> None:
    """The original pays for a copy an edge, and makes one copy a device."""
    g = Graph()
    x = apply("neg", g.input("x", (4,)))
    g.output("y", x + x)
    plan = compiled(g, table({NEG: {CPU: 10, CUDA: 9000}, ADD: {CPU: 3000, CUDA: 500}}), relaxed())
    assert (places(plan), inbound(plan)) == ([HOST, CUDA0], [0, 1000])


def test_a_reader_that_reads_twice_is_one_reader() -> None:
    g = Graph()
    x = apply("neg", g.input("x", (4,)))
    g.output("y", apply("neg", x + x))
    plan = compiled(g, table({op: {CPU: 800, CUDA: 100} for op in (NEG, ADD)}), relaxed())
    assert places(plan) == [CUDA0] * 3  # 2300 against 2400


def test_operands_that_are_nowhere_yet_are_no_reason() -> None:
    plan = compiled(chain("neg"), table({NEG: {CPU: 2000, CUDA: 100}}), relaxed(input_residency=None))
    assert (places(plan), inbound(plan)) == ([CUDA0], [0])


def test_limitation_13_layouts_have_a_price() -> None:
    """A kernel that reads no strides pays for the copy of its operand, so another device may be the better one."""
    size = 1 << 12
    g = Graph()
    g.output("y", apply("neg", g.input("x", (size, 4)).permute_dims((1, 0))))
    plain = Graph()
    plain.output("y", apply("neg", plain.input("x", (4, size))))
    copied = 2 * 4 * size * 4 // 4 + 50
    bindings = table({NEG: {CPU: 100}}).copy()
    strided = table({NEG: {CUDA: 5000}}, strided=True)
    for op, dtypes, backend, entry in strided.iter_entries():
        bindings.register_entry(op, dtypes, backend, entry)
    final = bindings.finalize()
    assert copied > 5000 + 2000
    assert places(compiled(plain, final, relaxed())) == [HOST]
    assert places(compiled(g, final, relaxed())) == [CUDA0]


def test_options_among_devices_let_prices_decide() -> None:
    every = [caps_of(HOST), caps_of(CUDA0), caps_of(CUDA0, rates=(1.0, 1.0)), caps_of(VK0, CPU)]
    options = PlanOptions.among(every, Links(), generation=3)
    assert (options.pinned_device, options.generation, options.places_by_cost) == (HOST, 3, True)
    assert options.capabilities_for is not None
    assert options.capabilities_for(CUDA, CUDA0) is every[1]
    assert options.capabilities_for(VULKAN, VK0) is None
    bindings = table({NEG: {CPU: 9000, CUDA: 100}})
    plan = compiled(chain("neg"), bindings, replace(options, input_residency=lambda node: HOST))
    assert devices_of(plan, 1) == ((CUDA0,), (HOST, VK0))
    assert not PlanOptions.among(every).places_by_cost
    assert places(compiled(chain("neg"), bindings, PlanOptions.among(every))) == [HOST]
    with pytest.raises(UserError, match="at least one"):
        PlanOptions.among([])


# --- laws ---

OPS = {"neg": NEG, "abs": ABS, "sqr": SQR}
prices = st.sampled_from([None, 0, 1, 50, 700, 3000])
kernels = st.fixed_dictionaries({op: st.fixed_dictionaries({CPU: prices, CUDA: prices}) for op in (*OPS.values(), ADD)})


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    g = Graph()
    values = [g.input("x", (4,))]
    for _ in range(draw(st.integers(1, 8))):
        one = values[draw(st.integers(0, len(values) - 1))]
        if draw(st.booleans()):
            values.append(one + values[draw(st.integers(0, len(values) - 1))])
        else:
            values.append(apply(draw(st.sampled_from(sorted(OPS))), one))
    g.output("y", values[-1])
    return g


def bindings_of(chosen: dict[OpKind, dict[BackendId, int | None]]) -> KernelBindingTable:
    """Kernels with these prices; None is one of which nobody says anything: its device is not asked."""
    made = KernelBindingTable()
    for op, backends in chosen.items():
        for backend, ns in backends.items():
            if ns is not None:
                says = priced(lambda shapes, ns=ns: CostEstimate(kernel_overhead_ns=ns))  # type: ignore[misc]
                made.register(op, (F32,) * (3 if op is ADD else 2), backend, Kernel(), cost=says)
            elif backend == CPU:
                made.register(op, (F32,) * (3 if op is ADD else 2), backend, Kernel())
    return made.finalize()


def planned(g: Graph, chosen: dict[OpKind, dict[BackendId, int | None]], options: PlanOptions) -> ExecutionPlan:
    return compiled(g, bindings_of(chosen), options)


@given(graphs(), kernels, st.sampled_from([0, 10, 1000]))
def test_the_laws_of_plans(g: Graph, chosen: dict[OpKind, dict[BackendId, int | None]], crossing: int) -> None:
    links = Links(crossing)
    plan = planned(g, chosen, relaxed(links=links))
    frozen = g.freeze()
    for node in plan.order:
        found = plan.alternatives(node)
        if found is None:
            continue
        runners = plan.runner_ups(node)
        others = set() if runners is None else set(runners.devices())
        assert found.devices() == (plan.device(node),)
        assert plan.device(node) not in others
        kind = frozen.ops[node].kind
        assert kind is not None
        asked = {HOST} | ({CUDA0} if chosen[kind][CUDA] is not None else set())
        assert {*found.devices(), *others} == asked  # no device is lost
        assert all(one.effective_ns() for one in found)  # and nothing is free
        arrived = sum(
            links.estimate_transfer_ns(source, found.devices()[0], 16)
            for source in (plan.device(arg) for arg in set(frozen.args[node]))
            if source is not None
        )
        assert {one.inbound_transfer_ns for one in found} == {arrived}
    stays = planned(g, chosen, replace(relaxed(links=links), allow_cost_placement=False))
    assert set(places(stays)) == {HOST}


@given(graphs(), kernels)
def test_free_links_give_every_node_its_cheapest_kernel(
    g: Graph, chosen: dict[OpKind, dict[BackendId, int | None]]
) -> None:
    plan = planned(g, chosen, relaxed(links=Links(0)))
    for node in plan.order:
        found, runners = plan.alternatives(node), plan.runner_ups(node)
        if found is not None and runners is not None:
            best, other = found.winner(), runners.winner()
            assert best is not None
            assert other is not None
            assert best.vector().total_order_key[:2] <= other.vector().total_order_key[:2]
