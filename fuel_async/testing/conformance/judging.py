"""Cases are run on a subject's devices through the executor, and compared with the reference."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.runtime import Executor
from fuel_async.testing.conformance.cases import MOVING
from fuel_async.testing.conformance.subject import Outcome, Report, Verdict
from fuel_async.testing.reference import check_expected

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fuel_async.testing.conformance.cases import ConformanceCase
    from fuel_async.testing.conformance.subject import Subject
    from fuel_async.testing.reference import Expectation


async def check_case(executor: Executor, case: ConformanceCase) -> None:
    """Run one case twice; `AssertionError` when a result is not what it must be, or a feed or constant was written.

    What the executor itself raises comes out as it is.
    """
    built = case.build()
    before = {name: value.tobytes() for name, value in built.feeds.items()}
    results = await executor.run(built.graph, dict(built.feeds))
    check_expected(built.expected, results)
    if case.op in MOVING:
        _check_zeros(built.expected, results)
    # A second time over what the first left behind: a constant that was overwritten shows.
    again = await executor.run(built.graph, dict(built.feeds))
    changed = [name for name, value in built.feeds.items() if value.tobytes() != before[name]]
    if changed:
        raise AssertionError(f"feeds {changed} were overwritten")
    changed = [name for name, value in results.items() if value.tobytes() != again[name].tobytes()]
    if changed:
        raise AssertionError(f"outputs {changed} are others in a second run with equal feeds")


def run_case(subject: Subject, case: ConformanceCase) -> Verdict:
    """Run one case on an executor of its own, opened and closed here. Not to be called on an event loop."""
    return asyncio.run(run_cases(subject, [case])).verdicts[0]


async def run_cases(subject: Subject, cases: Iterable[ConformanceCase]) -> Report:
    """Run cases one after the other on one executor. What goes wrong in a case is in its verdict, not raised."""
    verdicts: list[Verdict] = []
    async with Executor(devices=subject.devices) as executor:
        for case in cases:
            reason = subject.why_unsupported(case)
            if reason is not None:
                verdicts.append(Verdict(case, Outcome.UNSUPPORTED, reason))
            else:
                verdicts.append(_verdict(subject, case, await _fault(executor, case)))
    return Report(subject.name, tuple(verdicts))


async def _fault(executor: Executor, case: ConformanceCase) -> str | None:
    try:
        await check_case(executor, case)
    except AssertionError as error:
        return str(error)
    except Exception as error:  # whatever a kernel or a lane raises is a fault of the subject
        return f"{type(error).__name__}: {error}"
    return None


def _verdict(subject: Subject, case: ConformanceCase, fault: str | None) -> Verdict:
    reason = subject.why_expected_to_fail(case)
    if fault is None:
        return Verdict(case, Outcome.PASSED) if reason is None else _unexpected(case, reason)
    return Verdict(case, Outcome.FAILED, fault) if reason is None else Verdict(case, Outcome.FAILED_AS_EXPECTED, reason)


def _unexpected(case: ConformanceCase, reason: str) -> Verdict:
    return Verdict(case, Outcome.PASSED_UNEXPECTEDLY, f"no longer true: {reason}")


def _check_zeros(expected: Mapping[str, Expectation], results: Mapping[str, Any]) -> None:
    for name, (value, tolerance) in expected.items():
        if value.dtype.kind in "biu":
            continue
        wide, got = value.astype(np.float64), np.asarray(results[name]).astype(np.float64)
        wrong = (wide == 0) & (tolerance == 0) & (np.signbit(wide) != np.signbit(got))
        if wrong.any():
            where = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise AssertionError(f"output {name!r} at {where} is a zero of the wrong sign")
