"""What a choice takes more or less because of what was decided beside it.

Two things are priced so: a kernel that reads no strides needs a copy of an operand that has them, and an operand that
is made on another device than was planned has another way to go. The first is known when a node is planned; the second
holds when somebody takes a runner-up for the producer, and is what a choice at run time asks for.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from fuel_async.cost import composite_ns, cost_shape_op_cpu, launch_overhead_ns, rates_of
from fuel_async.dispatch import OpParams
from fuel_async.ir import OpKind
from fuel_async.plan.rank.candidate import CouplingAdjustment, operand_on, operand_strided
from fuel_async.plan.rank.filters import is_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fuel_async.dispatch import KernelDTypes
    from fuel_async.ir import DeviceLocation, Layout
    from fuel_async.plan.rank.alternatives import AlternativeSet
    from fuel_async.plan.rank.candidate import Candidate
    from fuel_async.plan.rank.static_costs import CapabilitiesLookup
    from fuel_async.plan.rank.transfers import TransferEstimator


def couple_strides(
    alternatives: AlternativeSet,
    layouts: Sequence[Layout],
    dtypes: KernelDTypes,
    capabilities_for: CapabilitiesLookup,
) -> None:
    """Price the row-major copies of operands that kernels need which read no strides, and say that they are needed.

    An operand that begins within its storage counts as strided: that is how it is given to a kernel.
    """
    strided = [place for place, layout in enumerate(layouts) if not is_plain(layout)]
    if not strided:
        return
    for index, one in enumerate(alternatives):
        if not one.caps.strided_input:
            added = tuple(
                CouplingAdjustment(
                    operand_strided(place), _copy_ns(one, layouts[place], dtypes, place, capabilities_for)
                )
                for place in strided
            )
            alternatives.put(index, replace(one, coupling=one.coupling + added))
    alternatives.set_conditions(alternatives.conditions | set(map(operand_strided, strided)))


def _copy_ns(
    one: Candidate, layout: Layout, dtypes: KernelDTypes, place: int, capabilities_for: CapabilitiesLookup
) -> int:
    """What a row-major copy of an operand takes on the candidate's device."""
    caps = capabilities_for(one.backend, one.device)
    if caps is None:
        return 0  # unpriced it is anyway
    shape = (math.prod(layout.shape),)
    dtype = dtypes[min(place, len(dtypes) - 2)]  # ops of any number of inputs list the first
    counted = cost_shape_op_cpu([shape, shape], (dtype, dtype), OpParams.NONE, caps)
    launch = launch_overhead_ns(one.backend, caps.launch_overhead_ns, counted.kernel_overhead_ns)
    return composite_ns(replace(counted, kernel_overhead_ns=launch), *rates_of(OpKind.Copy, caps))


def couple_producers(
    alternatives: AlternativeSet,
    operands: Iterable[tuple[int, DeviceLocation, int, Iterable[DeviceLocation]]],
    estimator: TransferEstimator,
) -> None:
    """Price what changes when an operand is made on another device.

    `operands` are position, planned device, bytes, and the devices on which it could be made.
    """
    known = [(place, planned, nbytes, tuple(others)) for place, planned, nbytes, others in operands]
    for index, one in enumerate(alternatives):
        added = tuple(
            CouplingAdjustment(
                operand_on(place, other),
                estimator.estimate_transfer_ns(other, one.device, nbytes)
                - estimator.estimate_transfer_ns(planned, one.device, nbytes),
            )
            for place, planned, nbytes, others in known
            for other in others
            if other != planned
        )
        if added:
            alternatives.put(index, replace(one, coupling=one.coupling + added))
