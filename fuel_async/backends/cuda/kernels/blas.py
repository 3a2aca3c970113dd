"""cuBLAS: one handle a stream, and the calls that products become. Loaded when a product is first run."""

from __future__ import annotations

import weakref
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.cuda.kernels.gemm import ALGORITHM, MATH_MODE
from fuel_async.ir import DType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fuel_async.backends.cuda.kernels.gemm import Gemm

#: The types of alpha and beta.
_SCALARS: Mapping[DType, Any] = {DType.F64: np.float64}


def is_there() -> bool:
    """Whether cuBLAS can be loaded: CuPy does not bring it."""
    try:
        import_module("cupy_backends.cuda.libs.cublas")
    except (ImportError, OSError):
        return False
    return True


class Blas:
    """A handle of the current device, for one stream. Used by one thread at a time."""

    __slots__ = ("__weakref__", "_call", "_scalars", "handle")

    def __init__(self, cublas: Any, stream: int) -> None:
        """Make it. Raises what cuBLAS raises."""
        self.handle: int = cublas.create()
        weakref.finalize(self, cublas.destroy, self.handle).atexit = False
        cublas.setStream(self.handle, stream)
        cublas.setMathMode(self.handle, MATH_MODE)
        self._call: Callable[..., None] = cublas.gemmStridedBatchedEx
        #: 0 and 1, which cuBLAS reads where they lie during the call.
        self._scalars = {dtype: np.array([0, 1], _SCALARS.get(dtype, np.float32)) for dtype in (DType.F32, DType.F64)}

    def run(self, gemm: Gemm, pointers: Sequence[int]) -> None:
        """Put a call on the stream, which is the current one; `pointers` are those of left, right and target.

        Each is where its operand's first element would be for an offset of 0. Raises what cuBLAS raises.
        """
        m, n, k = gemm.sizes
        scalars = self._scalars[DType.F64 if gemm.dtype is DType.F64 else DType.F32]
        zero, one = scalars.ctypes.data, scalars.ctypes.data + scalars.itemsize
        kind, size, (left, right, target) = gemm.data_type, gemm.dtype.nbytes, (gemm.left, gemm.right, gemm.target)
        at = [pointer + side.offset * size for pointer, side in zip(pointers, (left, right, target), strict=True)]
        self._call(
            self.handle, right.operation, left.operation, n, m, k,
            one, at[1], kind, right.leading, right.batch, at[0], kind, left.leading, left.batch,
            one if gemm.beta else zero, at[2], kind, target.leading, target.batch,
            gemm.batches, gemm.compute_type, ALGORITHM,
        )  # fmt: skip


def handle_on(cupy: Any, stream: int) -> Blas:
    """Return a handle of the current device for a stream, by its address. Raises what cuBLAS raises."""
    return Blas(cupy.cuda.cublas, stream)
