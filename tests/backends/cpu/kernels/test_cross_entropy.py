"""The loss of scores against targets."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from fuel_async.dispatch import OpParams
from fuel_async.errors import IndexOutOfRange, KernelArgumentError
from fuel_async.ir import DType, OpKind

Array = npt.NDArray[Any]
Call = Callable[..., Array]

OP = OpKind.FusedSoftmaxCrossEntropy
INF, NAN = math.inf, math.nan
#: dtype of the scores -> tolerance of a loss.
DTYPES = {
    np.dtype(np.float32): 1e-5,
    np.dtype(np.float64): 1e-6,
    np.dtype(np.float16): 1e-5,
    np.dtype(ml_dtypes.bfloat16): 1e-5,
}
REDUCTIONS = ("mean", "sum", "none")

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
every_reduction = pytest.mark.parametrize("reduction", REDUCTIONS)


def loss(call: Call, scores: Array, targets: Array, reduction: str = "none", ignored: int = -100) -> Array:
    rows, vocab = math.prod(scores.shape[:-1]), scores.shape[-1]
    shape = targets.shape if reduction == "none" else ()
    params = OpParams.FusedSoftmaxCrossEntropy(rows, vocab, reduction, ignored)
    return call(OP, [scores, targets], shape, params, dtype=DType.F32)


def exact(scores: Array, targets: Array, reduction: str, ignored: int) -> Any:
    losses, counted = np.zeros(targets.shape), targets != ignored
    wide = scores.astype(np.float64)
    logarithms = wide - np.logaddexp.reduce(wide, -1, keepdims=True)
    for row in np.argwhere(counted):
        losses[tuple(row)] = -logarithms[(*row, targets[tuple(row)])]
    match reduction:
        case "none":
            return losses
        case "sum":
            return losses.sum()
        case _:
            return losses.sum() / counted.sum()


def drawn(shape: tuple[int, ...], dtype: np.dtype[Any], ignored: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 3, shape).astype(dtype)
    targets = rng.integers(0, shape[-1], shape[:-1])
    return scores, np.asarray(np.where(rng.random(shape[:-1]) < 0.2, ignored, targets), np.int64)


@every_dtype
@every_reduction
@pytest.mark.parametrize("ignored", [-100, 3])
@pytest.mark.parametrize("shape", [(7,), (5, 7), (2, 3, 7), (600, 200), (3, 60_000)], ids=str)
def test_losses(
    shape: tuple[int, ...],
    ignored: int,
    reduction: str,
    dtype: np.dtype[Any],
    call: Call,
    strided: Callable[..., Array],
) -> None:
    scores, targets = drawn(shape, dtype, ignored)
    if not (targets != ignored).any():
        targets = np.zeros_like(targets)
    got = loss(call, scores, targets, reduction, ignored)
    wanted = exact(scores, targets, reduction, ignored)
    np.testing.assert_allclose(got, wanted, rtol=DTYPES[dtype], atol=DTYPES[dtype])
    assert loss(call, strided(scores), strided(targets), reduction, ignored).tobytes() == got.tobytes()


def test_a_certain_and_an_even_choice(call: Call) -> None:
    scores = np.array([[1000, 0, 0, 0], [2, 2, 2, 2]], np.float32)
    got = loss(call, scores, np.array([0, 3]))
    np.testing.assert_allclose(got, [0, math.log(4)], rtol=1e-6)


def test_ignored_rows_count_for_nothing_whatever_their_scores(call: Call) -> None:
    scores = np.array([[0, 0], [NAN, INF], [0, 0]], np.float32)
    targets = np.array([0, -100, 1])
    assert loss(call, scores, targets, "none").tolist()[1] == 0
    np.testing.assert_allclose(loss(call, scores, targets, "mean"), math.log(2), rtol=1e-6)
    everything = np.full(3, -100)
    assert loss(call, scores, everything, "sum").item() == 0
    assert math.isnan(loss(call, scores, everything, "mean").item())


def test_rows_that_there_are_none_of(call: Call) -> None:
    scores, targets = np.empty((0, 4), np.float32), np.empty(0, np.int64)
    assert loss(call, scores, targets, "sum").item() == 0
    assert math.isnan(loss(call, scores, targets, "mean").item())
    assert loss(call, scores, targets).shape == (0,)
    nothing = np.empty((2, 0), np.float32)
    assert loss(call, nothing, np.full(2, -100)).tolist() == [0, 0]
    with pytest.raises(IndexOutOfRange):
        loss(call, nothing, np.zeros(2, np.int64))


@pytest.mark.parametrize("bad", [4, -1, 2**62, -(2**63)])
def test_a_target_outside_the_row_fails_before_anything_is_written(bad: int, call: Call) -> None:
    scores, out = np.zeros((3, 4), np.float32), np.full(3, 7, np.float32)
    params = OpParams.FusedSoftmaxCrossEntropy(3, 4, "none", -100)
    with pytest.raises(IndexOutOfRange) as caught:
        call(OP, [scores, np.array([0, bad, 1])], (3,), params, dtype=DType.F32, out=out)
    assert (caught.value.op, caught.value.index, caught.value.limit) == (OP.value, bad, 4)
    assert out.tolist() == [7, 7, 7]


def test_the_sum_of_many_rows_is_kept_in_float64(call: Call) -> None:
    rows = 200_000
    scores = np.zeros((rows, 2), np.float32)
    got = loss(call, scores, np.zeros(rows, np.int64), "sum").item()
    assert got == np.float32(np.float32(math.log(2)).astype(np.float64) * rows)


@pytest.mark.parametrize(
    ("scores", "targets", "shape", "params", "argument"),
    [
        ((2, 3), (3,), (3,), (2, 3, "none"), "the targets' shape"),
        ((), (), (), (1, 1, "none"), "the targets' shape"),
        ((2, 3), (2,), (), (2, 3, "none"), "the output's shape"),
        ((2, 3), (2,), (2,), (2, 3, "mean"), "the output's shape"),
        ((2, 3), (2,), (2,), (2, 4, "none"), "n_rows, vocab"),
        ((2, 3), (2,), (2,), (2, 3, "average"), "reduction"),
    ],
)
def test_operands_that_do_not_fit_are_refused(
    scores: Any, targets: Any, shape: Any, params: Any, argument: str, call: Call
) -> None:
    operands = [np.zeros(scores, np.float32), np.zeros(targets, np.int64)]
    with pytest.raises(KernelArgumentError, match=argument):
        call(
            OP,
            operands,
            shape,
            OpParams.FusedSoftmaxCrossEntropy(params[0], params[1], params[2], -100),
            dtype=DType.F32,
        )
