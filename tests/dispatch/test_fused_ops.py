"""Fused ops: numbers that never change, entries that are the graph's own ops, parameters that are their attrs."""

from __future__ import annotations

from dataclasses import fields

import pytest

from fuel_async.dispatch import (
    FUSED_OPS,
    FUSED_OPS_BY_KIND,
    RUNTIME_FUSED_BASE,
    FusedFamily,
    FusedOpEntry,
    FusedOpId,
    FusedOpParams,
    derive_params,
)
from fuel_async.errors import GraphError, UserError
from fuel_async.ir import COMPOSITES, COMPOSITES_OF_SEVERAL, DType, Graph, OpKind, TensorType

ID = FusedOpId

#: As they are persisted.
NUMBERS = {
    "UNASSIGNED": 0, "SOFTMAX_LAST_DIM": 1, "FUSED_LINEAR": 2, "RMS_NORM_LAST_DIM": 3, "LAYER_NORM_LAST_DIM": 4,
    "ROPE": 5, "CONV2D": 6, "SOFTMAX_LAST_DIM_BACKWARD": 7, "LAYER_NORM_LAST_DIM_BACKWARD": 8,
    "RMS_NORM_LAST_DIM_BACKWARD": 9, "REDUCE_MAX_TO_BACKWARD": 10, "CONV_TRANSPOSE2D": 11, "FLASH_ATTN": 12,
    "PAGED_ATTN": 13, "QMATMUL": 14, "POWI_BACKWARD": 15, "INPLACE_AFFINE": 16, "FUSED_SOFTMAX_CROSS_ENTROPY": 17,
    "CAUSAL_CONV1D": 18, "SELECTIVE_SCAN": 19, "SSD_CHUNK_SCAN": 20, "NF4_MATMUL": 21, "FLASH_ATTN_BACKWARD_Q": 22,
    "FLASH_ATTN_BACKWARD_K": 23, "FLASH_ATTN_BACKWARD_V": 24,
}  # fmt: skip


def test_the_numbers_are_fixed() -> None:
    assert {name: fused.number for name, fused in ID.FIXED.items()} == NUMBERS
    assert {name: getattr(ID, name).number for name in NUMBERS} == NUMBERS


def test_a_fused_op_is_its_number() -> None:
    assert ID(3) == ID.RMS_NORM_LAST_DIM
    assert [str(ID(3)), str(ID(999))] == ["RMS_NORM_LAST_DIM", "fused op 999"]
    assert [ID(RUNTIME_FUSED_BASE - 1).is_runtime, ID(RUNTIME_FUSED_BASE).is_runtime] == [False, True]
    with pytest.raises(UserError, match="-1"):
        ID(-1)


def test_the_entries_are_the_composite_ops() -> None:
    assert {entry.op for entry in FUSED_OPS.values()} == COMPOSITES.keys() | COMPOSITES_OF_SEVERAL.keys()
    assert {entry.op for entry in FUSED_OPS.values() if entry.slot_names} == COMPOSITES_OF_SEVERAL.keys()
    assert list(FUSED_OPS) == sorted(FUSED_OPS)
    assert {entry.kind: entry for entry in FUSED_OPS.values()} == FUSED_OPS_BY_KIND
    assert FUSED_OPS_BY_KIND[OpKind.Rope] is FUSED_OPS[ID.ROPE]
    assert all(entry.id is fused for fused, entry in FUSED_OPS.items())


def test_one_entry_writes_over_its_operand() -> None:
    assert {
        fused: entry.destructive_input for fused, entry in FUSED_OPS.items() if entry.destructive_input is not None
    } == {ID.INPLACE_AFFINE: 0}


def test_a_gradient_is_named_after_what_it_is_the_gradient_of() -> None:
    for entry in FUSED_OPS.values():
        if entry.backward is not None:
            gradient = FUSED_OPS[entry.backward]
            assert gradient.name == f"{entry.name}_backward"
            assert gradient.family is FusedFamily.BACKWARD
    assert sum(entry.backward is not None for entry in FUSED_OPS.values()) == 3


