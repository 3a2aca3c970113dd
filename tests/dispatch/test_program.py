"""Lane programs and their slots as plain values."""

from __future__ import annotations

import gc
import weakref
from dataclasses import FrozenInstanceError

import pytest

import fuel_async as fa
from fuel_async.dispatch import BINDABLE, KernelCall, LaneProgram, OpParams, SlotClass, SlotTable
from fuel_async.ir import CostEstimate, DType, OpKind, TensorType


def kernel(*_: object) -> None:
    """Nothing."""


def program(kernels: int = 2) -> LaneProgram:
    graph = fa.Graph("named")
    graph.output("y", graph.input("x", (3,)).exp())
    kind = TensorType((3,), DType.F32, 12)
    slots = SlotTable([SlotClass.FEED, SlotClass.OUTPUT], [0, 0], [kind, kind], [None, None])
    call = KernelCall(kernel, OpParams.NONE, 1, 300, OpKind.ExpElementwise, CostEstimate(flops=3))
    return LaneProgram(
        graph.freeze(), slots, [1] * kernels, [call] * kernels, [(0, 1)] * kernels, ((0, 2), (1,), (), (3,)), 600, 256
    )


def test_slot_classes_are_six_and_four_of_them_are_given_by_submissions() -> None:
    assert [cls.name for cls in SlotClass] == ["CONSTANT", "FEED", "TEMPORARY", "OUTPUT", "SESSION", "SCALAR"]
    assert BINDABLE == (SlotClass.FEED, SlotClass.OUTPUT, SlotClass.SESSION, SlotClass.SCALAR)
    assert {*BINDABLE, SlotClass.CONSTANT, SlotClass.TEMPORARY} == set(SlotClass)


def test_a_program_tells_its_length_its_ports_and_its_name() -> None:
    made = program(kernels=3)
    assert len(made) == 3
    assert (made.feeds, made.outputs) == ((0, 2), (1,))
    assert repr(made) == "<LaneProgram of 'named': 3 kernels>"
    assert len(made.slots) == 2


def test_a_call_is_plain_unless_it_says_more() -> None:
    call = KernelCall(kernel, OpParams.NONE, 2, 300, OpKind.AddElementwise, CostEstimate(flops=3))
    assert (call.in_place, call.strided, call.scratch_nbytes) == (False, False, ())


def test_programs_and_calls_are_told_apart_by_identity() -> None:
    """equal columns need not be compared: a plan holds each of them once"""
    one, other = program(), program()
    assert one != other
    assert len({one, other}) == 2
    assert one.calls[0] != other.calls[0]
    assert one.slots != other.slots


def test_they_are_immutable() -> None:
    made = program()
    for thing, field in ((made, "predicted_ns"), (made.slots, "places"), (made.calls[0], "cost_ns")):
        with pytest.raises(FrozenInstanceError):
            setattr(thing, field, 1)


def test_a_program_can_be_referred_to_weakly() -> None:
    """what a device learns of a program goes with it"""
    made = program()
    gone = weakref.ref(made)
    del made
    gc.collect()
    assert gone() is None
