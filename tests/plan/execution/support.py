"""What the tests of compiled plans share: tables of priced kernels, options, plans in short."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fuel_async.dispatch import KernelBindingTable, KernelCaps
from fuel_async.ir import BY_NAME, CostEstimate, DType, Graph, OpKind, derive_ordering
from fuel_async.plan import ExecutionPlan, PlanOptions, compile_plan
from tests.plan.rank.support import (
    CPU,
    CUDA,
    CUDA0,
    HOST,
    STABLE,
    VK0,
    VULKAN,
    Kernel,
    Links,
    everybody,
    priced,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.ir import BackendId, DeviceLocation, FrozenGraph, PrecisionGuarantee, Tensor
    from fuel_async.plan import Candidate

F32 = DType.F32
SQR, NEG, ABS, ADD, MATMUL = (
    OpKind.SqrElementwise,
    OpKind.NegElementwise,
    OpKind.AbsElementwise,
    OpKind.AddElementwise,
    OpKind.MatMul,
)

#: Operands of a kind and its output; one operand for all others.
_ARITY = {ADD: 2, MATMUL: 2, OpKind.WriteSlice: 1, OpKind.Cast: 1}


def table(
    prices: Mapping[OpKind, Mapping[BackendId, int]],
    precision: PrecisionGuarantee = STABLE,
    *,
    dtype: DType = F32,
    strided: bool = False,
) -> KernelBindingTable:
    """A kernel for each kind and backend, which always takes so many nanoseconds."""
    caps = KernelCaps(strided_input=strided)
    made = KernelBindingTable()
    for op, backends in prices.items():
        for backend, ns in backends.items():
            always = priced(lambda shapes, ns=ns: CostEstimate(kernel_overhead_ns=ns))  # type: ignore[misc]
            dtypes = (dtype,) * (_ARITY.get(op, 1) + 1)
            kernel = Kernel(f"{op.value} of {backend}")
            made.register(op, dtypes, backend, kernel, cost=always, precision=precision, caps=caps)
    return made.finalize()


ELSEWHERE = {CPU: HOST, CUDA: CUDA0, VULKAN: VK0}


def relaxed(*others: BackendId, links: Any = None, **changes: Any) -> PlanOptions:
    """Options of a host that prefers itself, with other devices beside it and priced links to them."""
    options = PlanOptions(
        pinned_device=HOST,
        fallback_placements_for=lambda device: [(backend, ELSEWHERE[backend]) for backend in others or (CUDA,)],
        capabilities_for=everybody,
        transfer_estimator=links or Links(),
        input_residency=lambda node: HOST,
    )
    return replace(options, **changes)


def compiled(graph: Graph | FrozenGraph, bindings: KernelBindingTable, options: PlanOptions) -> ExecutionPlan:
    frozen = graph.freeze() if isinstance(graph, Graph) else graph
    return compile_plan(frozen, derive_ordering(frozen).order, bindings, options)


def apply(op: str, *operands: Tensor) -> Tensor:
    """Append an op of the table by its name."""
    return operands[0].graph.node(BY_NAME[op], operands)


def chain(*ops: str, shape: Sequence[int] = (4,), constant: bool = False) -> Graph:
    """A graph of one op after the other, on one input."""
    g = Graph()
    value = g.constant([1.0] * shape[0]) if constant else g.input("x", shape)
    for op in ops:
        value = value.reshape((2, -1)) if op == "reshape" else apply(op, value)
    g.output("y", value)
    return g


def winners(plan: ExecutionPlan) -> list[Candidate]:
    """The winner of each node of which something is decided, in order."""
    found = [plan.alternatives(node) for node in plan.order]
    return [one for alternatives in found if alternatives is not None for one in alternatives.alternatives()[:1]]


def places(plan: ExecutionPlan) -> list[DeviceLocation]:
    return [one.device for one in winners(plan)]


def inbound(plan: ExecutionPlan) -> list[int]:
    return [one.inbound_transfer_ns for one in winners(plan)]
