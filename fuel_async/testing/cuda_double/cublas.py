"""cuBLAS as CuPy has it: raw calls over addresses, column by column, computed by numpy on the stream of a handle.

A matrix's element (i, j) lies at i + j * ld. `alpha` and `beta` are addresses on the host, read during the call. Sums
are as wide as the compute type says; where it, or the mode, allows TF32, factors of float32 are rounded to it.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np

from fuel_async.testing.cuda_double import statuses
from fuel_async.testing.cuda_double.machine import installed
from fuel_async.testing.cuda_double.raw import demand_reachable
from fuel_async.testing.cuda_double.statuses import CUBLASError, CUDARuntimeError
from fuel_async.testing.cuda_double.work import Operation

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from fuel_async.testing.cuda_double.gpu import Gpu

CUBLAS_OP_N: Final = 0
CUBLAS_OP_T: Final = 1
CUBLAS_OP_C: Final = 2
CUBLAS_POINTER_MODE_HOST: Final = 0
CUBLAS_POINTER_MODE_DEVICE: Final = 1
CUBLAS_DEFAULT_MATH: Final = 0
CUBLAS_TENSOR_OP_MATH: Final = 1
#: A math mode that CuPy has no name for.
TF32_MATH: Final = 3
CUBLAS_GEMM_DEFAULT: Final = -1
CUBLAS_COMPUTE_16F: Final = 64
CUBLAS_COMPUTE_32F: Final = 68
CUBLAS_COMPUTE_32F_PEDANTIC: Final = 69
CUBLAS_COMPUTE_32F_FAST_TF32: Final = 77
CUBLAS_COMPUTE_64F: Final = 70
CUBLAS_COMPUTE_64F_PEDANTIC: Final = 71

NOT_INITIALIZED: Final = 1
INVALID: Final = 7
NOT_SUPPORTED: Final = 15

#: `cudaDataType` of elements.
DTYPES: Mapping[int, np.dtype[Any]] = {
    0: np.dtype(np.float32),
    1: np.dtype(np.float64),
    2: np.dtype(np.float16),
    14: np.dtype(ml_dtypes.bfloat16),
}
#: The dtype of sums, `alpha` and `beta` by compute type.
SUMS: Mapping[int, np.dtype[Any]] = {
    CUBLAS_COMPUTE_16F: np.dtype(np.float16),
    CUBLAS_COMPUTE_32F: np.dtype(np.float32),
    CUBLAS_COMPUTE_32F_PEDANTIC: np.dtype(np.float32),
    CUBLAS_COMPUTE_32F_FAST_TF32: np.dtype(np.float32),
    CUBLAS_COMPUTE_64F: np.dtype(np.float64),
    CUBLAS_COMPUTE_64F_PEDANTIC: np.dtype(np.float64),
}
#: Types of factors, of the result, and compute types that go together.
SUPPORTED = frozenset(
    {(kind, kind, compute) for kind in (0, 2, 14) for compute in (68, 69)}
    | {(kind, 0, compute) for kind in (2, 14) for compute in (68, 69)}
    | {(0, 0, 77), (1, 1, 70), (1, 1, 71), (2, 2, 64)}
)


@dataclass(slots=True)
class HandleState:
    """What cuBLAS knows by the number of a handle."""

    gpu: Gpu
    stream: int = 0
    math_mode: int = CUBLAS_DEFAULT_MATH
    pointer_mode: int = CUBLAS_POINTER_MODE_HOST


@dataclass(frozen=True, slots=True)
class Matrix:
    """`count` matrices of `rows` x `columns` in memory, and whether they are used transposed."""

    address: int
    kind: int
    rows: int
    columns: int
    ld: int
    stride: int = 0
    count: int = 1

    @property
    def last(self) -> int:
        """The address of the last byte that belongs to it."""
        elements = self.stride * (self.count - 1) + self.ld * (self.columns - 1) + self.rows
        return self.address + elements * DTYPES[self.kind].itemsize - 1

    def view(self) -> npt.NDArray[Any]:
        """Its elements, (count, rows, columns)."""
        dtype = DTYPES[self.kind]
        nbytes = self.last + 1 - self.address
        flat = np.frombuffer(memoryview((ctypes.c_ubyte * nbytes).from_address(self.address)), dtype)
        strides = tuple(step * dtype.itemsize for step in (self.stride, 1, self.ld))
        return np.lib.stride_tricks.as_strided(flat, (self.count, self.rows, self.columns), strides)


def create() -> int:
    """Make a handle of the current device."""
    machine = installed()
    gpu = machine.enter("cublasCreate", unsafe=True)
    handle = machine.number()
    machine.handles[handle] = HandleState(gpu)
    return handle


def destroy(handle: int) -> None:
    """Give it back."""
    machine = installed()
    _state(handle)
    machine.take_out(machine.handles, handle)


def _state(handle: int) -> HandleState:
    state = installed().handles.get(handle)
    if not isinstance(state, HandleState):
        raise CUBLASError(NOT_INITIALIZED)
    return state


def setStream(handle: int, stream: int) -> None:
    """Let its calls go to a stream of its device."""
    state, work = _state(handle), installed().stream(stream)
    if work.gpu is not state.gpu:
        raise CUBLASError(INVALID)
    state.stream = stream


def getStream(handle: int) -> int:
    """Return the number of the stream its calls go to."""
    return _state(handle).stream


def setMathMode(handle: int, mode: int) -> None:
    """Say what may be used to be quicker."""
    _state(handle).math_mode = mode


def getMathMode(handle: int) -> int:
    """Return what may be used."""
    return _state(handle).math_mode


def setPointerMode(handle: int, mode: int) -> None:
    """Say where `alpha` and `beta` lie; only the host is known here."""
    if mode != CUBLAS_POINTER_MODE_HOST:
        raise CUBLASError(NOT_SUPPORTED)
    _state(handle).pointer_mode = mode


def getPointerMode(handle: int) -> int:
    """Return where `alpha` and `beta` lie."""
    return _state(handle).pointer_mode


def getVersion(handle: int) -> int:
    """Return the version of cuBLAS."""
    _state(handle)
    return 120900


def _tf32(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Round to ten bits of mantissa, to nearest, as tensor cores take float32."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + 0xFFF + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), rounded.view(np.float32), values)


def _scalar(address: int, dtype: np.dtype[Any]) -> Any:
    return np.frombuffer(ctypes.string_at(address, dtype.itemsize), dtype)[0]


def _gemm(
    handle: int, ops: tuple[int, int], alpha: int, a: Matrix, b: Matrix, beta: int, c: Matrix, compute: int, k: int
) -> None:
    """Give c = alpha * op(a) @ op(b) + beta * c to the handle's stream. `CUBLASError`, `CUDARuntimeError`."""
    machine, state = installed(), _state(handle)
    work = machine.stream(state.stream)
    machine.enter("cublasGemm", state.gpu)
    if machine.here.device != state.gpu.index:
        raise CUDARuntimeError(statuses.INVALID_HANDLE)
    if a.kind != b.kind or (a.kind, c.kind, compute) not in SUPPORTED:
        raise CUBLASError(NOT_SUPPORTED)
    matrices = (a, b, c)
    if min(c.rows, c.columns, k, c.count) < 0 or any(matrix.ld < max(1, matrix.rows) for matrix in matrices):
        raise CUBLASError(INVALID)
    if 0 in (c.rows, c.columns, c.count):
        return
    factors = (_scalar(alpha, SUMS[compute]), _scalar(beta, SUMS[compute]))
    is_tf32 = a.kind == 0 and (
        compute == CUBLAS_COMPUTE_32F_FAST_TF32 or (state.math_mode == TF32_MATH and compute == CUBLAS_COMPUTE_32F)
    )

    def run() -> None:
        used = matrices if k else (c,)
        demand_reachable(machine, state.gpu, [end for matrix in used for end in (matrix.address, matrix.last)])
        _multiply(ops, factors, a, b, c, SUMS[compute], is_tf32)

    machine.count("launches")
    model = state.gpu.model
    flops = 2.0 * c.rows * c.columns * k * c.count
    duration_s = model.kernel_s + (flops / model.flops_per_s if model.flops_per_s else 0.0)
    machine.submit(work, Operation("launch", run, "compute", duration_s))


