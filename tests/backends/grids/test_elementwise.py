"""Plans of elementwise kernels, looked at without a device: which there are, what they need and what is pushed."""

from __future__ import annotations

import math
import struct

import pytest

from fuel_async.backends.cpu.kernels import register_cpu_kernels
from fuel_async.backends.grids.elementwise import CIRCULAR_DOUBLE, kernels
from fuel_async.backends.grids.form import ITEMS, LOCAL
from fuel_async.backends.grids.grids import row_major
from fuel_async.backends.grids.kernel import Limits, Operand
from fuel_async.dispatch import ClampParams, KernelBindingTable, NoParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import TREES, BackendId, DType, OpKind, Prim, steps, tree
from tests.backends.grids.support import by_key

F32 = DType.F32

KERNELS = by_key([kernels()])
ADD, EXP = KERNELS[OpKind.AddElementwise, (F32,) * 3], KERNELS[OpKind.ExpElementwise, (F32,) * 2]
CLAMP = KERNELS[OpKind.ClampElementwise, (F32,) * 2]
LIMITS = Limits(128, (65535, 65535, 65535), 16384, 4, frozenset(), 2**31)


def _dense(shape: tuple[int, ...], offset: int = 0) -> Operand:
    return Operand(F32, shape, row_major(shape), offset)


def _words(push: bytes) -> list[int]:
    return [*struct.unpack(f"<{len(push) // 4}I", push)]


def test_every_kernel_of_the_host_that_computes_by_elements_has_one_here() -> None:
    table = KernelBindingTable()
    register_cpu_kernels(table)
    elsewhere = {OpKind.MaskedFill}  # among the kernels of borders
    wanted = {
        (kind, dtypes)
        for kind, dtypes, backend in table.iter_keys()
        if backend is BackendId.CPU and kind in TREES and kind not in elsewhere
    }
    missing = wanted - KERNELS.keys()
    assert not missing
    assert len(kernels()) == len(KERNELS)


def test_circular_functions_of_float64_need_what_not_every_device_has() -> None:
    needing = {key for key, kernel in KERNELS.items() if CIRCULAR_DOUBLE in kernel.needs}
    wanted = {
        (kind, dtypes)
        for kind, dtypes in KERNELS
        if kind in (OpKind.SinElementwise, OpKind.CosElementwise) and dtypes[0] is DType.F64
    }
    assert wanted <= needing
    for kind, dtypes in needing:
        found = steps(tree(kind, dtypes))
        assert any(step.op in (Prim.SIN, Prim.COS) and step.dtype is DType.F64 for step in found)


@pytest.mark.parametrize(
    ("key", "needs"),
    [
        ((OpKind.ExpElementwise, (F32, F32)), set()),
        ((OpKind.ExpElementwise, (DType.F16, DType.F16)), {"int16_storage"}),
        ((OpKind.SqrtElementwise, (DType.F64, DType.F64)), {"float64", "int64"}),
        ((OpKind.Where, (DType.U8, DType.F64, DType.F64, DType.F64)), {"int8_storage", "int64"}),
        ((OpKind.LessElementwise, (F32, F32, DType.U8)), {"int8_storage"}),
        ((OpKind.Cast, (DType.F64, DType.F16)), {"float64", "int64", "int16_storage"}),
    ],
)
def test_a_kernel_needs_storage_of_its_types_and_float64_for_its_arithmetic(
    key: tuple[OpKind, tuple[DType, ...]], needs: set[str]
) -> None:
    assert KERNELS[key].needs == needs


# --- plans --------------------------------------------------------------------------------------------------


def test_a_dense_call_has_count_and_offsets() -> None:
    (found,) = ADD.dispatches([_dense((5, 7), 3), _dense((5, 7), 4), _dense((5, 7), 5)], NoParams(), LIMITS)
    assert _words(found.push) == [35, 5, 3, 4]
    assert (found.operands, found.reads, found.writes) == ((0, 1, 2), (0, 1), (2,))
    assert found.groups == (1, 1, 1)
    assert found.shader.push_nbytes == len(found.push)


def test_strided_operands_have_strides_of_joined_axes_and_repeated_ones_none() -> None:
    output = _dense((4, 3, 5))
    turned = Operand(F32, (4, 3, 5), (5, 20, 1), 2)
    row, one = _dense((5,)), _dense(())
    (strided,) = ADD.dispatches([turned, one, output], NoParams(), LIMITS)
    assert _words(strided.push) == [60, 0, 2, 0, 5, 3, 1, 20, 5]
    (repeated,) = ADD.dispatches([row, output, output], NoParams(), LIMITS)
    assert _words(repeated.push) == [60, 0, 0, 0, 5, 1, 0]
    (backwards,) = EXP.dispatches([Operand(F32, (6,), (-1,), 5), _dense((6,))], NoParams(), LIMITS)
    assert _words(backwards.push) == [6, 0, 5, 2**32 - 1]


def test_one_module_serves_all_shapes_and_all_numbers() -> None:
    shapes = ((3, 4), (2, 5, 7), (1,))
    found = {ADD.dispatches([_dense(s), _dense(s, 8), _dense(s)], NoParams(), LIMITS)[0].shader for s in shapes}
    assert len(found) == 1
    numbers = (ClampParams(0.0, 1.0), ClampParams(-0.0, 1.0), ClampParams(-math.inf, 2.0))
    clamps = [CLAMP.dispatches([_dense((3,)), _dense((3,))], params, LIMITS)[0] for params in numbers]
    assert len({clamp.shader for clamp in clamps}) == 1
    assert len({clamp.push for clamp in clamps}) == 3


@pytest.mark.parametrize("shape", [(0,), (3, 0), (2, 0, 4)])
def test_a_call_without_elements_has_no_dispatch(shape: tuple[int, ...]) -> None:
    assert not ADD.dispatches([_dense(shape)] * 3, NoParams(), LIMITS)


@pytest.mark.parametrize("count", [1, 512, 513, 65535 * 512 + 1, 2**31 - 1, 2**31])
def test_groups_in_excess_of_an_axis_go_to_the_next(count: int) -> None:
    (found,) = EXP.dispatches([_dense((count,))] * 2, NoParams(), LIMITS)
    assert all(1 <= groups <= 65535 for groups in found.groups)
    covered = math.prod(found.groups) * LOCAL * ITEMS
    assert count <= covered < count + LOCAL * ITEMS * found.groups[0]
    assert found.groups[2] == 1
    assert covered < 2**32  # places are counted in 32 bits


@pytest.mark.parametrize("shape", [(4, 3), (5,), (2, 3, 5)])
def test_operands_that_do_not_broadcast_to_the_output_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(KernelArgumentError, match="add: the output's shape"):
        ADD.dispatches([_dense(shape), _dense((3, 4)), _dense((3, 4))], NoParams(), LIMITS)
    with pytest.raises(KernelArgumentError, match="the parameters"):
        ADD.dispatches([_dense((3,))] * 3, ClampParams(0, 1), LIMITS)


def test_shapes_beyond_the_push_constants_are_written_into_the_module() -> None:
    shape = (2,) * 14
    turned = Operand(F32, shape, row_major(shape)[::-1], 0)
    (found,) = ADD.dispatches([turned, turned, _dense(shape)], NoParams(), LIMITS)
    assert (found.push, found.shader.push_nbytes) == (b"", 0)
