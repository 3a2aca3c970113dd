"""Composite ops with several outputs and what they are made of: the same values for every output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.dispatch import FUSED_OPS, FusedOpId, FusedOpParams
from fuel_async.errors import BundleMisuse, GraphError, UserError
from fuel_async.ir import BY_NAME, COMPOSITES, COMPOSITES_OF_SEVERAL, DType, SelectiveScan, decompose, decompose_slots
from fuel_async.testing import check_results
from tests.ir.test_decompose import TOLERANCE

if TYPE_CHECKING:
    from fuel_async.testing.estimates.bounds import Array

SCAN = BY_NAME["selective_scan"]
T4 = (DType.F32, DType.F64, DType.BF16, DType.F16)
#: Batch, length, channels, states.
SIZES = [(1, 1, 1, 1), (2, 5, 3, 4), (1, 40, 2, 3)]


def shapes_of(batch: Any, length: Any, channels: Any, states: Any) -> dict[str, tuple[Any, ...]]:
    along, beside = (batch, length, channels), (batch, length, states)
    return {"u": along, "delta": along, "a": (channels, states), "b": beside, "c": beside}


def operands(graph: fa.Graph, *sizes: Any, dtype: DType = DType.F32, prefix: str = "") -> list[fa.Tensor]:
    return [graph.input(f"{prefix}{name}", shape, dtype) for name, shape in shapes_of(*sizes).items()]


@pytest.mark.parametrize("dtype", T4, ids=str)
@pytest.mark.parametrize("softplus", [False, True])
@pytest.mark.asyncio(loop_factories=["default"])
async def test_parts_give_what_the_kernel_gives(dtype: DType, softplus: bool) -> None:
    rng, graph, feeds, counts = np.random.default_rng(7), fa.Graph("both"), dict[str, "Array"](), list[int]()
    for number, sizes in enumerate(SIZES):
        given = operands(graph, *sizes, dtype=dtype, prefix=f"{number} ")
        for tensor, (name, shape) in zip(given, shapes_of(*sizes).items(), strict=True):
            value = rng.normal(0, 0.7, shape)
            value = -abs(value) if name == "a" else abs(value) if name == "delta" else value
            feeds[f"{number} {name}"] = value.astype(tensor.dtype.require_np())
        own = graph.bundle(SCAN, given, SelectiveScan(softplus)).slots()
        parts = decompose_slots(SCAN, given, SelectiveScan(softplus))
        assert [one.type for one in parts] == [one.type for one in own]
        for slot, pair in enumerate(zip(own, parts, strict=True)):
            graph.output(f"own {number} {slot}", pair[0])
            graph.output(f"parts {number} {slot}", pair[1])
        counts.append(len(own))
    async with fa.Executor() as executor:
        results = await executor.run(graph, feeds)
    check_results(graph, feeds, results)
    for number, count in enumerate(counts):
        for slot in range(count):
            one, many = (np.asarray(results[f"{kind} {number} {slot}"], np.float64) for kind in ("own", "parts"))
            np.testing.assert_allclose(many, one, rtol=0, atol=TOLERANCE[dtype] * max(1.0, np.abs(one).max()))


def test_every_composite_of_several_is_one() -> None:
    assert all(len(op.slots) > 1 for op in COMPOSITES_OF_SEVERAL)
    assert not COMPOSITES_OF_SEVERAL.keys() & COMPOSITES.keys()


def test_parts_are_no_composites() -> None:
    graph = fa.Graph()
    for slot, part in enumerate(decompose_slots(SCAN, operands(graph, 2, 4, 3, 2), SelectiveScan(True))):
        graph.output(f"y{slot}", part)
    frozen = graph.freeze()
    assert not set(frozen.ops) & {*COMPOSITES, *COMPOSITES_OF_SEVERAL}
    assert not frozen.bundles


def test_an_op_of_one_output_is_a_case_of_it() -> None:
    graph = fa.Graph()
    x = graph.input("x", (3,))
    (made,) = decompose_slots(BY_NAME["softmax"], [x])
    assert graph.node_at(made.index).op is not BY_NAME["softmax"]


@pytest.mark.parametrize(
    "sizes", [(2, "length", 3, 4), (2, 1_025, 3, 4), (2, 0, 3, 4), (0, 2, 3, 4), (2, 3, 4, 0)], ids=str
)
def test_what_is_left_as_it_is(sizes: tuple[Any, ...]) -> None:
    """a length that is not known or too long, and operands without elements: slots of the op itself"""
    graph = fa.Graph()
    made = decompose_slots(SCAN, operands(graph, *sizes), SelectiveScan(False))
    assert [graph.node_at(slot.index).op.name for slot in made] == ["view_slot", "view_slot"]


def test_sizes_may_be_symbols_but_for_the_length() -> None:
    graph = fa.Graph()
    made = decompose_slots(SCAN, operands(graph, "batch", 2, "d", "n", dtype=DType.F16), SelectiveScan(False))
    assert [str(slot.type) for slot in made] == ["f16[batch, 2, d]", "f16[batch, d, n]"]
    assert all(graph.node_at(slot.index).op.name == "cast" for slot in made)


def test_one_output_is_not_asked_of_an_op_that_has_several() -> None:
    graph = fa.Graph()
    with pytest.raises(BundleMisuse, match="gives several outputs"):
        decompose(SCAN, operands(graph, 1, 2, 3, 4), SelectiveScan(False))
    with pytest.raises(GraphError) as refused:
        decompose_slots(SCAN, operands(fa.Graph(), 1, 2, 3, 4)[:4], SelectiveScan(False))
    assert refused.value.op == "selective_scan"


def test_the_fused_op_takes_its_own_parameters() -> None:
    entry, graph = FUSED_OPS[FusedOpId.SELECTIVE_SCAN], fa.Graph()
    assert entry.slot_names == ("y", "last_state")
    given = operands(graph, 1, 2, 3, 4)
    assert len(entry.decompose_slots(given, FusedOpParams.SelectiveScan(True))) == 2
    with pytest.raises(UserError, match="SELECTIVE_SCAN takes SelectiveScan, got Rope"):
        entry.decompose_slots(given, FusedOpParams.Rope())
    softmax = FUSED_OPS[FusedOpId.SOFTMAX_LAST_DIM]
    assert softmax.slot_names == ()
    assert len(softmax.decompose_slots(given[:1], FusedOpParams.SoftmaxLastDim())) == 1
