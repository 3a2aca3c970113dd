"""The host's kernels, alone and on a simulated device. The seed in the session's header chooses the sample."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from fuel_async.testing.conformance import check_case, run_cases

if TYPE_CHECKING:
    from fuel_async.runtime import Executor
    from fuel_async.testing.conformance import ConformanceCase, Subject


def test_a_sample(executor: Executor, case: ConformanceCase) -> None:
    asyncio.run(check_case(executor, case))


@pytest.mark.slow
def test_all_cases_of_an_op(subject: Subject, subject_cases: list[ConformanceCase]) -> None:
    report = asyncio.run(run_cases(subject, subject_cases))
    assert report.is_good, str(report)
    assert len(report.verdicts) == len(subject_cases)
