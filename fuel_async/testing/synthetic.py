"""An op that only takes time: graphs of given costs and sizes, for tests of schedules on simulated devices.

    x = graph.input("x", (16,), DType.U8)
    y = synthetic_op(graph, [x], cost_ns=100_000, nbytes=4_096)

It goes the way of every op: typed, planned, computed by a kernel of the host. Its value depends on every byte of its
operands and on their order, so a schedule that loses, swaps or reads too early gets other bits.
"""

from __future__ import annotations

from contextlib import ExitStack
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from fuel_async.dispatch import Bound, GivenParams, KernelBindingTable, OpParams
from fuel_async.errors import KernelArgumentError, UserError
from fuel_async.ir import BackendId, CostEstimate, DeviceLocation, DType, OpKind, OpSpec
from fuel_async.registry import extend_global_bindings, global_bindings
from fuel_async.storage import as_array, read_storage, write_storage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.dispatch import BackendCapabilities, KernelDTypes
    from fuel_async.ir import Graph, Layout, Shape, Tensor, TensorType
    from fuel_async.storage import Storage

Array: TypeAlias = NDArray[Any]

#: No device has a time of its own.
NOWHERE: Mapping[DeviceLocation, int] = MappingProxyType({})


class Synthetic(NamedTuple):
    """Time at speed 1, size of the result, and (ordinal, time) of the simulated devices that differ."""

    cost_ns: int
    nbytes: int
    own_ns: tuple[tuple[int, int], ...]


def _infer(operands: Sequence[TensorType], attrs: Synthetic) -> tuple[Shape, DType]:
    return (attrs.nbytes,), DType.U8


SYNTHETIC = OpSpec(name="synthetic", arity=-1, infer=_infer, kind=OpKind.RuntimeFused, attrs=Synthetic)


def synthetic_op(
    graph: Graph,
    inputs: Sequence[Tensor],
    *,
    cost_ns: int,
    nbytes: int,
    own_ns: Mapping[DeviceLocation, int] = NOWHERE,
) -> Tensor:
    """Append a node that takes `cost_ns` on a device of speed 1 and gives `nbytes` bytes: u8[nbytes].

    On a device of another speed it takes `cost_ns` divided by that, or what `own_ns` says of a simulated device: that
    is then the truth, of which the device advertises nothing. The first call of a process publishes the kernel, which
    bumps the topology generation. `UserError` for negative numbers.
    """
    if min(cost_ns, nbytes, *own_ns.values(), 0) < 0:
        raise UserError(f"a synthetic op cannot take {cost_ns} ns, own {dict(own_ns)}, or give {nbytes} bytes")
    _publish()
    own = tuple(sorted((location.ordinal, ns) for location, ns in own_ns.items()))
    return graph.node(SYNTHETIC, tuple(inputs), Synthetic(cost_ns, nbytes, own))


class SyntheticKernel:
    """The kernel of `SYNTHETIC`: cheap, deterministic, and told its price and its times by the node."""

    #: It looks at its parameters, so it cannot be called with operands alone.
    direct = None

    def bind(
        self, inputs: Sequence[Array], outputs: Sequence[Array], params: OpParams, scratch: Sequence[Array]
    ) -> Bound:
        """Return the call over row-major arrays."""
        salt = _salt(_attrs(params))

        def call(*operands: Array) -> None:
            mix(operands[:-1], operands[-1], salt)

        return call, (*inputs, *outputs)

    def __call__(
        self, inputs: Sequence[Storage], outputs: Sequence[Storage], layouts: Sequence[Layout], params: OpParams
    ) -> None:
        """Run once over storages, leased for the length of the call."""
        operands = (*inputs, *outputs)
        with ExitStack() as leases:
            for storage in inputs:
                leases.enter_context(read_storage(storage))
            leases.enter_context(write_storage(outputs[0]))
            arrays = [as_array(storage, layout) for storage, layout in zip(operands, layouts, strict=True)]
            mix(arrays[:-1], arrays[-1], _salt(_attrs(params)))

    def cost(
        self,
        shapes: Sequence[tuple[int, ...]],
        dtypes: KernelDTypes,
        params: OpParams,
        caps: BackendCapabilities,
    ) -> CostEstimate:
        """As many flops as a device of speed 1 does in the time."""
        return CostEstimate(flops=max(_attrs(params).cost_ns, 1))

    def simulated_ns(self, params: OpParams, location: DeviceLocation) -> int | None:
        """Return the time on a device that has one of its own; None on others."""
        own = dict(_attrs(params).own_ns).get(location.ordinal)
        return None if own is None else max(own, 1)


KERNEL = SyntheticKernel()


def mix(inputs: Sequence[Array], output: Array, salt: int) -> None:
    """Write a value made of all bytes of all inputs, in their order."""
    output.fill(salt & 0xFF)
    if not output.size:
        return
    for array in inputs:
        given = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        np.multiply(output, 31, output)
        whole = given.size // output.size * output.size
        if whole:
            np.bitwise_xor(output, np.bitwise_xor.reduce(given[:whole].reshape(-1, output.size), axis=0), output)
            np.bitwise_xor(output[: given.size - whole], given[whole:], output[: given.size - whole])
        elif given.size:
            output ^= np.resize(given, output.size)


def _attrs(params: OpParams) -> Synthetic:
    match params:
        case GivenParams(Synthetic() as attrs):
            return attrs
        case _:
            raise KernelArgumentError(SYNTHETIC.name, "the parameters", params, Synthetic.__name__)


def _salt(attrs: Synthetic) -> int:
    return crc32(repr(attrs[:2]).encode())


def _key(dtype: DType) -> KernelDTypes:
    return dtype, DType.U8


def _publish() -> None:
    """Register the kernel with the process, unless it is."""
    if not global_bindings().backend_supports(OpKind.RuntimeFused, _key(DType.U8), BackendId.CPU):
        extend_global_bindings(register_synthetic_kernel)


def register_synthetic_kernel(table: KernelBindingTable) -> None:
    """Add the kernel to an open table, for operands of every dtype; once."""
    for dtype in DType.ALL:
        if dtype.np is not None and not table.backend_supports(OpKind.RuntimeFused, _key(dtype), BackendId.CPU):
            table.register(
                OpKind.RuntimeFused, _key(dtype), BackendId.CPU, KERNEL, cost=KERNEL.cost, kernel_source="synthetic"
            )
