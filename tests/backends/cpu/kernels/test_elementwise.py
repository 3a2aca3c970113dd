"""Elementwise kernels against exact references, their special values, and the half types."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from fuel_async.backends.cpu.kernels.elementwise import (
    BINARY_UFUNCS,
    COMPARISON_UFUNCS,
    UNARY_BODIES,
    UNARY_UFUNCS,
)
from fuel_async.dispatch import OpParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

Array = npt.NDArray[Any]
Wide = npt.NDArray[np.float64]
Call = Callable[..., Array]

NAN, INF = math.nan, math.inf
BF16 = np.dtype(ml_dtypes.bfloat16)
HALVES = [np.dtype(np.float16), BF16]


def _gelu(x: Wide) -> Wide:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    # As a quotient: 1 + tanh loses all digits for negative x, also in float64.
    result: Wide = x / (1 + np.exp(-2 * inner))
    return result


#: Op -> exact value in float64, and the bound of the error in ulp (float32 and float64 alike).
REFERENCES: dict[OpKind, tuple[Callable[[Wide], Any], float]] = {
    OpKind.NegElementwise: (lambda x: -x, 0),
    OpKind.AbsElementwise: (np.abs, 0),
    OpKind.SqrElementwise: (lambda x: x * x, 0.51),
    OpKind.SqrtElementwise: (np.sqrt, 0.51),
    OpKind.RecipElementwise: (lambda x: 1 / x, 0.51),
    OpKind.ExpElementwise: (np.exp, 3),
    OpKind.LogElementwise: (np.log, 4),
    OpKind.SinElementwise: (np.sin, 4),
    OpKind.CosElementwise: (np.cos, 4),
    OpKind.TanhElementwise: (np.tanh, 4),
    OpKind.FloorElementwise: (np.floor, 0),
    OpKind.CeilElementwise: (np.ceil, 0),
    OpKind.RoundElementwise: (np.round, 0),
    OpKind.SignElementwise: (np.sign, 0),
    OpKind.RsqrtElementwise: (lambda x: 1 / np.sqrt(x), 1.6),
    OpKind.SigmoidElementwise: (lambda x: 1 / (1 + np.exp(-x)), 4),
    OpKind.SiluElementwise: (lambda x: x / (1 + np.exp(-x)), 4),
    OpKind.StepElementwise: (lambda x: np.where(x > 0, 1.0, 0.0), 0),
    OpKind.ReluElementwise: (lambda x: np.where(np.isnan(x), x, np.maximum(x, 0)), 0),
}
#: Tested by other bounds, here and with erf.
ELSEWHERE = {OpKind.GeluElementwise, OpKind.ErfElementwise, OpKind.GeluErfElementwise}


def test_every_unary_op_has_a_reference() -> None:
    assert REFERENCES.keys() | ELSEWHERE == {*UNARY_UFUNCS, *UNARY_BODIES, OpKind.ReluElementwise}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", REFERENCES, ids=lambda op: op.value)
def test_unary_ops_are_within_their_bounds(
    op: OpKind, dtype: type[Any], call: Call, ulps: Callable[[Array, Wide], float]
) -> None:
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.normal(0, 2, 20_000), [0.5, 1.5, 2.5, -0.5, -1.5, 3, -4, 1, -1]]).astype(dtype)
    reference, bound = REFERENCES[op]
    exact = reference(x.astype(np.float64))
    got = call(op, [x], x.shape)
    if dtype is np.float32:
        assert ulps(got, exact) <= bound
    else:
        # The reference rounds too, and the exponent of a double is a rounded product.
        np.testing.assert_allclose(got, exact, rtol=3e-15, atol=1e-300)


@pytest.mark.parametrize(("dtype", "unit"), [(np.float32, 2**-23), (np.float64, 2**-52)])
def test_gelu_is_within_its_bound(dtype: type[Any], unit: float, call: Call) -> None:
    x = np.random.default_rng(5).normal(0, 2, 20_000).astype(dtype)
    wide = x.astype(np.float64)
    error = np.abs(call(OpKind.GeluElementwise, [x], x.shape) - _gelu(wide))
    assert (error / np.abs(wide)).max() < 3 * unit


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("op", "x", "wanted"),
    [
        (OpKind.ReluElementwise, [-1, 0, 0.5, -3.5, 7.25, NAN, INF, -INF], [0, 0, 0.5, 0, 7.25, NAN, INF, 0]),
        (OpKind.RoundElementwise, [0.5, 1.5, -0.5, -2.5, NAN], [0, 2, -0.0, -2, NAN]),
        (OpKind.SignElementwise, [-3, 0, -0.0, 2, NAN, -INF], [-1, 0, 0, 1, NAN, -1]),
        (OpKind.StepElementwise, [-1, -0.0, 0, 1e-30, NAN, INF], [0, 0, 0, 1, 0, 1]),
        (OpKind.SqrtElementwise, [-1, 4, INF, NAN], [NAN, 2, INF, NAN]),
        (OpKind.RsqrtElementwise, [0, 4, INF, -1, NAN], [INF, 0.5, 0, NAN, NAN]),
        (OpKind.RecipElementwise, [0, -0.0, 2, INF], [INF, -INF, 0.5, 0]),
        (OpKind.LogElementwise, [0, 1, -1, INF], [-INF, 0, NAN, INF]),
        (OpKind.ExpElementwise, [-INF, 0, INF, NAN, 1000], [0, 1, INF, NAN, INF]),
        (OpKind.SigmoidElementwise, [-INF, 0, INF, NAN, -1000, 1000], [0, 0.5, 1, NAN, 0, 1]),
        (OpKind.SiluElementwise, [0, INF, NAN, -1000, 1000], [0, INF, NAN, -0.0, 1000]),
        (OpKind.GeluElementwise, [0, INF, NAN, -1000, 1000], [0, INF, NAN, -0.0, 1000]),
        (OpKind.TanhElementwise, [-INF, 0, INF, NAN], [-1, 0, 1, NAN]),
    ],
    ids=lambda value: value.value if isinstance(value, OpKind) else "",
)
def test_special_values(op: OpKind, x: list[float], wanted: list[float], dtype: type[Any], call: Call) -> None:
    operand = np.array(x, dtype)
    np.testing.assert_array_equal(call(op, [operand], operand.shape), np.array(wanted, dtype))


@pytest.mark.parametrize("op", BINARY_UFUNCS, ids=lambda op: op.value)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_binary_ops_are_numpys(op: OpKind, dtype: type[Any], call: Call) -> None:
    ufunc = {OpKind.MaximumElementwise: np.maximum, OpKind.MinimumElementwise: np.minimum}.get(op)
    ufunc = ufunc or BINARY_UFUNCS[op]  # type: ignore[assignment]
    special = [0.0, -0.0, 1, -2, NAN, INF, -INF, 0.5]
    a, b = (grid.reshape(-1) for grid in np.meshgrid(np.array(special, dtype), np.array(special, dtype)))
    np.testing.assert_array_equal(call(op, [a, b], a.shape), ufunc(a, b))  # type: ignore[misc]


def test_a_fractional_power_of_a_negative_number_is_nan(call: Call) -> None:
    x = np.array([-2, 4], np.float32)
    got = call(OpKind.PowElementwise, [x, np.full(2, 0.5, np.float32)], (2,))
    np.testing.assert_array_equal(got, [NAN, 2])


@pytest.mark.parametrize("op", [OpKind.AddElementwise, OpKind.MaximumElementwise, OpKind.LessElementwise])
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), *HALVES], ids=str)
@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 1), (4,)), ((), (2, 3)), ((400, 300), (300,)), ((400, 1), (1, 300)), ((2, 1), ())],
)
def test_operands_broadcast(
    op: OpKind, dtype: np.dtype[Any], left: tuple[int, ...], right: tuple[int, ...], call: Call
) -> None:
    rng = np.random.default_rng(1)
    a, b = (np.asarray(rng.integers(-9, 9, shape), dtype) for shape in (left, right))
    shape = np.broadcast_shapes(left, right)
    reference = {**COMPARISON_UFUNCS, OpKind.AddElementwise: np.add, OpKind.MaximumElementwise: np.maximum}[op]
    result = DType.U8 if op is OpKind.LessElementwise else None
    got = call(op, [a, b], shape, dtype=result)
    np.testing.assert_array_equal(got.astype(float), reference(a.astype(float), b.astype(float)).astype(float))


def test_operands_that_do_not_broadcast_are_refused(call: Call) -> None:
    a, b = np.ones(3, np.float32), np.ones(4, np.float32)
    with pytest.raises(KernelArgumentError, match="add: the output's shape"):
        call(OpKind.AddElementwise, [a, b], (4,))
    with pytest.raises(KernelArgumentError, match="add: the output's shape"):
        call(OpKind.AddElementwise, [a, a], (2, 3))


# --- comparisons, clamp -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.float64), *HALVES], ids=str)
@pytest.mark.parametrize(
    ("op", "a", "b", "wanted"),
    [
        (OpKind.EqualElementwise, [1, 2, 3, NAN, 0], [1, 5, 3, NAN, -0.0], [1, 0, 1, 0, 1]),
        (OpKind.NotEqualElementwise, [1, 2, 3, NAN, 0], [1, 5, 3, NAN, -0.0], [0, 1, 0, 1, 0]),
        (OpKind.LessElementwise, [1, 5, 3, NAN, -1], [2, 5, 3, 0, 0], [1, 0, 0, 0, 1]),
        (OpKind.LessEqualElementwise, [1, 5, 3, NAN, -1], [2, 5, 2, 0, 0], [1, 1, 0, 0, 1]),
        (OpKind.GreaterElementwise, [3, 5, 2, NAN, 1], [2, 5, 3, 0, 0], [1, 0, 0, 0, 1]),
        (OpKind.GreaterEqualElementwise, [3, 5, 2, NAN, 0], [2, 5, 3, 0, 0], [1, 1, 0, 0, 1]),
    ],
    ids=lambda value: value.value if isinstance(value, OpKind) else "",
)
def test_comparisons(
    op: OpKind, a: list[float], b: list[float], wanted: list[int], dtype: np.dtype[Any], call: Call
) -> None:
    got = call(op, [np.array(a, dtype), np.array(b, dtype)], (5,), dtype=DType.U8)
    assert got.dtype == np.uint8
    assert got.tolist() == wanted


def test_clamp_limits_and_keeps_nan(call: Call) -> None:
    x = np.array([-5, 0.5, 100, NAN, -INF, INF], np.float32)
    got = call(OpKind.ClampElementwise, [x], x.shape, OpParams.Clamp(-2, 2))
    np.testing.assert_array_equal(got, [-2, 0.5, 2, NAN, -2, 2])
    open_above = call(OpKind.ClampElementwise, [x], x.shape, OpParams.Clamp(-1e300, INF))
    np.testing.assert_array_equal(open_above, [-5, 0.5, 100, NAN, -INF, INF])


def test_clamp_between_crossed_limits_is_refused(call: Call) -> None:
    with pytest.raises(KernelArgumentError, match="clamp: min is 2"):
        call(OpKind.ClampElementwise, [np.ones(1, np.float32)], (1,), OpParams.Clamp(2, -2))


# --- half types -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("op", [*UNARY_UFUNCS, *UNARY_BODIES, OpKind.ReluElementwise], ids=lambda op: op.value)
def test_halves_are_computed_in_float32_and_narrowed_once(op: OpKind, dtype: np.dtype[Any], call: Call) -> None:
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.normal(0, 3, 200), [0.0, -0.0, NAN, INF, -INF]]).astype(dtype)
    wide = call(op, [x.astype(np.float32)], x.shape)
    np.testing.assert_array_equal(call(op, [x], x.shape).view(np.uint16), wide.astype(dtype).view(np.uint16))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize(
    ("op", "reference"),
    [(OpKind.SignElementwise, np.sign), (OpKind.StepElementwise, lambda x: np.where(x > 0, 1.0, 0.0))],
    ids=lambda value: value.value if isinstance(value, OpKind) else "",
)
def test_sign_and_step_of_every_half(
    op: OpKind, reference: Callable[[Wide], Any], dtype: np.dtype[Any], call: Call
) -> None:
    x = np.resize(np.arange(2**16).astype(np.uint16), 2**18).view(dtype)  # of more than one block
    exact = reference(x.astype(float))
    got = call(op, [x], x.shape)
    is_nan = np.isnan(exact)
    assert np.isnan(got[is_nan].astype(float)).all()
    np.testing.assert_array_equal(got.view(np.uint16)[~is_nan], exact.astype(dtype).view(np.uint16)[~is_nan])
    over = x.copy()
    assert call(op, [over], x.shape, out=over.view()).tobytes() == got.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reciprocals_are_rounded_once(dtype: type[Any], call: Call) -> None:
    x = np.concatenate([np.random.default_rng(0).normal(0, 9, 2_000), [0, -0.0, INF, -INF, 1e-310, 1e-40]])
    operand = x.astype(dtype)
    assert call(OpKind.RecipElementwise, [operand], x.shape).tobytes() == np.reciprocal(operand).tobytes()


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("op", BINARY_UFUNCS, ids=lambda op: op.value)
def test_binary_halves_are_computed_in_float32(op: OpKind, dtype: np.dtype[Any], call: Call) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.normal(0, 3, 100_000).astype(dtype) for _ in range(2))
    wide = call(op, [a.astype(np.float32), b.astype(np.float32)], a.shape)
    np.testing.assert_array_equal(call(op, [a, b], a.shape).view(np.uint16), wide.astype(dtype).view(np.uint16))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_half_clamp_rounds_its_limits_once(dtype: np.dtype[Any], call: Call) -> None:
    x = np.array([-5, 0.5, 100, NAN], dtype)
    got = call(OpKind.ClampElementwise, [x], x.shape, OpParams.Clamp(-0.3, 0.3))
    wanted = np.array([-0.3, 0.3, 0.3, NAN], np.float32).astype(dtype)
    np.testing.assert_array_equal(got.astype(float), wanted.astype(float))


@pytest.mark.parametrize(
    "op", [OpKind.GeluErfElementwise, OpKind.Where, OpKind.SiluElementwise], ids=lambda op: op.value
)
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BF16], ids=str)
def test_blocks_of_strided_operands_give_the_same_bits(
    op: OpKind, dtype: np.dtype[Any], call: Call, strided: Callable[[Array], Array]
) -> None:
    x = np.random.default_rng(3).normal(0, 2, (301, 503)).astype(dtype)
    mask = [(x.astype(np.float32) > 0).view(np.uint8)] if op is OpKind.Where else []
    inputs = [*mask, x, x[::-1].copy()] if mask else [x]
    expected = call(op, inputs, x.shape).tobytes()
    assert call(op, [strided(operand) for operand in inputs], x.shape).tobytes() == expected
    turned = [np.ascontiguousarray(operand.T).T for operand in inputs]
    assert call(op, turned, x.shape).tobytes() == expected


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2)])
@pytest.mark.parametrize(
    "op", [OpKind.GeluErfElementwise, OpKind.ReluElementwise, OpKind.StepElementwise, OpKind.ExpElementwise]
)
def test_scalars_and_operands_without_elements(shape: tuple[int, ...], op: OpKind, call: Call) -> None:
    for dtype in (np.dtype(np.float32), BF16):
        x = np.asarray(np.ones(shape), dtype)
        assert call(op, [x], shape).shape == shape
