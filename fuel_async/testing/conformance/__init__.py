"""The suite that judges a backend: each op over dtypes, layouts, shapes and special values, against the reference."""

from fuel_async.testing.conformance.cases import Built as Built
from fuel_async.testing.conformance.cases import ConformanceCase as ConformanceCase
from fuel_async.testing.conformance.cases import cases as cases
from fuel_async.testing.conformance.judging import check_case as check_case
from fuel_async.testing.conformance.judging import run_case as run_case
from fuel_async.testing.conformance.judging import run_cases as run_cases
from fuel_async.testing.conformance.marks import parameters as parameters
from fuel_async.testing.conformance.marks import parametrize as parametrize
from fuel_async.testing.conformance.subject import Outcome as Outcome
from fuel_async.testing.conformance.subject import Report as Report
from fuel_async.testing.conformance.subject import Subject as Subject
from fuel_async.testing.conformance.subject import Verdict as Verdict
