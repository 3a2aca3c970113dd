"""Trees of primitives: the order of their steps, laws, meaning, and agreement with the host's kernels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuel_async.backends.cpu.kernels import register_cpu_kernels
from fuel_async.backends.cpu.kernels.base import HostKernel
from fuel_async.dispatch import AffineParams, ClampParams, KernelBindingTable, MaskedFillParams, OpParams, PowIParams
from fuel_async.errors import DTypeMismatch, GraphError
from fuel_async.ir import (
    TREES,
    Apply,
    Const,
    DType,
    Expr,
    Input,
    OpKind,
    Prim,
    TensorType,
    apply,
    bits_dtype,
    cast,
    evaluate,
    simplify,
    steps,
    tree,
)
from fuel_async.ir.expr import COMPUTED, HELD, MEANINGS, is_lossless
from fuel_async.ir.ops.elementwise import ELEMENTWISE, Affine, Clamp, PowI
from fuel_async.ir.ops.inplace import IN_PLACE
from fuel_async.ir.ops.masks import MASKED_FILL, MaskedFill

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = npt.NDArray[Any]
F32, F64, U8 = DType.F32, DType.F64, DType.U8


def test_every_primitive_has_a_meaning() -> None:
    assert MEANINGS.keys() == set(Prim)


# --- nodes and steps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "dtypes"),
    [
        (Prim.ADD, (F32, F64)),
        (Prim.ADD, (DType.F16, DType.F16)),
        (Prim.DIV, (DType.I32, DType.I32)),
        (Prim.SELECT, (F32, F32, F32)),
        (Prim.EXP, (F32, F32)),
        (Prim.EXP, (DType.I32,)),
    ],
)
def test_a_primitive_refuses_what_it_does_not_take(op: Prim, dtypes: Sequence[DType]) -> None:
    with pytest.raises(DTypeMismatch, match=op.value):
        apply(op, *[Input(i, dtype) for i, dtype in enumerate(dtypes)])


def test_a_node_of_the_wrong_dtype_cannot_be_made() -> None:
    x = Input(0, F32)
    with pytest.raises(DTypeMismatch):
        Apply(Prim.LT, (x, x), F32)
    with pytest.raises(DTypeMismatch):
        cast(x, DType.F4)


def test_steps_compute_equal_parts_once_and_what_is_read_first() -> None:
    x, y = Input(0, F32), Input(1, F32)
    first, second = apply(Prim.ADD, x, y), apply(Prim.ADD, Input(0, F32), Input(1, F32))
    ordered = steps(apply(Prim.MUL, first, second))
    assert [step.op for step in ordered] == [None, None, Prim.ADD, Prim.MUL]
    assert all(arg < number for number, step in enumerate(ordered) for arg in step.args)


def test_constants_of_equal_bits_are_one_step_and_zeros_of_two_signs_are_two() -> None:
    assert len(steps(apply(Prim.ADD, Const(math.nan, F32), Const(float("nan"), F32)))) == 2
    assert len(steps(apply(Prim.ADD, Const(0.0, F32), Const(-0.0, F32)))) == 3


def test_shared_parts_cost_nothing_however_deep() -> None:
    x: Expr = Input(0, F32)
    for _ in range(20_000):
        x = apply(Prim.ADD, x, x)
    assert len(steps(x)) == 20_001
    assert len(steps(simplify(x))) == 20_001


# --- laws ---------------------------------------------------------------------------------------------------

X, Y = Input(0, F32), Input(1, F32)
HALF = Input(0, DType.F16)


def _c(value: float) -> Const:
    return Const(value, F32)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (apply(Prim.NEG, apply(Prim.NEG, X)), X),
        (apply(Prim.ABS, apply(Prim.NEG, X)), apply(Prim.ABS, X)),
        (apply(Prim.COS, apply(Prim.NEG, X)), apply(Prim.COS, X)),
        (apply(Prim.MUL, X, _c(1)), X),
        (apply(Prim.ADD, _c(-0.0), X), X),
        (apply(Prim.SUB, X, _c(0)), X),
        (apply(Prim.DIV, X, _c(1)), X),
        (apply(Prim.POW, X, _c(1)), X),
        (apply(Prim.FLOOR, apply(Prim.CEIL, X)), apply(Prim.CEIL, X)),
        (apply(Prim.MAX, X, Input(0, F32)), X),
        (apply(Prim.SELECT, apply(Prim.LT, _c(1), _c(2)), X, Y), X),
        (apply(Prim.SELECT, apply(Prim.LT, X, Y), X, X), X),
        (apply(Prim.MUL, _c(3), apply(Prim.SUB, _c(7), _c(5))), _c(6)),
        (cast(cast(HALF, F32), DType.F16), HALF),
        (cast(cast(HALF, F32), F64), cast(HALF, F64)),
        (apply(Prim.ADD, Input(0, DType.I32), Const(0, DType.I32)), Input(0, DType.I32)),
        # No laws: each would change a zero's sign, a NaN or an infinity, or a rounding.
        (apply(Prim.ADD, X, _c(0.0)), apply(Prim.ADD, X, _c(0.0))),
        (apply(Prim.MUL, X, _c(0.0)), apply(Prim.MUL, X, _c(0.0))),
        (apply(Prim.SUB, X, X), apply(Prim.SUB, X, X)),
        (cast(cast(X, DType.F16), F32), cast(cast(X, DType.F16), F32)),
        (cast(cast(X, F64), DType.I32), cast(cast(X, F64), DType.I32)),
    ],
)
def test_laws(given: Expr, wanted: Expr) -> None:
    assert steps(simplify(given)) == steps(wanted)


LEAVES = {F32: (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, math.inf, math.nan), DType.I32: (0, 1, -1, 7)}
#: What keeps its operands' dtype; POW, EXP and the like are left out, their results only grow.
UNARY = (Prim.NEG, Prim.ABS)
BINARY = (Prim.ADD, Prim.SUB, Prim.MUL, Prim.MAX, Prim.MIN)
OF_FLOATS = (Prim.FLOOR, Prim.CEIL, Prim.ROUND, Prim.SQRT, Prim.COS)


@st.composite
def trees(draw: st.DrawFn, dtype: DType = F32, depth: int = 4) -> Expr:
    if not depth or draw(st.integers(0, 5)) == 0:
        if draw(st.booleans()):
            return Input(draw(st.integers(0, 1)) + 2 * (dtype is not F32), dtype)
        return Const(draw(st.sampled_from(LEAVES[dtype])), dtype)

    def inner(dtype: DType = dtype) -> Expr:
        return draw(trees(dtype, depth - 1))

    match draw(st.integers(0, 4)):
        case 0:
            return apply(draw(st.sampled_from(UNARY + OF_FLOATS * (dtype is F32))), inner())
        case 1:
            return apply(draw(st.sampled_from(BINARY)), inner(), inner())
        case 2:
            condition = apply(draw(st.sampled_from((Prim.LT, Prim.EQ, Prim.NE))), inner(), inner())
            return apply(Prim.SELECT, condition, inner(), inner())
        case 3 if dtype is F32:
            return cast(cast(inner(), draw(st.sampled_from((DType.F16, DType.BF16, F64)))), F32)
        case _:
            return cast(inner(DType.I32), F64 if draw(st.booleans()) else F32) if dtype is F64 else inner()


@given(expr=trees(), seed=st.integers(0, 1000))
def test_simplified_trees_have_the_same_values_and_no_more_steps(expr: Expr, seed: int) -> None:
    chance = np.random.default_rng(seed)
    floats = [np.append(chance.normal(size=12).astype(np.float32) * 3, [0.0, -0.0, np.inf, np.nan]) for _ in range(2)]
    inputs = [*(x.astype(np.float32) for x in floats), *chance.integers(-9, 9, (2, 16)).astype(np.int32)]
    simple = simplify(expr)
    before, after = evaluate(expr, inputs), evaluate(simple, inputs)
    same = (before.view(np.uint32) == after.view(np.uint32)) | (np.isnan(before) & np.isnan(after))
    assert same.all()
    assert len(steps(simple)) <= len(steps(expr))
    assert steps(simplify(simple)) == steps(simple)


@pytest.mark.parametrize("source", [dtype for dtype in DType.ALL if dtype in HELD], ids=str)
def test_lossless_casts_lose_nothing(source: DType) -> None:
    kind = source.require_np()
    chance = np.random.default_rng(1)
    x = np.frombuffer(chance.bytes(4096 * kind.itemsize), kind)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        x = x[np.isfinite(wide)]
        for target in HELD:
            back = x.astype(target.require_np()).astype(kind)
            if is_lossless(source, target):
                assert (back == x).all()
    assert is_lossless(source, source)


def test_lossless_casts_are_those_of_numpy() -> None:
    common = [dtype for dtype in COMPUTED if dtype is not DType.F16]
    for a in common:
        for b in common:
            wanted = np.can_cast(a.require_np(), b.require_np(), "safe") and (a, b) != (DType.I64, F64)
            assert is_lossless(a, b) == wanted, (a, b)


# --- the trees of kinds -------------------------------------------------------------------------------------


def _rows() -> list[HostKernel]:
    table = KernelBindingTable()
    register_cpu_kernels(table)
    kernels = [entry.kernel for *_, entry in table.iter_entries() if isinstance(entry.kernel, HostKernel)]
    return [kernel for kernel in kernels if kernel.op in TREES]


ROWS = _rows()
#: Parameters of kinds that take some, and what the op calls them.
PARAMS: dict[type[OpParams], list[tuple[Any, Any]]] = {
    ClampParams: [(ClampParams(-0.75, 1e300), Clamp(-0.75, 1e300)), (ClampParams(0.5, 0.5), Clamp(0.5, 0.5))],
    AffineParams: [(AffineParams(1.7, -0.3), Affine(1.7, -0.3))],
    PowIParams: [(PowIParams(exp), PowI(exp)) for exp in (0, 1, 2, 3, 7, 64, -1, -3)],
}


def _operand(dtype: DType, chance: np.random.Generator) -> Array:
    if dtype.is_int:
        limits = np.iinfo(dtype.require_np())
        low, high = max(limits.min, -(2**53)), min(limits.max, 2**53)
        drawn = chance.integers(low, high, 256, endpoint=True).astype(dtype.require_np())
        return np.asarray(drawn % dtype.require_np().type(97))
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 2.5, 1e-30, 3e4, 4.4e-40]
    return np.append(chance.normal(size=244) * 3, special).astype(dtype.require_np())


def _name(kernel: HostKernel) -> str:
    return f"{kernel.op.value}-{'-'.join(map(str, kernel.dtypes))}"


def _cases(kernel: HostKernel) -> list[tuple[OpParams, Any]]:
    if kernel.takes is MaskedFillParams:
        element = np.array(3, kernel.dtypes[0].require_np()).tobytes()
        bits = bits_dtype(kernel.dtypes[0]).require_np()
        return [(MaskedFillParams(element), MaskedFill(np.frombuffer(element, bits).item()))]
    return PARAMS[kernel.takes] if kernel.takes in PARAMS else [(kernel.takes(), None)]


def _same(got: Array, expected: Array, dtype: DType) -> Array:
    width = bits_dtype(dtype).require_np()
    return np.asarray((got.view(width) == expected.view(width)) | ((got != got) & (expected != expected)))


@pytest.mark.parametrize("kernel", ROWS, ids=_name)
def test_a_tree_computes_what_the_hosts_kernel_computes(kernel: HostKernel) -> None:
    chance, result = np.random.default_rng(3), kernel.dtypes[-1]
    with np.errstate(all="ignore"):
        inputs = [_operand(dtype, chance) for dtype in kernel.dtypes[:-1]]
        read, dtypes = inputs, kernel.dtypes
        if kernel.op in (OpKind.Where, OpKind.MaskedFill):
            dtypes = tuple(bits_dtype(dtype) for dtype in dtypes)
            read = [x.view(dtype.require_np()) for x, dtype in zip(inputs, dtypes, strict=False)]
        determined = np.ones(inputs[0].shape, np.bool_)
        if result.is_int and kernel.dtypes[0].is_float and kernel.op is OpKind.Cast:
            wide, limits = np.trunc(inputs[0].astype(np.float64)), np.iinfo(result.require_np())
            determined = (wide >= limits.min) & (wide <= limits.max)
        for params, attrs in _cases(kernel):
            expected = _call(kernel, inputs, params)
            got = evaluate(tree(kernel.op, dtypes, attrs), read)
            wrong = determined & ~_same(got, expected, result)
            assert not wrong.any(), (params, *[x[wrong][:4] for x in (*inputs, got, expected)])


def _call(kernel: HostKernel, inputs: Sequence[Array], params: OpParams) -> Array:
    out = np.empty(inputs[0].shape, kernel.dtypes[-1].require_np())
    types = [TensorType(x.shape, dtype, x.nbytes) for x, dtype in zip((*inputs, out), kernel.dtypes, strict=True)]
    scratch = [np.empty(nbytes, np.uint8) for nbytes in kernel.scratch_nbytes(params, types[:-1], types[-1:])]
    call, args = kernel.bind(inputs, [out], params, scratch)
    call(*args)
    return out


def test_every_elementwise_op_has_a_tree_and_every_tree_is_compared_with_a_kernel() -> None:
    assert {op.kind for op in (*ELEMENTWISE, *IN_PLACE.values(), MASKED_FILL)} == TREES.keys()
    assert {kernel.op for kernel in ROWS} == TREES.keys()


@pytest.mark.parametrize("dtype", [DType.I32, DType.U32, DType.I64, DType.U8, DType.I8, DType.I16], ids=str)
def test_integers_are_computed_as_numpy_does(dtype: DType) -> None:
    kind, chance = dtype.require_np(), np.random.default_rng(5)
    a, b = np.frombuffer(chance.bytes(2 * 256 * kind.itemsize), kind).reshape(2, 256)
    wanted = {
        OpKind.AddElementwise: a + b,
        OpKind.MulElementwise: a * b,
        OpKind.MaximumElementwise: np.maximum(a, b),
        OpKind.NegElementwise: np.negative(a),
        OpKind.SignElementwise: np.sign(a),
        OpKind.ReluElementwise: np.maximum(a, 0),
        OpKind.StepElementwise: (a > 0).astype(kind),
        OpKind.FloorElementwise: a,
    }
    for op, expected in wanted.items():
        arity = 1 + (op.name[:3] in ("Add", "Mul", "Max"))
        got = evaluate(tree(op, (dtype,) * (arity + 1)), [a, b])
        np.testing.assert_array_equal(got, expected, op.value)


@pytest.mark.parametrize("exp", [65, 200, -77, 2**31 - 1])
def test_high_powers_are_close_to_numpys(exp: int) -> None:
    x = 1 + np.linspace(-1, 1, 101) / exp
    got = evaluate(tree(OpKind.PowIElementwise, (F64, F64), PowI(exp)), [x])
    np.testing.assert_allclose(got, np.power(x, exp), rtol=4e-16 * abs(exp))


def test_kinds_without_a_tree_are_refused() -> None:
    with pytest.raises(GraphError, match="matmul"):
        tree(OpKind.MatMul, (F32, F32, F32))
