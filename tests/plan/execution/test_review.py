"""What becomes of each candidate of a call, and through what: a forced case for every fate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fuel_async.dispatch import KernelBindingTable, KernelCaps
from fuel_async.ir import CostEstimate, DType, Graph, Layout, PrecisionGuarantee
from fuel_async.plan import KEEP_PER_DEVICE, Fate, PlanOptions, PrecisionRequirement, Reviewed, Reviewer, review
from fuel_async.plan.execution.draft import Call
from tests.plan.execution.support import SQR, apply, chain, compiled, relaxed, table
from tests.plan.rank.support import (
    CPU,
    CUDA,
    CUDA0,
    HOST,
    STABLE,
    UNAUDITED,
    VK0,
    VULKAN,
    Kernel,
    Links,
    everybody,
    priced,
)

if TYPE_CHECKING:
    from fuel_async.dispatch import BackendCapabilities
    from fuel_async.ir import BackendId, DeviceLocation

F32 = DType.F32
HERE = [(CPU, HOST)]
BOTH = [(CPU, HOST), (CUDA, CUDA0)]
ALL = [*BOTH, (VULKAN, VK0)]


def call(strided: bool = False) -> Call:
    """A square of four numbers."""
    graph = chain("sqr").freeze()
    (node,) = [node for node, op in enumerate(graph.ops) if op.kind is SQR]
    layout = Layout((4,), (2,), 0) if strided else Layout.contiguous((4,))
    return Call.of(graph, node, [layout])


class Table:
    """Kernels for squares, written down one by one."""

    def __init__(self) -> None:
        self.made = KernelBindingTable()

    def add(
        self,
        name: str,
        ns: int,
        backend: BackendId = CPU,
        *,
        moved: int = 0,
        precision: PrecisionGuarantee = STABLE,
        caps: KernelCaps | None = None,
        needs: frozenset[str] = frozenset(),
    ) -> Table:
        always = priced(lambda shapes: CostEstimate(bytes_moved=moved, kernel_overhead_ns=ns))
        kernel = Kernel(name, needs)
        self.made.register(
            SQR, (F32, F32), backend, kernel, cost=always, precision=precision, caps=caps or KernelCaps(),
            kernel_source=name,
        )  # fmt: skip
        return self

    def review(
        self,
        placements: list[tuple[BackendId, DeviceLocation]] | None = None,
        *,
        options: PlanOptions | None = None,
        operands: list[tuple[DeviceLocation, int]] | None = None,
        strided: bool = False,
    ) -> list[Reviewed]:
        asked = relaxed() if options is None else options
        return review(call(strided), self.made.finalize(), asked, placements or HERE, operands or [])


def fates(found: list[Reviewed]) -> list[tuple[str, Fate]]:
    return [(one.candidate.kernel_source if one.candidate else str(one.device), one.fate) for one in found]


def test_the_fastest_is_first_and_the_others_are_kept_behind_it_with_their_times() -> None:
    found = Table().add("slow", 300).add("quick", 100, CUDA).review(BOTH)
    assert fates(found) == [("quick", Fate.FIRST), ("slow", Fate.KEPT)]
    assert [one.effective_ns for one in found] == [100, 300]


def test_copies_of_operands_can_cost_the_first_place() -> None:
    kernels = Table().add("near", 300).add("far", 100, CUDA)
    links = Links(latency_ns=500)
    found = kernels.review(BOTH, options=relaxed(links=links), operands=[(HOST, 16)])
    assert fates(found) == [("near", Fate.FIRST), ("far", Fate.KEPT)]
    near, far = (one.candidate for one in found)
    assert near is not None
    assert far is not None
    assert (near.inbound_transfer_ns, far.inbound_transfer_ns) == (0, links.estimate_transfer_ns(HOST, CUDA0, 16))
    assert far.kernel_ns == 100


def test_a_device_without_a_kernel_says_so() -> None:
    found = Table().add("own", 100).review(ALL)
    assert fates(found) == [("own", Fate.FIRST), (str(CUDA0), Fate.NO_KERNEL), (str(VK0), Fate.NO_KERNEL)]


def test_a_kernel_with_a_broadcast_operand_baked_in_is_no_candidate() -> None:
    found = Table().add("own", 100).add("special", 10, caps=KernelCaps(requires_broadcast=True)).review()
    assert fates(found) == [("own", Fate.FIRST), ("special", Fate.BROADCAST)]


def test_a_kernel_that_needs_what_the_device_lacks_names_it() -> None:
    found = Table().add("own", 100).add("special", 10, needs=frozenset({"tensor_cores"})).review()
    assert fates(found) == [("own", Fate.FIRST), ("special", Fate.FEATURES)]
    assert found[1].by == "tensor_cores"


@pytest.mark.parametrize("alone", [True, False])
def test_a_demand_takes_away_what_does_not_meet_it(alone: bool) -> None:
    kernels = Table().add("loose", 10, precision=UNAUDITED)
    if not alone:
        kernels.add("exact", 100)
    found = kernels.review(options=relaxed(precision_requirement=PrecisionRequirement.BIT_STABLE))
    assert fates(found)[-1] == ("loose", Fate.FILTERED)
    assert found[-1].by == "precision-floor"
    assert (len(found) == 1) is alone


def test_a_preference_takes_away_what_another_does_better() -> None:
    found = Table().add("loose", 10, precision=UNAUDITED).add("exact", 100).review()
    assert fates(found) == [("exact", Fate.FIRST), ("loose", Fate.FILTERED)]
    assert found[1].by == "bit-stable-preference"


def test_an_operand_with_strides_prefers_who_reads_them() -> None:
    kernels = Table().add("dense", 10).add("strided", 100, caps=KernelCaps(strided_input=True))
    found = kernels.review(strided=True)
    assert fates(found) == [("strided", Fate.FIRST), ("dense", Fate.FILTERED)]
    assert found[1].by == "strided-input-preference"


def test_what_another_beats_in_all_respects_names_it() -> None:
    found = Table().add("good", 100, moved=10).add("bad", 300, moved=20).review()
    assert fates(found) == [("good", Fate.FIRST), ("bad", Fate.DOMINATED)]
    better = found[1].better
    assert better is not None
    assert better.kernel_source == "good"


def test_what_is_best_in_one_respect_is_kept() -> None:
    found = Table().add("quick", 100, moved=2_000).add("small", 2_000, moved=20).review()
    assert fates(found) == [("quick", Fate.FIRST), ("small", Fate.KEPT)]


def test_of_too_many_some_are_crowded_out() -> None:
    kernels = Table()
    for number in range(KEEP_PER_DEVICE + 3):
        kernels.add(f"kernel {number}", 10_000 * (number + 1), moved=4 * (KEEP_PER_DEVICE + 3 - number))
    found = kernels.review()
    assert [one.fate for one in found].count(Fate.CROWDED) == 3
    assert all(one.better is None for one in found if one.fate is Fate.CROWDED)


def test_a_candidate_that_nobody_prices_has_no_time_and_comes_last() -> None:
    kernels = Table().add("own", 100).add("dark", 0, CUDA)

    def silent(backend: BackendId, device: DeviceLocation) -> BackendCapabilities | None:
        return None if device == CUDA0 else everybody(backend, device)

    found = kernels.review(BOTH, options=relaxed(capabilities_for=silent))
    assert fates(found) == [("own", Fate.FIRST), ("dark", Fate.KEPT)]
    assert [one.effective_ns for one in found] == [100, None]


def test_what_is_kept_is_what_plans_keep() -> None:
    """The winner of a compiled plan is the first here, its alternatives and runner-ups are those that are kept."""
    bindings = table({SQR: {CPU: 5_000, CUDA: 100}})
    options = relaxed(links=Links(latency_ns=50))
    graph = chain("sqr").freeze()
    plan = compiled(graph, bindings, options)
    (node,) = [node for node in plan.order if plan.alternatives(node) is not None]
    found = Reviewer(graph, bindings, options, BOTH, {graph.args[node][0]: HOST}).review(node)
    winner, others = plan.alternatives(node), plan.runner_ups(node)
    assert winner is not None
    assert others is not None
    assert found[0].candidate is not None
    assert found[0].candidate.kernel is winner.alternatives()[0].kernel
    assert [one.effective_ns for one in found] == [
        one.effective_ns(winner.conditions) for one in (*winner.alternatives(), *others.alternatives())
    ]


def test_equal_nodes_are_reviewed_once_and_pinned_ones_on_their_device_alone() -> None:
    g = Graph()
    x = g.input("x", (4,))
    first, second = apply("sqr", x), apply("sqr", x)
    with g.on(CUDA0):
        third = apply("sqr", x)
    for number, each in enumerate((first, second, third)):
        g.output(f"y{number}", each)
    graph = g.freeze()
    nodes = [node for node, op in enumerate(graph.ops) if op.kind is SQR]
    reviewer = Reviewer(graph, table({SQR: {CPU: 5, CUDA: 5}}), relaxed(), BOTH, {})
    found = [reviewer.review(node) for node in nodes]
    assert found[0] is found[1]
    assert [one.device for one in found[2]] == [CUDA0]
