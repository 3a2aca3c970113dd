"""Flip, roll, pad and the gradient of pad."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuel_async.backends.cpu.kernels.base import T4, T6
from fuel_async.backends.cpu.kernels.borders import kernels
from fuel_async.dispatch import OpParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, OpKind

Array = npt.NDArray[Any]
Call = Callable[..., Array]
Widths = tuple[tuple[int, int], ...]

MODES: tuple[Any, ...] = ("constant", "reflect", "edge")
CONSTANT, REFLECT, REPLICATE = range(3)


def padded_shape(shape: tuple[int, ...], widths: Widths) -> tuple[int, ...]:
    return tuple(before + size + after for size, (before, after) in zip(shape, widths, strict=True))


def pad(call: Call, x: Array, widths: Widths, mode: int, fill: float = 0) -> Array:
    shape = padded_shape(x.shape, widths)
    params = OpParams.Pad(x.shape, shape, widths, mode, np.asarray(fill, x.dtype).tobytes())
    return call(OpKind.Pad, [x], shape, params)


def pad_backward(call: Call, upstream: Array, shape: tuple[int, ...], widths: Widths, mode: int) -> Array:
    return call(OpKind.PadBackward, [upstream], shape, OpParams.PadBackward(shape, upstream.shape, widths, mode))


def ramp(shape: tuple[int, ...], dtype: DType) -> Array:
    return np.arange(1, 1 + np.prod(shape, dtype=int)).reshape(shape).astype(dtype.require_np())


@pytest.mark.parametrize("dtype", T6, ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_flip_and_roll_along_any_axis(axis: int, dtype: DType, call: Call, strided: Callable[..., Array]) -> None:
    x = ramp((3, 4, 5), dtype)
    sizes = (12 // 3, x.shape[axis], 5)
    for view in (x, strided(x), x.T.copy().T):
        flipped = call(OpKind.Flip, [view], x.shape, OpParams.Flip(*sizes, axis))
        assert flipped.tobytes() == np.flip(x, axis).tobytes()
        for shift in (0, 1, -1, 3, 4, -7, 10**12):
            rolled = call(OpKind.Roll, [view], x.shape, OpParams.Roll(*sizes, axis, shift))
            assert rolled.tobytes() == np.roll(x, shift, axis).tobytes()


def test_flip_then_relu(call: Call) -> None:
    x = np.array([1, 2, -3, 4], np.float32)
    flipped = call(OpKind.Flip, [x], (4,), OpParams.Flip(1, 4, 1, 0))
    assert call(OpKind.ReluElementwise, [flipped], (4,)).tolist() == [4, 0, 2, 1]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_what_has_no_elements_is_flipped_and_rolled(shape: tuple[int, ...], call: Call) -> None:
    x = np.ones(shape, np.float32)
    assert call(OpKind.Flip, [x], shape, OpParams.Flip(1, shape[0], 1, 0)).shape == shape
    assert call(OpKind.Roll, [x], shape, OpParams.Roll(1, shape[0], 1, 0, 5)).shape == shape


@pytest.mark.parametrize("dtype", T6, ids=str)
@pytest.mark.parametrize("mode", range(3), ids=MODES)
def test_pads_are_numpys(mode: int, dtype: DType, call: Call, strided: Callable[..., Array]) -> None:
    x = ramp((3, 4, 2), dtype)
    extra = {"constant_values": 7} if mode == CONSTANT else {}
    for widths in product(((0, 0), (1, 0), (2, 2)), ((0, 3), (0, 0)), ((1, 1), (0, 0))):
        wanted = np.pad(x, widths, MODES[mode], **extra)
        for view in (x, strided(x), x.T.copy().T):
            assert pad(call, view, widths, mode, 7).tobytes() == wanted.tobytes()


def test_pads_of_scalars_and_of_nothing(call: Call) -> None:
    assert pad(call, np.array(3, np.float32), (), REFLECT).tolist() == 3
    assert pad(call, np.ones((0, 2), np.float32), ((1, 1), (0, 0)), CONSTANT, 5).tolist() == [[5, 5]] * 2
    assert pad(call, np.ones((0, 2), np.float32), ((0, 0), (1, 1)), REFLECT).shape == (0, 4)
    assert pad(call, np.ones((1,), np.float32), ((3, 2),), REPLICATE).tolist() == [1] * 6


def test_a_pad_keeps_bits(call: Call) -> None:
    bits = np.array([0x7FC00001, 0xFF800123, 0x80000000], np.uint32)
    got = pad(call, bits.view(np.float32), ((1, 1),), CONSTANT, -0.0).view(np.uint32)
    assert got.tolist() == [0x80000000, *bits.tolist(), 0x80000000]


@pytest.mark.parametrize("mode", range(3), ids=MODES)
def test_a_gradient_adds_up_what_each_element_was_copied_to(mode: int, call: Call) -> None:
    upstream = np.array([1, 2, 4, 8, 16, 32, 64], np.float32)
    wanted = {CONSTANT: [4, 8, 16], REFLECT: [4 + 64, 8 + 2 + 32, 16 + 1], REPLICATE: [1 + 2 + 4, 8, 16 + 32 + 64]}
    assert pad_backward(call, upstream, (3,), ((2, 2),), mode).tolist() == wanted[mode]


@pytest.mark.parametrize("dtype", T4, ids=str)
@pytest.mark.parametrize("mode", range(3), ids=MODES)
def test_gradients_of_several_axes_and_layouts(
    mode: int, dtype: DType, call: Call, strided: Callable[..., Array]
) -> None:
    shape, widths = (3, 4, 2), ((2, 1), (0, 3), (1, 1))
    upstream = (ramp(padded_shape(shape, widths), DType.F64) % 7 - 3).astype(dtype.require_np())
    fill = {"constant_values": -1} if mode == CONSTANT else {}
    places = np.pad(np.arange(24).reshape(shape), widths, MODES[mode], **fill)
    wanted = np.array([upstream[places == place].astype(float).sum() for place in range(24)]).reshape(shape)
    for view in (upstream, strided(upstream)):
        assert pad_backward(call, view, shape, widths, mode).astype(float).tolist() == wanted.tolist()


def test_half_types_add_up_in_float32_and_round_once(call: Call) -> None:
    upstream = np.array([2048, 1, 1, 1, 1], np.float16)
    assert pad_backward(call, upstream, (1,), ((2, 2),), REPLICATE).tolist() == [2052]


HOST = {(kernel.op, kernel.dtypes[0]): kernel for kernel in kernels()}


def _run(op: OpKind, x: Array, shape: tuple[int, ...], params: Any) -> Array:
    kernel, out = HOST[op, DType.F64], np.empty(shape, np.float64)
    scratch = [np.empty(nbytes, np.uint8) for nbytes in kernel.scratch(params, [x.shape], shape)]
    function, args = kernel.bind([x], [out], params, scratch)
    function(*args)
    return out


@settings(max_examples=60)
@given(st.data())
def test_the_gradient_is_the_central_difference_of_the_pad(data: st.DataObject) -> None:
    """for a weighted sum of the padded elements, which is linear: the difference is exact but for rounding"""
    mode = data.draw(st.sampled_from([CONSTANT, REFLECT, REPLICATE]))
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    most = [size - 1 if mode == REFLECT else 3 for size in shape]
    widths = tuple((data.draw(st.integers(0, width)), data.draw(st.integers(0, width))) for width in most)
    padded = padded_shape(shape, widths)
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    x, weights = random.normal(size=shape), random.normal(size=padded)
    params = OpParams.Pad(shape, padded, widths, mode, bytes(8))

    def loss(at: Array) -> float:
        return float((_run(OpKind.Pad, at, padded, params) * weights).sum())

    gradient = _run(OpKind.PadBackward, weights, shape, OpParams.PadBackward(shape, padded, widths, mode))
    for place in np.ndindex(*shape):
        step = np.zeros(shape)
        step[place] = 0.5
        assert abs(loss(x + step) - loss(x - step) - gradient[place]) < 1e-12 * (1 + np.abs(weights).sum())


@pytest.mark.parametrize(
    ("op", "shape", "params", "text"),
    [
        (OpKind.Flip, (3, 2), OpParams.Flip(1, 3, 2, 2), "axis is 2"),
        (OpKind.Flip, (3, 3), OpParams.Flip(1, 3, 2, 0), "the output's shape"),
        (OpKind.Roll, (3, 2), OpParams.Roll(1, 2, 2, 0, 1), "dim_size is 2, wanted 3"),
        (OpKind.Pad, (5, 2), OpParams.Pad((3, 2), (5, 2), ((1, 1),), 0, bytes(4)), "padding"),
        (OpKind.Pad, (5, 2), OpParams.Pad((3, 2), (5, 2), ((3, -1), (0, 0)), 0, bytes(4)), "padding"),
        (OpKind.Pad, (5, 2), OpParams.Pad((3, 2), (5, 2), ((1, 1), (0, 0)), 3, bytes(4)), "mode_tag"),
        (OpKind.Pad, (5, 2), OpParams.Pad((3, 2), (5, 2), ((1, 2), (0, 0)), 0, bytes(4)), "the padded shape"),
        (OpKind.Pad, (5, 2), OpParams.Pad((3, 2), (5, 2), ((1, 1), (0, 0)), 0, bytes(8)), "fill_bytes"),
        (OpKind.Pad, (6, 2), OpParams.Pad((3, 2), (6, 2), ((3, 0), (0, 0)), 1, bytes(4)), "the size of axis 0"),
        (OpKind.PadBackward, (1, 2), OpParams.PadBackward((1, 2), (3, 2), ((1, 1), (0, 0)), 1), "the size of axis 0"),
        (OpKind.PadBackward, (2, 2), OpParams.PadBackward((2, 2), (3, 2), ((1, 1), (0, 0)), 0), "the padded shape"),
    ],
)
def test_operands_that_do_not_fit_are_refused(
    op: OpKind, shape: tuple[int, ...], params: OpParams, text: str, call: Call
) -> None:
    with pytest.raises(KernelArgumentError, match=text) as caught:
        call(op, [np.ones((3, 2), np.float32)], shape, params)
    assert caught.value.op == op.value
