"""Lane programs: what a lane executes for one region, as a pure value.

A program is a region's kernels in order over numbered slots. A slot is a typed, laid-out view of some bytes;
its class says when those bytes become known: constants and temporaries when the program is instantiated on a
device, feeds, outputs, sessions and scalars at each submission. All programs of one plan share one
`SlotTable`, so a temporary that one region writes and another reads is one slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.dispatch.kernel import KernelRef
    from fuel_async.dispatch.params import OpParams
    from fuel_async.ir import CostEstimate, FrozenGraph, Layout, OpKind, OutputView, TensorType


class SlotClass(IntEnum):
    """When and by whom the bytes of a slot are provided."""

    #: Uploaded once a device. Place: index into the plan's constants.
    CONSTANT = 0
    #: The caller's value. Place: index into the plan's feeds.
    FEED = 1
    #: Bytes of the instance's arena. Place: byte offset.
    TEMPORARY = 2
    #: A fresh allocation that the caller receives. Place: index into the plan's outputs.
    OUTPUT = 3
    #: State that outlives runs. Place: index into the session values of a submission.
    SESSION = 4
    #: A number known at submission. Place: index into the scalars of a submission.
    SCALAR = 5


#: The classes whose bytes are given by each submission, in the order of `Lane.submit`.
BINDABLE = (SlotClass.FEED, SlotClass.OUTPUT, SlotClass.SESSION, SlotClass.SCALAR)


@dataclass(frozen=True, slots=True, eq=False)
class SlotTable:
    """The slots of a plan in columns."""

    classes: Sequence[int]
    places: Sequence[int]
    types: Sequence[TensorType]
    #: How the slot lies in its bytes; None means row-major from the first byte.
    layouts: Sequence[Layout | None]

    def __len__(self) -> int:
        return len(self.classes)


@dataclass(frozen=True, slots=True, eq=False)
class KernelCall:
    """Everything about a call that follows from op, parameters and operand types. One object for all equal calls."""

    kernel: KernelRef
    params: OpParams
    #: Number of inputs; the output follows them in a row, then scratch.
    arity: int
    #: Predicted time at the rates of the plan's target.
    cost_ns: int
    #: What it computes and how much work that is, whatever the device: what its time at other rates follows from.
    kind: OpKind
    estimate: CostEstimate
    #: The output may take the bytes of an input that dies with the call.
    in_place: bool = False
    #: The kernel reads inputs through their strides.
    strided: bool = False
    scratch_nbytes: tuple[int, ...] = ()
    #: In a plan for several kinds of devices: the call on each kind, None where it has no kernel. The fields above then
    #: are what holds for all of them, and `kernel` is that of the first. Empty otherwise.
    each: tuple[KernelCall | None, ...] = ()
    #: The output is a bundle, a slot of bytes: where its slots lie in it. Empty for a kernel of one output.
    bundle: tuple[OutputView, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class LaneProgram:
    """The kernels of one region in order, in columns of one entry a kernel."""

    graph: FrozenGraph
    slots: SlotTable
    #: The graph node that each call computes.
    nodes: Sequence[int]
    calls: Sequence[KernelCall]
    #: Slots of inputs, then of the output, then of scratch.
    rows: Sequence[tuple[int, ...]]
    #: Places in the plan's ports that this program reads or writes: what a submission must give, by class.
    ports: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    predicted_ns: int
    arena_nbytes: int

    def __len__(self) -> int:
        return len(self.calls)

    def __repr__(self) -> str:
        return f"<LaneProgram of {self.graph.name!r}: {len(self)} kernels>"

    @property
    def feeds(self) -> tuple[int, ...]:
        """Feed places, in the order in which `Lane.submit` takes their values."""
        return self.ports[0]

    @property
    def outputs(self) -> tuple[int, ...]:
        """Output places, in the order in which `Lane.submit` takes their values."""
        return self.ports[1]
