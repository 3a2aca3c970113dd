"""Resolving one node to the kernel call that computes it: kernel, parameters, price, scratch.

What is asked here has the same answer for all nodes of equal op, parameters and operand types, so lowering asks once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from fuel_async.cost import PriceSource, Rates, price_call
from fuel_async.dispatch import (
    BackendCapabilities,
    BindingEntry,
    DeviceKind,
    KernelBindingTable,
    KernelCall,
    KernelDTypes,
    OpParams,
    derive_params,
    features_needed,
    kernel_dtypes,
)
from fuel_async.errors import FuelError, GraphError, NoBackendForOp
from fuel_async.ir import BundleType, CostEstimate, DType, FrozenGraph, OpKind, OpSpec, PrecisionGuarantee, TensorType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class Target:
    """What a plan is made for: the kernels and facts of one device or of several, and the caller's demands."""

    bindings: KernelBindingTable
    capabilities: BackendCapabilities
    rates: Rates
    precision: PrecisionGuarantee | None = None
    #: The regions of one run may be placed on several devices: the plan lists the values that cross them.
    spread: bool = False
    #: A device of each further kind: what an op can be computed by is looked for on all of them.
    others: tuple[tuple[BackendCapabilities, Rates], ...] = ()

    #: What plans for this target found for (op, parameters, operand types): the same in all of them. Any thread.
    calls: dict[tuple[object, ...], KernelCall] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def kinds(self) -> tuple[DeviceKind, ...]:
        """The kinds of devices that the plan is for, the preferred first."""
        return (self.capabilities.kind, *[capabilities.kind for capabilities, _ in self.others])


def resolve(
    target: Target, graph: FrozenGraph, node: int, op: OpSpec, inputs: Sequence[TensorType], output: TensorType
) -> KernelCall:
    """Return the call that computes `op` for `node`: the node's own op, or a copy made on its behalf.

    `NoBackendForOp`, and what parameters cannot be, carry the node and the line that built it as a note.
    """
    if not target.others:
        return _resolve(target, graph, node, op, inputs, output)
    each: list[KernelCall | None] = []
    missing: NoBackendForOp | None = None
    for capabilities, rates in ((target.capabilities, target.rates), *target.others):
        one = Target(target.bindings, capabilities, rates, target.precision)
        try:
            each.append(_resolve(one, graph, node, op, inputs, output))
        except NoBackendForOp as error:
            missing = missing or error
            each.append(None)
    found = [call for call in each if call is not None]
    if not found:
        assert missing is not None
        raise missing
    return replace(
        found[0],
        in_place=all(call.in_place for call in found),
        strided=all(call.strided for call in found),
        # Working memory has the same slots on all devices.
        scratch_nbytes=tuple([max(sizes) for sizes in zip_longest(*[c.scratch_nbytes for c in found], fillvalue=0)]),
        each=tuple(each),
    )


def _resolve(
    target: Target, graph: FrozenGraph, node: int, op: OpSpec, inputs: Sequence[TensorType], output: TensorType
) -> KernelCall:
    """The call on one kind of device."""
    assert op.kind is not None  # a kernel op
    dtypes = kernel_dtypes(op, inputs, output)
    attrs = graph.attrs[node] if graph.ops[node] is op else None
    try:
        entry = _pick(target, op, dtypes)
        params = derive_params(op, attrs, inputs, output)
        scratch: Callable[..., tuple[int, ...]] | None = getattr(entry.kernel, "scratch_nbytes", None)
        if getattr(entry.kernel, "direct", None) is not None:  # it takes nothing but the operands
            scratch = None
        shapes: list[tuple[int, ...]] = [kind.shape for kind in (*inputs, output)]  # type: ignore[misc]  # concrete
        estimate = _price(op.kind, entry, shapes, dtypes, params, target.capabilities)
        return KernelCall(
            kernel=entry.kernel,
            params=params,
            arity=len(inputs),
            cost_ns=target.rates.predict_ns(op.kind, estimate),
            kind=op.kind,
            estimate=estimate,
            in_place=entry.caps.in_place,
            strided=entry.caps.strided_input,
            scratch_nbytes=() if scratch is None else scratch(params, inputs, (output,)),
            bundle=output.views if isinstance(output, BundleType) else (),
        )
    except FuelError as error:
        error.add_note(f"for {graph.describe(node)}")
        raise


def _price(
    kind: OpKind,
    entry: BindingEntry,
    shapes: Sequence[tuple[int, ...]],
    dtypes: KernelDTypes,
    params: OpParams,
    capabilities: BackendCapabilities,
) -> CostEstimate:
    """The price of the call, else that of its operands' traffic: never nothing."""
    price = price_call(kind, entry, shapes, dtypes, params, capabilities)
    if price.source is not PriceSource.UNPRICED:
        return price.estimate
    nbytes = sum(
        math.prod(shape) * dtype.nbytes for shape, dtype in zip(shapes, _each(dtypes, len(shapes)), strict=True)
    )
    return CostEstimate(flops=math.prod(shapes[-1]), bytes_moved=nbytes)


def _each(dtypes: KernelDTypes, operands: int) -> KernelDTypes:
    """The dtype of each operand: an op of any number of inputs is registered under its first."""
    return dtypes if len(dtypes) == operands else (*dtypes[:1] * (operands - 1), dtypes[-1])


def _pick(target: Target, op: OpSpec, dtypes: tuple[DType, ...]) -> BindingEntry:
    """The first sibling that serves dense operands and meets the precision floor."""
    assert op.kind is not None
    backend, features = target.capabilities.backend_id, target.capabilities.features
    first = target.bindings.lookup_entry(op.kind, dtypes, backend, features)
    floor = target.precision
    if floor is None or first.precision.satisfies(floor):
        return first
    for entry in target.bindings.lookup_alternatives(op.kind, dtypes, backend):
        fits = not entry.caps.requires_broadcast and features_needed(entry.kernel) <= features
        if fits and entry.precision.satisfies(floor):
            return entry
    raise GraphError(op.name, f"no kernel on {backend} meets the precision floor {floor}", [d.value for d in dtypes])
