"""From a node to its kernel's parameters and table key, for every op that has a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.dispatch import OpParams, derive_params, kernel_dtypes
from fuel_async.ir import BY_NAME, OPS, DType, Form, FrozenGraph, OpKind, TensorType
from fuel_async.registry import global_bindings
from fuel_async.testing import random_graph


def node(build: Any) -> tuple[FrozenGraph, int]:
    """A graph of the one tensor that is built, and its node."""
    g = fa.Graph("g")
    made = build(g)
    g.output("y", made)
    frozen = g.freeze()
    return frozen, frozen.outputs["y"]


def asked(build: Any) -> tuple[OpParams, tuple[DType, ...]]:
    """Parameters and key of the node."""
    graph, at = node(build)
    op, types = graph.ops[at], [graph.types[arg] for arg in graph.args[at]]
    return derive_params(op, graph.attrs[at], types, graph.types[at]), kernel_dtypes(op, types, graph.types[at])


F32, U8, U32 = DType.F32, DType.U8, DType.U32
TWO = np.array(2, np.float32)


def x(g: fa.Graph, *shape: int, name: str = "x", dtype: DType = F32) -> fa.Tensor:
    return g.input(name, shape, dtype)


@pytest.mark.parametrize(
    ("build", "params", "dtypes"),
    [
        pytest.param(lambda g: x(g, 2) + x(g, 2, name="z"), OpParams.NONE, (F32, F32, F32), id="add"),
        pytest.param(lambda g: x(g, 2) > x(g, 2, name="z"), OpParams.NONE, (F32, F32, U8), id="greater"),
        pytest.param(lambda g: x(g, 2).exp(), OpParams.NONE, (F32, F32), id="exp"),
        pytest.param(
            lambda g: fa.where(x(g, 2, name="c", dtype=U8), x(g, 2), x(g, 2, name="z")),
            OpParams.NONE, (U8, F32, F32, F32), id="where",
        ),
        pytest.param(lambda g: x(g, 2).clip(-1, 2.5), OpParams.Clamp(-1, 2.5), (F32, F32), id="clamp"),
        pytest.param(lambda g: x(g, 2).astype(fa.f16), OpParams.Cast(), (F32, DType.F16), id="cast"),
        pytest.param(lambda g: x(g, 2, 3, 4).sum(axis=(0, 2)), OpParams.Reduce((0, 2), False), (F32, F32), id="sum"),
        pytest.param(
            lambda g: x(g, 2, 3).max(axis=1, keepdims=True), OpParams.Reduce((1,), True), (F32, F32), id="max"
        ),
        pytest.param(
            lambda g: x(g, 5, 3) @ x(g, 3, 7, name="z"), OpParams.Matmul((), (), 5, 7, 3), (F32, F32, F32), id="matmul"
        ),
        pytest.param(
            lambda g: x(g, 2, 8, 5, 3) @ x(g, 2, 4, 3, 7, name="z"),
            OpParams.Matmul((2, 8), (2, 4), 5, 7, 3), (F32, F32, F32), id="grouped matmul",
        ),
        pytest.param(
            lambda g: fa.concat([x(g, 2, 1, 4), x(g, 2, 5, 4, name="z"), x(g, 2, 2, 4, name="w")], axis=1),
            OpParams.Concat(2, (1, 5, 2), 4, 1), (F32, F32), id="concat",
        ),
        pytest.param(
            lambda g: x(g, 2, 9, 4).take(x(g, 3, name="i", dtype=U32), axis=1),
            OpParams.IndexSelect(2, 9, 3, 4, 1), (F32, U32, F32), id="index_select",
        ),
        pytest.param(lambda g: x(g, 2, 3, 4).softmax(), OpParams.SoftmaxLastDim(6, 4), (F32, F32), id="softmax"),
        pytest.param(
            lambda g: x(g, 2, 3, 4).layer_norm(eps=0.5), OpParams.NormLastDim(6, 4, 0.5), (F32, F32), id="layer_norm"
        ),
        pytest.param(lambda g: x(g, 2) % x(g, 2, name="z"), OpParams.NONE, (F32, F32, F32), id="rem"),
        pytest.param(lambda g: x(g, 2).affine(2, 0.5), OpParams.Affine(2.0, 0.5), (F32, F32), id="affine"),
        pytest.param(lambda g: x(g, 2).powi(-3), OpParams.PowI(-3), (F32, F32), id="powi"),
        pytest.param(
            lambda g: fa.powi_backward(x(g, 2), x(g, 2, name="z"), 4), OpParams.PowI(4), (F32, F32, F32),
            id="powi_backward",
        ),
        pytest.param(
            lambda g: x(g, 2, 3, 4).argmax(1, keepdims=True), OpParams.Reduce((1,), True), (F32, U32), id="argmax"
        ),
        pytest.param(
            lambda g: x(g, 2, 3, 4).sum_to((3, 1)), OpParams.ReduceSumTo((2, 3, 4), (3, 1)), (F32, F32), id="sum_to"
        ),
        pytest.param(
            lambda g: x(g, 2, 3, 4).max_to((4,)), OpParams.ReduceMaxTo((2, 3, 4), (4,)), (F32, F32), id="max_to"
        ),
        pytest.param(
            lambda g: fa.max_to_backward(x(g, 2, 3), x(g, 1, 3, name="z")),
            OpParams.ReduceMaxToBackward((2, 3), (1, 3)), (F32, F32, F32), id="max_to_backward",
        ),
        pytest.param(
            lambda g: x(g, 2, 3, 4, 5).cumulative_sum(2), OpParams.CumSum(6, 4, 5, 2), (F32, F32), id="cumsum"
        ),
        pytest.param(
            lambda g: x(g, 2, 3, 4).log_softmax(), OpParams.LogSoftmaxLastDim(6, 4), (F32, F32), id="log_softmax"
        ),
        pytest.param(
            lambda g: fa.softmax_backward(x(g, 2, 4), x(g, 2, 4, name="z")),
            OpParams.SoftmaxLastDim(2, 4), (F32, F32, F32), id="softmax_backward",
        ),
        pytest.param(
            lambda g: fa.rms_norm_backward(x(g, 2, 4), x(g, 2, 4, name="z"), eps=0.5),
            OpParams.NormLastDim(2, 4, 0.5), (F32, F32, F32), id="rms_norm_backward",
        ),
        pytest.param(
            lambda g: fa.softmax_cross_entropy(
                x(g, 2, 3, 9), x(g, 2, 3, name="t", dtype=DType.I64), reduction="sum", ignore_index=-1
            ),
            OpParams.FusedSoftmaxCrossEntropy(6, 9, "sum", -1), (F32, DType.I64, F32), id="cross_entropy",
        ),
        pytest.param(
            lambda g: fa.rope(x(g, 2, 3, 5, 4), x(g, 5, 4, name="c"), x(g, 5, 4, name="s")),
            OpParams.Rope(6, 5, 4), (F32, F32, F32, F32), id="rope",
        ),
        pytest.param(
            lambda g: fa.linear(x(g, 5, 3), x(g, 3, 7, name="z"), x(g, 7, name="b")),
            OpParams.Matmul((), (), 5, 7, 3), (F32, F32, F32, F32), id="fused_linear",
        ),
        pytest.param(
            lambda g: fa.roll(x(g, 2, 3, 4), -5, axis=1), OpParams.Roll(2, 3, 4, 1, -5), (F32, F32), id="roll"
        ),
        pytest.param(
            lambda g: fa.pad(x(g, 2, 3), [(1, 0), (0, 2)], fill=2),
            OpParams.Pad((2, 3), (3, 5), ((1, 0), (0, 2)), 0, TWO.tobytes()), (F32, F32), id="pad",
        ),
        pytest.param(
            lambda g: fa.pad(x(g, 2, 3), 1, "replicate"),
            OpParams.Pad((2, 3), (4, 5), ((1, 1), (1, 1)), 2, bytes(4)), (F32, F32), id="replicate",
        ),
        pytest.param(
            lambda g: fa.pad_backward(x(g, 4, 5), 1, "reflect"),
            OpParams.PadBackward((2, 3), (4, 5), ((1, 1), (1, 1)), 1), (F32, F32), id="pad_backward",
        ),
        pytest.param(
            lambda g: fa.masked_fill(x(g, 2), x(g, 2, name="m", dtype=U8), 2),
            OpParams.MaskedFill(TWO.tobytes()), (F32, U8, F32), id="masked_fill",
        ),
        pytest.param(
            lambda g: fa.triu(x(g, 5, 2, 3), k=-1), OpParams.Triangular(5, 2, 3, -1), (F32, F32), id="triu"
        ),
        pytest.param(
            lambda g: fa.gather(x(g, 4, 3), x(g, 2, 3, name="i", dtype=U32)),
            OpParams.Gather((4, 3), (2, 3), 0), (F32, U32, F32), id="gather",
        ),
        pytest.param(
            lambda g: fa.index_add(x(g, 2, 9, 4), x(g, 3, name="i", dtype=U32), x(g, 2, 3, 4, name="z"), axis=1),
            OpParams.IndexAdd(2, 9, 3, 4, 1), (F32, U32, F32, F32), id="index_add",
        ),
        pytest.param(
            lambda g: fa.scatter_add(x(g, 4, 3), x(g, 2, 3, name="i", dtype=U32), x(g, 2, 3, name="z")),
            OpParams.ScatterAdd((4, 3), (2, 3), 0), (F32, U32, F32, F32), id="scatter_add",
        ),
    ],
)  # fmt: skip
def test_a_node_asks_for_its_kernel(build: Any, params: OpParams, dtypes: tuple[DType, ...]) -> None:
    assert asked(build) == (params, dtypes)


def test_dimensions_of_size_zero_and_rank_one_count() -> None:
    assert asked(lambda g: x(g, 0, 4).softmax())[0] == OpParams.SoftmaxLastDim(0, 4)
    assert asked(lambda g: x(g, 4).softmax())[0] == OpParams.SoftmaxLastDim(1, 4)
    assert asked(lambda g: fa.concat([x(g, 2), x(g, 0, name="z")]))[0] == OpParams.Concat(1, (2, 0), 1, 0)


def test_a_copy_takes_no_parameters_and_keeps_the_type() -> None:
    kind = TensorType((3,), DType.BF16, 6)
    copy = BY_NAME["copy"]
    assert derive_params(copy, None, [kind], kind) is OpParams.NONE
    assert kernel_dtypes(copy, [kind], kind) == (DType.BF16, DType.BF16)


@pytest.mark.parametrize("seed", range(12))
def test_every_node_of_a_graph_finds_its_parameters(seed: int) -> None:
    """and they are what the kernel takes: all ops that random graphs hold"""
    case = random_graph(seed, 150)
    graph = case.graph.freeze().bind(case.sizes)
    bindings = global_bindings()
    for at, op in enumerate(graph.ops):
        if op.form is not Form.KERNEL or op.kind is None:
            continue
        types = [graph.types[arg] for arg in graph.args[at]]
        params = derive_params(op, graph.attrs[at], types, graph.types[at])
        kernel: Any = bindings.lookup(op.kind, kernel_dtypes(op, types, graph.types[at]), fa.ir.CPU_DEVICE.backend)
        assert isinstance(params, kernel.takes)
        hash(params)


def test_every_op_with_parameters_has_a_rule() -> None:
    """an op whose nodes carry parameters must hand them to its kernel"""
    without = {op.name for op in OPS if op.form is Form.KERNEL and op.attrs is not None} - {
        "sum", "mean", "max", "min", "concat", "index_select", "layer_norm", "clamp", "cast",
        "roll", "pad", "pad_backward", "masked_fill", "triu", "tril", "gather", "index_add", "scatter_add",
        "affine", "powi", "powi_backward", "argmax", "argmin", "cumsum", "rms_norm", "rms_norm_backward",
        "layer_norm_backward", "fused_softmax_cross_entropy",
        "clamp_inplace", "powi_inplace", "inplace_affine", "write_slice", "write_slice_doff", "write_slice_rotating",
        "selective_scan", "view_owned",  # the second one is a copy, which slot it copies is told by its operand
    }  # fmt: skip
    assert without == set()
    assert {kind for kind in OpKind if kind.name.endswith("Reduce")} >= {OpKind.SumReduce, OpKind.MinReduce}