#: One of each variant, and the attrs it stands for.
PARAMS: list[tuple[FusedOpParams, tuple[object, ...] | None]] = [
    (FusedOpParams.SoftmaxLastDim(), None),
    (FusedOpParams.FusedLinear(), None),
    (FusedOpParams.RmsNormLastDim(1e-3), (1e-3,)),
    (FusedOpParams.LayerNormLastDim(1e-3), (1e-3,)),
    (FusedOpParams.Rope(), None),
    (FusedOpParams.SoftmaxLastDimBackward(), None),
    (FusedOpParams.LayerNormLastDimBackward(0.5), (0.5,)),
    (FusedOpParams.RmsNormLastDimBackward(0.5), (0.5,)),
    (FusedOpParams.ReduceMaxToBackward(), None),
    (FusedOpParams.PowIBackward(3), (3,)),
    (FusedOpParams.InplaceAffine(2.0, -1.0), (2.0, -1.0)),
    (FusedOpParams.FusedSoftmaxCrossEntropy("sum", 7), (1, 7)),
    (FusedOpParams.SelectiveScan(True), (True,)),
]


@pytest.mark.parametrize(("entry", "row"), list(zip(FUSED_OPS.values(), PARAMS, strict=True)), ids=str)
def test_parameters_are_the_attrs_of_the_op(
    entry: FusedOpEntry, row: tuple[FusedOpParams, tuple[object, ...] | None]
) -> None:
    params, attrs = row
    assert type(params) is entry.takes
    found = params.attrs(entry.op)
    assert found == attrs
    assert type(found) is (entry.op.attrs or type(None))
    if entry.op.attrs is not None and params != FusedOpParams.FusedSoftmaxCrossEntropy("sum", 7):
        assert [field.name for field in fields(params)] == list(entry.op.attrs._fields)  # type: ignore[attr-defined]


def test_every_variant_is_taken_by_one_entry() -> None:
    variants = {getattr(FusedOpParams, name) for name in FusedOpParams.__annotations__}
    assert len(variants) == len(FUSED_OPS)
    assert variants == {entry.takes for entry in FUSED_OPS.values()}


def test_a_reduction_that_is_none_is_refused() -> None:
    with pytest.raises(UserError, match="'median'"):
        FusedOpParams.FusedSoftmaxCrossEntropy("median")


def test_an_entry_builds_what_it_is_made_of() -> None:
    graph = Graph()
    x = graph.input("x", (2, 3))
    made = FUSED_OPS[ID.INPLACE_AFFINE].decompose([x], FusedOpParams.InplaceAffine(2.0, 1.0))
    facts = graph.node_at(made.index)
    assert (facts.op.name, facts.attrs) == ("affine", (2.0, 1.0))
    kind: TensorType = x.type
    assert derive_params(facts.op, facts.attrs, [kind], kind).mul == 2.0  # type: ignore[attr-defined]


def test_an_entry_refuses_parameters_of_another() -> None:
    x = Graph().input("x", (2, 3))
    with pytest.raises(UserError, match="SOFTMAX_LAST_DIM takes SoftmaxLastDim, got RmsNormLastDim"):
        FUSED_OPS[ID.SOFTMAX_LAST_DIM].decompose([x], FusedOpParams.RmsNormLastDim(0.1))
    with pytest.raises(GraphError, match="eps"):
        FUSED_OPS[ID.RMS_NORM_LAST_DIM].decompose([x], FusedOpParams.RmsNormLastDim(-1.0))
    y = Graph().input("y", (2, 3), DType.I32)
    with pytest.raises(GraphError, match="rms_norm"):
        FUSED_OPS[ID.RMS_NORM_LAST_DIM].decompose([y], FusedOpParams.RmsNormLastDim(1.0))
