"""The rows of CUDA's kernels: those of grids, in CUDA C that is compiled where it runs, and products by cuBLAS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fuel_async.backends.cuda import printing, sources
from fuel_async.backends.cuda.kernels import code, gemm, matmul
from fuel_async.backends.grids import elementwise, formats
from fuel_async.backends.grids import matmul as grids_matmul
from fuel_async.backends.grids.catalog import MODULES
from fuel_async.backends.grids.table import Pack, register, source_of
from fuel_async.ir import BackendId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.grids.kernel import GridKernel
    from fuel_async.dispatch import KernelBindingTable, OpParams
    from fuel_async.ir import Layout

#: Tells these kernels apart from siblings that other packs register for CUDA.
KERNEL_SOURCE = "cuda-c"


def register_cuda_kernels(table: KernelBindingTable) -> None:
    """Add every kernel of CUDA devices to an open table: one row for each (op, dtypes). Compiles and prints nothing."""
    more = {elementwise: (formats, *printing.PRINTERS), grids_matmul: (matmul, gemm)}
    pack = Pack(BackendId.CUDA, KERNEL_SOURCE, _once, _fixed, more, instead={grids_matmul: matmul.kernels})
    register(table, pack)


def _fixed() -> bytes:
    texts = [sources.source(name).encode() for name in sorted({module.source for module in MODULES.values()})]
    return b"".join([*texts, *map(source_of, (sources, code))])


def _once(
    kernel: GridKernel, inputs: Sequence[Any], outputs: Sequence[Any], layouts: Sequence[Layout], params: OpParams
) -> None:
    from fuel_async.backends.cuda.once import run_once

    run_once(kernel, inputs, outputs, layouts, params)
