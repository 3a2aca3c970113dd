"""Pins: kernels that must run on one device, from the block that builds them to the frozen graph and back from text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuel_async.errors import GraphTextError, UserError
from fuel_async.ir import CPU_DEVICE, BackendId, DeviceLocation, DType, Form, Graph, from_text, to_text, verify
from fuel_async.testing import Case, graphs

ONE, TWO = DeviceLocation(BackendId("sim"), 1), DeviceLocation(BackendId("sim"), 2)


def pinned(on: str | None = "sim:1") -> Graph:
    """%0 x  %1 exp  %2 sin, pinned  %3 permute  %4 dead, pinned  %5 add"""
    g = Graph("pinned")
    x = g.input("x", ("n", 3)).exp()
    if on is None:
        y = x.sin().T
        x.cos()
    else:
        with g.on(on):
            y = x.sin().T
            x.cos()
    g.output("y", y + x.T)
    return g


# --- building ---


def test_kernels_built_in_the_block_are_pinned_and_nothing_else() -> None:
    g = Graph()
    before = g.input("x", (2, 3)).exp()
    with g.on("sim:1"):
        inside = (before * 2.0).reshape((3, 2)) + g.input("z", (3, 2))
    g.output("y", inside.sin())
    frozen = g.freeze()
    assert {frozen.ops[node].name: device for node, device in frozen.pins.items()} == {"mul": ONE, "add": ONE}
    verify(frozen)


def test_the_innermost_block_counts_and_ends_with_itself() -> None:
    g = Graph()
    x = g.input("x", (2,))
    with g.on(ONE):
        a = x.exp()
        with g.on("sim:2"):
            b = a.exp()
        c = b.exp()
    d = c.exp()
    assert g.snapshot().pins == {a.index: ONE, b.index: TWO, c.index: ONE}
    assert d.index not in g.snapshot().pins


def test_an_error_in_the_block_ends_it_too() -> None:
    g = Graph()
    x = g.input("x", (2,))
    with pytest.raises(ZeroDivisionError), g.on(ONE):
        raise ZeroDivisionError
    assert x.exp().index not in g.snapshot().pins


@pytest.mark.parametrize("device", ["", "sim:", "Sim:1", "sim:-1", None, 1])
def test_what_names_no_device_is_refused_at_once(device: Any) -> None:
    g = Graph()
    with pytest.raises(UserError), g.on(device):
        pytest.fail("the block is not entered")  # pragma: no cover
    with pytest.raises(UserError):
        g.input("x", (2,)).to(device)
    assert len(g) == 1


def test_a_tensor_moved_to_a_device_is_a_copy_pinned_there() -> None:
    g = Graph()
    x = g.input("x", ("n", 3), DType.U8)
    with g.on("sim:1"):
        y = x.T.to("sim:2")
        z = x.to(ONE)
    assert (y.shape, y.dtype, z.type) == (x.T.shape, DType.U8, x.type)
    g.output("y", y)
    g.output("z", z)
    frozen = g.freeze()
    copies = {frozen.outputs["y"]: TWO, frozen.outputs["z"]: ONE}
    assert frozen.pins == copies
    assert {frozen.ops[node].name for node in copies} == {"copy"}
    assert all("test_pins.py" in frozen.line(node) for node in copies)


# --- freezing ---


def test_pins_follow_their_nodes_when_dead_ones_are_dropped() -> None:
    g = Graph()
    x = g.input("x", (2,))
    with g.on(ONE):
        x.exp()
        kept = x.sin()
    g.output("y", kept)
    frozen = g.freeze()
    assert [frozen.ops[node].name for node in frozen.pins] == ["sin"]
    assert len(frozen) == 2


def test_pins_are_part_of_the_structure() -> None:
    digests = {pinned(on).freeze().digest for on in (None, "sim:1", "sim:2", "cpu:0")}
    assert len(digests) == 4
    assert pinned("sim:1").freeze().digest == pinned("sim:1").freeze().digest


def test_pins_survive_binding_and_the_loss_of_constants() -> None:
    frozen = pinned().freeze()
    assert frozen.pins == {2: ONE}
    assert frozen.bind({"n": 4}).pins == frozen.without_constants().pins == frozen.pins
    assert frozen.bind({"n": 4}).digest != pinned(None).freeze().bind({"n": 4}).digest


def test_a_snapshot_keeps_the_pins_it_has() -> None:
    g = pinned()
    snapshot = g.snapshot()
    before = dict(snapshot.pins)
    with g.on(TWO):
        later = g.input("z", (2,)).exp()
    assert snapshot.pins == before
    assert g.snapshot().pins == {**before, later.index: TWO}


def test_a_description_names_the_pin() -> None:
    frozen = pinned().freeze()
    assert "-> f32[n, 3] pinned to sim:1, built at" in frozen.describe(2)
    assert "pinned" not in frozen.describe(1)


# --- text ---

TEXT = """\
graph "pinned"
%0 = input "x" : f32[n, 3]
%1 = exp %0 : f32[n, 3]
%2 = sin %1 @sim:1 : f32[n, 3]
%3 = permute %2 axes=[1, 0] : f32[3, n]
%4 = cos %1 @sim:1 : f32[n, 3]
%5 = permute %1 axes=[1, 0] : f32[3, n]
%6 = add %3 %5 : f32[3, n]
%7 = sum %6 axes=[0] keepdims=true @cpu:0 : f32[1, n]
output "y" = %6
output "z" = %7
"""


def test_pins_are_written_behind_the_parameters_and_read_back() -> None:
    back = from_text(TEXT)
    assert back.snapshot().pins == {2: ONE, 4: ONE, 7: CPU_DEVICE}
    assert to_text(back) == TEXT
    assert from_text(to_text(back.freeze())).freeze().digest == back.freeze().digest


@pytest.mark.parametrize(
    ("line", "text", "reason"),
    [
        (4, TEXT.replace("@sim:1", "@Sim:1"), "lowercase"),
        (4, TEXT.replace("@sim:1", "@sim:x"), "names no device"),
        (5, TEXT.replace("axes=[1, 0] :", "axes=[1, 0] @sim:1 :"), "permute has no place"),
        (2, TEXT.replace('"x" :', '"x" @sim:1 :'), "no node, output or comment"),
    ],
)
def test_malformed_pins_name_their_line(line: int, text: str, reason: str) -> None:
    with pytest.raises(GraphTextError, match=reason) as caught:
        from_text(text)
    assert caught.value.line == line


@given(graphs(), st.data())
@settings(max_examples=30)
def test_pins_of_any_graph_are_legal_and_read_back(case: Case, data: st.DataObject) -> None:
    text = to_text(case.graph)
    kernels = [node for node, op in enumerate(case.graph.snapshot().ops) if op.form is Form.KERNEL]
    chosen = {node: data.draw(st.sampled_from([None, ONE, TWO])) for node in kernels}
    lines = text.split("\n")
    for node, device in chosen.items():
        if device is not None:
            head, _, kind = lines[node + 1].rpartition(" : ")
            lines[node + 1] = f"{head} @{device} : {kind}"
    back = from_text("\n".join(lines))
    assert back.snapshot().pins == {node: device for node, device in chosen.items() if device is not None}
    assert to_text(back) == "\n".join(lines)
    frozen = back.freeze()
    verify(frozen)
    pinned = any(device is not None for device in chosen.values())
    live = sum(frozen.ops[node].form is Form.KERNEL for node in range(len(frozen)))
    assert len(frozen.pins) <= live
    assert (frozen.digest == case.graph.freeze().digest) is not bool(frozen.pins)
    assert pinned or not frozen.pins
