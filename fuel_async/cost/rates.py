"""What a device does in a nanosecond, and the predicted time of a kernel from its Layer-1 estimate.

Rates come from the device: measured when it is opened, or the priors of its backend. The roofline is the seeds':
the larger of compute and traffic, plus the overhead of a call.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuel_async.ir import CostEstimate, OpKind

#: Kinds whose flops are those of a matrix product, which a device computes at another rate than other kernels.
DENSE_KINDS = frozenset({OpKind.MatMul, OpKind.FusedLinear})


@dataclass(frozen=True, slots=True)
class Rates:
    """Speeds of one device. The defaults are the unmeasured priors of a host processor."""

    #: Elementwise arithmetic.
    flops_per_ns: float = 1.0
    #: Matrix products.
    dense_flops_per_ns: float = 1.0
    bytes_per_ns: float = 4.0
    #: Time to call a kernel, whatever its operands; None takes the estimate's own overhead.
    call_ns: int | None = None

    def predict_ns(self, kind: OpKind, estimate: CostEstimate) -> int:
        """Return the predicted time of one call, at least 1 ns: nothing is free."""
        rate = self.dense_flops_per_ns if kind in DENSE_KINDS else self.flops_per_ns
        call_ns = estimate.kernel_overhead_ns if self.call_ns is None else self.call_ns
        work_ns = max(estimate.flops / rate, estimate.bytes_moved / self.bytes_per_ns)
        return max(1, call_ns + int(work_ns))
