"""What the tests of the planner share: targets with kernels of the test's own, and rows as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fuel_async.backends.cpu.kernels import register_cpu_kernels
from fuel_async.cost import Rates
from fuel_async.dispatch import (
    BackendCapabilities,
    BindingEntry,
    KernelBindingTable,
    OpParams,
    SlotClass,
    derive_backend_caps,
)
from fuel_async.ir import CPU_DEVICE, BackendId, CostEstimate, OpKind, PrecisionGuarantee
from fuel_async.plan import Target

if TYPE_CHECKING:
    from fuel_async.ir import DType
    from fuel_async.plan.lower import Rows

US = 1_000

#: What a row's entry may become before it is registered; None drops it.
Change = Callable[[OpKind, tuple["DType", ...], BindingEntry], BindingEntry | None]


def table(change: Change = lambda op, dtypes, entry: entry) -> KernelBindingTable:
    """The host's kernels, each changed as wanted: a private table."""
    whole, made = KernelBindingTable(), KernelBindingTable()
    register_cpu_kernels(whole)
    for op, dtypes, backend, entry in whole.iter_entries():
        changed = change(op, dtypes, entry)
        if changed is not None:
            made.register_entry(op, dtypes, backend, changed)
    return made.finalize()


def target(
    bindings: KernelBindingTable | None = None,
    *,
    call_ns: int = 300,
    precision: PrecisionGuarantee | None = None,
    spread: bool = False,
    **rates: float,
) -> Target:
    """A host that takes `call_ns` for every call and, unless told otherwise, nothing for its work."""
    kernels = table() if bindings is None else bindings
    caps = derive_backend_caps(BackendId.CPU, CPU_DEVICE, kernels)
    speeds = {"flops_per_ns": 1e12, "dense_flops_per_ns": 1e12, "bytes_per_ns": 1e12} | rates
    return Target(kernels, caps, Rates(**speeds, call_ns=call_ns), precision, spread)


def priced(cost_ns: Callable[[Sequence[tuple[int, ...]]], int]) -> Change:
    """Every kernel takes what `cost_ns` says of its shapes, inputs and output, beside the call itself."""

    def cost(
        shapes: Sequence[tuple[int, ...]], dtypes: Any, params: OpParams, caps: BackendCapabilities
    ) -> CostEstimate:
        return CostEstimate(flops=cost_ns(shapes))

    return lambda op, dtypes, entry: replace(entry, cost=cost)


def listing(rows: Rows) -> list[str]:
    """Each row as `op(operands) -> output`. A prime marks a view; temporaries are numbered as they are written."""
    numbers: dict[int, int] = {}

    def name(slot: int) -> str:
        base = rows.bases[slot]
        prime = "" if base == slot else "'"
        cls = SlotClass(rows.classes[slot])
        place = numbers.setdefault(base, len(numbers)) if cls is SlotClass.TEMPORARY else rows.places[slot]
        return f"{cls.name[0].lower()}{place}{prime}"

    found = []
    for call, (*inputs, output) in zip(rows.calls, rows.slots, strict=True):
        op: OpKind = call.kernel.op  # type: ignore[attr-defined]  # host kernels say what they compute
        word = op.as_str().removesuffix("_elementwise")
        found.append(f"{word}({', '.join(map(name, inputs))}) -> {name(output)}")
    return found
