"""The rows of CUDA's kernels: those of grids, in CUDA C that is compiled where it runs, and products by cuBLAS."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fuel_async.backends import cuda
from fuel_async.backends.cuda import kernels, printing, sources
from fuel_async.backends.cuda.kernels import matmul
from fuel_async.backends.grids import elementwise, formats, movement
from fuel_async.backends.grids import matmul as grids_matmul
from fuel_async.backends.grids.table import Pack, register, source_of
from fuel_async.ir import BackendId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.backends.grids.kernel import GridKernel
    from fuel_async.dispatch import KernelBindingTable, OpParams
    from fuel_async.ir import Layout

#: Tells these kernels apart from siblings that other packs register for CUDA.
KERNEL_SOURCE = "cuda-c"

#: Modules that turn a dispatch into a program, and products into calls.
CODE = (sources.__name__, f"{kernels.__name__}.code")
PRODUCTS = (
    *[f"{kernels.__name__}.{name}" for name in ("matmul", "gemm")], f"{cuda.__name__}.blas", movement.__name__,
)  # fmt: skip


def register_cuda_kernels(table: KernelBindingTable) -> None:
    """Add every kernel of CUDA devices to an open table: one row for each (op, dtypes). Compiles and prints nothing."""
    more = {elementwise: (formats.__name__, *printing.PRINTERS), grids_matmul: PRODUCTS}
    pack = Pack(BackendId.CUDA, KERNEL_SOURCE, _once, _fixed, more, instead={grids_matmul: matmul.kernels})
    register(table, pack)


def _fixed() -> bytes:
    folder = files(sources.__name__)
    names = sorted([path.name for path in folder.iterdir() if path.name.endswith((".cu", ".cuh"))])
    return b"".join([*[(folder / name).read_bytes() for name in names], *map(source_of, CODE)])


def _once(
    kernel: GridKernel, inputs: Sequence[Any], outputs: Sequence[Any], layouts: Sequence[Layout], params: OpParams
) -> None:
    from fuel_async.backends.cuda.once import run_once

    run_once(kernel, inputs, outputs, layouts, params)
