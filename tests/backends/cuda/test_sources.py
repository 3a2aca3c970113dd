"""The fixed kernels in CUDA C, compiled for the CPU: the laws of the fixed kernels of grids hold for them, too."""

from __future__ import annotations

from typing import Any

import pytest

from fuel_async.backends.cuda.kernels.code import code_of
from fuel_async.testing.cuda_double.compiling import compile_many
from tests.backends.cuda.demands import needs_compiler
from tests.backends.cuda.shaders import fixed
from tests.backends.cuda.source_rig import SourceRig
from tests.backends.grids.kernel_laws import (  # noqa: F401
    TestCopies,
    TestIndices,
    TestMatmul,
    TestReductions,
    TestRows,
    host,
    test_large_and_long_operands,
    test_the_host_computes_the_same,
    test_the_output_may_be_an_input_where_a_kernel_says_so,
)

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def devices() -> list[Any]:
    # Together they compile in a fraction of the time.
    compile_many(code_of(shader) for made in fixed((6, 203)).values() for shader in made)
    return [SourceRig()]
