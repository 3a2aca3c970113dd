"""The rows of CUDA's kernels, what identifies them, and what listing them costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fuel_async.backends.cuda.kernels.code import code_of
from fuel_async.backends.cuda.kernels.table import CODE, KERNEL_SOURCE, PRODUCTS, register_cuda_kernels
from fuel_async.backends.cuda.printing import PRINTERS
from fuel_async.backends.grids.grids import row_major
from fuel_async.backends.grids.kernel import Operand
from fuel_async.backends.grids.table import FAMILIES, kernels_of
from fuel_async.dispatch import KernelBindingTable, NoParams
from fuel_async.ir import BackendId, DType, OpKind
from tests.backends.cuda.source_rig import LIMITS

FOLDER = Path(__file__).parents[3] / "fuel_async" / "backends" / "cuda"


@pytest.fixture(scope="module")
def table() -> KernelBindingTable:
    made = KernelBindingTable()
    register_cuda_kernels(made)
    return made.finalize()


def test_all_kernels_of_grids_have_a_row_that_devices_can_run(table: KernelBindingTable) -> None:
    for family in FAMILIES:
        for kernel in kernels_of(family):
            entry = table.lookup_entry(kernel.op, kernel.dtypes, BackendId.CUDA, LIMITS.features)
            assert (entry.kernel_source, entry.caps) == (KERNEL_SOURCE, kernel.caps)
            assert entry.kernel_revision_hash
            assert entry.kernel.needs == kernel.needs <= LIMITS.features  # type: ignore[attr-defined]


def test_every_module_that_decides_on_code_is_listed() -> None:
    def there(folder: str) -> set[str]:
        return {path.stem for path in (FOLDER / folder).glob("*.py")} - {"__init__"}

    def listed(*modules: str) -> set[str]:
        return {module.rpartition(".")[2] for module in modules}

    assert listed(*PRINTERS) == there("printing")
    assert listed(*CODE, *PRODUCTS) == (there("kernels") - {"table"}) | {"sources", "blas", "movement"}


def test_equal_programs_are_one_text(table: KernelBindingTable) -> None:
    operand = Operand(DType.F32, (6,), row_major((6,)), 0)
    texts = []
    for op, arity in ((OpKind.AddElementwise, 2), (OpKind.AddElementwise, 2), (OpKind.Copy, 1), (OpKind.Copy, 1)):
        kernel: Any = table.lookup(op, (DType.F32,) * (arity + 1), BackendId.CUDA)
        (dispatch,) = kernel.dispatches([operand] * (arity + 1), NoParams(), LIMITS)
        texts.append(code_of(dispatch.shader))
    assert texts[0].text is texts[1].text
    assert texts[2].text is texts[3].text
    assert "--fmad=false" in texts[0].options
    assert "-DSIZE=4" in texts[2].options


@pytest.mark.slow
def test_listing_them_imports_no_driver_and_prints_nothing() -> None:
    program = """
import sys
from fuel_async.backends.cuda.kernels.table import register_cuda_kernels
from fuel_async.dispatch import KernelBindingTable
register_cuda_kernels(KernelBindingTable())
print([name for name in sys.modules if name.startswith(("cupy", "fuel_async.backends.cuda.printing."))])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=FOLDER.parents[2]
    )
    assert done.stdout.strip() == "[]"
