"""Which registered kernels have a price, asked of a small call of each."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from fuel_async.cost import PriceSource, price_call
from fuel_async.dispatch import OpParams, derive_backend_caps
from fuel_async.ir import DeviceLocation, OpKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fuel_async.dispatch import KernelBindingTable, KernelDTypes
    from fuel_async.ir import BackendId

_CUBE = (4, 4, 4, 4)

#: Parameters of a call of the kinds whose price is counted from them; of operands of `_CUBE`, as all others.
PARAMS: Mapping[OpKind, OpParams] = MappingProxyType(
    {
        **dict.fromkeys((OpKind.MatMul, OpKind.FusedLinear), OpParams.Matmul((4, 4), (4, 4), 4, 4, 4)),
        OpKind.SelectiveScan: OpParams.SelectiveScan(4, 4, 4, 4, False),
        OpKind.CausalConv1d: OpParams.CausalConv1d(4, 4, 4, 4, 4, False),
        **dict.fromkeys(
            (OpKind.FlashAttn, OpKind.FlashAttnBackwardQ, OpKind.FlashAttnBackwardK, OpKind.FlashAttnBackwardV),
            OpParams.FlashAttn(4, 4, 4, 4, 4, 4, None, 1.0),
        ),
        OpKind.PagedAttn: OpParams.PagedAttn(4, 4, 4, 4, 4, 4, 4, 4, 1.0),
    }
)


def priced_rows(table: KernelBindingTable) -> Iterator[tuple[OpKind, KernelDTypes, BackendId, PriceSource]]:
    """Iterate over the rows of `table` with who prices a call of the kernel. Kernels made at run time are left out."""
    backends = dict.fromkeys(backend for _, _, backend in table.iter_keys())
    caps = {backend: derive_backend_caps(backend, DeviceLocation(backend), table) for backend in backends}
    for op, dtypes, backend, entry in table.iter_entries():
        if op is not OpKind.RuntimeFused:
            shapes = [_CUBE] * max(len(dtypes), 2)
            price = price_call(op, entry, shapes, dtypes, PARAMS.get(op, OpParams.NONE), caps[backend])
            yield op, dtypes, backend, price.source
