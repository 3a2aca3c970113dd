"""Values that any executor must give, small enough to check by hand: one case an op, through the whole executor and
through the walker. Most are those of the original's own tests.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.ir import BY_NAME
from fuel_async.storage import as_array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Build = Callable[..., fa.Tensor]

NAN = math.nan
X23 = [[1, 2, 3], [4, 5, 6]]
NINE = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]

#: name -> (operands, what is built of them, result). Numbers are f32 unless an operand has a dtype.
CASES: dict[str, tuple[Sequence[Any], Build, Any]] = {
    "matmul": ([X23, [[7, 8], [9, 10], [11, 12]]], lambda a, b: a @ b, [[58, 64], [139, 154]]),
    "matmul_batched": (
        [[[[1, 2], [3, 4]], [[1, 0], [0, 1]]], [[[5, 6], [7, 8]], [[10, 20], [30, 40]]]],
        lambda a, b: a @ b,
        [[[19, 22], [43, 50]], [[10, 20], [30, 40]]],
    ),
    "matmul_grouped": (
        [[[[1, 2]], [[3, 4]], [[5, 6]], [[7, 8]]], [[[1], [0]], [[0], [1]]]],
        lambda a, b: a @ b,
        [[[1]], [[3]], [[6]], [[8]]],
    ),
    "matmul_transposed_view": (
        [[[1, 2], [3, 4]], [[5, 6], [7, 8]]],
        lambda a, b: a @ b.T,
        [[17, 23], [39, 53]],
    ),
    "matmul_u8_saturates": (
        [np.array([[100, 100]], np.uint8), np.array([[1, 2], [1, 2]], np.uint8)],
        lambda a, b: a @ b,
        [[200, 255]],
    ),
    "matmul_i8_saturates": (
        [np.array([[100, -100]], np.int8), np.array([[1, 2, -2], [1, -2, 2]], np.int8)],
        lambda a, b: a @ b,
        [[0, 127, -128]],
    ),
    "fused_linear": (
        [X23, [[1, 0], [0, 1], [1, 1]], [10, 20]],
        fa.linear,
        [[14, 25], [20, 31]],
    ),
    "relu": ([[-1, 0, 0.5, -3.5, 7.25]], lambda x: x.relu(), [0, 0, 0.5, 0, 7.25]),
    "chained_adds": ([[1, 2], [10, 20], [100, 200]], lambda a, b, c: a + b + c, [111, 222]),
    "cast_f64": ([[1, 2, -3, 0.5]], lambda x: x.astype(fa.f64), [1, 2, -3, 0.5]),
    "cast_bf16_and_back": ([[1, 2, -3, 0.5]], lambda x: x.astype(fa.bf16).astype(fa.f32), [1, 2, -3, 0.5]),
    "eq": ([[1, 2, 3, NAN, 0], [1, 5, 3, NAN, -0.0]], lambda a, b: a == b, [1, 0, 1, 0, 1]),
    "ne": ([[1, 2, 3, NAN, 0], [1, 5, 3, NAN, -0.0]], lambda a, b: a != b, [0, 1, 0, 1, 0]),
    "lt": ([[1, 5, 3, NAN, -1], [2, 5, 3, 0, 0]], lambda a, b: a < b, [1, 0, 0, 0, 1]),
    "le": ([[1, 5, 3, NAN, -1], [2, 5, 2, 0, 0]], lambda a, b: a <= b, [1, 1, 0, 0, 1]),
    "gt": ([[3, 5, 2, NAN, 1], [2, 5, 3, 0, 0]], lambda a, b: a > b, [1, 0, 0, 0, 1]),
    "ge": ([[3, 5, 2, NAN, 0], [2, 5, 3, 0, 0]], lambda a, b: a >= b, [1, 1, 0, 0, 1]),
    "where": (
        [np.array([1, 0, 1, 0, 1], np.uint8), [1, 2, 3, 4, 5], [10, 20, 30, 40, 50]],
        fa.where,
        [1, 20, 3, 40, 5],
    ),
    "sum_dim": ([X23], lambda x: x.sum(1), [6, 15]),
    "sum_all": ([np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4)], lambda x: x.sum(), 300),
    "argmax": ([[[1, 5, 2], [9, 0, 4]]], lambda x: x.argmax(1), [1, 0]),
    "argmin": ([[[1, 5, 2], [9, 0, 4]]], lambda x: x.argmin(1), [0, 1]),
    "reduce_sum_to": ([X23], lambda x: x.sum_to((3,)), [5, 7, 9]),
    "reduce_max_to": ([[[1, 7, 3], [4, 2, 6]]], lambda x: x.max_to((3,)), [4, 7, 6]),
    "reduce_max_to_keepdim": ([X23], lambda x: x.max_to((2, 1)), [[3], [6]]),
    "reduce_max_to_backward": (
        [[[1, 7, 7], [4, 2, 4]], [[6], [3]]],
        fa.max_to_backward,
        [[0, 3, 3], [1.5, 0, 1.5]],
    ),
    "cumsum": ([X23], lambda x: x.cumulative_sum(1), [[1, 3, 6], [4, 9, 15]]),
    "rope": ([[[1, 2, 3, 4]], [[0] * 4], [[1] * 4]], fa.rope, [[-3, -4, 1, 2]]),
    "softmax_of_equals": ([[7, 7, 7, 7]], lambda x: x.softmax(), [0.25] * 4),
    "log_softmax_rows_sum_to_one": ([X23], lambda x: x.log_softmax().exp().sum(-1), [1, 1]),
    "rms_norm": ([[3, 4]], lambda x: x.rms_norm(eps=0.0), [3 / math.sqrt(12.5), 4 / math.sqrt(12.5)]),
    "layer_norm_mean": ([[1, 2, 3, 4]], lambda x: x.layer_norm().mean(), 0),
    "layer_norm_variance": ([[1, 2, 3, 4]], lambda x: x.layer_norm(eps=0.0).square().mean(), 1),
    "concat_inner": ([X23, [[7], [8]]], lambda a, b: fa.concat([a, b], axis=1), [[1, 2, 3, 7], [4, 5, 6, 8]]),
    "concat_outer": ([X23, [[7, 8, 9]]], lambda a, b: fa.concat([a, b]), [*X23, [7, 8, 9]]),
    "clamp": ([[-5, 0.5, 100]], lambda x: x.clip(-2, 2), [-2, 0.5, 2]),
    "add_scalar": ([[1, 2]], lambda x: x + 10, [11, 12]),
    "affine": ([[1, -2]], lambda x: x.affine(3, 0.5), [3.5, -5.5]),
    "powi": ([[2, -2, 0.5]], lambda x: x.powi(-3), [0.125, -0.125, 8]),
    "powi_backward": ([[2, -2], [1, 10]], lambda x, g: fa.powi_backward(x, g, 3), [12, 120]),
    "maximum": ([[1, 5], [3, 2]], fa.maximum, [3, 5]),
    "rem": ([[7, -7, 7, -7], [3, 3, -3, -3]], lambda a, b: a % b, [1, 2, -2, -1]),
    "pow_of_negative": ([[-2, 4]], lambda x: x**0.5, [NAN, 2]),
    "round": ([[0.5, 1.5, 2.5, -0.5]], lambda x: x.round(), [0, 2, 2, -0.0]),
    "sign": ([[-3, 0, 5]], lambda x: x.sign(), [-1, 0, 1]),
    "step": ([[-1, 0, 2]], lambda x: x.graph.node(BY_NAME["step"], (x,)), [0, 0, 1]),
    "index_select": ([NINE, np.array([2, 0, 2], np.uint32)], lambda x, i: x.take(i), [NINE[2], NINE[0], NINE[2]]),
    "reshape_of_transpose": ([X23], lambda x: x.T.reshape((6,)), [1, 4, 2, 5, 3, 6]),
    "flip_then_relu": ([[1, 2, 3, 4]], lambda x: x.flip(0).relu(), [4, 3, 2, 1]),
    "softmax_cross_entropy": (
        [[[0, 0], [0, 0], [5, 5]], np.array([0, 1, -100])],
        fa.softmax_cross_entropy,
        math.log(2),
    ),
    "softmax_backward": ([[0.25, 0.75], [1, 3]], fa.softmax_backward, [-0.375, 0.375]),
    "log_softmax_backward": ([[math.log(0.25), math.log(0.75)], [1, 3]], fa.log_softmax_backward, [0, 0]),
    "rms_norm_backward": ([[1, 1], [1, 0]], lambda x, g: fa.rms_norm_backward(x, g, eps=0.0), [0.5, -0.5]),
    "layer_norm_backward": ([[1, -1], [1, 0]], lambda x, g: fa.layer_norm_backward(x, g, eps=0.0), [0, 0]),
}


def as_operand(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) else np.array(value, np.float32)


def graph_of(operands: Sequence[Any], build: Build) -> fa.Graph:
    g = fa.Graph()
    kinds = [as_operand(value) for value in operands]
    g.output("y", build(*[g.input(f"x{n}", x.shape, fa.DType.from_numpy(x.dtype)) for n, x in enumerate(kinds)]))
    return g


@pytest.mark.asyncio(loop_factories=["default"])
@pytest.mark.parametrize("case", CASES)
async def test_values(case: str, ex: fa.Executor) -> None:
    operands, build, wanted = CASES[case]
    g, feeds = graph_of(operands, build), {f"x{n}": as_operand(value) for n, value in enumerate(operands)}
    found = await ex.run(g, feeds)
    assert np.shape(found["y"]) == np.shape(wanted)
    np.testing.assert_allclose(found["y"].astype(np.float64), wanted, rtol=2e-6, atol=1e-6)
    ((storage, layout),) = await fa.PipelinedExecutor(ex).realize_many(g, ["y"], feeds)
    assert as_array(storage, layout).tobytes() == found["y"].tobytes()
