"""Plans of the fixed kernels, looked at without a device: what is pushed, how far grids go, what is left out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fuel_async.backends.cpu.kernels import register_cpu_kernels
from fuel_async.backends.grids import borders, matmul, movement, picking, reduce, rows
from fuel_async.backends.grids.catalog import LOCAL, MODULES
from fuel_async.backends.grids.folds import chunks_of
from fuel_async.backends.grids.grids import (
    ITERATIONS,
    PUSH_NBYTES,
    folded,
    grid,
    lanes_for,
    push,
    row_major,
)
from fuel_async.backends.grids.kernel import GridKernel, Limits, Operand
from fuel_async.dispatch import KernelBindingTable, OpParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import BackendId, DType, OpKind
from tests.backends.cpu.kernels.conftest import sample_for
from tests.backends.grids.calls import CALLS
from tests.backends.grids.support import LIMITS, by_key

if TYPE_CHECKING:
    from collections.abc import Sequence

FAMILIES = (movement, picking, borders, reduce, rows, matmul)
KERNELS = by_key(family.kernels() for family in FAMILIES)
F32 = DType.F32


def _host() -> KernelBindingTable:
    made = KernelBindingTable()
    register_cpu_kernels(made)
    return made.finalize()


HOST = _host()
every_kernel = pytest.mark.parametrize(
    "kernel", KERNELS.values(), ids=lambda kernel: f"{kernel.op.value}-{'-'.join(map(str, kernel.dtypes))}"
)


def operand(dtype: DType, *shape: int) -> Operand:
    return Operand(dtype, shape, row_major(shape), 0)


def planned(kernel: GridKernel, shapes: Sequence[Any], params: OpParams, limits: Limits = LIMITS) -> Any:
    """The plan over row-major operands, inputs then output, of those shapes."""
    kinds = [kernel.dtypes[0]] * (len(shapes) - 1) if kernel.variadic else kernel.operands[:-1]
    views = [operand(kind, *shape) for kind, shape in zip((*kinds, kernel.dtypes[-1]), shapes, strict=True)]
    scratch = kernel.scratch(params, shapes[:-1], shapes[-1])
    return kernel.dispatches([*views, *[operand(DType.U8, nbytes) for nbytes in scratch]], params, limits)


def sampled(kernel: GridKernel, rows: int) -> tuple[list[Any], OpParams]:
    """The shapes of a sample call, inputs then output, and its parameters."""
    host: Any = HOST.lookup(kernel.op, kernel.dtypes, BackendId.CPU)
    found = sample_for(host, np.random.default_rng(7), rows)
    return [*[array.shape for array in found.inputs], found.shape], found.params


@every_kernel
def test_a_plan_fits_what_every_device_has(kernel: GridKernel) -> None:
    for count in (6, 40_000):
        shapes, params = sampled(kernel, count)
        dispatches = planned(kernel, shapes, params)
        assert dispatches
        places = len(shapes) + len(kernel.scratch(params, shapes[:-1], shapes[-1]))
        for dispatch in dispatches:
            shader = dispatch.shader
            assert len(dispatch.push) == shader.push_nbytes <= PUSH_NBYTES
            assert shader.bindings == len(dispatch.operands)
            assert shader.needs <= kernel.needs
            assert all(0 < groups <= most for groups, most in zip(dispatch.groups, LIMITS.max_groups, strict=True))
            assert {*dispatch.reads, *dispatch.writes} == set(dispatch.operands) <= set(range(places))
            assert not set(dispatch.writes) & set(range(len(shapes) - 1)), "an input is written"
        written = {place for dispatch in dispatches for place in dispatch.writes}
        assert len(shapes) - 1 in written, "the output is not written"


@pytest.mark.slow
def test_every_module_of_the_catalog_is_in_some_plan() -> None:
    asked = [(kernel, *sampled(kernel, rows)) for kernel in KERNELS.values() for rows in (6, 40_000)]
    asked += [(KERNELS[call.op, call.dtypes], [*call.inputs, call.shape], call.params) for call in CALLS]
    names = {found.shader.name for asking in asked for found in planned(*asking)}
    assert names == set(MODULES)


@every_kernel
def test_a_plan_is_a_function_of_its_arguments(kernel: GridKernel) -> None:
    shapes, params = sampled(kernel, 6)
    assert planned(kernel, shapes, params) == planned(kernel, shapes, params)


#: Kernels whose sample gets empty with its rows.
EMPTIED = [
    kernel
    for kernel in KERNELS.values()
    if kernel.op
    not in {
        OpKind.FusedSoftmaxCrossEntropy, OpKind.IndexSelect, OpKind.Pad, OpKind.PadBackward, OpKind.ReduceMaxTo,
        OpKind.WriteSlice, OpKind.WriteSliceDoff, OpKind.WriteSliceRotating,
    }
]  # fmt: skip


@pytest.mark.parametrize("kernel", EMPTIED, ids=lambda kernel: f"{kernel.op.value}-{kernel.dtypes[0]}")
def test_an_empty_output_needs_nothing(kernel: GridKernel) -> None:
    assert not planned(kernel, *sampled_empty(kernel, *sampled(kernel, 6)))


def sampled_empty(kernel: GridKernel, shapes: list[Any], params: Any) -> tuple[list[Any], Any]:
    """The sample with no rows."""

    def without(shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([0 if size == 6 else size for size in shape])

    changes: dict[str, Any] = {
        name: 0 for name in ("outer_count", "batch_count", "m", "rows", "seq") if getattr(params, name, None) == 6
    }
    for name in ("input_shape", "output_shape", "source_shape", "base_shape", "src_shape"):
        if hasattr(params, name):
            changes[name] = without(getattr(params, name))
    return [without(shape) for shape in shapes], replace(params, **changes)


@every_kernel
def test_other_parameters_and_shapes_are_refused(kernel: GridKernel) -> None:
    shapes, params = sampled(kernel, 6)
    operands = [operand(kind, *shape) for kind, shape in zip(kernel.operands, shapes, strict=False)]
    with pytest.raises(KernelArgumentError, match=kernel.op.value):
        kernel.dispatches(operands, OpParams.Given(()), LIMITS)
    with pytest.raises(KernelArgumentError):
        kernel.dispatches([operand(F32, 6, 7)] * (len(shapes) - 1), params, LIMITS)
    if kernel.op is not OpKind.MaskedFill:
        with pytest.raises((KernelArgumentError, ValueError)):
            planned(kernel, [*shapes[:-1], (3, 3, 3)], params)


@every_kernel
def test_what_the_host_calls_a_kernel_of_the_same_key_takes_the_same(kernel: GridKernel) -> None:
    host: Any = HOST.lookup(kernel.op, kernel.dtypes, BackendId.CPU)
    assert (host.operands, host.takes, host.variadic) == (kernel.operands, kernel.takes, kernel.variadic)


class TestGrids:
    @pytest.mark.parametrize("most", [(7, 5, 3), (65_535, 65_535, 65_535), (2, 2, 1 << 20)])
    def test_a_grid_has_enough_groups_and_few_to_spare(self, most: tuple[int, int, int]) -> None:
        limits = replace(LIMITS, max_groups=most)
        for count in (1, 2, 6, 7, 8, 35, 36, 100, 105):
            found = grid(count, limits)
            assert all(have <= may for have, may in zip(found, most, strict=True))
            assert count <= math.prod(found) < count + found[0] * found[1] + found[0]

    def test_two_thousand_million_elements_have_a_grid(self) -> None:
        found = grid(2**31 // LOCAL, LIMITS)
        assert 2**31 <= math.prod(found) * LOCAL < 2**32

    def test_axes_that_lie_in_a_piece_are_one(self) -> None:
        assert folded((2, 3, 4), (12, 4, 1)).sizes == (24,)
        assert folded((2, 3, 4), (12, 4, 1), (12, 8, 2)).sizes == (12, 2)
        assert folded((2, 1, 4), (12, 99, 1)).sizes == (4, 2)
        assert folded((3, 4), (-4, -1)).strides == ((-1,),)
        assert folded((3, 4), (0, 0)).sizes == (12,)
        assert folded((), ()).count == 1
        assert folded((3, 0), (4, 1)).count == 0

    def test_too_many_axes_are_refused_by_number(self) -> None:
        axes = folded((2,) * 5, (1, 2, 4, 8, 16))
        assert len(axes.words(5, "copy")) == 10
        with pytest.raises(KernelArgumentError, match="at most 4"):
            axes.words(4, "copy")

    def test_negative_numbers_are_pushed_modulo_2_to_the_32(self) -> None:
        assert push(-1, 2**31) == b"\xff\xff\xff\xff\x00\x00\x00\x80"

    @pytest.mark.parametrize("across", [False, True])
    @pytest.mark.parametrize("most", [128, 256, 1024])
    def test_no_lane_walks_too_far(self, across: bool, most: int) -> None:
        limits = replace(LIMITS, max_invocations=most)
        for count in (1, 2, 63, 64, 5_000):
            for length in (0, 1, 7, 300, 100_000, 3_000_000):
                lanes = lanes_for(count, length, limits, across=across)
                assert lanes.threads <= min(most, 256)
                assert lanes.threads % lanes.lanes == 0
                assert -(-length // lanes.lanes) <= ITERATIONS


class TestFolds:
    def test_long_rows_are_cut_while_there_are_few(self) -> None:
        assert chunks_of(1, 1_000) == 1
        assert chunks_of(1, 3_000_000) > 100
        assert chunks_of(300, 100_000) == 1
        assert chunks_of(300, 100_000_000) > 1
        assert chunks_of(0, 0) == 1

    def test_working_memory_is_there_for_each_cut(self) -> None:
        kernel = KERNELS[OpKind.SumReduce, (F32, F32)]
        params = OpParams.Reduce((0,))
        first, second = planned(kernel, [(3_000_000,), ()], params)
        (nbytes,) = kernel.scratch(params, [(3_000_000,)], ())
        assert (first.writes, second.reads, second.writes) == ((2,), (2,), (1,))
        assert nbytes == 4 * chunks_of(1, 3_000_000)


class TestLimits:
    """What one invocation would have to walk for too long is refused, not cut short."""

    def test_rows_that_a_workgroup_cannot_get_through(self) -> None:
        length = 256 * ITERATIONS
        for op, params in (
            (OpKind.SoftmaxLastDim, OpParams.SoftmaxLastDim(1, length)),
            (OpKind.CumSum, OpParams.CumSum(1, length, 1, 1)),
        ):
            with pytest.raises(KernelArgumentError, match="elements of a row"):
                planned(KERNELS[op, (F32, F32)], [(1, length), (1, length)], params)
        with pytest.raises(KernelArgumentError, match="elements of a row"):
            planned(KERNELS[OpKind.ArgMaxDim, (F32, DType.U32)], [(length + 1,), ()], OpParams.Reduce((0,)))

    def test_edges_that_add_up_too_much(self) -> None:
        params = OpParams.PadBackward((1,), (ITERATIONS + 1,), ((0, ITERATIONS),), borders.REPLICATE)
        with pytest.raises(KernelArgumentError, match="elements added"):
            planned(KERNELS[OpKind.PadBackward, (F32, F32)], [(ITERATIONS + 1,), (1,)], params)

    def test_integer_sums_that_are_not_cut(self) -> None:
        kernel, k = KERNELS[OpKind.MatMul, (DType.I8,) * 3], 400_000
        with pytest.raises(KernelArgumentError, match="shorter sum"):
            planned(kernel, [(2, k), (k, 2), (2, 2)], OpParams.Matmul((), (), 2, 2, k))

    def test_long_indices_are_gone_through_by_several_dispatches(self) -> None:
        kernel, count = KERNELS[OpKind.IndexAdd, (F32, DType.U32, F32, F32)], 3 * ITERATIONS
        params = OpParams.IndexAdd(1, 3, count, 2, 0)
        kept, *added = planned(kernel, [(3, 2), (count,), (count, 2), (3, 2)], params)
        assert (kept.copies, len(added)) == ((0, 3), 3)
        assert all(3 in dispatch.reads and dispatch.writes == (3,) for dispatch in added)


class TestMatmul:
    kernel = KERNELS[OpKind.MatMul, (F32,) * 3]

    def _plan(self, m: int, k: int, n: int, limits: Limits = LIMITS) -> Any:
        return planned(self.kernel, [(m, k), (k, n), (m, n)], OpParams.Matmul((), (), m, n, k), limits)

    def test_large_products_have_large_tiles(self) -> None:
        assert self._plan(64, 64, 64)[0].shader.name == "matmul_32_32_tile4"
        assert self._plan(8, 64, 64)[0].shader.name == "matmul_32_32_tile1"

    def test_small_devices_have_smaller_groups(self) -> None:
        (small,) = self._plan(8, 64, 64, replace(LIMITS, max_invocations=128))
        assert small.shader.spec[0] * small.shader.spec[1] <= 128

    def test_long_sums_are_cut_and_added_up(self) -> None:
        first, second = self._plan(4, 90_000, 4)
        assert (first.writes, second.reads, second.writes) == ((3,), (3,), (2,))
        assert self.kernel.scratch(OpParams.Matmul((), (), 4, 4, 90_000), [(4, 90_000), (90_000, 4)], (4, 4)) == (192,)

    def test_shapes_that_do_not_fit_are_refused(self) -> None:
        with pytest.raises(KernelArgumentError, match="batch dims"):
            planned(self.kernel, [(3, 2, 2), (2, 2, 2), (3, 2, 2)], OpParams.Matmul((3,), (2,), 2, 2, 2))


class TestWrites:
    def test_what_is_kept_is_a_copy_that_can_be_left_out(self) -> None:
        kernel = KERNELS[OpKind.WriteSlice, (F32, F32)]
        params = OpParams.WriteSlice((6, 7), ((1, 3), (4, 7)))
        kept, written = planned(kernel, [(6, 7), (2, 3), (6, 7)], params)
        assert (kept.copies, written.copies) == ((0, 2), None)
        whole = OpParams.WriteSlice((6, 7), ((0, 6), (0, 7)))
        (only,) = planned(kernel, [(6, 7), (6, 7), (6, 7)], whole)
        assert only.reads == (1,)

    def test_neighbours_that_move_together_go_as_words(self) -> None:
        kernel = KERNELS[OpKind.Copy, (DType.U8, DType.U8)]
        assert planned(kernel, [(6, 8), (6, 8)], OpParams.NONE)[0].shader.name == "move_4"
        assert planned(kernel, [(5, 7), (5, 7)], OpParams.NONE)[0].shader.name == "move_1"
        # Bytes go as bytes or words: a device that stores bytes need not store halves.
        assert planned(kernel, [(5, 6), (5, 6)], OpParams.NONE)[0].shader.name == "move_1"
