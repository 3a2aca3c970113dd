"""Kernels of CUDA C and products of cuBLAS on the double."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from fuel_async.testing.cuda_double import uninstall
from fuel_async.testing.cuda_double.cublas import DTYPES, SUMS, SUPPORTED

if TYPE_CHECKING:
    from tests.testing.cuda_double.support import Rig

SCALE = """
struct Push { unsigned n; float by; };
extern "C" __global__ void scale(const float* in, float* out, Push p) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.n) out[i] = in[i] * p.by + OFFSET;
}
extern "C" __global__ void reverse(float* values, int n) {
    extern __shared__ float held[];
    held[threadIdx.x] = values[threadIdx.x];
    __syncthreads();
    values[threadIdx.x] = held[n - 1 - threadIdx.x];
}
"""
PUSH = np.dtype([("n", np.uint32), ("by", np.float32)])
OPTIONS = ("--std=c++17", "-DOFFSET=0.5f")


def test_cuda_c_runs(rig: Rig) -> None:
    stream = rig.stream(1)
    given, result = rig.upload(stream, np.arange(100, dtype=np.float32)), rig.memory(400)
    module = rig.cupy.RawModule(code=SCALE, options=OPTIONS)
    scale, reverse = module.get_function("scale"), module.get_function("reverse")
    push = np.array([(100, 2.0)], PUSH)[0]
    with stream:
        scale((4,), (32,), (given, np.uint64(result.ptr), push))
        reverse((1,), (100,), (result, np.int32(100)), shared_mem=400)
    push["by"] = 3.0  # was read at the launch
    with stream:
        got = rig.cupy.ndarray((100,), np.float32, result).get()
    np.testing.assert_array_equal(got, (np.arange(100) * 2 + 0.5)[::-1])


@pytest.mark.parametrize("shape", [(1,), ()])
def test_a_structure_is_read_at_the_launch(rig: Rig, shape: tuple[int, ...]) -> None:
    stream = rig.stream()
    given, result = rig.upload(stream, np.ones(4, np.float32)), rig.memory(16)
    scale = rig.cupy.RawKernel(SCALE, "scale", OPTIONS)
    scale.compile()
    push = np.zeros(shape, PUSH)
    push["n"], push["by"] = 4, 2.0
    rig.gate(stream)
    with stream:
        scale((1,), (32,), (given, result, push))
    push["by"] = 3.0
    rig.gates.open()
    with stream:
        assert rig.cupy.ndarray((4,), np.float32, result).get().tolist() == [2.5] * 4


def test_what_does_not_compile_has_the_compilers_words(rig: Rig) -> None:
    rig.stream()
    exception = import_module("cupy.cuda.compiler").CompileException
    with pytest.raises(exception, match="nonsense") as caught:
        rig.cupy.RawModule(code='extern "C" __global__ void f() { nonsense; }').get_function("f")
    assert caught.value.source.startswith("extern")


def test_a_function_that_a_module_lacks(rig: Rig) -> None:
    rig.stream()
    module = rig.cupy.RawModule(code=SCALE, options=OPTIONS)
    assert rig.status_of(module.get_function, "no_such") == 500


def test_modules_are_loaded_once_a_device(rig: Rig) -> None:
    module = rig.cupy.RawModule(code=SCALE, options=OPTIONS)
    before = rig.machine.counts().compiles
    for device in (0, 0, 1, 1):
        rig.cupy.cuda.Device(device).use()
        module.get_function("scale")
    assert rig.machine.counts().compiles == before + 2


@pytest.mark.parametrize(
    ("grid", "block", "shared", "status"),
    [
        ((0,), (1,), 0, 9),
        ((1,), (1025,), 0, 9),
        ((1,), (32, 33), 0, 9),
        ((1,), (1, 1, 65), 0, 9),
        ((1, 65536), (1,), 0, 9),
        ((1, 1, 65536), (1,), 0, 9),
        ((1,), (1,), 49153, 1),
        ((2, 3, 4), (8, 16, 8), 49152, 0),
    ],
)
def test_launches_have_limits(rig: Rig, grid: Any, block: Any, shared: int, status: int) -> None:
    stream = rig.stream()

    def launch() -> None:
        rig.launch(stream, "note", 1, grid=grid, block=block, shared=shared)

    assert rig.status_of(launch) == status


def test_sizes_are_tuples(rig: Rig) -> None:
    stream = rig.stream()
    kernel = rig.cupy.RawModule(code="//").get_function("note")
    with stream, pytest.raises(TypeError, match="expected tuple"):
        kernel([1], (1,), (1,))
    with stream, pytest.raises(TypeError, match="expected tuple"):
        kernel((1,), 1, (1,))


def test_a_null_pointer_may_be_given(rig: Rig) -> None:
    stream = rig.stream()
    rig.launch(stream, "note", np.uint64(0))
    stream.synchronize()
    assert rig.noted == [0]


def test_memory_of_another_device_is_out_of_reach(rig: Rig) -> None:
    rig.stream(1)
    memory = rig.memory(8)
    stream = rig.stream(0)
    rig.launch(stream, "note", memory)
    assert rig.status_of(stream.synchronize) == 700


# --- cuBLAS -----------------------------------------------------------------------------------------------------------


class Blas:
    """A handle on a stream, and products of row-major matrices, as column-major ones of their transposes."""

    def __init__(self, rig: Rig, device: int = 0) -> None:
        self.rig, self.stream = rig, rig.stream(device)
        self.cublas = rig.cupy.cuda.cublas
        self.handle = self.cublas.create()
        self.cublas.setStream(self.handle, self.stream.ptr)

    def matmul(self, a: Any, b: Any, kinds: tuple[int, int], compute: int, **scalars: Any) -> Any:
        """`alpha` a @ b + `beta` `c` for batches of matrices."""
        count, m, k = a.shape
        n = b.shape[2]
        c = np.asarray(scalars.get("c", np.zeros((count, m, n))), DTYPES[kinds[1]])
        held = [self.rig.upload(self.stream, matrix) for matrix in (a, b, c)]
        alpha, beta = (
            np.array(scalars.get(name, default), SUMS[compute]) for name, default in (("alpha", 1), ("beta", 0))
        )
        self.cublas.gemmStridedBatchedEx(
            self.handle, 0, 0, n, m, k, alpha.ctypes.data, held[1].ptr, kinds[0], n, n * k, held[0].ptr, kinds[0], k,
            k * m, beta.ctypes.data, held[2].ptr, kinds[1], n, n * m, count, compute, -1,
        )  # fmt: skip
        pinned, result = self.rig.pinned(c)
        self.rig.runtime.memcpyAsync(pinned.ptr, held[2].ptr, result.nbytes, 2, self.stream.ptr)
        self.stream.synchronize()
        return result

    def close(self) -> None:
        self.cublas.destroy(self.handle)


@pytest.mark.parametrize(("kind", "out", "compute"), sorted(SUPPORTED))
def test_products(rig: Rig, kind: int, out: int, compute: int) -> None:
    blas, draw = Blas(rig), np.random.default_rng(0)
    a, b = (draw.integers(-4, 5, shape).astype(DTYPES[kind]) for shape in ((3, 5, 7), (3, 7, 4)))
    c = draw.integers(-4, 5, (3, 5, 4)).astype(DTYPES[out])
    got = blas.matmul(a, b, (kind, out), compute, alpha=2, beta=-1, c=c)
    wanted = 2 * np.matmul(a.astype(np.float64), b.astype(np.float64)) - c.astype(np.float64)
    np.testing.assert_array_equal(got.astype(np.float64), wanted)
    blas.close()


def test_factors_are_transposed_as_told(rig: Rig) -> None:
    blas, draw = Blas(rig), np.random.default_rng(0)
    m, n, k = 3, 4, 5
    sides = {0: (m, k), 1: (k, m)}, {0: (k, n), 1: (n, k)}
    one, zero = np.array(1, np.float32), np.array(0, np.float32)
    for op_a in (0, 1):
        for op_b in (0, 1):
            a, b = (
                draw.integers(-9, 9, side[op]).astype(np.float32) for side, op in zip(sides, (op_a, op_b), strict=True)
            )
            held = [rig.upload(blas.stream, np.asfortranarray(each).ravel("K")) for each in (a, b)]
            result = rig.memory(4 * m * n)
            blas.cublas.sgemm(
                blas.handle, op_a, op_b, m, n, k, one.ctypes.data, held[0].ptr, a.shape[0], held[1].ptr, b.shape[0],
                zero.ctypes.data, result.ptr, m,
            )  # fmt: skip
            with blas.stream:
                got = rig.cupy.ndarray((n, m), np.float32, result).get().T
            np.testing.assert_array_equal(got, (a.T if op_a else a) @ (b.T if op_b else b))
    blas.close()


def test_what_was_there_is_not_read_when_beta_is_zero(rig: Rig) -> None:
    blas = Blas(rig)
    a = np.ones((1, 2, 2), np.float64)
    got = blas.matmul(a, a, (1, 1), 70, c=np.full((1, 2, 2), np.nan))
    assert got.tolist() == [[[2, 2], [2, 2]]]
    blas.close()


def test_wide_sums_of_narrow_factors(rig: Rig) -> None:
    blas = Blas(rig)
    a, b = np.ones((1, 1, 4096), np.float16), np.ones((1, 4096, 1), np.float16)
    assert blas.matmul(a, b, (2, 2), 68).item() == 4096
    c = np.ones((1, 1, 4096), ml_dtypes.bfloat16)
    assert blas.matmul(c, c.transpose(0, 2, 1).copy(), (14, 0), 68).item() == 4096
    blas.close()


def test_tf32_is_used_only_where_it_is_allowed(rig: Rig) -> None:
    blas = Blas(rig)
    a, b = np.full((1, 1, 1), 1 + 2**-12, np.float32), np.ones((1, 1, 1), np.float32)
    assert blas.matmul(a, b, (0, 0), 68).item() == 1 + 2**-12
    assert blas.matmul(a, b, (0, 0), 77).item() == 1
    blas.cublas.setMathMode(blas.handle, 3)
    assert blas.cublas.getMathMode(blas.handle) == 3
    assert blas.matmul(a, b, (0, 0), 68).item() == 1
    assert blas.matmul(a, b, (0, 0), 69).item() == 1 + 2**-12
    blas.close()


def test_products_keep_the_rules_of_streams_and_memory(rig: Rig) -> None:
    blas = Blas(rig)
    error = blas.cublas.CUBLASError
    of_other = rig.stream(1)
    with pytest.raises(error):
        blas.cublas.setStream(blas.handle, of_other.ptr)
    one, zero = np.array(1, np.float32), np.array(0, np.float32)
    rig.cupy.cuda.Device(0).use()
    memory = rig.memory(16)

    def product(ld: int = 2, address: int = memory.ptr) -> None:
        args = (one.ctypes.data, address, ld, memory.ptr, 2, zero.ctypes.data, memory.ptr, 2)
        blas.cublas.sgemm(blas.handle, 0, 0, 2, 2, 2, *args)

    with pytest.raises(error):
        product(ld=1)
    with pytest.raises(error):
        blas.cublas.setPointerMode(blas.handle, 1)
    rig.cupy.cuda.Device(1).use()
    assert rig.status_of(product) == 400
    rig.cupy.cuda.Device(0).use()
    product()
    blas.stream.synchronize()
    product(address=memory.ptr + 8)  # runs over the end
    assert rig.status_of(blas.stream.synchronize) == 700
    handle = blas.handle
    blas.close()
    with pytest.raises(error):
        blas.cublas.getStream(handle)


def test_products_are_captured(rig: Rig) -> None:
    blas = Blas(rig)
    values = rig.upload(blas.stream, np.array([2], np.float32))
    result, one, zero = rig.memory(4), np.array(1, np.float32), np.array(0, np.float32)
    blas.stream.begin_capture(1)
    args = (one.ctypes.data, values.ptr, 1, values.ptr, 1, zero.ctypes.data, result.ptr, 1)
    blas.cublas.sgemm(blas.handle, 0, 0, 1, 1, 1, *args)
    graph = blas.stream.end_capture()
    one[...] = 100  # was read when it was captured
    graph.launch(blas.stream)
    with blas.stream:
        assert rig.cupy.ndarray((1,), np.float32, result).get().tolist() == [4]
    blas.close()


def test_a_handle_works_on_the_legacy_stream_unless_told(rig: Rig) -> None:
    rig.stream()
    handle = rig.cupy.cuda.cublas.create()
    assert rig.cupy.cuda.cublas.getStream(handle) == 0
    rig.cupy.cuda.cublas.destroy(handle)
    uninstall()
