"""An op with outputs of three dtypes, for tests: of each row where it is largest, the first such place, and the value.

It is outside the table of ops, under kinds that nothing serves. There are three kernels of it, one for each way in
which a host kernel can be called; tests install them for a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.cpu.kernels.base import HostKernel
from fuel_async.dispatch import KernelCaps
from fuel_async.ir import BackendId, Bundle, CostEstimate, DType, OpKind, OpSpec
from fuel_async.storage import as_array, slot_arrays

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fuel_async.dispatch import Bound, KernelBindingTable, OpParams
    from fuel_async.ir import Attrs, Layout, Shape, Tensor, TensorType
    from fuel_async.storage import Storage

    Array = NDArray[Any]

#: Of the outputs, in order.
SLOTS = (DType.U8, DType.U32, DType.F64)
#: How the kernel is called, and the kind it is registered under.
FACES = {"bound": OpKind.SsdChunkScan, "plain": OpKind.CausalConv1d, "anew": OpKind.Nf4Matmul}
KEY = (DType.F32, DType.U8)


def _outputs(operands: Sequence[TensorType], attrs: Attrs) -> tuple[tuple[Shape, DType], ...]:
    shape, rows = operands[0].shape, operands[0].shape[:-1]
    return (shape, DType.U8), (rows, DType.U32), (rows, DType.F64)


OPS = {
    face: OpSpec(
        name=f"extremes_{face}",
        arity=1,
        infer=lambda operands, attrs: _outputs(operands, attrs)[0],
        outputs=_outputs,
        slots=("where", "place", "value"),
        kind=kind,
    )
    for face, kind in FACES.items()
}


def extremes(x: Tensor, face: str = "bound") -> Bundle:
    """The largest of each row of f32 [.., n]: u8 [.., n], u32 [..] and f64 [..]."""
    return x.graph.bundle(OPS[face], (x,))


def found(x: Array) -> tuple[Array, Array, Array]:
    """The same without any executor."""
    most = x.max(-1)
    return (x == most[..., None]).astype(np.uint8), x.argmax(-1).astype(np.uint32), most.astype(np.float64)


def compute(x: Array, where: Array, place: Array, value: Array) -> None:
    """Write the outputs."""
    for out, given in zip((where, place, value), found(x), strict=True):
        out[...] = given


def _rule(inputs: Sequence[Array], outputs: Sequence[Array], params: OpParams, scratch: Sequence[Array]) -> Bound:
    return compute, (*inputs, *outputs)


class Plain:
    """A kernel with the plain signature alone, which reads no strides."""

    def __call__(
        self, inputs: Sequence[Storage], outputs: Sequence[Storage], layouts: Sequence[Layout], params: OpParams
    ) -> None:
        (output,) = outputs
        assert output.dtype is SLOTS[0]
        assert len(layouts) == 2
        compute(as_array(inputs[0], layouts[0]), *slot_arrays(output))


class Anew(Plain):
    """A kernel whose bound call keeps its operands to itself."""

    def bind(
        self, inputs: Sequence[Array], outputs: Sequence[Array], params: OpParams, scratch: Sequence[Array]
    ) -> Bound:
        return (lambda: compute(*inputs, *outputs)), ()


def register(table: KernelBindingTable) -> None:
    """Add the kernels to an open table."""
    bound = HostKernel(FACES["bound"], KEY, _rule, slots=SLOTS)
    for face, kernel in (("bound", bound), ("plain", Plain()), ("anew", Anew())):
        caps = bound.caps if face == "bound" else KernelCaps()
        table.register(FACES[face], KEY, BackendId.CPU, kernel, caps=caps, cost=_cost, kernel_source="test")


def _cost(*asked: object) -> CostEstimate:
    return CostEstimate(flops=4_000)
