"""The rows of kernels of grids: every family, priced by Layer 1, with one identity a family and backend.

The families say what there is; a backend adds how it runs and what its code is. A kernel is registered whatever a
device can do: what it needs is in `GridKernel.needs`, and a device without that advertises it not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from fuel_async.backends.grids import (
    borders,
    catalog,
    elementwise,
    folds,
    grids,
    kernel,
    matmul,
    movement,
    picking,
    reduce,
    rows,
    widths,
)
from fuel_async.cost import default_cost_for_op_kind
from fuel_async.dispatch import KernelRevisionHash
from fuel_async.ir import PrecisionGuarantee

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    from fuel_async.backends.grids.kernel import GridKernel, Once
    from fuel_async.dispatch import KernelBindingTable
    from fuel_async.ir import BackendId

FAMILIES = (movement, picking, borders, reduce, rows, matmul, elementwise)
#: Modules whose code is part of every kernel.
SHARED = (kernel, grids, widths, folds, catalog)

#: Every sum has one order on one device; other devices have others.
PRECISION = PrecisionGuarantee(True, notes="the order of sums is fixed for a device")


@dataclass(frozen=True, slots=True)
class Pack:
    """What makes the families the kernels of one backend."""

    backend: BackendId
    #: Tells these kernels apart from siblings that other packs register for the backend.
    source: str
    once: Once
    #: The code of all fixed modules, and of what turns dispatches into work.
    code: Callable[[], bytes]
    #: Names of modules that a family's code depends on besides, by the family: they need not be imported for that.
    more: Mapping[ModuleType, Sequence[str]]
    #: Features that no device of the backend has: kernels that need them are left out.
    never: frozenset[str] = frozenset()
    #: By family: another one in its place.
    instead: Mapping[ModuleType, Callable[[], Sequence[GridKernel]]] | None = None


def register(table: KernelBindingTable, pack: Pack) -> None:
    """Add every kernel of a pack to an open table: one row for each (op, dtypes)."""
    common = b"".join([*[source_of(module.__name__) for module in SHARED], pack.code()])
    shared = KernelRevisionHash.of_source(common).value.to_bytes(8, "little")
    for family in FAMILIES:
        names = [family.__name__, *getattr(family, "TAKES_FROM", ()), *pack.more.get(family, ())]
        revision = KernelRevisionHash.of_source(shared + b"".join(map(source_of, names))).value
        made = (pack.instead or {}).get(family)
        for found in kernels_of(family) if made is None else made():
            if found.needs & pack.never:
                continue
            table.register(
                found.op,
                found.dtypes,
                pack.backend,
                replace(found, once=pack.once),
                caps=found.caps,
                precision=PRECISION,
                cost=default_cost_for_op_kind(found.op),
                kernel_source=pack.source,
                kernel_revision_hash=revision,
            )


@cache
def kernels_of(family: ModuleType) -> tuple[GridKernel, ...]:
    """Return the kernels of a family, made once: backends share their plans, and so the forms that these remember."""
    found: tuple[GridKernel, ...] = family.kernels()
    return found


@cache
def source_of(name: str) -> bytes:
    """Return the text of a module, which is not imported for that; its name alone where no source is installed."""
    package, _, own = name.rpartition(".")
    for place in (f"{own}.py", f"{own}/__init__.py"):
        try:
            return (files(package) / place).read_bytes()
        except OSError:
            continue
    return name.encode()
