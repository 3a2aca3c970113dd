"""What tests of CUDA need on this machine, and whether they may do without."""

from __future__ import annotations

import os

import pytest

from fuel_async.testing.cuda_double.compiling import missing_compiler

#: With FUEL_ASYNC_TEST_CUDA=1 in the environment what is missing is a failure, and else a skip with the reason.
DEMANDED = os.environ.get("FUEL_ASYNC_TEST_CUDA") == "1"

_REASON = missing_compiler()
#: Tests that run CUDA C on the CPU.
needs_compiler = pytest.mark.skipif(_REASON is not None and not DEMANDED, reason=_REASON or "")


def give_up(reason: str) -> None:
    """Skip the test, or fail it where what it needs is demanded."""
    (pytest.fail if DEMANDED else pytest.skip)(reason)
