"""What an explanation says of choices: prices and who says so, what else was possible, and why it lost."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import fields
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import fuel_async as fa
from fuel_async.backends.sim import (
    REFERENCE,
    Links,
    LinkSpec,
    SimDeviceSpec,
    SimMachine,
    VirtualClock,
    describe_machine,
)
from fuel_async.cost import Rates
from fuel_async.errors import UserError
from fuel_async.ir import DeviceLocation
from fuel_async.plan import Fate, region_ns
from fuel_async.runtime.explain import (
    Alternative,
    CallExplanation,
    Candidate,
    CopyExplanation,
    DeviceExplanation,
    Explanation,
    Refusal,
    RegionExplanation,
)
from fuel_async.runtime.explain.reasons import FATES, lost_by, reason_of
from fuel_async.schedule import Decision, Hop, Offer
from fuel_async.testing import run_virtual, synthetic_op

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.plan import Region
    from fuel_async.runtime.spread import SpreadEngine
    from fuel_async.runtime.spread.prepared import PreparedSpread

MACHINE = Path(__file__).parents[2] / "examples" / "machines" / "cpu_two_gpus.toml"
MS = 1_000_000
RATES = Rates(flops_per_ns=10, dense_flops_per_ns=50, bytes_per_ns=20, call_ns=2_000)


def products(branches: int = 4, size: int = 256) -> fa.Graph:
    g = fa.Graph("products")
    x = g.input("x", (size, size))
    parts = [(x @ g.constant(np.full((size, size), 0.1 + one, np.float32))).tanh() for one in range(branches)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    g.output("y", total)
    return g


def synthetic(branches: int = 4) -> fa.Graph:
    g = fa.Graph("synthetic")
    x = g.input("x", (4_000,), fa.u8)
    parts = [synthetic_op(g, [x], cost_ns=(2 + one) * MS, nbytes=4_000) for one in range(branches)]
    g.output("y", synthetic_op(g, parts, cost_ns=MS, nbytes=64))
    return g


def world(
    specs: Sequence[SimDeviceSpec],
    say: Callable[[fa.Executor, SimMachine], Any],
    links: Links | None = None,
    **options: Any,
) -> Any:
    """What `say` returns over a machine."""

    async def main(clock: VirtualClock) -> Any:
        machine = SimMachine(specs, links=links or Links.of(10_000, 12.0), clock=clock)
        try:
            async with fa.Executor(machine.devices, **options) as executor:
                return say(executor, machine)
        finally:
            machine.close()

    return run_virtual(main)


def explained(
    specs: Sequence[SimDeviceSpec], graph: fa.Graph, links: Links | None = None, **options: Any
) -> Explanation:
    said: Explanation = world(specs, lambda executor, machine: executor.explain(graph, warm=True), links, **options)
    return said


UNEQUAL = [SimDeviceSpec(rates=RATES, speed=4), SimDeviceSpec(rates=RATES), SimDeviceSpec(rates=RATES, speed=2)]


# --- the numbers are the planner's ---


def prepared_of(executor: fa.Executor) -> PreparedSpread:
    engine: SpreadEngine = executor._engine  # type: ignore[assignment]
    (found,) = engine.cache.all()
    return found  # type: ignore[return-value]


def test_the_kernels_of_a_region_cost_what_the_scheduler_takes_the_region_for() -> None:
    graph = products()

    def say(executor: fa.Executor, machine: SimMachine) -> None:
        said = executor.explain(graph)
        prepared = prepared_of(executor)
        assert len(said.regions) == len(prepared.plan.regions) > 4
        for region in said.regions:
            place = next(n for n, device in enumerate(machine.devices) if device.location == region.device)
            took_ns = prepared.region_ns(region.number, place)
            assert took_ns is not None
            assert took_ns == region_ns(prepared.plan.regions[region.number].program, machine.devices[place].rates)
            assert sum(call.predicted_s for call in region.calls) * 1e9 == pytest.approx(took_ns, abs=0.01)
            assert region.chosen.predicted_s * 1e9 == pytest.approx(took_ns, abs=0.01)
            assert region.kernels.keys() == {call.kind for call in region.calls}
            assert sorted(node for call in region.calls for node in call.nodes) == sorted(
                prepared.plan.regions[region.number].program.nodes
            )

    world(UNEQUAL, say)


def test_the_kernel_that_runs_is_marked_and_is_the_one_that_is_ranked_where_it_is() -> None:
    said = explained(UNEQUAL, products())
    for region in said.regions:
        for call in region.calls:
            (taken,) = [one for one in call.alternatives if one.taken]
            assert (taken.device, taken.source) == (region.device, call.source)
            assert call.alternatives[0].fate == Fate.FIRST.value
            times = [one.effective_s for one in call.alternatives]
            assert times == sorted(times)  # type: ignore[type-var]
            assert len({one.device for one in call.alternatives}) == 3


def test_a_price_says_whose_it_is() -> None:
    said = explained(UNEQUAL, products())
    assert {call.source for region in said.regions for call in region.calls} == {"layer 1"}
    counted = explained(UNEQUAL, synthetic())
    assert {call.source for region in counted.regions for call in region.calls} == {"counted"}
    for candidate in counted.regions[0].candidates:
        assert candidate.sources == {"counted": 1.0}


def test_what_was_measured_is_said_to_be() -> None:
    graph = synthetic()

    async def main(clock: VirtualClock) -> None:
        machine = SimMachine([SimDeviceSpec(advertised=REFERENCE, speed=0.5), SimDeviceSpec()], clock=clock)
        async with fa.Executor(machine.devices) as executor:
            before = executor.explain(graph)
            for _ in range(3):
                await executor.run(graph, x=np.zeros(4_000, np.uint8))
            after = executor.explain(graph)
        machine.close()
        assert all(one.sources == {"counted": 1.0} for region in before.regions for one in region.candidates)
        measured = [one for region in after.regions for one in region.candidates if one.sources == {"measured": 1.0}]
        assert measured
        slow = [one for one in measured if one.device == machine.devices[0].location]
        known = {
            region.number: one for region in before.regions for one in region.candidates if one.device == slow[0].device
        }
        assert any(abs(one.predicted_s / other.predicted_s - 2) < 0.01 for one in slow for other in known.values())

    run_virtual(main)


def test_the_timeline_is_that_of_the_run() -> None:
    said = explained(UNEQUAL, products(), links=Links.of(10_000, 12.0, peers=False))
    lanes = {str(one.device) for one in said.devices}
    work = [span for span in said.spans if span.row in lanes]
    assert [(int(span.kind), span.start_ns, span.end_ns) for span in work] == [
        (region.number, round(region.start_s * 1e9), round(region.finish_s * 1e9)) for region in said.regions
    ]
    copies = [span for span in said.spans if span.row not in lanes]
    assert len(copies) == len(said.copies) > 0
    assert {span.row for span in copies} == {f"{one.source} -> {one.destination}" for one in said.copies}
    for copy in said.copies:
        maker = None if copy.region is None else said.regions[copy.region]
        assert copy.start_s >= 0 if maker is None else copy.start_s >= maker.finish_s - 1e-9
        assert copy.finish_s - copy.start_s >= 10e-6
    for row in lanes:
        spans = sorted((span.start_ns, span.end_ns) for span in work if span.row == row)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert max(span.end_ns for span in said.spans) <= round(said.makespan_s * 1e9)
    lines = said.picture(100)
    assert len(lines) == 1 + len({span.row for span in said.spans} | lanes)
    assert max(map(len, lines)) <= 100
    assert said.picture()[1] in str(said)


def test_devices_are_told_what_they_do_and_what_the_run_would_take_on_each_alone() -> None:
    said = explained(UNEQUAL, products())
    assert sum(one.regions for one in said.devices) == len(said.regions)
    for one, spec in zip(said.devices, UNEQUAL, strict=True):
        mine = [region for region in said.regions if region.device == one.device]
        assert one.busy_s == pytest.approx(sum(region.finish_s - region.start_s for region in mine))
        assert one.alone_s == pytest.approx(explained([spec], products()).makespan_s)
        assert one.received_nbytes == sum(copy.nbytes for copy in said.copies if copy.destination == one.device)
    assert said.makespan_s <= min(one.alone_s or 0 for one in said.devices)


def test_lanes_of_one_device_have_rows_of_their_own() -> None:
    said = explained([SimDeviceSpec(rates=RATES, lanes=2), SimDeviceSpec(rates=RATES, speed=0.01)], synthetic())
    first = said.devices[0].device
    rows = {span.row for span in said.spans if span.row.startswith(f"{first} lane")}
    assert rows == {f"{first} lane 0", f"{first} lane 1"}
    assert {region.lane for region in said.regions} == {0, 1}


# --- with a plan and without ---


def test_where_the_plan_has_a_region_is_told_beside_where_it_goes_without() -> None:
    graph = synthetic(8)

    def say(executor: fa.Executor, machine: SimMachine) -> Explanation:
        said = executor.explain(graph)
        engine: SpreadEngine = executor._engine  # type: ignore[assignment]
        prepared = prepared_of(executor)
        before = prepared.shape
        prepared.plan_run()
        prior, places = prepared.shape.prior, [device.location for device in engine.table.devices]
        assert before.prior is None  # explaining changes nothing
        assert prior is not None
        assert [region.planned for region in said.regions] == [places[device] for device in prior.devices]
        assert said.promised_s == prior.makespan_ns / 1e9
        assert executor.explain(graph) == said  # of the plan that it has now
        return said

    said: Explanation = world(UNEQUAL, say)
    assert said.planned_s is not None
    assert said.live_s is not None
    assert said.makespan_s == min(said.planned_s, said.live_s)
    assert "following a plan of the whole run; without it" in said.way
    assert all(region.live is not None for region in said.regions)


def test_a_device_that_would_be_done_earlier_loses_to_the_plan() -> None:
    """Six chains of three products, and a second GPU of half the speed: it gets two of them."""
    g = fa.Graph("chains")
    x = g.input("x", (512, 512))
    ends = []
    for _ in range(6):
        end = x
        for _ in range(3):
            end = (end @ g.constant(np.ones((512, 512), np.float32))).tanh()
        ends.append(end)
    g.output("y", sum(ends[1:], ends[0]))
    machine = describe_machine(tomllib.loads(MACHINE.read_text("utf-8")))
    said = explained(machine.devices, g, machine.links)
    torn = [region for region in said.regions if "shorter as a whole" in region.reason]
    assert torn
    for region in torn:
        other = min((one for one in region.candidates if one.lost), key=lambda one: one.finish_s)
        assert other.finish_s < region.chosen.finish_s
        assert " earlier" in other.lost
        assert other.lost.endswith("planned elsewhere")
    assert said.planned_s is not None
    assert said.live_s is not None
    assert said.makespan_s == said.planned_s < said.live_s


def test_a_policy_of_the_callers_own_has_no_plan() -> None:
    said = explained(UNEQUAL, products(), placement=lambda offers: offers[-1])
    assert (said.promised_s, said.planned_s, said.live_s) == (None, None, None)
    assert all(region.planned is region.live is None for region in said.regions)
    assert "the policy chose another" in said.regions[0].candidates[0].lost


def _said(warm: bool, executor: fa.Executor, machine: SimMachine) -> Explanation:
    return executor.explain(products(), warm=warm)


def test_constants_that_are_still_to_be_sent_are_told_apart() -> None:
    slow = Links.of(10_000, 0.5)
    first, later = (world(UNEQUAL, partial(_said, warm), slow) for warm in (False, True))
    assert first.constants_nbytes == later.constants_nbytes == 4 * 256 * 256 * 4
    assert (first.warm, later.warm) == (False, True)
    assert first.makespan_s > later.makespan_s
    assert any("constants, " in one.lost for region in first.regions for one in region.candidates)
    assert not any("constants" in one.lost for region in later.regions for one in region.candidates)


# --- why a device loses ---


def offer(
    device: int, ready: int = 0, free: int = 0, takes: int = 10, copies: int = 0, *, tight: bool = False
) -> Offer:
    hops = [(value, Hop(0, device, 1)) for value in range(copies)]
    return Offer(device, device, ready * MS, free * MS, takes * MS, hops, tight)


LOST = {
    "4.000 ms later: work +4.000": (offer(0), offer(1, takes=14), None),
    "5.000 ms later: start +5.000 (2 copies, 4.0 kB)": (offer(0), offer(1, ready=5, copies=2), None),
    "5.000 ms later: start +5.000 (1 copy, 4.0 kB)": (offer(0), offer(1, ready=5, copies=1), None),
    "5.000 ms later: start +5.000 (other work)": (offer(0), offer(1, free=5), None),
    "2.000 ms later: start +5.000 (other work), work -3.000": (offer(0), offer(1, free=5, takes=7), None),
    "done at the same time": (offer(0), offer(1), None),
    "3.000 ms earlier, but its memory would be nearly full": (offer(0), offer(1, takes=7, tight=True), None),
    "3.000 ms earlier, but planned elsewhere": (offer(0), offer(1, takes=7), 0),
    "3.000 ms earlier, but the policy chose another": (offer(0), offer(1, takes=7), None),
}


@pytest.mark.parametrize("text", LOST)
def test_the_parts_add_up_to_how_much_later_it_would_be_done(text: str) -> None:
    chosen, other, planned = LOST[text]
    assert lost_by(chosen, other, planned, 4_000, 0) == text


A, B, C = (DeviceLocation.parse(f"sim:{number}") for number in range(3))

#: Why the first of some offers is taken: the offers, the pin, and the device that the plan has.
REASONS: dict[str, tuple[list[Offer], DeviceLocation | None, int | None]] = {
    "pinned to sim:0": ([offer(0)], A, None),
    "planned on sim:2, which cannot take it now or is far behind": ([offer(0), offer(1)], None, 2),
    "no other device can take it": ([offer(0)], None, None),
    "as planned, no other device can take it": ([offer(0)], None, 0),
    "done 4.000 ms before sim:1, slower at it": ([offer(0), offer(1, takes=14), offer(2, takes=15)], None, None),
    "as planned, done 4.000 ms before sim:1, waiting for inputs": ([offer(0), offer(1, ready=4, copies=1)], None, 0),
    "done 4.000 ms before sim:1, waiting for constants": ([offer(0), offer(1, ready=4)], None, None),
    "done 4.000 ms before sim:1, busy with other work": ([offer(0), offer(1, free=4)], None, None),
    "as planned, done first, with sim:1 at the same time": ([offer(0), offer(1)], None, 0),
    "as planned, though sim:1 would be done 3.000 ms earlier: shorter as a whole": (
        [offer(0), offer(1, takes=7)],
        None,
        0,
    ),
    "chosen by mine, though sim:1 would be done 3.000 ms earlier": ([offer(0), offer(1, takes=7)], None, None),
    "sim:1 would be done 3.000 ms earlier, with its memory nearly full": (
        [offer(0), offer(1, takes=7, tight=True)],
        None,
        None,
    ),
}


@pytest.mark.parametrize("text", REASONS)
def test_every_reason_has_its_case(text: str) -> None:
    offers, pin, planned = REASONS[text]
    region = cast("Region", SimpleNamespace(pin=pin))
    assert reason_of(region, Decision(0, 0, offers, offers[0]), (A, B, C), "mine", planned) == text


def test_a_device_that_could_not_take_a_region_says_why() -> None:
    def pinned(executor: fa.Executor, machine: SimMachine) -> Explanation:
        g = fa.Graph()
        x = g.input("x", (8, 8))
        with g.on(machine.devices[1].location):
            g.output("y", x @ x)
        return executor.explain(g)

    said = world(UNEQUAL, pinned)
    pin = said.regions[0].device
    assert [one.why for one in said.regions[0].refusals] == [f"the graph pins it to {pin}"] * 2
    assert f"not on {said.devices[0].device}: the graph pins it to {pin}" in str(said)

    small = explained([SimDeviceSpec(rates=RATES), SimDeviceSpec(rates=RATES, memory_nbytes=1_000)], products())
    (refused,) = small.regions[0].refusals
    assert refused.device == small.devices[1].device
    assert refused.why.startswith("no room: a run holds ")
    assert refused.why.endswith(" bytes there, of 1,000")
    assert small.devices[1].alone_s is None

    def lost(executor: fa.Executor, machine: SimMachine) -> Explanation:
        machine.lose(machine.devices[2], "taken out")
        return executor.explain(products())

    gone = world(UNEQUAL, lost)
    assert {one.why for region in gone.regions for one in region.refusals} == {
        f"{gone.devices[2].device} is lost: taken out"
    }

    apart = Links(None)
    alone = explained([SimDeviceSpec(in_host_memory=True), SimDeviceSpec()], products(), links=apart)
    assert {one.why for region in alone.regions for one in region.refusals} == {"no way for its values there and back"}


def test_every_fate_has_its_words() -> None:
    assert FATES.keys() == set(Fate)


def test_a_copy_of_operands_is_named_where_it_makes_a_kernel_slower() -> None:
    said = explained(UNEQUAL, products(), links=Links.of(300_000, 1.0))
    calls = [call for region in said.regions for call in region.calls if call.kind == "tanh"]
    slower = [one for call in calls for one in call.alternatives if one.inbound_s]
    assert slower
    assert all("for copies of operands" in one.why for one in slower if one.fate == Fate.KEPT.value)


# --- as plain values ---

#: The format that docs/devices.md describes. A field that goes, or means something else, is another format.
KEYS = {
    Explanation: "graph sizes kernels regions makespan_s way error devices copies promised_s planned_s live_s "
    "constants_nbytes warm",
    DeviceExplanation: "device name lanes memory regions busy_s received_nbytes sent_nbytes alone_s",
    RegionExplanation: "number kernels needs device start_s finish_s candidates reason lane refusals planned "
    "planned_start_s live calls",
    Candidate: "device start_s finish_s predicted_s copies copied_nbytes ready_s free_s sources lost",
    Refusal: "device why",
    CallExplanation: "kind signature nodes line kernel predicted_s source alternatives",
    Alternative: "device kernel effective_s inbound_s source fate why taken",
    CopyExplanation: "source destination nbytes start_s finish_s region",
}


@pytest.mark.parametrize("cls", KEYS)
def test_the_fields_are_those_of_the_format(cls: type) -> None:
    assert [one.name for one in fields(cls)] == KEYS[cls].split()


def test_plain_values_hold_everything_and_survive_json() -> None:
    said = explained(UNEQUAL, products())
    told = said.as_dict()
    assert json.loads(json.dumps(told)) == told
    assert told.pop("format") == 1
    assert list(told) == KEYS[Explanation].split()
    assert told["regions"][0]["device"] == str(said.regions[0].device)
    assert told["regions"][0]["calls"][0]["alternatives"][0]["fate"] == "first"
    assert [one["number"] for one in told["regions"]] == list(range(len(said.regions)))


# --- sizes ---


@pytest.mark.asyncio(loop_factories=["default"])
async def test_sizes_may_be_given_by_themselves() -> None:
    g = fa.Graph("sized")
    g.output("y", g.input("x", ("batch", "tokens"), hint={"batch": 8}) * 2.0)
    async with fa.Executor(devices=["cpu:0"]) as executor:
        assert executor.explain(g, sizes={"batch": 3, "tokens": 5}).sizes == {"batch": 3, "tokens": 5}
        (region,) = executor.explain(g, sizes={"tokens": 6}).regions
        assert region.calls[0].signature.endswith("-> f32[3, 6]")
        assert region.calls[0].line.startswith(__file__)
        assert region.refusals == ()
        with pytest.raises(UserError, match="graph 'sized' has no symbol 'batches'; it has batch, tokens"):
            executor.explain(g, sizes={"batches": 3})


# --- the page that describes the format ---

PAGE = (Path(__file__).parents[2] / "docs" / "devices.md").read_text("utf-8")
OBJECTS = {
    "the whole": Explanation,
    "of `devices`": DeviceExplanation,
    "of `regions`": RegionExplanation,
    "of `candidates`": Candidate,
    "of `refusals`": Refusal,
    "of `calls`": CallExplanation,
    "of `alternatives`": Alternative,
    "of `copies`": CopyExplanation,
}


@pytest.mark.parametrize("name", OBJECTS)
def test_the_page_lists_every_field(name: str) -> None:
    (listed,) = re.findall(rf"^\| {re.escape(name)} \| (.*) \|$", PAGE, re.MULTILINE)
    assert re.findall(r"`(\w+)`", listed) == [one.name for one in fields(OBJECTS[name])]


@pytest.mark.parametrize(("start", "classes"), [("`[[device]]`", [SimDeviceSpec]), ("`[links]`", [LinkSpec, Links])])
def test_the_page_lists_every_key_of_a_machine(start: str, classes: list[type]) -> None:
    (listed,) = re.findall(rf"^\| {re.escape(start)}[^|]* \| (.*) \|$", PAGE, re.MULTILINE)
    known = {one.name for cls in classes for one in fields(cls)} - {"every", "matrix"}
    assert set(re.findall(r"`(\w+)`", listed)) == known
