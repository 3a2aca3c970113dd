"""What the tests of ranking share: kernels nobody calls, candidates, capabilities, links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fuel_async.dispatch import BackendCapabilities, KernelCaps, default_backend_rates
from fuel_async.ir import CPU_DEVICE, BackendId, CostEstimate, DeviceLocation, PrecisionGuarantee, SubstrateClass
from fuel_async.plan import Candidate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.dispatch import CostFn, KernelDTypes, OpParams

CPU, CUDA, VULKAN = BackendId.CPU, BackendId.CUDA, BackendId.VULKAN
HOST, CUDA0, CUDA1, VK0 = CPU_DEVICE, DeviceLocation(CUDA), DeviceLocation(CUDA, 1), DeviceLocation(VULKAN)
MOST = 2**64 - 1

REFERENCE, UNAUDITED = PrecisionGuarantee.REFERENCE, PrecisionGuarantee.UNAUDITED
STABLE = PrecisionGuarantee.PRIMITIVE_DETERMINISTIC_CPU

#: Where the host's kernels run, and another backend's.
AT_HOME = [(CPU, HOST)]


class Kernel:
    """A kernel nobody calls; two of them are different ones."""

    def __init__(self, name: str = "kernel", needs: frozenset[str] = frozenset()) -> None:
        self.name, self.needs = name, needs

    def __call__(self, *_: object) -> None:
        raise AssertionError("planning runs nothing")

    def __repr__(self) -> str:
        return self.name


KERNEL = Kernel()


def candidate(
    ns: int = 0,
    device: DeviceLocation = HOST,
    *,
    precision: PrecisionGuarantee = REFERENCE,
    backend: BackendId | None = None,
    strided: bool = False,
    **fields: Any,
) -> Candidate:
    """A candidate that takes so long, unpriced for 0; of the device's own backend unless told otherwise."""
    cost = CostEstimate(kernel_overhead_ns=ns) if ns < 2**32 else CostEstimate(flops=ns)
    given: dict[str, Any] = {"static_cost": cost, "caps": KernelCaps(strided_input=strided), "precision": precision}
    return Candidate(KERNEL, backend or device.backend, device, **(given | fields))


def stable(is_stable: bool, device: DeviceLocation = HOST, ns: int = 100) -> Candidate:
    """A candidate that gives the same bits each time, or not."""
    return candidate(ns, device, precision=PrecisionGuarantee(is_stable))


def times(alternatives: Sequence[Candidate] | Any) -> list[int | None]:
    return [one.effective_ns() for one in alternatives]


def caps_of(
    device: DeviceLocation, backend: BackendId | None = None, rates: tuple[float, float] | None = None, **fields: Any
) -> BackendCapabilities:
    own = backend or device.backend
    flops, moved = rates or default_backend_rates(own)
    return BackendCapabilities(own, device, frozenset(), 64, 8, (), SubstrateClass.HostBytes, flops, moved, **fields)


def everybody(backend: BackendId, device: DeviceLocation) -> BackendCapabilities:
    """A lookup in which every device advertises the defaults of its backend."""
    return caps_of(device, backend)


def cost(**fields: int) -> CostFn:
    """A cost function that always says the same."""
    return priced(lambda shapes: CostEstimate(**fields))


def priced(says: Callable[[Sequence[tuple[int, ...]]], CostEstimate]) -> CostFn:
    """A cost function of the shapes of inputs and output."""

    def function(
        shapes: Sequence[tuple[int, ...]], dtypes: KernelDTypes, params: OpParams, caps: BackendCapabilities
    ) -> CostEstimate:
        return says(shapes)

    return function


@dataclass(frozen=True, slots=True)
class Links:
    """All links alike: a copy takes `latency_ns`, and `per_byte_ns` a byte."""

    latency_ns: int = 1_000
    per_byte_ns: int = 0

    def estimate_transfer_ns(self, source: DeviceLocation, destination: DeviceLocation, nbytes: int) -> int:
        return 0 if source == destination else self.latency_ns + self.per_byte_ns * nbytes
