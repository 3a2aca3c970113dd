"""What the elementwise kernels compute on any device, against the reference and against numpy.

A module of tests imports these and has a fixture `devices`, the rigs to hold them against.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from fuel_async.backends.grids.elementwise import kernels
from fuel_async.backends.grids.kernel import GridKernel, Limits
from fuel_async.dispatch import (
    AffineParams,
    CastParams,
    ClampParams,
    NoParams,
    OpParams,
    PowIParams,
)
from fuel_async.ir import OPS, Affine, Clamp, DType, OpKind, PowI, evaluate, tree
from fuel_async.ir.ops.elementwise import Cast
from fuel_async.testing.estimates import estimate
from fuel_async.testing.estimates.bounds import Estimate
from tests.backends.grids.support import by_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.backends.grids.rig import Rig

Array = npt.NDArray[Any]
F32 = DType.F32

KERNELS = by_key([kernels()])
ADD, EXP = KERNELS[OpKind.AddElementwise, (F32,) * 3], KERNELS[OpKind.ExpElementwise, (F32,) * 2]


def name_of(kernel: GridKernel) -> str:
    return f"{kernel.op.value}-{'-'.join(map(str, kernel.dtypes))}"


# --- on devices ---------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def _able(devices: Sequence[Rig], kernel: GridKernel) -> list[Rig]:
    """The devices that can run a kernel; skips when there is none."""
    able = [runner for runner in devices if runner.can_run(kernel)]
    if not able:
        lacking = kernel.needs.difference(*[runner.limits.features for runner in devices])
        pytest.skip(f"no device here has {', '.join(sorted(lacking))}")
    return able


CASES: dict[type[OpParams], list[tuple[OpParams, Any]]] = {
    ClampParams: [(ClampParams(-0.75, 1e300), Clamp(-0.75, 1e300)), (ClampParams(-1.0, 0.5), Clamp(-1.0, 0.5))],
    AffineParams: [(AffineParams(1.7, -0.3), Affine(1.7, -0.3))],
    PowIParams: [(PowIParams(exp), PowI(exp)) for exp in (0, 3, -2, 7)],
}


def _operand(dtype: DType, chance: np.random.Generator, *, finite: bool) -> Array:
    """Numbers of a dtype, the special ones among them."""
    kind = dtype.require_np()
    if dtype.is_int:
        limits = np.iinfo(kind)
        drawn = chance.integers(limits.min, limits.max, 300, kind, endpoint=True)
        return np.append(drawn, np.array([limits.min, limits.max - 1, 0], kind))
    limits_of_float: Any = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
    normal, least = float(limits_of_float.smallest_normal), float(limits_of_float.smallest_subnormal)
    special = [0.0, -0.0, 1.0, -1.0, 2.5, 0.5, -3.5, 1 + float(limits_of_float.eps)]
    if not finite:
        special += [float(limits_of_float.max), normal, -normal, least, -least, 3 * least, -5 * least, math.nan]
        special += [math.inf, -math.inf] if dtype.bits > 8 else []
    return np.append(chance.normal(size=300) * 3, special).astype(kind)


def _operands(kernel: GridKernel) -> list[Array]:
    # Gradients of powers multiply what may be infinite by what may be 0: another order, another result. Products of
    # huge and subnormal numbers are the device's.
    finite = kernel.op in (OpKind.PowIElementwiseBackward, OpKind.MulElementwise)
    chance = np.random.default_rng(11)
    found = [_operand(dtype, chance, finite=finite) for dtype in kernel.dtypes[:-1]]
    count = min(map(len, found))
    found = [np.append(x[:count], np.roll(x[-20:], 7 * place)) for place, x in enumerate(found)]
    if kernel.op is OpKind.Where:
        found[0] %= 2
    return found


def check(runner: Rig, kernel: GridKernel) -> None:
    """Compare with the bounds that the conformance suite has, which special values are part of."""
    op = next(op for op in OPS if op.kind is kernel.op)
    inputs = _operands(kernel)
    plain: list[tuple[OpParams, Any]] = [(kernel.takes(), None)] if kernel.takes not in CASES else []
    if kernel.takes is CastParams:
        plain = [(CastParams(), Cast(kernel.dtypes[-1].code))]
    for params, attrs in CASES.get(kernel.takes, plain):
        exact = [Estimate(x, np.zeros(x.shape)) for x in inputs]
        value, error = estimate(op.name, attrs, inputs[0].shape, kernel.dtypes[-1], exact)
        got = runner.run(kernel, inputs, inputs[0].shape, params)
        with np.errstate(all="ignore"):
            near = np.abs(got.astype(np.float64) - value.astype(np.float64)) <= error
            wrong = ~((got == value) | near | np.isinf(error) | ((got != got) & (value != value)))
        found = [x[wrong][:5].tolist() for x in (*inputs, got, value, error)]
        assert not wrong.any(), f"{op.name} {params} on {runner.name}: {found}"


def has_reference(kernel: GridKernel) -> bool:
    """Whether the reference is exact enough: it rounds the largest integers by way of float64."""
    return not (kernel.op.name.startswith("Round") and kernel.dtypes[0] is DType.I64)


def _is_tested_first(kernel: GridKernel) -> bool:
    return kernel.dtypes[0] is F32 and not kernel.op.name.endswith("Inplace") and kernel.op is not OpKind.Cast


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(kernel, id=name_of(kernel), marks=[] if _is_tested_first(kernel) else pytest.mark.slow)
        for kernel in KERNELS.values()
        if has_reference(kernel)
    ],
)
def test_results_are_within_the_bounds_of_the_conformance_suite(devices: list[Rig], kernel: GridKernel) -> None:
    for runner in _able(devices, kernel):
        check(runner, kernel)


def _views(chance: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """A view of the shape over larger memory: axes in another order, steps, backwards, or repeated."""
    order = chance.permutation(len(shape))
    repeated = chance.random(len(shape)) < 0.25
    steps_ = chance.integers(1, 3, len(shape))
    sizes = [1 if repeated[axis] else shape[axis] * steps_[axis] + 1 for axis in order]
    base = chance.normal(size=sizes).astype(np.float32)
    view = base.transpose(np.argsort(order))
    index = []
    for axis, size in enumerate(shape):
        if repeated[axis]:
            index.append(slice(None))
        elif chance.random() < 0.4:
            index.append(slice(size * steps_[axis] - 1, None, -steps_[axis]))
        else:
            index.append(slice(1, None, steps_[axis]))
    picked = view[tuple(index)]
    kept = tuple(slice(None) if repeated[axis] else slice(size) for axis, size in enumerate(shape))
    return picked[kept]


@pytest.mark.parametrize("seed", range(6))
def test_operands_are_read_as_they_lie(devices: list[Rig], seed: int) -> None:
    chance = np.random.default_rng(seed)
    for runner in devices:
        for _ in range(4):
            shape = tuple(chance.integers(1, 7, chance.integers(0, 6)).tolist())
            a, b = _views(chance, shape), _views(chance, shape)
            assert np.broadcast_shapes(a.shape, b.shape, shape) == shape
            got = runner.run(ADD, [a, b], shape, NoParams())
            assert (got == np.broadcast_to(a + b, shape)).all(), (a.strides, b.strides, shape)


def test_many_axes(devices: list[Rig]) -> None:
    shape = (2,) * 12
    x = np.arange(2**12, dtype=np.float32).reshape(shape)
    a, b = x.transpose([3, 1, 0, 2, 7, 11, 5, 4, 6, 10, 9, 8]), x.T
    for runner in devices:
        assert (runner.run(ADD, [a, b], shape, NoParams()) == a + b).all()
        assert not runner.dispatches[0].push


@pytest.mark.parametrize("count", [1, 127, 512, 513, 70_001])
def test_counts_that_fill_no_group(devices: list[Rig], count: int) -> None:
    x = np.arange(count, dtype=np.float32)
    for runner in devices:
        assert (runner.run(ADD, [x, x[:1]], (count,), NoParams()) == x + x[0]).all()


def test_groups_of_several_lines_are_told_apart(devices: list[Rig]) -> None:
    x = np.arange(3000, dtype=np.float32)
    narrow = Limits(128, (2, 65535, 65535), 16384, 4, frozenset(), 2**27)
    for runner in devices:
        got = runner.run(ADD, [x, x], x.shape, NoParams(), limits=narrow)
        assert [dispatch.groups for dispatch in runner.dispatches] == [(2, 3, 1)]
        assert (got == 2 * x).all()


def test_the_output_may_be_an_input(devices: list[Rig]) -> None:
    x = np.linspace(-3, 3, 1000, dtype=np.float32)
    for runner in devices:
        apart = runner.run(EXP, [x], x.shape, NoParams())
        assert (runner.run(EXP, [x.copy()], x.shape, NoParams(), over=0) == apart).all()


# --- how exact the functions are ----------------------------------------------------------------------------


def _points(*ranges: tuple[float, float]) -> Array:
    chance = np.random.default_rng(5)
    return np.concatenate([chance.uniform(low, high, 20_000) for low, high in ranges]).astype(np.float32)


def _anything() -> Array:
    return np.frombuffer(np.random.default_rng(6).bytes(4 * 40_000), np.float32)


def _any_double() -> Array:
    return np.frombuffer(np.random.default_rng(9).bytes(8 * 40_000), np.float64)


#: Points, and the largest error in units of the last place, for float32 and then for float64.
EXACT: dict[OpKind, tuple[Callable[[], Array], float]] = {
    OpKind.ExpElementwise: (lambda: _points((-87, 88), (-1, 1), (-1e-3, 1e-3)), 1.5),
    OpKind.LogElementwise: (lambda: np.abs(np.append(_anything(), _points((0.5, 2), (0.999, 1.001)))), 1.5),
    OpKind.SinElementwise: (lambda: np.append(_anything(), _points((-4, 4), (3.14, 3.143), (-1e5, 1e5))), 2.5),
    OpKind.CosElementwise: (lambda: np.append(_anything(), _points((-4, 4), (1.57, 1.572), (-1e5, 1e5))), 2.5),
    OpKind.TanhElementwise: (lambda: _points((-10, 10), (-1, 1), (-1e-3, 1e-3)), 2.5),
    OpKind.SqrtElementwise: (lambda: np.abs(_anything()), 0.6),
    OpKind.RecipElementwise: (_anything, 0.6),
}
EXACT_DOUBLE: dict[OpKind, tuple[Callable[[], Array], Callable[[Array], Array], float]] = {
    OpKind.SinElementwise: (lambda: _doubles((-4, 4), (3.14, 3.143), (-1e5, 1e5)), np.sin, 2.5),
    OpKind.CosElementwise: (lambda: _doubles((-4, 4), (1.57, 1.572), (-1e5, 1e5)), np.cos, 2.5),
    OpKind.ExpElementwise: (lambda: _doubles((-708, 709), (-1, 1), (-1e-3, 1e-3)), np.exp, 1.5),
    OpKind.LogElementwise: (lambda: np.abs(np.append(_any_double(), _doubles((0.5, 2), (0.999, 1.001)))), np.log, 1.5),
    OpKind.TanhElementwise: (lambda: _doubles((-20, 20), (-1, 1), (-1e-3, 1e-3)), np.tanh, 2.5),
    OpKind.SqrtElementwise: (lambda: np.abs(_any_double()), np.sqrt, 0.6),
    OpKind.RecipElementwise: (_any_double, np.reciprocal, 0.6),
}
#: Numbers wider than float64 are what its functions are compared with.
wide_reference = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="numpy's longdouble is no wider than float64 on this machine"
)


def _doubles(*ranges: tuple[float, float]) -> Array:
    chance = np.random.default_rng(5)
    return np.concatenate([chance.uniform(low, high, 20_000) for low, high in ranges])


def _units(got: Array, exact: Array) -> float:
    """The largest error in units of the distance from 1 to the next number, where the result is a normal number."""
    limits: Any = np.finfo(got.dtype)
    narrow = exact.astype(got.dtype)
    inside = np.isfinite(narrow) & (np.abs(exact) > limits.smallest_normal)
    assert (np.isnan(got) == np.isnan(exact)).all()
    beyond = np.isinf(narrow)
    assert (got[beyond] == narrow[beyond]).all()
    return float((np.abs(got[inside] - exact[inside]) / np.abs(exact[inside])).max() / limits.eps)


@pytest.mark.parametrize("op", EXACT, ids=lambda op: op.value)
def test_functions_are_exact_to_units_in_the_last_place(devices: list[Rig], op: OpKind) -> None:
    points, most = EXACT[op]
    x = points()
    exact = evaluate(tree(op, (DType.F64,) * 2), [x.astype(np.float64)])
    for runner in devices:
        assert _units(runner.run(KERNELS[op, (F32, F32)], [x], x.shape, NoParams()), exact) < most


@wide_reference
@pytest.mark.parametrize("op", EXACT_DOUBLE, ids=lambda op: op.value)
def test_functions_of_float64_are_exact_to_units_in_the_last_place(devices: list[Rig], op: OpKind) -> None:
    points, function, most = EXACT_DOUBLE[op]
    kernel, x = KERNELS[op, (DType.F64,) * 2], points()
    exact = function(x.astype(np.longdouble))
    for runner in _able(devices, kernel):
        assert _units(runner.run(kernel, [x], x.shape, NoParams()), exact) < most


def _bases_and_exponents(dtype: DType) -> tuple[Array, Array]:
    chance, kind = np.random.default_rng(7), dtype.require_np()
    anything = _anything() if dtype is F32 else _any_double()
    base = np.concatenate([_doubles((0, 4)), 1 + _doubles((-1e-4, 1e-4)), np.abs(anything)]).astype(kind)
    most = 100 if dtype is F32 else 1000
    reach = most / np.maximum(np.abs(np.log2(base.astype(np.float64))), 1e-5)
    return base, (chance.uniform(-1, 1, len(base)) * np.minimum(reach, 1e30)).astype(kind)


@wide_reference
@pytest.mark.parametrize(("dtype", "most"), [(F32, 4), (DType.F64, 16)], ids=str)
def test_powers_are_exact_to_units_in_the_last_place(devices: list[Rig], dtype: DType, most: float) -> None:
    base, exponent = _bases_and_exponents(dtype)
    exact = np.power(base.astype(np.longdouble), exponent.astype(np.longdouble))
    kernel = KERNELS[OpKind.PowElementwise, (dtype,) * 3]
    for runner in _able(devices, kernel):
        assert _units(runner.run(kernel, [base, exponent], base.shape, NoParams()), exact) < most


@pytest.mark.parametrize("dtype", [F32, DType.F64], ids=str)
def test_powers_of_special_numbers_are_those_of_the_c_standard(devices: list[Rig], dtype: DType) -> None:
    kernel, limits = KERNELS[OpKind.PowElementwise, (dtype,) * 3], np.finfo(dtype.require_np())
    special = [0, 1, 0.5, 2, 3, 2.5, 1e30, float(limits.max), math.inf]
    x = np.array([*special, *[-number for number in special], math.nan], dtype.require_np())
    base, exponent = np.repeat(x, len(x)), np.tile(x, len(x))
    wanted = np.power(base, exponent)
    for runner in _able(devices, kernel):
        got = runner.run(kernel, [base, exponent], base.shape, NoParams())
        np.testing.assert_allclose(got, wanted, rtol=16 * limits.eps, atol=limits.smallest_normal)
        signs = (wanted != 0) | (np.signbit(got) == np.signbit(wanted))
        assert signs.all()


def test_remainders_have_the_bits_of_numpys(devices: list[Rig]) -> None:
    chance = np.random.default_rng(8)
    a, b = (np.append(_anything(), _points((-9, 9))) for _ in range(2))
    b = chance.permutation(b)
    wanted = np.remainder(a, b)
    for runner in devices:
        got = runner.run(KERNELS[OpKind.RemElementwise, (F32,) * 3], [a, b], a.shape, NoParams())
        same = (got.view(np.uint32) == wanted.view(np.uint32)) | (np.isnan(got) & np.isnan(wanted))
        # A subnormal remainder, before the divisor is added, may count as 0.
        assert (same | (np.abs(got - wanted) < np.finfo(np.float32).smallest_normal)).all()


# --- conversions --------------------------------------------------------------------------------------------


def _cast(devices: Sequence[Rig], source: DType, target: DType, x: Array) -> Iterator[Array]:
    kernel = KERNELS[OpKind.Cast, (source, target)]
    for runner in _able(devices, kernel):
        yield runner.run(kernel, [x], x.shape, CastParams())


def _assert_same(got: Array, wanted: Array) -> None:
    width = f"u{wanted.itemsize}"
    wrong = (got.view(width) != wanted.view(width)) & ~((got != got) & (wanted != wanted))
    assert not wrong.any(), (got[wrong][:5], wanted[wrong][:5])


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F8E4M3], ids=str)
def test_every_number_of_a_narrow_format_is_widened_and_narrowed_exactly(devices: list[Rig], dtype: DType) -> None:
    kind = dtype.require_np()
    every = np.arange(1 << dtype.bits, dtype=f"u{dtype.nbytes}").view(kind)
    wide = every.astype(np.float32)
    for got in _cast(devices, dtype, F32, every):
        _assert_same(got, wide)
    for got in _cast(devices, F32, dtype, wide):
        _assert_same(got, every)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F8E4M3], ids=str)
def test_narrowing_rounds_half_to_even_as_numpy_does(devices: list[Rig], dtype: DType) -> None:
    kind = dtype.require_np()
    every = np.arange(1 << dtype.bits, dtype=f"u{dtype.nbytes}").view(kind).astype(np.float32)
    with np.errstate(all="ignore"):
        between = (every[:-1] + every[1:]) / 2
        around = [np.nextafter(between, np.float32(side)) for side in (-np.inf, np.inf)]
        x = np.concatenate([between, *around, _anything()]).astype(np.float32)
        wanted = x.astype(kind)
    for got in _cast(devices, F32, dtype, x):
        _assert_same(got, wanted)


def test_float64_is_narrowed_to_half_by_one_rounding(devices: list[Rig]) -> None:
    every = np.arange(1 << 15, dtype=np.uint16).view(np.float16).astype(np.float64)
    every = every[np.isfinite(every)]
    between = (every[:-1] + every[1:]) / 2
    # So near a tie that float32 does not show it.
    x = np.concatenate([between, np.nextafter(between, 0), np.nextafter(between, np.inf)])
    with np.errstate(all="ignore"):
        wanted = x.astype(np.float16)
    for got in _cast(devices, DType.F64, DType.F16, x):
        _assert_same(got, wanted)


@pytest.mark.parametrize("width", [32, 64])
def test_subnormal_numbers_are_compared_and_kept(devices: list[Rig], width: int) -> None:
    dtype = F32 if width == 32 else DType.F64
    kind = dtype.require_np()
    least = float(np.finfo(kind).smallest_subnormal)
    x = np.array([0.0, -0.0, least, -least, 2 * least, -3 * least], kind)
    a, b = np.repeat(x, len(x)), np.tile(x, len(x))
    for op, function in ((OpKind.MaximumElementwise, np.maximum), (OpKind.MinimumElementwise, np.minimum)):
        kernel = KERNELS[op, (dtype,) * 3]
        for runner in filter(lambda runner: runner.can_run(kernel), devices):
            assert (runner.run(kernel, [a, b], a.shape, NoParams()) == function(a, b)).all()
    less = KERNELS[OpKind.LessElementwise, (dtype, dtype, DType.U8)]
    for runner in filter(lambda runner: runner.can_run(less), devices):
        assert (runner.run(less, [a, b], a.shape, NoParams()) == (a < b)).all()
