"""CUDA C on the CPU: launches, barriers, shared memory, halves to the bit, and what is refused."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from fuel_async.errors import UserError
from fuel_async.testing.cuda_double import compiling
from fuel_async.testing.cuda_double.compiling import (
    BarrierDiverged,
    CompilationFailed,
    Function,
    compile_many,
    compiled,
)
from tests.backends.cuda.demands import needs_compiler

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

pytestmark = needs_compiler

U32 = np.uint32


def kernel(code: str, *options: str, name: str = "kernel_main") -> Function:
    return compiled(code, options).function(name)


def at(array: npt.NDArray[Any]) -> int:
    return int(array.ctypes.data)


SCALE = """
struct Push { unsigned int count, factor; };
extern "C" __global__ void __launch_bounds__(128) kernel_main(const float *__restrict__ x, float *y, Push p) {
    unsigned int i = ((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < p.count) {
        y[i] = x[i] * (float)p.factor + PLUS;
    }
}
"""


def test_all_threads_of_all_blocks_run() -> None:
    x, y = np.arange(1_000, dtype=np.float32), np.zeros(1_000, np.float32)
    scale = kernel(SCALE, "-DPLUS=1", "--std=c++17")
    assert scale.sizes == (8, 8, 8)
    scale((2, 2, 2), (128,), (at(x), at(y), np.array([999, 3], U32).tobytes()))
    assert np.array_equal(y[:999], x[:999] * 3 + 1)
    assert y[999] == 0


def test_programs_that_are_compiled_together_are_those_that_are_compiled_alone() -> None:
    together = compile_many([(SCALE, [f"-DPLUS={plus}"]) for plus in range(20)])
    x = np.ones(1, np.float32)
    for plus, program in enumerate(together):
        y = np.zeros(1, np.float32)
        program.function("kernel_main")((1,), (1,), (at(x), at(y), np.array([1, 1], U32).tobytes()))
        assert y[0] == 1 + plus
    assert compiled(SCALE, ["-DPLUS=3"]) is together[3]


def test_a_kernel_may_be_written_for_either_of_two_macros() -> None:
    code = """
    #ifdef TWO
    extern "C" __global__ void kernel_main(int *a, int *b) {
        *b = 2;
    #else
    extern "C" __global__ void kernel_main(int *a) {
    #endif
        *a = 1;
    }
    """
    assert kernel(code).sizes == (8,)
    assert kernel(code, "-DTWO").sizes == (8, 8)


SUM = """
extern "C" __global__ void kernel_main(const float *x, float *sums, unsigned int count) {
    extern __shared__ float dynamic[];
    __shared__ float fixed[64];
    unsigned int me = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    fixed[me] = 0;
    for (unsigned int i = me; i < count; i += threads) {
        fixed[me] += x[blockIdx.x * count + i];
    }
    dynamic[me] = fixed[me];
    __syncthreads();
    for (unsigned int reach = threads / 2; reach > 0; reach /= 2) {
        if (me < reach) {
            fixed[me] += fixed[me + reach];
        }
        float other = me < reach ? dynamic[me + reach] : 0;
        __syncthreads();
        dynamic[me] += other;
        __syncthreads();
    }
    if (me == 0) {
        sums[2 * blockIdx.x] = fixed[0];
        sums[2 * blockIdx.x + 1] = dynamic[0];
    }
}
"""


def check_sums(function: Function) -> None:
    x, sums = np.arange(300, dtype=np.float32).reshape(3, 100), np.zeros((3, 2), np.float32)
    function((3,), (16, 4), (at(x), at(sums), U32(100)), 4 * 64)
    assert np.array_equal(sums, np.repeat(x.sum(1)[:, None], 2, 1))


def test_threads_of_a_block_meet_at_barriers() -> None:
    check_sums(kernel(SUM))


def test_barriers_on_machines_without_a_switch_of_their_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compiling, "_FLAGS", (*compiling._FLAGS, "-DFUEL_PORTABLE"))
    monkeypatch.setattr(compiling, "cache_folder", lambda: tmp_path)
    check_sums(kernel(f"// portable\n{SUM}"))


def test_several_threads_launch_one_kernel_at_once() -> None:
    function, failed = kernel(SUM), []

    def launch() -> None:
        try:
            for _ in range(20):
                check_sums(function)
        except AssertionError as error:
            failed.append(error)

    threads = [threading.Thread(target=launch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_a_missing_barrier_shows() -> None:
    # Whichever way threads are ordered between two barriers, one of the two neighbours has not written yet.
    code = """
    extern "C" __global__ void kernel_main(int *out) {
        __shared__ int value[32];
        value[threadIdx.x] = -1;
        __syncthreads();
        value[threadIdx.x] = (int)threadIdx.x;
        out[threadIdx.x] = value[threadIdx.x ^ 1];
        __syncthreads();
    }
    """
    out = np.zeros(32, np.int32)
    kernel(code)((1,), (32,), (at(out),))
    assert (out == -1).sum() == 16


@pytest.mark.parametrize(
    "body",
    [
        "if (threadIdx.x < 3) { __syncthreads(); }",
        "if (threadIdx.x < 3) { __syncthreads(); }\n else { __syncthreads(); }",
        "for (unsigned int i = 0; i < threadIdx.x; i++) { __syncthreads(); }",
    ],
)
def test_barriers_that_not_all_threads_come_to_are_an_error(body: str) -> None:
    with pytest.raises(BarrierDiverged, match="kernel_main"):
        kernel(f'extern "C" __global__ void kernel_main() {{ {body} }}')((1,), (8,), ())


def test_shared_memory_is_not_zero_at_first() -> None:
    code = """
    extern "C" __global__ void kernel_main(unsigned int *out) {
        extern __shared__ __align__(16) unsigned int raw[];
        out[blockIdx.x] = raw[0];
        raw[0] = 0;
    }
    """
    out = np.zeros(2, U32)
    kernel(code)((2,), (1,), (at(out),), 16)
    assert out.tolist() == [2**32 - 1] * 2


def test_atomic_functions_lose_nothing() -> None:
    code = """
    extern "C" __global__ void kernel_main(unsigned int *whole, float *real, double *wide, int *most) {
        atomicAdd(whole, 1u);
        atomicAdd(real, 0.5f);
        atomicAdd(wide, 0.25);
        atomicMax(most, (int)threadIdx.x);
    }
    """
    whole, real, wide, most = np.zeros(1, U32), np.zeros(1, np.float32), np.zeros(1), np.array([-5], np.int32)
    function = kernel(code)
    threads = [
        threading.Thread(target=function, args=((100,), (64,), (at(whole), at(real), at(wide), at(most))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    count = 4 * 100 * 64
    assert (whole[0], real[0], wide[0], most[0]) == (count, count / 2, count / 4, 63)


# --- numbers ----------------------------------------------------------------------------------------------------------

CONVERT = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void kernel_main(const float *x, HALF *narrow, const HALF *y, float *wide, unsigned int count) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        narrow[i] = FROM(x[i]);
        wide[i] = TO(y[i]);
    }
}
"""
HALVES = {
    "f16": (np.dtype(np.float16), ("-DHALF=__half", "-DFROM=__float2half_rn", "-DTO=__half2float")),
    "bf16": (
        np.dtype(ml_dtypes.bfloat16),
        ("-DHALF=__nv_bfloat16", "-DFROM=__float2bfloat16_rn", "-DTO=__bfloat162float"),
    ),
}


def floats_around(dtype: np.dtype[Any]) -> npt.NDArray[np.float32]:
    """Every number of a half type, the points midway, and what lies one unit beside those."""
    with np.errstate(over="ignore", invalid="ignore"):
        every = np.arange(2**16, dtype=np.uint16).view(dtype).astype(np.float64)
        finite = np.sort(every[np.isfinite(every)])
        middle = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
        beside = [np.nextafter(middle, np.float32(way)) for way in (np.inf, -np.inf)]
        edges = np.array([np.inf, -np.inf, np.nan, 65519.99, 65520, 1e38, 3.4e38, 1e-45], np.float32)
        return np.concatenate([every.astype(np.float32), middle, *beside, edges])


@pytest.mark.parametrize("name", HALVES)
def test_halves_are_rounded_to_the_bit(name: str) -> None:
    dtype, options = HALVES[name]
    x = floats_around(dtype)
    narrow = np.zeros(len(x), np.uint16)
    y = np.resize(np.arange(2**16, dtype=np.uint16), len(x))
    wide = np.zeros(len(x), np.float32)
    kernel(CONVERT, *options)((-(-len(x) // 256),), (256,), (at(x), at(narrow), at(y), at(wide), U32(len(x))))
    with np.errstate(over="ignore", invalid="ignore"):
        expected, widened = x.astype(dtype).view(np.uint16), y.view(dtype).astype(np.float32)
    known = ~np.isnan(x)
    assert np.array_equal(narrow[known], expected[known])
    assert (narrow[~known] == 0x7FFF).all()
    np.testing.assert_array_equal(wide, widened)
    numbers = ~np.isnan(widened)
    assert np.array_equal(wide[numbers].view(U32), widened[numbers].view(U32)), "signs of zero"


@pytest.mark.parametrize("name", HALVES)
def test_arithmetic_of_halves_is_rounded_once(name: str) -> None:
    dtype, options = HALVES[name]
    code = """
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    extern "C" __global__ void kernel_main(const HALF *a, const HALF *b, HALF *out, unsigned int count) {
        unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < count) {
            out[i] = a[i] + b[i];
            out[count + i] = a[i] - b[i];
            out[2 * count + i] = a[i] * b[i];
            out[3 * count + i] = a[i] / b[i];
        }
    }
    """
    rng, count = np.random.default_rng(0), 50_000
    a, b = (rng.integers(0, 2**16, count).astype(np.uint16) for _ in range(2))
    out = np.zeros((4, count), np.uint16)
    kernel(code, options[0])((-(-count // 256),), (256,), (at(a), at(b), at(out), U32(count)))
    with np.errstate(all="ignore"):
        x, y = (each.view(dtype).astype(np.float64) for each in (a, b))
        # A double holds products of halves, and is wide enough for its rounding of the others not to matter.
        exact = np.stack([x + y, x - y, x * y, x / y])
        expected = exact.astype(dtype)
    got = out.view(dtype)
    numbers = ~np.isnan(expected.astype(np.float64))
    assert np.array_equal(got.view(np.uint16)[numbers], expected.view(np.uint16)[numbers])
    assert np.isnan(got[~numbers].astype(np.float64)).all()


def test_doubles_become_halves_in_one_rounding() -> None:
    code = """
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    extern "C" __global__ void kernel_main(const double *x, __half *half, __nv_bfloat16 *brain, unsigned int count) {
        unsigned int i = threadIdx.x;
        if (i < count) {
            half[i] = __double2half(x[i]);
            brain[i] = __double2bfloat16(x[i]);
        }
    }
    """
    # Just beside ties, by less than a float can tell, and the ties.
    ties = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-9, 1 + 3 * 2.0**-9, 5 * 2.0**-25, 65520.0])
    x = np.concatenate([ties, ties * (1 + 1e-12), ties * (1 - 1e-12), -ties * (1 + 1e-12), [0.0, -0.0, 1e300, np.inf]])
    half, brain = np.zeros(len(x), np.float16), np.zeros(len(x), ml_dtypes.bfloat16)
    kernel(code)((1,), (64,), (at(x), at(half), int(brain.view(np.uint16).ctypes.data), U32(len(x))))
    with np.errstate(over="ignore"):
        assert half.tobytes() == x.astype(np.float16).tobytes()
    finite = (x != 0) & (np.abs(x) < 1e38)
    spacing = 2.0 ** (np.floor(np.log2(np.abs(x[finite]))) - 7)
    assert np.array_equal(brain[finite].astype(np.float64), np.round(x[finite] / spacing) * spacing)
    assert brain[~finite].astype(np.float64).tolist() == [0.0, -0.0, np.inf, np.inf]


def test_whole_numbers_saturate() -> None:
    code = """
    extern "C" __global__ void kernel_main(const double *x, int *a, unsigned int *b, long long *c, float *d, int *e) {
        unsigned int i = threadIdx.x;
        a[i] = __double2int_rz(x[i]);
        b[i] = __double2uint_rz(x[i]);
        c[i] = __double2ll_rn(x[i]);
        d[i] = (float)x[i];
        e[i] = __float2int_rz(d[i]);
    }
    """
    x = np.array([1.9, -1.9, 3e9, -3e9, 1e19, -1e19, np.inf, -np.inf, np.nan, 2.5])
    a, b, c, d, e = (np.zeros(len(x), kind) for kind in (np.int32, U32, np.int64, np.float32, np.int32))
    kernel(code)((1,), (len(x),), tuple(map(at, (x, a, b, c, d, e))))
    least, most = -(2**31), 2**31 - 1
    assert a.tolist() == [1, -1, most, least, most, least, most, least, least, 2]
    assert b.tolist() == [1, 0, 3_000_000_000, 0, 2**32 - 1, 0, 2**32 - 1, 0, 2**31, 2]
    assert c.tolist() == [2, -2, 3 * 10**9, -3 * 10**9, *[2**63 - 1, -(2**63)] * 2, -(2**63), 2]
    assert e.tolist() == [1, -1, most, least, most, least, most, least, 0, 2]


def test_products_and_sums_are_rounded_apart_and_subnormal_numbers_stay() -> None:
    code = """
    extern "C" __global__ void kernel_main(const float *x, float *out) {
        out[0] = x[0] * x[1] + x[2];
        out[1] = x[3] / x[4];
        out[2] = fmaf(x[0], x[1], x[2]);
    }
    """
    x = np.array([1 + 2.0**-12, 1 + 2.0**-12, -1 - 2.0**-11, 1e-38, 1e3], np.float32)
    out = np.zeros(3, np.float32)
    kernel(code)((1,), (1,), (at(x), at(out)))
    assert out.tolist() == [0.0, float(x[3] / x[4]), 2.0**-24]


# --- what is refused --------------------------------------------------------------------------------------------------


def test_what_does_not_compile_is_told_with_its_line() -> None:
    code = 'extern "C" __global__ void kernel_main(float *x) {\n    x[0] = nothing;\n}'
    with pytest.raises(CompilationFailed) as caught:
        compile_many([(SCALE, ["-DPLUS=77"]), (code, [])])
    assert "kernel.cu:2" in caught.value.log
    assert caught.value.code == code


@pytest.mark.parametrize("word", ["__shfl_down_sync(~0u, 1, 1)", "__syncwarp()", "(uint32_t)1", "__expf(1.0f)"])
def test_names_that_are_not_for_kernels_here_do_not_compile(word: str) -> None:
    with pytest.raises(CompilationFailed):
        compiled(f'extern "C" __global__ void kernel_main() {{ {word}; }}')


@pytest.mark.parametrize(
    ("grid", "block", "args", "shared"),
    [
        ((1,), (1,), (0, 0), 0),
        ((1,), (1,), (0, 0, U32(0), 0), 0),
        ((1,), (1,), (0, 0, np.uint64(0)), 0),
        ((0,), (1,), (0, 0, U32(0)), 0),
        ((1, 65_536), (1,), (0, 0, U32(0)), 0),
        ((1,), (1_025,), (0, 0, U32(0)), 0),
        ((1,), (64, 32), (0, 0, U32(0)), 0),
        ((1,), (1,), (0, 0, U32(0)), 2**20),
        ((), (1,), (0, 0, U32(0)), 0),
    ],
)
def test_launches_that_no_device_takes_are_refused(grid: Any, block: Any, args: Any, shared: int) -> None:
    with pytest.raises(UserError):
        kernel(SUM)(grid, block, args, shared)


def test_options_that_are_not_known_are_refused() -> None:
    with pytest.raises(UserError, match="fast"):
        compiled(SCALE, ["--use_fast_math"])


def test_folders_of_headers_are_taken_and_not_looked_into() -> None:
    assert compiled(SUM, ["-I/somewhere/else", "--include-path=/nowhere"]).names == compiled(SUM).names


def test_what_is_compiled_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compiling, "cache_folder", lambda: tmp_path)
    code = f"// kept\n{SCALE}"
    compiled(code, ["-DPLUS=2"])
    (library,) = tmp_path.iterdir()
    written = library.stat().st_mtime_ns
    compiling._program.cache_clear()
    compiled(code, ["-DPLUS=2"])
    assert [*tmp_path.iterdir()] == [library]
    assert library.stat().st_mtime_ns == written
    assert ctypes.CDLL(str(library))
