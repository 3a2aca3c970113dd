"""`InPlace`: the methods of `Tensor` whose result may take the bytes of the tensor itself.

They say the same as the ops without the suffix, and cost no second buffer where the tensor is not needed any more. The
tensor may be read elsewhere all the same: readers see what it was before, because they run first or, where they depend
on the result, because the op copies. Feeds, constants and what callers receive are never written over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from fuel_async.errors import GraphError, ShapeMismatch
from fuel_async.ir.ops.elementwise import Affine, Clamp, PowI
from fuel_async.ir.ops.inplace import (
    IN_PLACE,
    MOVE,
    RELEASE,
    WRITE_SLICE,
    WRITE_SLICE_DOFF,
    WRITE_SLICE_ROTATING,
    WriteSlice,
    WriteSliceDoff,
    WriteSliceRotating,
)
from fuel_async.ir.shape import as_integer, integer, normal_axis, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.ir.device import DeviceLocation
    from fuel_async.ir.graph import Graph
    from fuel_async.ir.op import Attrs, TensorType
    from fuel_async.ir.tensor import Scalar, Tensor


class InPlace:
    """A part of `Tensor`; it has no state of its own."""

    __slots__ = ()

    if TYPE_CHECKING:
        graph: Graph
        type: TensorType

    # --- elementwise ----------------------------------------------------------------------------------------

    def _over(self, name: str, attrs: Attrs = None) -> Tensor:
        return self.graph.node(IN_PLACE[name], (_tensor(self),), attrs)

    def exp_inplace(self) -> Tensor:
        """`exp`, over this tensor."""
        return self._over("exp")

    def log_inplace(self) -> Tensor:
        """`log`, over this tensor."""
        return self._over("log")

    def sqrt_inplace(self) -> Tensor:
        """`sqrt`, over this tensor."""
        return self._over("sqrt")

    def rsqrt_inplace(self) -> Tensor:
        """`rsqrt`, over this tensor."""
        return self._over("rsqrt")

    def reciprocal_inplace(self) -> Tensor:
        """`reciprocal`, over this tensor."""
        return self._over("recip")

    def square_inplace(self) -> Tensor:
        """`square`, over this tensor."""
        return self._over("sqr")

    def sin_inplace(self) -> Tensor:
        """`sin`, over this tensor."""
        return self._over("sin")

    def cos_inplace(self) -> Tensor:
        """`cos`, over this tensor."""
        return self._over("cos")

    def tanh_inplace(self) -> Tensor:
        """`tanh`, over this tensor."""
        return self._over("tanh")

    def erf_inplace(self) -> Tensor:
        """`erf`, over this tensor."""
        return self._over("erf")

    def floor_inplace(self) -> Tensor:
        """`floor`, over this tensor."""
        return self._over("floor")

    def ceil_inplace(self) -> Tensor:
        """`ceil`, over this tensor."""
        return self._over("ceil")

    def round_inplace(self) -> Tensor:
        """`round`, over this tensor."""
        return self._over("round")

    def sign_inplace(self) -> Tensor:
        """`sign`, over this tensor."""
        return self._over("sign")

    def neg_inplace(self) -> Tensor:
        """The negative of each element, over this tensor."""
        return self._over("neg")

    def abs_inplace(self) -> Tensor:
        """The absolute value of each element, over this tensor."""
        return self._over("abs")

    def relu_inplace(self) -> Tensor:
        """`relu`, over this tensor."""
        return self._over("relu")

    def sigmoid_inplace(self) -> Tensor:
        """`sigmoid`, over this tensor."""
        return self._over("sigmoid")

    def silu_inplace(self) -> Tensor:
        """`silu`, over this tensor."""
        return self._over("silu")

    def gelu_inplace(self, approximate: Literal["none", "tanh"] = "none") -> Tensor:
        """`gelu`, over this tensor."""
        return self._over("gelu" if approximate == "tanh" else "gelu_erf")

    def clip_inplace(self, min: Scalar | None = None, max: Scalar | None = None) -> Tensor:  # noqa: A002 - as clip
        """`clip`, over this tensor."""
        low = float("-inf") if min is None else number("clamp_inplace", min)
        high = float("inf") if max is None else number("clamp_inplace", max)
        return self._over("clamp", Clamp(low, high))

    def affine_inplace(self, mul: Scalar, add: Scalar) -> Tensor:
        """`affine`, over this tensor."""
        return self._over("affine", Affine(number("inplace_affine", mul), number("inplace_affine", add)))

    def powi_inplace(self, exp: int) -> Tensor:
        """`powi`, over this tensor."""
        return self._over("powi", PowI(integer("powi_inplace", "exp", exp)))

    # --- writing into a part --------------------------------------------------------------------------------

    def write_slice(self, source: Tensor, starts: Sequence[int]) -> Tensor:
        """This tensor with `source` in place of what lies there from `starts` on, a first place for each axis.

        `source` has this tensor's rank and dtype, and lies inside: that is checked here, or when symbols are bound.
        """
        return self.graph.node(WRITE_SLICE, (_tensor(self), source), WriteSlice(_starts("write_slice", starts)))

    def write_slice_at(self, source: Tensor, offset: Tensor, *, axis: int = 0) -> Tensor:
        """`write_slice` from place `offset` on along `axis`, an i64 without dimensions, and from 0 on along others.

        An offset that is known only when the graph runs: one that leaves this tensor fails the run.
        """
        place = normal_axis("write_slice_doff", axis, self.type.ndim, [self.type])
        attrs = WriteSliceDoff(place, (0,) * self.type.ndim)
        return self.graph.node(WRITE_SLICE_DOFF, (_tensor(self), source, offset), attrs)

    def write_slice_rotating(
        self, source: Tensor, position: Tensor, *, axis: int = 0, modulus: int | None = None
    ) -> Tensor:
        """`write_slice` into a ring: entry j of `source` along `axis` goes to place (`position` + j) % `modulus`.

        `position` is a u32 without dimensions; the ring is all of the axis unless `modulus` is given.
        """
        op = "write_slice_rotating"
        place = normal_axis(op, axis, self.type.ndim, [self.type])
        ring = self.type.shape[place] if modulus is None else integer(op, "modulus", modulus)
        if not isinstance(ring, int):
            raise GraphError(op, f"wanted a modulus, since axis {place} has the symbolic size {ring}", [self.type])
        attrs = WriteSliceRotating(place, ring, (0,) * self.type.ndim)
        return self.graph.node(WRITE_SLICE_ROTATING, (_tensor(self), source, position), attrs)

    def zero_fill(self) -> Tensor:
        """Zeros, over this tensor: a slice that is all of it."""
        zero = self.graph.scalar(0, self.type.dtype).broadcast_to(self.type.shape)
        return self.write_slice(zero, (0,) * self.type.ndim)

    # --- placement and lifetime -----------------------------------------------------------------------------

    def move(self, device: DeviceLocation | str) -> Tensor:
        """`to`: the values on `device` and nowhere else. This tensor's bytes are free for others after that."""
        with self.graph.on(device):
            return self.graph.node(MOVE, (_tensor(self),))

    def release(self) -> Tensor:
        """Say that this tensor is not needed any more, and return a marker without elements.

        The walker lets go of the bytes once everything else that reads them has run. It is a part of the graph
        whether the marker is read or not, and changes no result.
        """
        return self.graph.node(RELEASE, (_tensor(self),))


def _starts(op: str, starts: Sequence[int]) -> tuple[int, ...]:
    plain = [as_integer(start) for start in starts] if isinstance(starts, tuple | list) else [None]
    if None in plain:
        raise ShapeMismatch(op, f"wanted a first place for each axis, got {starts!r}")
    return tuple(plain)  # type: ignore[arg-type]  # no None


def _tensor(part: InPlace) -> Tensor:
    """The tensor that `part` is."""
    return part  # type: ignore[return-value]