def _multiply(
    ops: tuple[int, int], factors: tuple[Any, Any], a: Matrix, b: Matrix, c: Matrix, sums: np.dtype[Any], is_tf32: bool
) -> None:
    alpha, beta = factors
    result = c.view()
    total = np.zeros(result.shape, sums)
    if 0 not in (a.rows, a.columns, b.rows, b.columns):
        sides = [matrix.view().astype(sums) for matrix in (a, b)]
        left, right = (side if op == CUBLAS_OP_N else side.swapaxes(1, 2) for side, op in zip(sides, ops, strict=True))
        if is_tf32:
            left, right = _tf32(left), _tf32(right)
        with np.errstate(all="ignore"):
            total = alpha * np.matmul(left, right)
    with np.errstate(all="ignore"):
        result[...] = (total if beta == 0 else total + beta * result.astype(sums)).astype(result.dtype)


def _matrix(address: int, kind: int, op: int, shape: tuple[int, int], ld: int, stride: int, count: int) -> Matrix:
    """A factor whose op() has `shape`."""
    if kind not in DTYPES or op not in (CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C):
        raise CUBLASError(INVALID)
    rows, columns = shape if op == CUBLAS_OP_N else shape[::-1]
    return Matrix(address, kind, rows, columns, ld, stride, count)


