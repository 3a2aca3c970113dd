"""What bringing the operands to a candidate's device takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from fuel_async.plan.rank.candidate import MOST_NS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuel_async.ir import DeviceLocation
    from fuel_async.plan.rank.alternatives import AlternativeSet


@runtime_checkable
class TransferEstimator(Protocol):
    """Whoever knows the links; `registry.SystemTopology` is one."""

    def estimate_transfer_ns(self, source: DeviceLocation, destination: DeviceLocation, nbytes: int) -> int:
        """Return the nanoseconds of a copy: 0 from a device to itself, never less for more bytes. Never raises."""


def inbound_ns(
    operands: Iterable[tuple[DeviceLocation, int]], device: DeviceLocation, estimator: TransferEstimator
) -> int:
    """Return the nanoseconds of copying `operands`, where each is and its bytes, to `device`; at most 64 bits."""
    total = sum(estimator.estimate_transfer_ns(source, device, nbytes) for source, nbytes in operands)
    return min(total, MOST_NS)


def apply_inbound_transfer_costs(
    alternatives: AlternativeSet, inputs: Iterable[tuple[DeviceLocation, int]], estimator: TransferEstimator
) -> None:
    """Say of each candidate what bringing `inputs`, where each is and its bytes, to its device takes.

    An input that is nowhere yet is not in the list: it is no reason for or against a device.
    """
    known = tuple(inputs)
    costs = {device: inbound_ns(known, device, estimator) for device in alternatives.devices()}
    for index, one in enumerate(alternatives):
        if one.inbound_transfer_ns != costs[one.device]:
            alternatives.set_inbound_transfer_ns(index, costs[one.device])
