"""What the fixed kernels compute on any device, against the host's kernels and against numpy.

A module of tests imports these and has a fixture `devices`, the rigs to hold them against.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fuel_async.backends.cpu.kernels import register_cpu_kernels
from fuel_async.backends.grids import borders, matmul, movement, picking, reduce, rows
from fuel_async.dispatch import KernelBindingTable, OpParams
from fuel_async.ir import BackendId, DType, OpKind
from tests.backends.cpu.kernels.conftest import Sample, bound_call, sample_for, strided_copy, values
from tests.backends.grids.calls import EACH, Call
from tests.backends.grids.support import by_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.grids.kernel import GridKernel
    from tests.backends.grids.rig import Array, Rig

KERNELS = by_key(family.kernels() for family in (movement, picking, borders, reduce, rows, matmul))
OPS = sorted({op for op, _ in KERNELS}, key=lambda op: op.value)
#: Ops that move bits or find places: the host's result to the bit.
EXACT = {
    OpKind.Copy, OpKind.Concat, OpKind.Flip, OpKind.Roll, OpKind.WriteSlice, OpKind.WriteSliceDoff,
    OpKind.WriteSliceRotating, OpKind.Gather, OpKind.IndexSelect, OpKind.Pad, OpKind.Triu, OpKind.Tril,
    OpKind.MaskedFill, OpKind.MaxReduce, OpKind.MinReduce, OpKind.ReduceMaxTo, OpKind.ArgMaxDim, OpKind.ArgMinDim,
}  # fmt: skip
#: Of the largest element, for the others.
CLOSE = {DType.F32: 2e-6, DType.F64: 1e-14, DType.BF16: 8e-3, DType.F16: 1e-3, DType.I8: 0.0, DType.U8: 0.0}
F32 = DType.F32


def slow(*values: Any) -> list[Any]:
    """Parameters of tests that compile for longer than they compute."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


@pytest.fixture(scope="module")
def host() -> Callable[..., Any]:
    table = KernelBindingTable()
    register_cpu_kernels(table)
    table.finalize()
    return lambda kernel: table.lookup(kernel.op, kernel.dtypes, BackendId.CPU)


def _agree(kernel: GridKernel, got: Array, expected: Array, where: str) -> None:
    if kernel.op in EXACT:
        assert got.tobytes() == expected.tobytes(), where
        return
    wide = expected.astype(np.float64)
    margin = CLOSE[kernel.dtypes[-1]] * max(1.0, float(np.abs(wide).max(initial=0.0)))
    np.testing.assert_allclose(got.astype(np.float64), wide, rtol=margin, atol=margin, err_msg=where)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.value)
@pytest.mark.parametrize("count", [6, 203])
def test_the_host_computes_the_same(op: OpKind, count: int, devices: list[Rig], host: Callable[..., Any]) -> None:
    rng = np.random.default_rng(count)
    ran = 0
    for kernel in (kernel for (kind, _), kernel in KERNELS.items() if kind is op):
        sample = sample_for(host(kernel), rng, count)
        expected = np.empty(sample.shape, kernel.dtypes[-1].require_np())
        with np.errstate(all="ignore"):
            call, args = bound_call(host(kernel), sample, expected)
            call(*args)
        for rig in devices:
            if rig.can_run(kernel):
                for inputs in (sample.inputs, tuple(map(strided_copy, sample.inputs))):
                    got = rig.run(kernel, inputs, sample.shape, sample.params)
                    _agree(kernel, got, expected, f"{kernel.dtypes} on {rig.name}")
                    ran += 1
    assert ran, "no device runs any of its kernels"


