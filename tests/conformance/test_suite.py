"""The suite itself: its cases, its verdicts, and that it sees kernels that are wrong."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fuel_async.errors import InternalError, UserError
from fuel_async.ir import OPS, DType, Graph, OpKind
from fuel_async.runtime import Executor
from fuel_async.testing import reference
from fuel_async.testing.conformance import (
    ConformanceCase,
    Outcome,
    Report,
    Subject,
    cases,
    check_case,
    parameters,
    parametrize,
    run_case,
    run_cases,
)
from fuel_async.testing.conformance.cases import MOVING
from fuel_async.testing.conformance.gradients import PAIRS
from fuel_async.testing.conformance.poses import LAYOUTS, SHAPES, VALUES, specials
from tests.conformance.support import (
    beyond_a_block,
    in_place_of,
    plainly,
    then,
    unsteady,
    unstrided,
    without_duplicates,
    written_over,
)

if TYPE_CHECKING:
    from tests.conformance.support import Wrong

HOST = Subject("host", ("cpu:0",))


@cache
def every() -> tuple[ConformanceCase, ...]:
    return tuple(cases(HOST))


def of(op: str, *, large: bool = False, dtype: str | None = None) -> list[ConformanceCase]:
    found = [case for case in every() if case.op == op and (case.shape == "large") is large]
    return [case for case in found if dtype in (None, case.dtype)]


def judge(found: list[ConformanceCase], subject: Subject = HOST) -> Report:
    return asyncio.run(run_cases(subject, found))


# --- cases ------------------------------------------------------------------------------------------------------------


def test_every_op_has_cases_of_every_kind() -> None:
    found = every()
    assert {case.op for case in found} == {op.name for op in OPS}
    assert {case.layout for case in found} == set(LAYOUTS)
    assert {case.shape for case in found} == set(SHAPES)
    assert {case.values for case in found} == {*VALUES, "gradient"}
    assert len({case.id for case in found}) == len(found)


def test_ids_are_readable() -> None:
    assert "add/f32/strided/odd/nan" in {case.id for case in of("add")}
    assert "cast/f16-u8/offset/scalar/plain" in {case.id for case in of("cast")}


def test_every_backward_op_has_a_gradient() -> None:
    assert {op.name for op in OPS if op.name.endswith("_backward")} == set(PAIRS)
    assert {op.name for op in OPS} >= MOVING


def test_a_case_is_the_same_each_time() -> None:
    for case in of("rope")[::9]:
        first, again = case.build(), case.build()
        assert {name: value.tobytes() for name, value in first.feeds.items()} == {
            name: value.tobytes() for name, value in again.feeds.items()
        }
        assert repr(first.graph) == repr(again.graph)


def test_operands_lie_and_hold_as_told() -> None:
    case = ConformanceCase("neg", "f32", "strided", "odd", "nan")
    built = case.build()
    leaves = [np.asarray(leaf) for leaf in (*built.feeds.values(), *built.graph.freeze().constants.values())]
    assert [leaf.shape[-1] for leaf in leaves] == [2 * built.expected["y"].value.shape[-1]]
    assert np.isnan(built.expected["y"].value).any()
    assert not built.expected["y"].tolerance.any()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(3, 4), (2, 0, 3), (5,)], ids=str)
def test_a_layout_keeps_the_value(layout: str, shape: tuple[int, ...]) -> None:
    value = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    base, view = LAYOUTS[layout](value)
    graph = Graph()
    graph.output("y", view(graph.input("x", base.shape)))
    got = reference(graph, {"x": base})["y"]
    if layout == "broadcast" and value.size:
        value = np.broadcast_to(value[:1], shape)
    np.testing.assert_array_equal(got, value)
    assert got.shape == shape


def test_specials_are_what_they_are_called() -> None:
    found = {name: np.array(values, np.float32) for name, values in specials(DType.F32).items()}
    assert np.isnan(found["nan"]).all()
    assert np.isinf(found["inf"]).all()
    assert (found["subnormal"] != 0).all()
    assert (np.abs(found["subnormal"]) < np.finfo(np.float32).smallest_normal).all()
    assert np.signbit(found["zeros"]).tolist() == [False, True]
    assert found["extreme"][0] == np.finfo(np.float32).max
    assert np.isfinite(np.square(np.array(specials(DType.F16, modest=True)["extreme"], np.float16))).all()
    assert specials(DType.I8) == {"extreme": (-128, 127, 126)}
    assert "inf" not in specials(DType.F8E4M3)


def test_a_budget_takes_turns_of_ops() -> None:
    count = len(OPS)
    first = list(cases(HOST, seed=3, budget=2 * count))
    per_op = Counter(case.op for case in first)
    assert set(per_op) == {op.name for op in OPS}
    assert max(per_op.values()) <= 3
    assert first == list(cases(HOST, seed=3, budget=2 * count))
    assert first != list(cases(HOST, seed=4, budget=2 * count))


def test_a_seed_alone_is_an_order() -> None:
    assert set(cases(HOST, seed=3)) == set(every())


def test_what_is_unsupported_is_left_out() -> None:
    subject = replace(HOST, unsupported={"cast": "no casts", "*/f64/*": "no f64", "neg/f32/strided/odd/nan": "a trap"})
    found = list(cases(subject))
    assert not {"cast"} & {case.op for case in found}
    assert "f64" not in {case.dtype for case in found}
    left_out = {case.id for case in every() if case.op == "neg" and case.dtype == "f32"} - {c.id for c in found}
    assert left_out == {"neg/f32/strided/odd/nan"}


def test_a_case_that_cannot_be_is_refused() -> None:
    with pytest.raises(InternalError, match="triu/f32/contiguous/scalar/plain"):
        ConformanceCase("triu", "f32", "contiguous", "scalar", "plain").build()


# --- verdicts ---------------------------------------------------------------------------------------------------------

PLAIN = ConformanceCase("neg", "f32", "contiguous", "odd", "plain")


@pytest.mark.parametrize("field", ["unsupported", "expected_failures"])
def test_a_reason_is_wanted(field: str) -> None:
    with pytest.raises(UserError, match="gives no reason for 'neg'"):
        replace(HOST, **{field: {"neg": " "}})  # type: ignore[arg-type]


def test_verdicts() -> None:
    unsupported = replace(HOST, unsupported={"neg": "not yet"})
    expected = replace(HOST, expected_failures={"neg/f32": "signs are lost"})
    assert run_case(HOST, PLAIN).outcome is Outcome.PASSED
    assert str(run_case(unsupported, PLAIN)) == "unsupported: neg/f32/contiguous/odd/plain: not yet"
    passed = run_case(expected, PLAIN)
    assert passed.outcome is Outcome.PASSED_UNEXPECTEDLY
    assert "signs are lost" in passed.why
    with in_place_of(OpKind.NegElementwise, plainly(np.abs)):
        failed = run_case(HOST, PLAIN)
        assert failed.outcome is Outcome.FAILED
        assert "output 'y' at" in failed.why
        assert run_case(expected, PLAIN).outcome is Outcome.FAILED_AS_EXPECTED
    report = Report("host", (passed, failed, run_case(HOST, PLAIN)))
    assert not report.is_good
    assert report.faults == (passed, failed)
    assert str(report).startswith("host: 1 passed, 1 failed, 1 passed unexpectedly\n")


def test_an_error_of_a_kernel_is_a_verdict() -> None:
    def wrong(right: object, given: object, out: object) -> None:
        raise RuntimeError("no such device")

    with in_place_of(OpKind.NegElementwise, wrong):
        verdict = run_case(HOST, PLAIN)
    assert verdict.outcome is Outcome.FAILED
    assert "no such device" in verdict.why


def test_parameters_carry_ids_and_expectations() -> None:
    subject = replace(HOST, expected_failures={"neg": "why not"})
    found = parameters(subject, 1, len(OPS))
    ((strict,),) = [parameter.marks for parameter in found if parameter.values[0].op == "neg"]
    assert (strict.name, strict.kwargs) == ("xfail", {"reason": "why not", "strict": True})
    assert [parameter.id for parameter in found] == [case.id for case in cases(subject, 1, len(OPS))]
    assert parametrize(subject, 1, 5).args[0] == "case"


@parametrize(HOST, seed=1, budget=3)
def test_the_mark_gives_cases(case: ConformanceCase) -> None:
    async def check() -> None:
        async with Executor(devices=HOST.devices) as executor:
            await check_case(executor, case)

    asyncio.run(check())


# --- wrong kernels ----------------------------------------------------------------------------------------------------


def _classes(report: Report) -> set[str]:
    return {part for fault in report.faults for part in fault.case.id.split("/")[2:]}


#: op, kind, how it is wrong, and the classes of cases that show it.
WRONG: dict[str, tuple[str, OpKind, Wrong, set[str]]] = {
    "slightly off": ("add", OpKind.AddElementwise, plainly(lambda a, b: (a + b) * 1.01), {"plain", "odd"}),
    "NaN is lost": ("relu", OpKind.ReluElementwise, plainly(lambda x: np.fmax(x, 0 * x.dtype.type(1))), {"nan"}),
    "NaN of two is lost": ("maximum", OpKind.MaximumElementwise, plainly(np.fmax), {"nan"}),
    "zero of the wrong sign": ("neg", OpKind.NegElementwise, plainly(lambda x: 0 - x), {"zeros"}),
    "infinity is lost": ("exp", OpKind.ExpElementwise, plainly(lambda x: np.exp(np.clip(x, -50, 10))), {"inf"}),
    "no maximum is subtracted": (
        "softmax",
        OpKind.SoftmaxLastDim,
        plainly(lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
        {"extreme"},
    ),
    "strides are not looked at": (
        "copy",
        OpKind.Copy,
        then(lambda given, out: np.copyto(out, unstrided(given[0]))),
        {"strided", "transposed", "offset"},
    ),
    "the end of an axis": ("cumsum", OpKind.CumSum, then(lambda given, out: out[..., -1:].fill(0)), {"plain"}),
    "last of equal ones": (
        "argmax",
        OpKind.ArgMaxDim,
        then(lambda given, out: np.copyto(out, np.where(out == 0, 1, out))),
        {"plain"},
    ),
    "duplicates": ("index_add", OpKind.IndexAdd, then(without_duplicates), {"plain"}),
    "a factor is missing": (
        "layer_norm_backward",
        OpKind.LayerNormLastDimBackward,
        then(lambda given, out: np.multiply(out, 1.001, out)),
        {"gradient"},
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_seen(name: str) -> None:
    op, kind, wrong, classes = WRONG[name]
    with in_place_of(kind, wrong):
        report = judge(of(op))
    assert report.faults
    assert classes <= _classes(report)


def test_what_is_wrong_for_nan_alone_is_seen_there_alone() -> None:
    _, kind, wrong, _ = WRONG["NaN is lost"]
    with in_place_of(kind, wrong):
        report = judge(of("relu", dtype="f32"))
    assert {fault.case.values for fault in report.faults} == {"nan"}


def test_a_feed_that_is_written_over_shows() -> None:
    with in_place_of(OpKind.SqrElementwise, then(written_over)):
        report = judge(of("sqr", large=True, dtype="f32"))
    assert {fault.why for fault in report.faults} == {"feeds ['x0'] were overwritten"}


def test_a_second_run_with_another_result_shows() -> None:
    with in_place_of(OpKind.SqrElementwise, unsteady()):
        report = judge(of("sqr", dtype="f32"))
    assert {fault.why for fault in report.faults} == {"outputs ['y'] are others in a second run with equal feeds"}


def test_the_end_of_a_large_value_is_looked_at() -> None:
    with in_place_of(OpKind.AddElementwise, then(beyond_a_block)):
        assert judge(of("add")).is_good
        assert not judge(of("add", large=True, dtype="f32")).is_good


def test_the_right_kernels_pass_again() -> None:
    assert judge(of("relu", dtype="f32")).is_good
