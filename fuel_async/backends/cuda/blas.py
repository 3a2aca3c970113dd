"""cuBLAS: handles, each bound to one stream, and the calls that products become."""

from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends.cuda.kernels.gemm import ALGORITHM, MATH_MODE
from fuel_async.ir import DType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fuel_async.backends.cuda.kernels.gemm import Gemm, Matrix

#: 0 and 1 in the type in which is summed: cuBLAS reads its factors from the host.
_FACTORS: Mapping[DType, np.ndarray[Any, Any]] = {
    dtype: np.array([0, 1], np.float64 if dtype is DType.F64 else np.float32)
    for dtype in (DType.F32, DType.F64, DType.F16, DType.BF16)
}


class Handle:
    """A cuBLAS handle. It is destroyed with its last holder."""

    __slots__ = ("__weakref__", "number")

    def __init__(self, blas: Any, stream: int) -> None:
        """Make it for a stream of the current device. Raises what cuBLAS raises."""
        self.number: int = blas.create()
        weakref.finalize(self, _destroy, blas, self.number).atexit = False  # the driver may be gone by then
        blas.setStream(self.number, stream)
        blas.setMathMode(self.number, MATH_MODE)


def _destroy(blas: Any, number: int) -> None:
    with contextlib.suppress(Exception):  # that of a lost device
        blas.destroy(number)


def arguments(gemm: Gemm, address: Callable[[int], int]) -> tuple[Any, ...]:
    """Return the arguments of cublasGemmStridedBatchedEx behind the handle; `address` is that of an operand."""
    size, kind, factors = gemm.dtype.nbytes, gemm.data_type, _FACTORS[gemm.dtype]
    one, beta = factors.ctypes.data + factors.itemsize, factors.ctypes.data + factors.itemsize * int(gemm.beta)

    def matrix(of: Matrix) -> tuple[int, int, int, int]:
        return address(of.place) + of.offset * size, kind, of.leading, of.batch

    m, n, k = gemm.sizes
    return (
        gemm.right.operation, gemm.left.operation, n, m, k,
        one, *matrix(gemm.right), *matrix(gemm.left),
        beta, *matrix(gemm.target), gemm.batches, gemm.compute_type, ALGORITHM,
    )  # fmt: skip
