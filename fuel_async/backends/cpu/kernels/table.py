"""The rows of the host's kernels: every family, priced by Layer 1, with one identity a family.

The families say what there is; nothing is computed here.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from fuel_async.backends.cpu.kernels import (
    arg_extreme,
    base,
    blocks,
    borders,
    cross_entropy,
    cumulate,
    elementwise,
    erf,
    indexing,
    inplace,
    limits,
    linear,
    masks,
    matmul,
    matmul_integer,
    movement,
    normalise,
    normalise_backward,
    powers,
    reduce,
    reduce_to,
    rope,
    rows,
    scan,
    scatter,
)
from fuel_async.cost import default_cost_for_op_kind
from fuel_async.dispatch import KernelRevisionHash
from fuel_async.ir import ERF_F32, ERF_F64, GELU_F32, BackendId, PrecisionGuarantee

if TYPE_CHECKING:
    from types import ModuleType

    from fuel_async.dispatch import KernelBindingTable

#: Tells these kernels apart from siblings that other packs register for the host.
KERNEL_SOURCE = "portable-cpu"

FAMILIES = (
    elementwise,
    limits,
    reduce,
    matmul,
    normalise,
    movement,
    indexing,
    borders,
    masks,
    scatter,
    powers,
    reduce_to,
    arg_extreme,
    cumulate,
    normalise_backward,
    cross_entropy,
    linear,
    matmul_integer,
    rope,
    inplace,
    scan,
)
#: Modules whose code is part of every kernel.
SHARED = (base, blocks, erf, rows)
#: Numbers that this code takes from elsewhere.
NUMBERS = (ERF_F32, ERF_F64, GELU_F32)


def register_cpu_kernels(table: KernelBindingTable) -> None:
    """Add every kernel of the host to an open table: one row for each (op, dtypes)."""
    shared = "".join(map(_source, SHARED)) + repr(NUMBERS)
    for family in FAMILIES:
        more: tuple[ModuleType, ...] = getattr(family, "TAKES_FROM", ())
        revision = revision_hash(shared + "".join(map(_source, (family, *more))))
        for kernel in family.kernels():
            table.register(
                kernel.op,
                kernel.dtypes,
                BackendId.CPU,
                kernel,
                caps=kernel.caps,
                precision=PrecisionGuarantee.PRIMITIVE_DETERMINISTIC_CPU,
                cost=default_cost_for_op_kind(kernel.op),
                kernel_source=KERNEL_SOURCE,
                kernel_revision_hash=revision,
            )


def revision_hash(source: str) -> int:
    """Return what identifies code in what is persisted: 64 bits of BLAKE2b of its text, never 0."""
    return KernelRevisionHash.of_source(source.encode()).value


def _source(module: ModuleType) -> str:
    """The text of a module; its name alone where no source is installed."""
    try:
        return inspect.getsource(module)
    except OSError:
        return module.__name__
