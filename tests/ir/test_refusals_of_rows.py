"""What ops along rows and their gradients do not take; the law is that of `test_refusals`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.errors import DTypeMismatch, GraphError, ShapeMismatch
from fuel_async.ir import DType
from tests.ir.test_refusals import ELSEWHERE, OF_BUNDLES, Wrong, check, each, node, x

F32, I32, I64, U8 = DType.F32, DType.I32, DType.I64, DType.U8

#: What is called wrongly on purpose is not for the type checker.
fuel: Any = fa

LAST_AXIS = ("log_softmax", "rms_norm")
GRADIENTS = ("softmax_backward", "log_softmax_backward", "layer_norm_backward", "rms_norm_backward")
WITH_EPS = ("rms_norm", "layer_norm_backward", "rms_norm_backward")
ARG_EXTREMES = ("argmax", "argmin")
TO = {"reduce_sum_to": "sum_to", "reduce_max_to": "max_to"}
LOSS, MAX_BACKWARD = "fused_softmax_cross_entropy", "reduce_max_to_backward"


def of_vectors(g: Any, op: str, dtype: DType) -> object:
    return node(g, op, x(g, 2, dtype=dtype), x(g, 2, dtype=dtype), attrs=(1e-5,))


def of_scalars(g: Any, op: str) -> object:
    return node(g, op, x(g), x(g), attrs=(1e-5,))


def unlike(g: Any, op: str, *shape: int, dtype: DType = F32) -> object:
    return getattr(fuel, op)(x(g, 2), x(g, *shape, dtype=dtype))


def eps(g: Any, op: str, value: float) -> object:
    return node(g, op, *(x(g, 2) for _ in range(2 if op.endswith("backward") else 1)), attrs=(value,))


def to(g: Any, op: str, *shape: int) -> object:
    return getattr(x(g, 2, 3), TO[op])(shape)


def loss(g: Any, scores: tuple[int, ...], targets: tuple[int, ...], **options: Any) -> object:
    return fuel.softmax_cross_entropy(x(g, *scores), x(g, *targets, dtype=I64), **options)


def linear(g: Any, *shapes: tuple[int, ...]) -> object:
    return fuel.linear(*(x(g, *shape) for shape in shapes))


def rope(g: Any, *shapes: tuple[int, ...]) -> object:
    return fuel.rope(*(x(g, *shape) for shape in shapes))


def text_loss(g: Any, reduction: int, ignored: int = -1) -> object:
    return node(g, LOSS, x(g, 2, 3), x(g, 2, dtype=I64), attrs=(reduction, ignored))


WRONG: list[Wrong] = [
    *each(LAST_AXIS, lambda g, op: getattr(x(g, 2, dtype=I32), op)(), DTypeMismatch, " of i32[2]: wanted a floating"),
    Wrong("log_softmax", lambda g: x(g, 2).log_softmax(1), ShapeMismatch, "log_softmax of f32[2]: axis 1 is out of"),
    Wrong("rms_norm", lambda g: x(g).rms_norm(), ShapeMismatch, "rms_norm of f32[]: wanted at least one dimension"),
    Wrong("rms_norm", lambda g: x(g, 2).rms_norm(eps="0"), GraphError, "rms_norm: wanted a number, got str"),
    *each(GRADIENTS, lambda g, op: unlike(g, op, 3), ShapeMismatch, " of f32[2], f32[3]: wanted operands of one shape"),
    *each(GRADIENTS, partial(unlike, dtype=DType.F64), DTypeMismatch, " of f32[2], f64[]: operands differ in dtype"),
    *each(GRADIENTS, lambda g, op: getattr(fuel, op)(x(g, 2), 1), GraphError, ": wanted a Tensor, got int"),
    *each(GRADIENTS, lambda g, op: getattr(fuel, op)(1, x(g, 2)), GraphError, ": wanted a Tensor, got int"),
    *each(WITH_EPS, partial(eps, value=-1.0), GraphError, " of f32[2]"),
    *each(WITH_EPS, partial(eps, value=float("nan")), GraphError, " of f32[2]"),
    Wrong("rms_norm", lambda g: x(g, 2).rms_norm(eps=-1), GraphError, "rms_norm of f32[2]: eps is -1.0, wanted a"),
    *each(ARG_EXTREMES, lambda g, op: getattr(x(g, 2), op)(1), ShapeMismatch, " of f32[2]: axis 1 is out of range"),
    *each(ARG_EXTREMES, lambda g, op: getattr(x(g, 2), op)((0,)), GraphError, ": wanted an integer as axis, got (0,)"),
    *each(ARG_EXTREMES, lambda g, op: getattr(x(g, 2, 0), op)(1), ShapeMismatch, " of f32[2, 0]: there is no "),
    *each(
        ARG_EXTREMES,
        lambda g, op: node(g, op, x(g, 2), attrs=(-1, False)),
        ShapeMismatch,
        " of f32[2]: (-1,) are no sorted axes",
    ),
    *each(
        ARG_EXTREMES,
        lambda g, op: getattr(x(g, 2**32 + 1).broadcast_to((2**32 + 1,)), op)(0),
        ShapeMismatch,
        " of f32[4294967297]: axis 0 has more elements than u32 can count",
    ),
    *each(TO, lambda g, op: to(g, op, 2), ShapeMismatch, " of f32[2, 3], (2,): shapes do not broadcast"),
    *each(TO, lambda g, op: to(g, op, 1, 2, 3), ShapeMismatch, " of f32[2, 3]: (1, 2, 3) does not broadcast to (2, 3)"),
    *each(TO, lambda g, op: to(g, op, 2, 3, -1), ShapeMismatch, " of f32[2, 3]: (2, 3, -1) has a negative dimension"),
    *each(TO, lambda g, op: getattr(x(g, 1), TO[op])((3,)), ShapeMismatch, " of f32[1]: (3,) does not broadcast to"),
    Wrong(
        "reduce_max_to", lambda g: x(g, 0).max_to((1,)), ShapeMismatch, "reduce_max_to of f32[0]: there is no maximum"
    ),
    Wrong(
        MAX_BACKWARD,
        lambda g: fuel.max_to_backward(x(g, 2, 3), x(g, 2)),
        ShapeMismatch,
        f"{MAX_BACKWARD} of f32[2, 3], f32[2], (2,): shapes do not broadcast",
    ),
    Wrong(
        MAX_BACKWARD,
        lambda g: fuel.max_to_backward(x(g, 2), x(g, 2, dtype=DType.F64)),
        DTypeMismatch,
        f"{MAX_BACKWARD} of f32[2], f64[2]: operands differ in dtype",
    ),
    Wrong(
        MAX_BACKWARD,
        lambda g: fuel.max_to_backward(x(g, 2, dtype=I32), x(g, 2, dtype=I32)),
        DTypeMismatch,
        f"{MAX_BACKWARD} of i32[2], i32[2]: wanted a floating dtype",
    ),
    Wrong("cumsum", lambda g: x(g, 2).cumulative_sum(1), ShapeMismatch, "cumsum of f32[2]: axis 1 is out of range"),
    Wrong("cumsum", lambda g: x(g, 2, 3).cumulative_sum(), GraphError, "cumsum of f32[2, 3]: wanted an axis, since"),
    Wrong("cumsum", lambda g: x(g).cumulative_sum(), GraphError, "cumsum of f32[]: wanted an axis, since"),
    Wrong("cumsum", lambda g: node(g, "cumsum", x(g), attrs=(0,)), GraphError, "cumsum of f32[]: wanted at least one"),
    Wrong("cumsum", lambda g: node(g, "cumsum", x(g, 2), attrs=(1,)), ShapeMismatch, "cumsum of f32[2]: (1,) are no"),
    Wrong("affine", lambda g: x(g, 2).affine("2", 1), GraphError, "affine: wanted a number, got str"),
    Wrong("affine", lambda g: x(g, 2, dtype=I32).affine(2, 1), DTypeMismatch, "affine of i32[2]: wanted a floating"),
    Wrong("affine", lambda g: x(g, 2).affine(1, 1e39), GraphError, "affine of f32[2]: add 1e+39 is beyond float32"),
    Wrong("powi", lambda g: x(g, 2).powi(0.5), GraphError, "powi: wanted an integer as exp, got 0.5"),
    Wrong("powi", lambda g: x(g, 2).powi(2**31), GraphError, "powi of f32[2]: exp 2147483648 is no signed integer"),
    Wrong("powi", lambda g: x(g, 2, dtype=U8).powi(2), DTypeMismatch, "powi of u8[2]: wanted a floating dtype"),
    Wrong(
        "powi_backward",
        lambda g: fuel.powi_backward(x(g, 2), x(g, 3), 2),
        ShapeMismatch,
        "powi_backward of f32[2], f32[3]: wanted operands of one shape",
    ),
    Wrong(
        "powi_backward",
        lambda g: fuel.powi_backward(x(g, 2), x(g, 2), -(2**31) - 1),
        GraphError,
        "powi_backward of f32[2], f32[2]: exp -2147483649 is no",
    ),
    Wrong(LOSS, lambda g: loss(g, (2, 3), (3,)), ShapeMismatch, f"{LOSS} of f32[2, 3], i64[3]: wanted one target"),
    Wrong(LOSS, lambda g: loss(g, (), ()), ShapeMismatch, f"{LOSS} of f32[], i64[]: wanted one target"),
    Wrong(
        LOSS, lambda g: loss(g, (2,), (), reduction="max"), GraphError, f"{LOSS} of f32[2], i64[]: reduction is 'max'"
    ),
    Wrong(
        LOSS, lambda g: loss(g, (2,), (), ignore_index=0.5), GraphError, f"{LOSS}: wanted an integer as ignore_index"
    ),
    Wrong(LOSS, lambda g: loss(g, (2,), (), ignore_index=2**63), GraphError, f"{LOSS} of f32[2], i64[]: ignore_index"),
    Wrong(
        LOSS,
        lambda g: fuel.softmax_cross_entropy(x(g, 2, 3), x(g, 2, dtype=DType.U32)),
        DTypeMismatch,
        f"{LOSS} of f32[2, 3], u32[2]: wanted targets of dtype i64",
    ),
    Wrong(
        LOSS,
        lambda g: fuel.softmax_cross_entropy(x(g, 2, 3, dtype=I32), x(g, 2, dtype=I64)),
        DTypeMismatch,
        f"{LOSS} of i32[2, 3], i64[2]: wanted a floating dtype",
    ),
    Wrong(LOSS, lambda g: text_loss(g, 3), GraphError, f"{LOSS} of f32[2, 3], i64[2]: reduction is 3, wanted"),
    Wrong(LOSS, lambda g: text_loss(g, 0, -(2**63) - 1), GraphError, f"{LOSS} of f32[2, 3], i64[2]: ignore_index"),
    Wrong(
        "fused_linear",
        lambda g: linear(g, (2, 3), (2, 4), (4,)),
        ShapeMismatch,
        "fused_linear of f32[2, 3], f32[2, 4], f32[4]: inner dimensions 3 and 2 differ",
    ),
    Wrong(
        "fused_linear",
        lambda g: linear(g, (2, 3), (3, 4), (3,)),
        ShapeMismatch,
        "fused_linear of f32[2, 3], f32[3, 4], f32[3]: wanted a bias of shape (4,)",
    ),
    Wrong(
        "fused_linear", lambda g: linear(g, (3,), (3,), (1,)), ShapeMismatch, "fused_linear of f32[3], f32[3], f32[1]"
    ),
    Wrong("fused_linear", lambda g: linear(g, (), (3, 2), (2,)), ShapeMismatch, "fused_linear of f32[], f32[3, 2]"),
    Wrong("fused_linear", lambda g: fuel.linear(x(g, 2), np.ones(2), 1), GraphError, "fused_linear: wanted a Tensor"),
    Wrong(
        "fused_linear",
        lambda g: node(g, "fused_linear", x(g, 2, 3), x(g, 3, 4), x(g, 4, dtype=DType.F64)),
        DTypeMismatch,
        "fused_linear of f32[2, 3], f32[3, 4], f64[4]: operands differ in dtype",
    ),
    Wrong(
        "fused_linear",
        lambda g: fuel.linear(*(x(g, *shape, dtype=DType.I8) for shape in ((2, 3), (3, 4), (4,)))),
        DTypeMismatch,
        "fused_linear of i8[2, 3], i8[3, 4], i8[4]: wanted a floating dtype",
    ),
    Wrong(
        "rope", lambda g: rope(g, (4,), (4,), (4,)), ShapeMismatch, "rope of f32[4], f32[4], f32[4]: wanted at least"
    ),
    Wrong(
        "rope", lambda g: rope(g, *[(2, 3)] * 3), ShapeMismatch, "rope of f32[2, 3], f32[2, 3], f32[2, 3]: wanted an"
    ),
    Wrong(
        "rope",
        lambda g: rope(g, (5, 2, 4), (2, 4), (2, 2)),
        ShapeMismatch,
        "rope of f32[5, 2, 4], f32[2, 4], f32[2, 2]: wanted cosines and sines of shape (2, 4)",
    ),
    Wrong(
        "rope",
        lambda g: node(g, "rope", x(g, 2, 4), x(g, 2, 4, dtype=DType.F64), x(g, 2, 4)),
        DTypeMismatch,
        "rope of f32[2, 4], f64[2, 4], f32[2, 4]: operands differ in dtype",
    ),
    Wrong("rope", lambda g: fuel.rope(x(g, 2, 4), 1, 0), GraphError, "rope: wanted a Tensor, got int"),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.op)
def test_a_wrong_call_is_refused(wrong: Wrong) -> None:
    check(wrong)


def test_every_op_of_these_refuses_something() -> None:
    assert {wrong.op for wrong in WRONG} == ELSEWHERE - OF_BUNDLES
