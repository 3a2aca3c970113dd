"""From a lane program to dispatches over spaces: what every instance of a device of grids does first.

A space is what lies together: the arena, one constant, one array that a submission gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from fuel_async.backends.grids.operands import Bound, Operands, Space
from fuel_async.dispatch import BINDABLE, SlotClass
from fuel_async.errors import KernelFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fuel_async.backends.grids.kernel import Dispatch, Limits
    from fuel_async.dispatch import LaneProgram
    from fuel_async.ir import Breathe

T = TypeVar("T")


def plan_calls(
    program: LaneProgram,
    device: str,
    alignment: int,
    limits: Limits,
    add: Callable[[Dispatch, Sequence[Bound]], None],
    breathe: Breathe,
) -> None:
    """Plan each call of a program, once for all equal ones, and hand its dispatches and their operands to `add`.

    Operands begin at multiples of `alignment` bytes. `KernelFailed`, for a device of that name, says at which node
    planning or adding failed.
    """
    operands = Operands(program, alignment, limits)
    known: dict[tuple[int, ...], Sequence[Dispatch]] = {}
    for index, (call, row) in enumerate(zip(program.calls, program.rows, strict=True)):
        try:
            bound = [operands.get(slot) for slot in row]
            key = (id(call), *[id(one.operand) for one in bound])
            dispatches = known.get(key)
            if dispatches is None:
                kernel: Any = call.kernel
                dispatches = kernel.dispatches([one.operand for one in bound], call.params, limits)
                known[key] = dispatches
            for dispatch in dispatches:
                add(dispatch, bound)
        except Exception as error:
            node = program.nodes[index]
            described, reason = program.graph.describe(node), f"{type(error).__name__}: {error}"
            raise KernelFailed(described, device, reason, node) from error
        if not index & 63:
            breathe()


def given_spaces(program: LaneProgram) -> list[Space]:
    """Return the spaces that a submission gives, in its order."""
    return [(int(cls), place) for cls, places in zip(BINDABLE, program.ports, strict=True) for place in places]


def placed(given: Mapping[Space, T], arena: T, constants: Sequence[T]) -> Callable[[Space], T]:
    """Return where each space lies."""

    def place(space: Space) -> T:
        if space[0] == SlotClass.TEMPORARY:
            return arena
        return constants[space[1]] if space[0] == SlotClass.CONSTANT else given[space]

    return place