@pytest.mark.parametrize("call", EACH)
def test_large_and_long_operands(call: Call, devices: list[Rig], host: Callable[..., Any]) -> None:
    kernel, rng = KERNELS[call.op, call.dtypes], np.random.default_rng(0)
    inputs = [values(rng, kind, shape) for kind, shape in zip(kernel.operands, call.inputs, strict=False)]
    if call.op is OpKind.FusedSoftmaxCrossEntropy:
        inputs[1] %= call.inputs[0][-1]
    expected = np.empty(call.shape, kernel.dtypes[-1].require_np())
    with np.errstate(all="ignore"):
        function, args = bound_call(host(kernel), Sample(tuple(inputs), call.shape, call.params), expected)
        function(*args)
    for rig in filter(lambda rig: rig.can_run(kernel), devices):
        _agree(kernel, rig.run(kernel, inputs, call.shape, call.params), expected, rig.name)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.value)
def test_the_output_may_be_an_input_where_a_kernel_says_so(
    op: OpKind, devices: list[Rig], host: Callable[..., Any]
) -> None:
    for kernel in (kernel for (kind, _), kernel in KERNELS.items() if kind is op and kernel.caps.in_place):
        sample = sample_for(host(kernel), np.random.default_rng(3), 40)
        same = [
            at
            for at, (array, dtype) in enumerate(zip(sample.inputs, kernel.operands, strict=False))
            if (array.shape, dtype) == (sample.shape, kernel.dtypes[-1])
        ]
        for rig in filter(lambda rig: rig.can_run(kernel), devices):
            expected = rig.run(kernel, sample.inputs, sample.shape, sample.params)
            for over in same:
                got = rig.run(kernel, sample.inputs, sample.shape, sample.params, over=over)
                assert got.tobytes() == expected.tobytes(), (kernel.dtypes, rig.name, over)


