"""The host's kernels, on the host and on simulated devices. The seed in the session's header chooses the sample."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from fuel_async.testing.conformance import run_cases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.testing.conformance import ConformanceCase, Subject


def check(subject: Subject, cases: Sequence[ConformanceCase]) -> None:
    report = asyncio.run(run_cases(subject, cases))
    assert report.is_good, str(report)
    assert [verdict.case for verdict in report.verdicts] == list(cases)


def test_a_sample_of_an_op(subject: Subject, sample: Sequence[ConformanceCase]) -> None:
    check(subject, sample)


@pytest.mark.slow
def test_all_cases_of_an_op(subject: Subject, every: Sequence[ConformanceCase]) -> None:
    check(subject, every)
