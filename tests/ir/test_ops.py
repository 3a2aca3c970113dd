"""The table of ops: totality, unique codes, and the layouts of views."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.lib.stride_tricks import as_strided

from fuel_async.errors import GraphError, InternalError
from fuel_async.ir import BY_NAME, OPS, DType, Form, Graph, Layout, OpKind, OpSpec, Tensor
from fuel_async.ir.ops.indexing import IndexSelect
from fuel_async.ir.ops.inplace import IN_PLACE, INPLACE
from fuel_async.testing import Case, graphs
from fuel_async.testing.estimates import RULES, RULES_OF_SEVERAL
from fuel_async.testing.recipes import RECIPES
from fuel_async.testing.reference import Interpreter

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

VIEWS = [op for op in OPS if op.form is Form.VIEW]
#: A slot's layout is its bundle's to tell.
MOVING = tuple(op.name for op in VIEWS if not op.takes_bundle)


def test_names_and_codes_are_unique() -> None:
    assert len(BY_NAME) == len(OPS)
    assert len({op.code for op in OPS}) == len(OPS)
    assert all(0 <= op.code < 2**32 for op in OPS)


def test_the_form_follows_from_kind_and_view() -> None:
    assert {op.name for op in OPS if op.form is Form.LEAF} == {"input", "constant"}
    assert {op.name for op in VIEWS} == {
        "permute", "slice", "broadcast", "expand_dims", "squeeze", "flip", "reshape", "contiguize", "release",
        "view_slot",
    }  # fmt: skip
    assert all((op.kind is not None) is (op.form is Form.KERNEL) for op in OPS)
    assert not any(op.kind is not None and op.view is not None for op in OPS)


def test_a_kind_serves_one_op_but_for_those_that_copy() -> None:
    assert BY_NAME["move"].kind is BY_NAME["view_owned"].kind is BY_NAME["copy"].kind
    kinds = [op.kind for op in OPS if op.kind is not None and op.name not in ("move", "view_owned")]
    assert len(set(kinds)) == len(kinds)
    assert set(kinds) <= set(OpKind)


def test_comparisons_are_the_boolean_ops() -> None:
    assert {op.name for op in OPS if op.boolean} == {"eq", "ne", "lt", "le", "gt", "ge"}


def test_what_may_be_written_over_is_the_first_operand() -> None:
    destroying = {op.name for op in OPS if op.destroys is not None}
    assert destroying == {op.name for op in INPLACE}
    assert {op.destroys for op in INPLACE} == {0}
    # An op in place says of itself what its like without the suffix says.
    for name, op in IN_PLACE.items():
        assert (op.arity, op.attrs, op.boolean) == (1, BY_NAME[name].attrs, False)


def test_ops_whose_shape_is_given_are_checked() -> None:
    given_shape = {op.name for op in OPS if op.is_given}
    assert given_shape == {"input", "constant", "slice", "broadcast", "reshape", "reduce_sum_to", "reduce_max_to"}
    assert all(BY_NAME[name].check is not None for name in given_shape - {"input", "constant"})
    with pytest.raises(InternalError, match="given when a node is built"):
        BY_NAME["reshape"].infer((), None)


def test_tests_know_every_op() -> None:
    """A new op needs a recipe for random graphs and a rule of the reference."""
    assert RECIPES.keys() == BY_NAME.keys()
    assert RULES.keys() | RULES_OF_SEVERAL.keys() == BY_NAME.keys() - {"input", "constant"}
    assert RULES_OF_SEVERAL.keys() == {op.name for op in OPS if op.slots}


@pytest.mark.parametrize("op", [op for op in OPS if op.arity == 2], ids=repr)
def test_errors_name_op_shapes_and_dtypes(op: OpSpec) -> None:
    graph = Graph()
    operands = graph.input("x", (2, 3)), graph.input("y", (4, 5, 6), DType.I16)
    attrs = None if op.attrs is None else IndexSelect(0)
    with pytest.raises(GraphError, match=rf"{op.name} of f32\[2, 3\], i16\[4, 5, 6\]: ") as caught:
        graph.node(op, operands, attrs)
    assert caught.value.op == op.name


def test_reprs_are_short() -> None:
    assert repr(BY_NAME["add"]) == "<op add>"
    assert repr(Graph().input("x", ()).astype(DType.I8).type) != ""
    assert str(Graph().input("x", ("n", 2), DType.I8).type) == "i8[n, 2]"


def laid_out(base: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """The elements of `base`, contiguous, that a layout shows."""
    span = layout.span()
    if span is None:
        return np.empty(layout.shape, base.dtype)
    assert 0 <= span[0] <= span[1] < base.size
    strides = tuple(stride * base.itemsize for stride in layout.strides)
    return as_strided(base.reshape(-1)[layout.offset :], layout.shape, strides)


@settings(max_examples=60)
@given(graphs(ops=MOVING, max_steps=10, dtypes=(DType.F32, DType.U8)))
def test_layouts_show_the_values_of_views(case: Case) -> None:
    """A view that has a layout shows its operand's bytes; one without is computed from a fresh copy."""
    frozen = case.graph.freeze().bind(case.sizes) if case.graph.freeze().symbols else case.graph.freeze()
    names = {node: name for name, node in frozen.inputs.items()}
    interpreter = Interpreter({})
    bases: list[tuple[NDArray[Any], Layout]] = []
    for node, op in enumerate(frozen.ops):
        kind, args, attrs = frozen.types[node], frozen.args[node], frozen.attrs[node]
        shape = tuple(dim for dim in kind.shape if isinstance(dim, int))
        if op.form is Form.LEAF:
            interpreter.leaf(case.feeds[names[node]] if node in names else frozen.constants[node])
            layout = None
        else:
            interpreter.compute(op, args, attrs, kind)
            base, before = bases[args[0]]
            layout = None if op.view is None else op.view(before, attrs, shape)
        value = interpreter.estimates[node].value
        if layout is None:
            bases.append((np.ascontiguousarray(value).reshape(shape), Layout.contiguous(shape)))
        else:
            bases.append((base, layout))
            assert layout.shape == shape
            assert np.array_equal(laid_out(base, layout), value)


def test_contiguize_is_free_where_the_layout_is_plain() -> None:
    view = BY_NAME["contiguize"].view
    assert view is not None
    plain = Layout.contiguous((2, 3))
    assert view(plain, None, (2, 3)) is plain
    assert view(plain.permute((1, 0)), None, (3, 2)) is None
    assert view(plain.narrow(0, 1, 1), None, (1, 3)) is None  # an offset is not plain


def test_a_slice_start_that_is_not_bound_is_a_bug() -> None:
    graph = Graph()
    made: Tensor = graph.input("x", ("n", 2))[-1]
    attrs = graph.snapshot().attrs[made.index - 1]
    view = BY_NAME["slice"].view
    assert view is not None
    with pytest.raises(InternalError, match="slice start n - 1 is not bound"):
        view(Layout.contiguous((4, 2)), attrs, (1, 2))