class TestReductions:
    """Rows that are long, few, many, or across memory."""

    @pytest.mark.parametrize(
        ("shape", "dims"),
        [
            ((200_003,), (0,)),
            ((3, 20_001, 2), (1,)),
            ((3, 5_001, 2), (0, 2)),
            ((5, 3, 4, 2, 6), (1, 3)),
            ((5, 3, 4, 2, 6), (0, 2, 4)),
            ((2_000, 3), (0,)),
            ((7, 1, 9), ()),
        ],
    )
    def test_any_axes_of_any_length(self, devices: list[Rig], shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        for op, numpy in ((OpKind.SumReduce, np.sum), (OpKind.MeanReduce, np.mean), (OpKind.MaxReduce, np.max)):
            expected = numpy(x.astype(np.float64), axis=dims)
            for rig in devices:
                kernel = KERNELS[op, (F32, F32)]
                got = rig.run(kernel, [x], expected.shape, OpParams.Reduce(dims))
                np.testing.assert_allclose(got, expected, rtol=1e-5, atol=2e-3 if op is OpKind.SumReduce else 1e-6)

    def test_a_grid_that_is_too_long_for_one_axis_goes_on_along_the_next(self, devices: list[Rig]) -> None:
        x = np.random.default_rng(0).normal(size=(3_000, 5)).astype(np.float32)
        for rig in devices:
            tiny = replace(rig.limits, max_groups=(3, 2, 65_535))
            got = rig.run(KERNELS[OpKind.SumReduce, (F32, F32)], [x], (3_000,), OpParams.Reduce((1,)), limits=tiny)
            assert max(rig.dispatches[0].groups[:2]) <= 3
            np.testing.assert_allclose(got, x.sum(1), rtol=1e-5, atol=1e-5)
            copied = rig.run(KERNELS[OpKind.Copy, (F32, F32)], [x.T], (5, 3_000), OpParams.NONE, limits=tiny)
            assert np.array_equal(copied, x.T)

    def test_nothing_sums_to_nothing_and_has_no_mean(self, devices: list[Rig]) -> None:
        empty = np.empty((3, 0), np.float32)
        for rig in devices:
            total = rig.run(KERNELS[OpKind.SumReduce, (F32, F32)], [empty], (3,), OpParams.Reduce((1,)))
            mean = rig.run(KERNELS[OpKind.MeanReduce, (F32, F32)], [empty], (3,), OpParams.Reduce((1,)))
            assert total.tolist() == [0, 0, 0]
            assert not np.signbit(total).any()
            assert np.isnan(mean).all()

    def test_zeros_keep_the_sign_that_all_of_them_have(self, devices: list[Rig]) -> None:
        zeros = np.array([[-0.0, -0.0, -0.0], [-0.0, 0.0, -0.0]], np.float32)
        for rig in devices:
            total = rig.run(KERNELS[OpKind.SumReduce, (F32, F32)], [zeros], (2,), OpParams.Reduce((1,)))
            assert np.signbit(total).tolist() == [True, False], rig.name

    def test_subnormal_numbers_are_told_apart(self, devices: list[Rig]) -> None:
        x = np.array([1e-45, 4e-45, -7e-45, 0.0, -0.0], np.float32)
        for rig in devices:
            largest = rig.run(KERNELS[OpKind.MaxReduce, (F32, F32)], [x], (), OpParams.Reduce((0,)))
            place = rig.run(KERNELS[OpKind.ArgMinDim, (F32, DType.U32)], [x], (), OpParams.Reduce((0,)))
            assert (int(largest.view(np.uint32)), int(place)) == (3, 2), rig.name

    def test_the_first_of_equal_ones_and_the_first_nan_are_found(self, devices: list[Rig]) -> None:
        x = np.zeros((4, 700), np.float32)
        x[0, [300, 650]] = 5
        x[1, [20, 600]] = np.nan
        x[2] = -0.0
        x[2, 10] = 0.0
        x[3, 699] = np.inf
        for rig in devices:
            got = rig.run(KERNELS[OpKind.ArgMaxDim, (F32, DType.U32)], [x], (4,), OpParams.Reduce((1,)))
            assert got.tolist() == [300, 20, 0, 699], rig.name

    def test_of_many_equal_ones_and_of_many_nan_it_is_the_first(self, devices: list[Rig]) -> None:
        rng = np.random.default_rng(0)
        x = rng.integers(0, 3, (60, 700)).astype(np.float32)
        x[::2][rng.random((30, 700)) < 0.01] = np.nan
        for rig in devices:
            for op, places in ((OpKind.ArgMaxDim, x.argmax(1)), (OpKind.ArgMinDim, x.argmin(1))):
                got = rig.run(KERNELS[op, (F32, DType.U32)], [x], (60,), OpParams.Reduce((1,)))
                assert got.tolist() == places.tolist(), rig.name


class TestMatmul:
    def _check(self, devices: list[Rig], dtype: DType, left: Array, right: Array, params: Any, margin: float) -> None:
        share = left.shape[0] // right.shape[0] if left.ndim > 2 else 1
        served = np.repeat(right, share, axis=0) if share > 1 else right
        wide = np.float64 if dtype.is_float else np.int64
        expected = left.astype(wide) @ served.astype(wide)
        if not dtype.is_float:
            limits = np.iinfo(left.dtype)
            expected = expected.clip(limits.min, limits.max)
        kernel = KERNELS[OpKind.MatMul, (dtype,) * 3]
        for rig in filter(lambda rig: rig.can_run(kernel), devices):
            got = rig.run(kernel, [left, right], expected.shape, params)
            np.testing.assert_allclose(got.astype(wide), expected, rtol=0, atol=margin, err_msg=rig.name)

    @pytest.mark.parametrize("size", [(1, 200, 70), (3, 17, 33), (50, 33, 49), (97, 20, 64)])
    @pytest.mark.parametrize("turned", ["", *slow("left", "right")])
    def test_tiles_of_every_shape(self, devices: list[Rig], size: tuple[int, int, int], turned: str) -> None:
        m, k, n = size
        rng = np.random.default_rng(1)
        left, right = rng.normal(size=(m, k)).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32)
        if turned == "left":
            left = np.asfortranarray(left).T.copy().T
        if turned == "right":
            right = right.T.copy().T
        self._check(devices, F32, left, right, OpParams.Matmul((), (), m, n, k), 1e-4)

    def test_query_heads_share_keys(self, devices: list[Rig]) -> None:
        rng = np.random.default_rng(1)
        left, right = rng.normal(size=(6, 5, 8)).astype(np.float32), rng.normal(size=(2, 8, 7)).astype(np.float32)
        self._check(devices, F32, left, right, OpParams.Matmul((6,), (2,), 5, 7, 8), 1e-5)

    @pytest.mark.parametrize("dtype", [F32, DType.F16, DType.F64], ids=str)
    def test_sums_beyond_what_one_invocation_may_walk(self, devices: list[Rig], dtype: DType) -> None:
        # 70,000 steps are more than llvmpipe grants an invocation before it ends loops without a word.
        rng, k = np.random.default_rng(1), 70_000
        left, right = (rng.normal(size=shape).astype(dtype.require_np()) for shape in ((2, k), (k, 3)))
        margin = {F32: 5e-3, DType.F16: 1.0, DType.F64: 1e-9}[dtype]
        self._check(devices, dtype, left, right, OpParams.Matmul((), (), 2, 3, k), margin)

    @pytest.mark.parametrize("dtype", [DType.I8, DType.U8], ids=str)
    def test_integers_are_summed_exactly_and_limited(self, devices: list[Rig], dtype: DType) -> None:
        rng, k = np.random.default_rng(1), 70_000
        limits = np.iinfo(dtype.require_np())
        left = rng.integers(limits.min, limits.max + 1, (9, k)).astype(dtype.require_np())
        right = np.zeros((k, 4), dtype.require_np())
        right[:, 0] = limits.max  # beyond the range of int in between
        right[rng.integers(0, k, 1), 1] = 1  # within the range of the type
        right[:, 2] = np.tile([limits.min + 1, limits.max], k // 2)
        self._check(devices, dtype, left, right, OpParams.Matmul((), (), 9, 4, k), 0.0)


class TestCopies:
    def test_more_axes_than_one_dispatch_knows(self, devices: list[Rig]) -> None:
        x = np.arange(2**9 * 3, dtype=np.float32).reshape((*(2,) * 9, 3))
        turned = x.transpose(9, *range(0, 9, 2), *range(1, 9, 2))[:, ::-1]
        assert turned.ndim == 10
        for rig in devices:
            got = rig.run(KERNELS[OpKind.Copy, (F32, F32)], [turned], turned.shape, OpParams.NONE)
            assert np.array_equal(got, turned), rig.name

    @pytest.mark.parametrize("mode", [0, 1, 2])
    def test_pads_of_many_axes(self, devices: list[Rig], mode: int) -> None:
        x = np.arange(2 * 3 * 4 * 3, dtype=np.float32).reshape(2, 3, 4, 3)
        padding = ((1, 0), (0, 0), (3, 2), (0, 1))
        names: Any = ("constant", "reflect", "edge")
        extra = {"constant_values": 7} if mode == 0 else {}
        expected = np.pad(x, padding, names[mode], **extra)
        params = OpParams.Pad(x.shape, expected.shape, padding, mode, np.float32(7).tobytes())
        for rig in devices:
            got = rig.run(KERNELS[OpKind.Pad, (F32, F32)], [x], expected.shape, params)
            assert np.array_equal(got, expected), rig.name

    @pytest.mark.parametrize("mode", [0, 1, 2])
    def test_the_gradient_of_a_pad_adds_up_what_shows_an_element(self, devices: list[Rig], mode: int) -> None:
        shape, padding = (2, 3, 4, 3), ((1, 1), (0, 0), (3, 2), (2, 1))
        names: Any = ("constant", "reflect", "edge")
        shown = np.pad(
            np.arange(72).reshape(shape), padding, names[mode], **({"constant_values": 72} if not mode else {})
        )
        upstream = np.random.default_rng(0).normal(size=shown.shape).astype(np.float32)
        expected = np.bincount(shown.reshape(-1), upstream.reshape(-1), 73)[:72].reshape(shape)
        params = OpParams.PadBackward(shape, shown.shape, padding, mode)
        for rig in devices:
            for dtype in (F32, DType.F16):
                kernel = KERNELS[OpKind.PadBackward, (dtype, dtype)]
                if rig.can_run(kernel):
                    got = rig.run(kernel, [upstream.astype(dtype.require_np())], shape, params)
                    margin = 1e-5 if dtype is F32 else 2e-2
                    np.testing.assert_allclose(got, expected, rtol=margin, atol=margin, err_msg=rig.name)


class TestIndices:
    @pytest.mark.parametrize("op", [OpKind.Gather, OpKind.ScatterAdd])
    def test_an_index_out_of_range_reads_and_writes_inside(self, devices: list[Rig], op: OpKind) -> None:
        source, index = np.ones((4, 5), np.float32), np.full((4, 5), 2**32 - 1, np.uint32)
        for rig in devices:
            if op is OpKind.Gather:
                params: OpParams = OpParams.Gather((4, 5), (4, 5), 1)
                got = rig.run(KERNELS[op, (F32, DType.U32, F32)], [source, index], (4, 5), params)
                assert (got == 1).all()
            else:
                params = OpParams.ScatterAdd((4, 5), (4, 5), 1)
                got = rig.run(KERNELS[op, (F32, DType.U32, F32, F32)], [source, index, source], (4, 5), params)
                assert np.isfinite(got).all()

    def test_additions_have_the_order_of_the_host(self, devices: list[Rig], host: Callable[..., Any]) -> None:
        rng = np.random.default_rng(2)
        index = rng.integers(0, 3, 66_000).astype(np.uint32)
        source, base = rng.normal(size=(66_000, 2)).astype(np.float32), np.zeros((3, 2), np.float32)
        kernel, params = KERNELS[OpKind.IndexAdd, (F32, DType.U32, F32, F32)], OpParams.IndexAdd(1, 3, 66_000, 2, 0)
        expected = np.zeros((3, 2), np.float32)
        np.add.at(expected, index, source)
        for rig in devices:
            got = rig.run(kernel, [base, index, source], (3, 2), params)
            assert got.tobytes() == expected.tobytes(), rig.name

    @pytest.mark.parametrize("place", [-3, 0, 4, 10, 2**40])
    def test_a_place_out_of_range_writes_inside(self, devices: list[Rig], place: int) -> None:
        kernel = KERNELS[OpKind.WriteSliceDoff, (F32, F32)]
        dest, source = np.zeros((6, 2), np.float32), np.ones((3, 2), np.float32)
        params = OpParams.WriteSliceDoff((6, 2), 0, ((0, 3), (0, 2)))
        first = min(max(place, 0), 3)
        for rig in devices:
            got = rig.run(kernel, [dest, source, np.array(place, np.int64)], (6, 2), params)
            assert got[:, 0].nonzero()[0].tolist() == [first, first + 1, first + 2], rig.name


class TestRows:
    @pytest.mark.parametrize("length", [1, 7, 257, 20_011])
    def test_softmax_of_long_rows(self, devices: list[Rig], length: int) -> None:
        x = np.random.default_rng(0).normal(scale=8, size=(3, length)).astype(np.float32)
        powers = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
        expected = powers / powers.sum(-1, keepdims=True)
        for rig in devices:
            kernel, params = KERNELS[OpKind.SoftmaxLastDim, (F32, F32)], OpParams.SoftmaxLastDim(3, length)
            got = rig.run(kernel, [x], x.shape, params)
            np.testing.assert_allclose(got, expected, rtol=2e-5, err_msg=rig.name)

    @pytest.mark.parametrize("logarithm", [False, True])
    def test_softmax_in_double_precision(self, devices: list[Rig], logarithm: bool) -> None:
        x = np.random.default_rng(0).normal(scale=200, size=(40, 31))
        x[0, :2], x[1] = (700, -700), 0
        shifted = (x - x.max(-1, keepdims=True)).astype(np.longdouble)
        total = np.exp(shifted).sum(-1, keepdims=True)
        expected = shifted - np.log(total) if logarithm else np.exp(shifted) / total
        op = OpKind.LogSoftmaxLastDim if logarithm else OpKind.SoftmaxLastDim
        params = OpParams.LogSoftmaxLastDim(40, 31) if logarithm else OpParams.SoftmaxLastDim(40, 31)
        kernel = KERNELS[op, (DType.F64, DType.F64)]
        able = [rig for rig in devices if rig.can_run(kernel)]
        if not able:
            pytest.skip("no device here computes in float64")
        for rig in able:
            got = rig.run(kernel, [x], x.shape, params)
            assert np.abs(got - expected).max() <= (3e-13 if logarithm else 1e-15)
            normal = expected > 1e-300
            np.testing.assert_allclose(got[normal], expected[normal].astype(float), rtol=2e-15)

    def test_what_is_not_finite_spreads_as_on_the_host(self, devices: list[Rig], host: Callable[..., Any]) -> None:
        x = np.ones((5, 9), np.float32)
        x[0, 3], x[1, 2], x[2, 1], x[4] = np.nan, np.inf, -np.inf, -np.inf
        for op, params in (
            (OpKind.SoftmaxLastDim, OpParams.SoftmaxLastDim(5, 9)),
            (OpKind.LogSoftmaxLastDim, OpParams.LogSoftmaxLastDim(5, 9)),
            (OpKind.LayerNormLastDim, OpParams.NormLastDim(5, 9, 1e-5)),
        ):
            kernel, expected = KERNELS[op, (F32, F32)], np.empty_like(x)
            with np.errstate(all="ignore"):
                call, args = host(kernel).bind([x], [expected], params, _scratch(host(kernel), params, x.shape))
                call(*args)
            for rig in devices:
                got = rig.run(kernel, [x], x.shape, params)
                np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6, err_msg=f"{op} on {rig.name}")

    @pytest.mark.parametrize(("shape", "axis"), [((3, 5_003), 1), ((5_003, 3), 0), ((2, 40, 3), 1)])
    def test_running_sums(self, devices: list[Rig], shape: tuple[int, ...], axis: int) -> None:
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        size, before, after = shape[axis], int(np.prod(shape[:axis])), int(np.prod(shape[axis + 1 :]))
        for rig in devices:
            params = OpParams.CumSum(before, size, after, axis)
            got = rig.run(KERNELS[OpKind.CumSum, (F32, F32)], [x], shape, params)
            np.testing.assert_allclose(got, np.cumsum(x.astype(np.float64), axis), rtol=1e-5, atol=1e-3)

    @pytest.mark.parametrize("reduction", ["mean", *slow("sum", "none")])
    def test_losses_of_many_rows(self, devices: list[Rig], reduction: str) -> None:
        rng, count = np.random.default_rng(0), 33_000
        scores, targets = rng.normal(size=(count, 4)).astype(np.float32), rng.integers(0, 4, count)
        targets[::3] = -100
        wide = scores.astype(np.float64)
        shifted = wide - wide.max(-1, keepdims=True)
        losses = np.log(np.exp(shifted).sum(-1)) - np.take_along_axis(shifted, targets[:, None] % 4, -1)[:, 0]
        losses[targets == -100] = 0
        expected = {"mean": losses.sum() / (targets != -100).sum(), "sum": losses.sum(), "none": losses}[reduction]
        kernel = KERNELS[OpKind.FusedSoftmaxCrossEntropy, (F32, DType.I64, F32)]
        for rig in devices:
            params = OpParams.FusedSoftmaxCrossEntropy(count, 4, reduction, -100)
            got = rig.run(kernel, [scores, targets], np.shape(expected), params)
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5, err_msg=rig.name)


def _scratch(kernel: Any, params: OpParams, shape: Sequence[int]) -> list[Array]:
    return [np.empty(nbytes, np.uint8) for nbytes in kernel.scratch(params, [tuple(shape)], tuple(shape))]
