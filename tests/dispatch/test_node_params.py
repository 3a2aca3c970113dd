"""From a node to its kernel's parameters and table key, for every op that has a kernel."""

from __future__ import annotations

from typing import Any

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
    }  # fmt: skip
    assert without == set()
    assert {kind for kind in OpKind if kind.name.endswith("Reduce")} >= {OpKind.SumReduce, OpKind.MinReduce}
