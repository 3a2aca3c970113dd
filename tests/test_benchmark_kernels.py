"""The benchmark of kernels: every kernel of the host has a call, and a wrong result is seen."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.kernel_cases import case_for
from benchmarks.kernel_expressions import COMPUTED, MOVED, expression_for
from benchmarks.kernels import Measured, bound, check, figures_of, host_kernels
from benchmarks.report import WrongResult
from fuel_async.backends.cpu.kernels.base import HostKernel
from fuel_async.ir import DType, OpKind

KERNELS = host_kernels()


def kernel_of(op: OpKind, *dtypes: DType) -> HostKernel:
    (found,) = [kernel for kernel in KERNELS if (kernel.op, kernel.dtypes) == (op, dtypes)]
    return found


@pytest.mark.parametrize("op", dict.fromkeys(kernel.op for kernel in KERNELS), ids=OpKind.as_str)
def test_each_kernel_computes_what_its_expression_does(op: OpKind) -> None:
    for kernel in KERNELS:
        if kernel.op is op:
            case = case_for(kernel, 1_000)
            out = np.empty(case.shape, kernel.operands[-1].require_np())
            with np.errstate(all="ignore"):
                bound(kernel, case, out)()
                check(kernel, case, out)


@pytest.mark.parametrize("op", dict.fromkeys(kernel.op for kernel in KERNELS), ids=OpKind.as_str)
def test_each_expression_makes_the_dtype_of_its_kernel(op: OpKind) -> None:
    for kernel in [kernel for kernel in KERNELS if kernel.op is op]:
        with np.errstate(all="ignore"):
            made = np.asarray(expression_for(kernel)(*case_for(kernel, 200).inputs)).dtype
        assert made == kernel.operands[-1].require_np(), kernel


def test_every_kind_has_one_expression() -> None:
    assert not COMPUTED.keys() & MOVED.keys()
    assert {kernel.op for kernel in KERNELS} == {*COMPUTED, *MOVED, OpKind.Cast}


@pytest.mark.parametrize(
    ("kernel", "wrong_by"),
    [
        (kernel_of(OpKind.ExpElementwise, DType.F32, DType.F32), 0.01),
        (kernel_of(OpKind.SoftmaxLastDim, DType.F16, DType.F16), 0.1),
        (kernel_of(OpKind.Cast, DType.F32, DType.I16), 1),
        (kernel_of(OpKind.Triu, DType.U8, DType.U8), 1),
        (kernel_of(OpKind.MatMul, DType.I8, DType.I8, DType.I8), 1),
    ],
    ids=lambda value: value.op.as_str() if isinstance(value, HostKernel) else "",
)
def test_one_wrong_element_is_a_wrong_result(kernel: HostKernel, wrong_by: float) -> None:
    case = case_for(kernel, 1_000)
    out = np.empty(case.shape, kernel.operands[-1].require_np())
    bound(kernel, case, out)()
    at = (3, 99)
    out[at] = out[at] - wrong_by if out[at] else wrong_by
    with pytest.raises(WrongResult, match=f"{kernel.op.as_str()} of .* is not what numpy gives"):
        check(kernel, case, out)


def test_half_types_are_compared_with_one_rounding() -> None:
    expression = expression_for(kernel_of(OpKind.SiluElementwise, DType.F16, DType.F16))
    x = np.array([0.1, -3.0], np.float16)
    wide = x.astype(np.float32)
    assert expression(x).dtype == np.float16
    assert (expression(x) == (wide / (1 + np.exp(-wide))).astype(np.float16)).all()


def test_the_worst_are_named() -> None:
    add, exp = (kernel_of(OpKind.AddElementwise, *[DType.F32] * 3), kernel_of(OpKind.ExpElementwise, *[DType.F32] * 2))
    measured = [Measured(add, 10, 1.5), Measured(add, 1000, 0.5), Measured(exp, 10, 1.0)]
    figures = figures_of(measured)
    assert (figures["worst_ratio"], figures["above_limit"]) == (1.5, 1)
    assert (figures["median_ratio.10"], figures["worst_of_size.1000"]) == (1.25, 0.5)
    assert [name for name in figures if name.startswith("slowest.")] == [
        "slowest.add_f32_f32_f32_10", "slowest.exp_f32_f32_10", "slowest.add_f32_f32_f32_1000",
    ]  # fmt: skip