def gemmStridedBatchedEx(
    handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, A: int, Atype: int, lda: int,
    strideA: int, B: int, Btype: int, ldb: int, strideB: int, beta: int, C: int, Ctype: int, ldc: int, strideC: int,
    batchCount: int, computeType: int, algo: int,
) -> None:  # fmt: skip
    """Multiply `batchCount` pairs of matrices of any dtype; strides count elements."""
    a = _matrix(A, Atype, transa, (m, k), lda, strideA, batchCount)
    b = _matrix(B, Btype, transb, (k, n), ldb, strideB, batchCount)
    c = _matrix(C, Ctype, CUBLAS_OP_N, (m, n), ldc, strideC, batchCount)
    _gemm(handle, (transa, transb), alpha, a, b, beta, c, computeType, k)


def gemmEx(
    handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, A: int, Atype: int, lda: int, B: int,
    Btype: int, ldb: int, beta: int, C: int, Ctype: int, ldc: int, computeType: int, algo: int,
) -> None:  # fmt: skip
    """Multiply two matrices of any dtype."""
    gemmStridedBatchedEx(
        handle, transa, transb, m, n, k, alpha, A, Atype, lda, 0, B, Btype, ldb, 0, beta, C, Ctype, ldc, 0, 1,
        computeType, algo,
    )  # fmt: skip


def sgemmStridedBatched(
    handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, A: int, lda: int, strideA: int, B: int,
    ldb: int, strideB: int, beta: int, C: int, ldc: int, strideC: int, batchCount: int,
) -> None:  # fmt: skip
    """Multiply `batchCount` pairs of matrices of float32."""
    gemmStridedBatchedEx(
        handle, transa, transb, m, n, k, alpha, A, 0, lda, strideA, B, 0, ldb, strideB, beta, C, 0, ldc, strideC,
        batchCount, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT,
    )  # fmt: skip


def dgemmStridedBatched(
    handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, A: int, lda: int, strideA: int, B: int,
    ldb: int, strideB: int, beta: int, C: int, ldc: int, strideC: int, batchCount: int,
) -> None:  # fmt: skip
    """Multiply `batchCount` pairs of matrices of float64."""
    gemmStridedBatchedEx(
        handle, transa, transb, m, n, k, alpha, A, 1, lda, strideA, B, 1, ldb, strideB, beta, C, 1, ldc, strideC,
        batchCount, CUBLAS_COMPUTE_64F, CUBLAS_GEMM_DEFAULT,
    )  # fmt: skip


def sgemm(
    handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, A: int, lda: int, B: int, ldb: int,
    beta: int, C: int, ldc: int,
) -> None:  # fmt: skip
    """Multiply two matrices of float32."""
    sgemmStridedBatched(handle, transa, transb, m, n, k, alpha, A, lda, 0, B, ldb, 0, beta, C, ldc, 0, 1)


def dgemm(
    handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, A: int, lda: int, B: int, ldb: int,
    beta: int, C: int, ldc: int,
) -> None:  # fmt: skip
    """Multiply two matrices of float64."""
    dgemmStridedBatched(handle, transa, transb, m, n, k, alpha, A, lda, 0, B, ldb, 0, beta, C, ldc, 0, 1)


#: What `cupy.cuda.cublas` has.
CONTENT: Mapping[str, Any] = MappingProxyType({
    **{
        function.__name__: function
        for function in (
            create, destroy, setStream, getStream, setMathMode, getMathMode, setPointerMode, getPointerMode, getVersion,
            gemmEx, gemmStridedBatchedEx, sgemm, dgemm, sgemmStridedBatched, dgemmStridedBatched,
        )
    },
    **{name: number for name, number in vars().items() if name.startswith("CUBLAS_")},
    "CUBLASError": CUBLASError,
})  # fmt: skip
