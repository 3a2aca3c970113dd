"""Plans for devices of several kinds: who can run what, in which regions, with whose kernels and working memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import fuel_async as fa
from fuel_async.cost import Rates
from fuel_async.dispatch import BindingEntry, KernelBindingTable, SlotClass, derive_backend_caps
from fuel_async.errors import NoBackendForOp
from fuel_async.ir import CPU_DEVICE, BackendId, DeviceLocation, OpKind
from fuel_async.plan import Plan, Target, make_plan
from tests.plan.support import US, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OTHER = BackendId("other")
THERE = DeviceLocation(OTHER)
FEATURES = frozenset({"sharp"})


class Kernel:
    """A kernel of the other backend, as far as planning looks at it."""

    def __init__(self, name: str, scratch: tuple[int, ...] = (), needs: frozenset[str] = frozenset()) -> None:
        self.name, self._scratch, self.needs = name, scratch, needs

    def scratch_nbytes(self, params: Any, inputs: Any, outputs: Any) -> tuple[int, ...]:
        return self._scratch

    def __call__(self, *_: Any) -> None:
        raise AssertionError("nothing is run here")


def both(kernels: Mapping[OpKind, Sequence[Kernel]], call_ns: int = 300, *, host: bool = True) -> Target:
    """The host, which has everything, and another device, which has these kernels for the host's dtypes."""
    found = KernelBindingTable()
    for op, dtypes, backend, entry in table().iter_entries():
        if host or op is not OpKind.ExpElementwise:
            found.register_entry(op, dtypes, backend, entry)
        for kernel in kernels.get(op, ()):
            found.register_entry(op, dtypes, OTHER, BindingEntry(kernel, entry.caps))
    found.finalize()
    rates = Rates(1e12, 1e12, 1e12, call_ns)
    capabilities = derive_backend_caps(BackendId.CPU, CPU_DEVICE, found)
    there = derive_backend_caps(OTHER, THERE, found, features=FEATURES)
    faster = replace(rates, call_ns=call_ns // 2)
    return Target(found, capabilities, rates, spread=True, others=((there, faster),))


def shown(plan: Plan) -> list[str]:
    """Each region as its ops, and the kinds that can run it."""
    found = []
    for region in plan.regions:
        ops = " ".join(plan.graph.ops[node].name for node in region.program.nodes)
        found.append(f"{ops}: {' '.join(str(plan.kinds[k]) for k in range(len(plan.kinds)) if region.on(k))}")
    return found


def chain(*ops: str) -> Any:
    g = fa.Graph()
    x = g.input("x", (4,))
    for op in ops:
        x = getattr(x, op)()
    g.output("y", x)
    return g.freeze()


def test_what_only_one_kind_can_run_is_a_region_of_its_own() -> None:
    target = both({OpKind.ExpElementwise: [Kernel("exp")], OpKind.SinElementwise: [Kernel("sin")]})
    plan = make_plan(chain("exp", "tanh", "sin", "exp"), target)
    assert shown(plan) == ["exp: cpu other", "tanh: cpu", "sin exp: cpu other"]


def test_nothing_is_cut_where_every_kind_can_run_everything() -> None:
    target = both({OpKind.ExpElementwise: [Kernel("exp")], OpKind.SinElementwise: [Kernel("sin")]})
    assert shown(make_plan(chain("exp", "sin", "exp"), target)) == ["exp sin exp: cpu other"]


def test_each_kind_has_its_own_kernels_and_prices_over_the_same_slots() -> None:
    kernel = Kernel("exp")
    plan = make_plan(chain("exp", "exp"), both({OpKind.ExpElementwise: [kernel]}, call_ns=100))
    (region,) = plan.regions
    here, there = region.on(0), region.on(1)
    assert here is not None
    assert there is not None
    assert here is region.program
    assert (here.slots, here.rows, here.ports) == (there.slots, there.rows, there.ports)
    assert {call.kernel for call in there.calls} == {kernel}
    assert kernel not in {call.kernel for call in here.calls}
    assert (here.predicted_ns, there.predicted_ns) == (200, 100)


def test_a_kernel_that_needs_what_the_device_lacks_is_passed_over() -> None:
    """The first of two siblings needs more than there is; with nothing but such kernels there is none."""
    blunt, sharp = Kernel("needs more", needs=frozenset({"sharper"})), Kernel("sharp", needs=FEATURES)
    plan = make_plan(chain("exp"), both({OpKind.ExpElementwise: [blunt, sharp]}))
    there = plan.regions[0].on(1)
    assert there is not None
    assert [call.kernel for call in there.calls] == [sharp]
    assert shown(make_plan(chain("exp"), both({OpKind.ExpElementwise: [blunt]}))) == ["exp: cpu"]


def test_working_memory_is_placed_once_and_each_kind_sees_the_size_it_asked_for() -> None:
    plan = make_plan(chain("exp", "exp"), both({OpKind.ExpElementwise: [Kernel("exp", scratch=(1_000, 40))]}))
    here, there = plan.regions[0].on(0), plan.regions[0].on(1)
    assert here is not None
    assert there is not None
    assert [len(row) for row in here.rows] == [2, 2]
    slots = there.slots
    for row in there.rows:
        assert [slots.types[slot].nbytes for slot in row[2:]] == [1_000, 40]
        assert all(slots.classes[slot] == SlotClass.TEMPORARY for slot in row[2:])
        ends = [slots.places[slot] + slots.types[slot].nbytes for slot in row[2:]]
        assert max(ends) <= plan.arena_nbytes


def test_smaller_working_memory_lies_where_the_largest_was_placed() -> None:
    """The host's softmax of f16 asks for two pieces; the other kernel asks for less of the first."""
    g = fa.Graph()
    g.output("y", g.input("x", (64, 64), fa.f16).softmax())
    (alone,) = make_plan(g.freeze(), replace(both({}), others=())).regions
    asked = alone.program.calls[0].scratch_nbytes
    assert len(asked) == 2
    plan = make_plan(g.freeze(), both({OpKind.SoftmaxLastDim: [Kernel("softmax", scratch=(16,))]}))
    here, there = plan.regions[0].on(0), plan.regions[0].on(1)
    assert here is not None
    assert there is not None
    sizes = [[program.slots.types[slot].nbytes for slot in program.rows[0][2:]] for program in (here, there)]
    assert sizes == [list(asked), [16]]
    assert here.slots.places[here.rows[0][2]] == there.slots.places[there.rows[0][2]]


def test_an_op_without_any_kernel_is_refused_with_its_line() -> None:
    with pytest.raises(NoBackendForOp, match="exp") as caught:
        make_plan(chain("exp"), both({}, host=False))
    assert any("test_kinds.py" in note for note in caught.value.__notes__)


def test_an_op_that_only_another_kind_has_is_planned_for_that() -> None:
    plan = make_plan(chain("exp", "sin"), both({OpKind.ExpElementwise: [Kernel("exp")]}, host=False))
    assert shown(plan) == ["exp: other", "sin: cpu"]


def test_pins_and_kinds_cut_together() -> None:
    g = fa.Graph()
    x = g.input("x", (4,)).exp()
    with g.on(THERE):
        x = x.exp()
    g.output("y", x.tanh())
    plan = make_plan(g.freeze(), both({OpKind.ExpElementwise: [Kernel("exp")]}, call_ns=US))
    assert [(region.pin, text) for region, text in zip(plan.regions, shown(plan), strict=True)] == [
        (None, "exp: cpu other"),
        (THERE, "exp: cpu other"),
        (None, "tanh: cpu"),
    ]
