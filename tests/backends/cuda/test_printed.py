"""Elementwise kernels printed in CUDA C, compiled for the CPU: the laws of all devices of grids hold for them, too."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.backends.cuda.demands import needs_compiler
from tests.backends.cuda.source_rig import SourceRig
from tests.backends.grids.elementwise_laws import (  # noqa: F401
    KERNELS,
    check,
    has_reference,
    name_of,
    quiet,
    test_counts_that_fill_no_group,
    test_every_number_of_a_narrow_format_is_widened_and_narrowed_exactly,
    test_float64_is_narrowed_to_half_by_one_rounding,
    test_functions_are_exact_to_units_in_the_last_place,
    test_functions_of_float64_are_exact_to_units_in_the_last_place,
    test_groups_of_several_lines_are_told_apart,
    test_many_axes,
    test_narrowing_rounds_half_to_even_as_numpy_does,
    test_operands_are_read_as_they_lie,
    test_powers_are_exact_to_units_in_the_last_place,
    test_powers_of_special_numbers_are_those_of_the_c_standard,
    test_remainders_have_the_bits_of_numpys,
    test_results_are_within_the_bounds_of_the_conformance_suite,
    test_subnormal_numbers_are_compared_and_kept,
    test_the_output_may_be_an_input,
)

if TYPE_CHECKING:
    from fuel_async.backends.grids.kernel import GridKernel
    from tests.backends.grids.rig import Rig

pytestmark = needs_compiler

#: Kernels of a sample.
SAMPLED = 40


@pytest.fixture(scope="module")
def devices() -> list[Rig]:
    return [SourceRig()]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The seed in the session's header chooses the sample."""
    if "sampled" in metafunc.fixturenames:
        chance = random.Random(int(metafunc.config.getoption("hypothesis_seed")))
        found = chance.sample([kernel for kernel in KERNELS.values() if has_reference(kernel)], SAMPLED)
        metafunc.parametrize("sampled", found, ids=name_of)


def test_a_sample_of_all_kernels_is_within_the_bounds(devices: list[Rig], sampled: GridKernel) -> None:
    check(devices[0], sampled)
