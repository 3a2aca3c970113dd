"""The text of a graph: exact round trips, readable lines, and errors that name the line."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuel_async.errors import GraphTextError
from fuel_async.ir import BY_NAME, OPS, DType, Graph, Snapshot, from_text, symbol, to_text
from fuel_async.ir.text import CODECS
from fuel_async.testing import Case, graphs

SCORES = """\
graph "scores"
%0 = input "x" : f32[batch, 4]
%1 = constant AAAAPw== : f32[]  # 0.5
%2 = mul %0 %1 : f32[batch, 4]
%3 = sum %2 axes=[1] keepdims=false : f32[batch]
output "y" = %3
"""


def columns(graph: Graph) -> tuple[Any, ...]:
    """All that the text keeps, in comparable form."""
    at: Snapshot = graph.snapshot()
    constants = {node: (str(value.dtype), value.shape, value.tobytes()) for node, value in at.constants.items()}
    attrs = [repr(value) for value in at.attrs]
    return at.name, at.ops, at.args, [str(kind) for kind in at.types], attrs, at.inputs, at.outputs, constants


def test_a_graph_is_written_a_node_a_line() -> None:
    graph = Graph("scores")
    graph.output("y", (graph.input("x", ("batch", 4)) * 0.5).sum(1))
    assert to_text(graph) == SCORES
    assert to_text(from_text(SCORES)) == SCORES


@settings(max_examples=40)
@given(graphs())
def test_random_graphs_are_read_back_exactly(case: Case) -> None:
    text = to_text(case.graph)
    back = from_text(text)
    assert columns(back) == columns(case.graph)
    assert back.freeze().digest == case.graph.freeze().digest
    assert to_text(back) == text
    # The frozen graph has its own text: without dead nodes.
    frozen = case.graph.freeze()
    again = from_text(to_text(frozen))
    assert again.freeze().digest == frozen.digest
    assert len(again) == len(frozen)


@settings(max_examples=40)
@given(graphs(symbolic=True))
def test_bound_graphs_are_read_back_with_fixed_shapes(case: Case) -> None:
    frozen = case.graph.freeze()
    bound = frozen.bind(dict.fromkeys(frozen.symbols, 2)) if frozen.symbols in ((), ("n",)) else frozen
    assert to_text(from_text(to_text(bound))) == to_text(bound)


@settings(max_examples=40)
@given(st.text(min_size=1), st.text(min_size=1), st.text())
def test_names_hold_any_characters(name: str, output: str, title: str) -> None:
    graph = Graph(title)
    if name in ("on_device", "precision", "timeout_s", "priority"):
        return
    graph.output(output, graph.input(name, ()))
    back = from_text(to_text(graph))
    assert (back.name, list(back.inputs), list(back.outputs)) == (title, [name], [output])


@pytest.mark.parametrize("name", ["\ud800", "a\nb", '" : f32[]', "%0", "\u2028", "# x", "\\"])
def test_names_that_look_like_syntax_are_quoted(name: str) -> None:
    graph = Graph(name)
    graph.output(name, graph.input(name, ()))
    assert columns(from_text(to_text(graph))) == columns(graph)


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if dtype.np is not None])
def test_constants_of_all_dtypes_keep_their_bytes(dtype: DType) -> None:
    raw = np.arange(24 * dtype.nbytes, dtype=np.uint8).view(dtype.require_np())
    graph = Graph()
    for shape in ((2, 3, 4), (24,), (0, 3), (1, 24)):
        made = graph.constant(raw.reshape(shape) if 0 not in shape else np.zeros(shape, dtype.np))
        graph.output(f"y{made.index}", made)
    graph.output("scalar", graph.constant(raw[5]))
    assert columns(from_text(to_text(graph))) == columns(graph)


def test_odd_numbers_are_read_back_exactly() -> None:
    graph = Graph()
    x = graph.input("x", ("n", 4))
    for number, made in enumerate(
        [
            x.clip(),
            x.clip(-0.0, 1e-300),
            x.clip(-1e300, 0.1 + 0.2),
            x.layer_norm(eps=1e-12),
            x[1 : symbol("k") * 2 - 1, ::-1],
            x * float("nan") + float("-inf"),
        ]
    ):
        graph.output(f"y{number}", made)
    assert columns(from_text(to_text(graph))) == columns(graph)


def test_every_parameter_has_a_codec() -> None:
    classes = {op.attrs for op in OPS if op.attrs is not None}
    assert CODECS.keys() == classes
    for kind, codecs in CODECS.items():
        assert tuple(codecs) == kind._fields  # type: ignore[attr-defined]


def test_nodes_count_as_built_by_the_caller() -> None:
    line = sys._getframe().f_lineno + 1
    graph = from_text(SCORES)
    assert graph.freeze().line(2) == f"{__file__}:{line}"


def test_blank_lines_and_comments_are_skipped() -> None:
    text = "\n# a comment\n" + SCORES.replace("\n", "\r\n   \n# %9 = nothing\n  ")
    assert to_text(from_text(text)) == SCORES


def test_a_constants_bytes_are_adopted() -> None:
    graph = from_text(SCORES)
    array = graph.snapshot().constants[1]
    assert not array.flags.writeable
    assert not array.flags.owndata


@pytest.mark.parametrize(
    ("line", "text", "reason"),
    [
        (1, "", "does not begin with"),
        (1, "graph scores", "does not begin with"),
        (2, "\n%0 = input \"x\" : f32[]", "does not begin with"),
        (3, SCORES.replace("mul", "mull", 1).split("%1")[0] + "%1 = frob %0 : f32[batch, 4]", "no op 'frob'"),
        (4, SCORES.replace("mul %0 %1", "mul %0"), "takes 2 operands, got 1"),
        (4, SCORES.replace("mul %0 %1", "mul %0 %2"), "%2 is not defined above"),
        (4, SCORES.replace("%2 = mul", "%3 = mul"), "wanted node %2 here, got %3"),
        (4, SCORES.replace("%1 : f32[batch, 4]", "%1 : f32[batch, 5]"), r"the type is f32\[batch, 4\], not"),
        (4, SCORES.replace("%1 : f32[batch, 4]", "%1 : f64[batch, 4]"), "not f64"),
        (4, SCORES.replace("mul %0 %1", "mul %0 %1 axes=[1]"), "takes the parameters"),
        (5, SCORES.replace("axes=[1] ", ""), "takes the parameters"),
        (5, SCORES.replace("axes=[1]", "axes=[2]"), r"no sorted axes of 2 dimensions"),
        (5, SCORES.replace("axes=[1]", "axes=[n]"), "invalid literal"),
        (5, SCORES.replace("axes=[1]", "axes=1"), "no list in brackets"),
        (5, SCORES.replace("false", "no"), "no"),
        (2, SCORES.replace("f32[batch, 4]", "f23[batch, 4]", 1), "'f23' is no dtype"),
        (2, SCORES.replace("f32[batch, 4]", "f4[batch, 4]", 1), "no array can hold f4"),
        (2, SCORES.replace("f32[batch, 4]", "f32[batch, -4]", 1), "negative"),
        (2, SCORES.replace("batch, 4", "batch 4", 1), "identifier"),
        (2, SCORES.replace('"x"', '"x', 1), "no node, output or comment"),
        (2, SCORES.replace('"x"', r'"\q"', 1), "Invalid"),
        (2, SCORES.replace('"x"', '"priority"'), "reserved"),
        (3, SCORES.replace("AAAAPw==", "AAAA"), "buffer size|reshape"),
        (3, SCORES.replace("AAAAPw==", "AAAAPw"), "padding|Incorrect"),
        (3, SCORES.replace("f32[]", "f32[2]"), "reshape"),
        (3, SCORES.replace("f32[]", "f32[-1]"), r"the type is f32\[1\], not f32\[-1\]"),
        (6, SCORES.replace("= %3", "= %4"), "%4 is not defined"),
        (7, SCORES + 'output "y" = %2', "'y' is taken"),
        (7, SCORES + "return %2", "no node, output or comment: 'return %2'"),
        (7, SCORES + "%4 = reshape %2 : f32[batch, 5]", "another number of elements"),
        (7, SCORES + "%4 = slice %2 starts=[0, 3] steps=[1, 1] : f32[batch, 2]", "not inside axis 1"),
        (7, SCORES + "%4 = cast %2 code=f4 : f4[batch, 4]", "no array can hold f4"),
    ],
)  # fmt: skip
def test_malformed_text_names_its_line(line: int, text: str, reason: str) -> None:
    with pytest.raises(GraphTextError, match=reason) as caught:
        from_text(text)
    assert caught.value.line == line
    assert f"line {line}:" in str(caught.value)


@pytest.mark.parametrize("op", [op for op in OPS if op.arity], ids=repr)
def test_operands_are_checked_for_every_op(op: Any) -> None:
    assert BY_NAME[op.name] is op
    with pytest.raises(GraphTextError, match=r"operands, got 0|takes the parameters"):
        from_text(f'graph ""\n%0 = {op.name} : f32[]')


def test_whatever_is_cut_off_is_an_error_or_a_smaller_graph() -> None:
    for end in range(len(SCORES)):
        try:
            graph = from_text(SCORES[:end])
        except GraphTextError:
            continue
        assert len(graph) < 5
