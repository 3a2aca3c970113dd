"""CUDA C on the CPU as a device for tests of single kernels."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from fuel_async.backends.cuda.blas import Handle, arguments
from fuel_async.backends.cuda.kernels.code import ENTRY, code_of
from fuel_async.backends.cuda.kernels.gemm import CUBLAS, Gemm
from fuel_async.backends.grids.elementwise import CIRCULAR_DOUBLE
from fuel_async.backends.grids.kernel import Limits
from fuel_async.testing.cuda_double.compiling import compiled
from tests.backends.grids.rig import Array, Rig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.grids.kernel import Dispatch
    from fuel_async.backends.grids.operands import Bound

#: What CUDA devices have, as far as kernels care.
LIMITS = Limits(
    max_invocations=256,
    max_groups=(2**31 - 1, 65_535, 65_535),
    shared_nbytes=49_152,
    subgroup=32,
    features=frozenset({"float64", "float16", "int8_storage", "int16_storage", "int64", CIRCULAR_DOUBLE, CUBLAS}),
    max_range_nbytes=1 << 32,
)
#: Where allocations begin. Operands begin anywhere that suits their elements.
ALLOCATED, ALIGNMENT = 256, 16


class HostBlas:
    """cuBLAS over the host's memory, as far as products call it. Matrices are column by column."""

    #: Elements, by cudaDataType; and in what is summed, by cublasComputeType.
    ELEMENTS = {
        0: np.dtype(np.float32),
        1: np.dtype(np.float64),
        2: np.dtype(np.float16),
        14: np.dtype(ml_dtypes.bfloat16),
    }
    SUMS = {68: np.float32, 69: np.float32, 70: np.float64}

    def create(self) -> int:
        return 7

    def destroy(self, handle: int) -> None:
        assert handle == 7

    def setStream(self, handle: int, stream: int) -> None:
        assert handle == 7

    def setMathMode(self, handle: int, mode: int) -> None:
        assert mode == 16

    def gemmStridedBatchedEx(self, handle: int, op_a: int, op_b: int, m: int, n: int, k: int, *rest: int) -> None:
        alpha, a, kind_a, lda, step_a, b, kind_b, ldb, step_b, beta, c, kind, ldc, step, count, compute, _ = rest
        assert (handle, kind_a, kind_b) == (7, kind, kind)
        assert lda >= (k if op_a else m)
        assert ldb >= (n if op_b else k)
        assert ldc >= m
        sums, element = np.dtype(self.SUMS[compute]), np.dtype(self.ELEMENTS[kind])
        one, zero = (float(_lying_at(at, sums, (1,), (0,))[0]) for at in (alpha, beta))
        left = _lying_at(a, element, (count, m, k), (step_a, lda, 1) if op_a else (step_a, 1, lda))
        right = _lying_at(b, element, (count, k, n), (step_b, ldb, 1) if op_b else (step_b, 1, ldb))
        target = _lying_at(c, element, (count, m, n), (step, 1, ldc))
        found = one * np.matmul(left.astype(sums), right.astype(sums))
        target[...] = found + zero * target.astype(sums) if zero else found


def _lying_at(address: int, kind: np.dtype[Any], shape: tuple[int, ...], steps: tuple[int, ...]) -> Array:
    """An array over what lies at an address, by strides in elements."""
    count = 1 + sum((size - 1) * step for size, step in zip(shape, steps, strict=True))
    memory: Any = (ctypes.c_ubyte * (count * kind.itemsize)).from_address(address)
    strides = [step * kind.itemsize for step in steps]
    return np.lib.stride_tricks.as_strided(np.frombuffer(memory, kind), shape, strides)


class SourceRig(Rig):
    """The host as a device of CUDA C."""

    def __init__(self) -> None:
        super().__init__("g++", LIMITS, ALIGNMENT)
        self._blas = HostBlas()
        self._handle = Handle(self._blas, 0)

    def hold(self, raw: Array) -> Array:
        room = np.empty(len(raw) + 2 * ALLOCATED, np.uint8)
        start = -int(room.ctypes.data) % ALLOCATED
        room[start : start + len(raw)] = raw
        return room[start : start + len(raw)]

    def read(self, held: Array) -> Array:
        return held

    def play(self, operands: Sequence[Bound], held: Sequence[Array]) -> None:
        steps: Sequence[Any] = self.dispatches
        for step in steps:
            run = self._multiply if isinstance(step, Gemm) else self._launch
            run(step, operands, held)

    def _multiply(self, gemm: Gemm, operands: Sequence[Bound], held: Sequence[Array]) -> None:
        addresses = [int(held[one.space[1]].ctypes.data) + one.start for one in operands]
        self._blas.gemmStridedBatchedEx(self._handle.number, *arguments(gemm, addresses.__getitem__))

    def _launch(self, dispatch: Dispatch, operands: Sequence[Bound], held: Sequence[Array]) -> None:
        shader = dispatch.shader
        function = compiled(*code_of(shader)).function(ENTRY)
        words = [dispatch.push] if dispatch.push else []
        assert function.sizes == (*[8] * shader.bindings, *map(len, words)), "the words pushed are not the kernel's"
        seen = [operands[place] for place in dispatch.operands]
        pointers = [int(held[one.space[1]].ctypes.data) + one.start for one in seen]
        function(dispatch.groups, (shader.threads,), [*pointers, *words])
