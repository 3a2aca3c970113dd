"""The laws of the fixed kernels on every software device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

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
from tests.backends.vulkan.kernel_rig import rigs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.backends.grids.rig import Rig


@pytest.fixture(scope="module")
def devices() -> Iterator[list[Rig]]:
    yield from rigs()
