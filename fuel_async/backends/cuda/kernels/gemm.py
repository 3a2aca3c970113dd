"""Products by cuBLAS: which operands it takes as they lie, and the calls that they become.

cuBLAS counts columns first, so what is row-major to us is transposed to it: the right operand is its first, and its
result is the transpose of ours, which has our bytes. Halves are summed in float32; nothing is computed in fewer bits
than that, nor float32 in TF32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from fuel_async.ir import DType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fuel_async.backends.grids.grids import Axes

# cublasOperation_t: as it lies, and transposed.
AS_IT_LIES, TRANSPOSED = 0, 1
# cublasComputeType_t: CUBLAS_COMPUTE_32F, its pedantic form, and CUBLAS_COMPUTE_64F.
_SINGLE, _SINGLE_PEDANTIC, _DOUBLE = 68, 69, 70
#: cudaDataType_t, and in what is computed.
TYPES: Mapping[DType, tuple[int, int]] = {
    DType.F32: (0, _SINGLE_PEDANTIC),
    DType.F64: (1, _DOUBLE),
    DType.F16: (2, _SINGLE),
    DType.BF16: (14, _SINGLE),
}
#: cublasMath_t of a handle: the default, with CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION.
MATH_MODE = 16
#: cublasGemmAlgo_t: CUBLAS_GEMM_DEFAULT.
ALGORITHM = -1

#: The feature of devices that have it: CuPy does not bring the library.
CUBLAS = "cublas"

#: Calls that one product may become; what would be more is left to the kernel of the catalog.
MOST_CALLS = 64
#: Sizes that cuBLAS takes are `int`.
MOST = 2**31 - 1


class Matrix(NamedTuple):
    """One operand of a call, as cuBLAS sees it."""

    #: Its place among the kernel's operands, and its first element, counted from the operand's start.
    place: int
    offset: int
    #: `AS_IT_LIES` where rows of ours are in one piece, `TRANSPOSED` where columns are.
    operation: int
    #: Elements from one row, or column, to the next; from the matrix of one batch to that of the next.
    leading: int
    batch: int


@dataclass(frozen=True, slots=True)
class Gemm:
    """One call of cublasGemmStridedBatchedEx: target = left · right + beta · target, a batch at a time.

    The call is `(handle, right.operation, left.operation, n, m, k, 1, right…, left…, beta, target…, batches, compute,
    ALGORITHM)`. It stands among the dispatches of a kernel, and is ordered by what it reads and writes, like one.
    """

    left: Matrix
    right: Matrix
    target: Matrix
    #: m, n and k: rows and columns of the result, and terms of a sum.
    sizes: tuple[int, int, int]
    batches: int
    dtype: DType
    #: 1 where it adds to what is in the target.
    beta: float
    #: As in a dispatch.
    operands: tuple[int, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    copies: None = None

    @property
    def data_type(self) -> int:
        """The cudaDataType_t of all three operands."""
        return TYPES[self.dtype][0]

    @property
    def compute_type(self) -> int:
        """The cublasComputeType_t. Of float64 alpha and beta are float64, else float32."""
        return TYPES[self.dtype][1]


#: Left, right and target.
_Three: TypeAlias = tuple[Matrix, Matrix, Matrix]


class Side(NamedTuple):
    """One operand of a product: where it is, and how its rows and columns lie, in elements."""

    place: int
    offset: int
    row_step: int
    column_step: int


def gemms(
    sides: tuple[Side, Side, Side], sizes: tuple[int, int, int], batches: Axes, dtype: DType, *, adds: bool
) -> list[Gemm] | None:
    """Return the calls of a product of m rows, n columns and k terms; None where cuBLAS does not take the operands.

    `sides` are left, right and target. The result is row-major over the axes of `batches`, innermost first, whose
    strides are those of left and right; no size is 0. `adds` says that the product is added to what is there.
    """
    (left, right, target), (m, n, k) = sides, sizes
    axes = [*zip(batches.sizes, *batches.strides, strict=True)]
    if axes and not axes[0][2]:
        # One right operand serves all: where the matrices of the left lie like one with more rows, they are one.
        whole = left._replace(row_step=axes[0][1]) if m == 1 else left
        if axes[0][1] == m * whole.row_step and _matrix(whole, m * axes[0][0], k, 0) is not None:
            left, m = whole, m * axes.pop(0)[0]
    steps, step = list[int](), m * n
    for size, _, _ in axes:
        steps.append(step)
        step *= size
    loops = [(size, (*from_, to)) for (size, *from_), to in zip(axes, steps, strict=True)]
    together = loops.pop(max(range(len(loops)), key=lambda at: loops[at][0])) if loops else (1, (0, 0, 0))
    first, second = _matrix(left, m, k, together[1][0]), _matrix(right, k, n, together[1][1])
    many = math.prod([size for size, _ in loops])
    if first is None or second is None or many > MOST_CALLS or max(m, n, k, together[0]) > MOST:
        return None
    matrices: _Three = first, second, Matrix(target.place, target.offset, AS_IT_LIES, n, together[1][2])
    return [_gemm(_at(matrices, starts), (m, n, k), together[0], dtype, adds=adds) for starts in _starts(loops)]


def _gemm(matrices: _Three, sizes: tuple[int, int, int], batches: int, dtype: DType, *, adds: bool) -> Gemm:
    left, right, target = places = [matrix.place for matrix in matrices]
    reads = tuple(places) if adds else (left, right)
    return Gemm(*matrices, sizes, batches, dtype, float(adds), tuple(places), reads, (target,))


def _matrix(side: Side, rows: int, columns: int, batch: int) -> Matrix | None:
    """An operand as cuBLAS sees it; None where neither its rows nor its columns are in one piece."""
    ways = (
        (AS_IT_LIES, side.column_step, columns, side.row_step, rows),
        (TRANSPOSED, side.row_step, rows, side.column_step, columns),
    )
    for operation, step, length, leading, count in ways:
        leads = leading if count > 1 else length
        if (step == 1 or length == 1) and length <= leads <= MOST and batch >= 0:
            return Matrix(side.place, side.offset, operation, leads, batch)
    return None


def _at(matrices: _Three, starts: Sequence[int]) -> _Three:
    left, right, target = (one._replace(offset=one.offset + at) for one, at in zip(matrices, starts, strict=True))
    return left, right, target


def _starts(loops: Sequence[tuple[int, tuple[int, ...]]]) -> Iterator[tuple[int, ...]]:
    """Where the matrices of left, right and target begin in each turn of nested loops of (size, steps)."""
    for at in product(*[range(size) for size, _ in loops]):
        yield tuple(
            [sum(number * steps[side] for number, (_, steps) in zip(at, loops, strict=True)) for side in range(3)]
        )
