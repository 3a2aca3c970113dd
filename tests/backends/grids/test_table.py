"""Rows of packs of grid kernels: every one once, what a backend leaves out or replaces, and what identifies them."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.backends.grids import elementwise, matmul, movement
from fuel_async.backends.grids.table import FAMILIES, SHARED, Pack, kernels_of, register, source_of
from fuel_async.dispatch import KernelBindingTable, OpParams
from fuel_async.errors import InternalError
from fuel_async.ir import BackendId, DType, OpKind

if TYPE_CHECKING:
    from fuel_async.dispatch import BindingEntry

GRID = BackendId("grid")
COPY, ADD = (OpKind.Copy, (DType.F32,) * 2), (OpKind.AddElementwise, (DType.F32,) * 3)


def _nothing(*args: Any) -> None:
    """Run nothing."""


PACK = Pack(GRID, "test", _nothing, lambda: b"code", {})


def _rows(pack: Pack) -> dict[Any, BindingEntry]:
    table = KernelBindingTable()
    register(table, pack)
    table.finalize()
    return {(op, dtypes): table.lookup_entry(op, dtypes, GRID) for op, dtypes, _ in table.iter_keys()}


def test_every_kernel_has_one_row_and_runs_as_its_backend_says() -> None:
    rows = _rows(PACK)
    every = [kernel for family in FAMILIES for kernel in kernels_of(family)]
    assert len(rows) == len(every)
    for made in every:
        entry = rows[made.op, made.dtypes]
        kernel: Any = entry.kernel
        assert kernel == kernel
        assert kernel is not made
        assert (kernel.plan, kernel.once, entry.caps) == (made.plan, _nothing, made.caps)
        assert (entry.kernel_source, bool(entry.kernel_revision_hash)) == ("test", True)


def test_a_kernel_of_no_backend_runs_nowhere() -> None:
    with pytest.raises(InternalError, match="belongs to no backend"):
        kernels_of(movement)[0]([], [], [], OpParams.NONE)


def test_what_no_device_can_run_has_no_row() -> None:
    rows = _rows(replace(PACK, never=frozenset({elementwise.CIRCULAR_DOUBLE})))
    for dtype in (DType.F32, DType.F64):
        assert ((OpKind.SinElementwise, (dtype,) * 2) in rows) is (dtype is DType.F32)


def test_a_family_can_be_replaced() -> None:
    only = kernels_of(matmul)[:1]
    rows = _rows(replace(PACK, instead={matmul: lambda: only}))
    assert [key for key in rows if key[0] is OpKind.MatMul] == [(only[0].op, only[0].dtypes)]


def test_the_identity_covers_the_code_of_a_family() -> None:
    def hashes(pack: Pack) -> tuple[int, int]:
        rows = _rows(pack)
        return rows[COPY].kernel_revision_hash, rows[ADD].kernel_revision_hash

    moved, added = hashes(PACK)
    assert (moved, added) == hashes(PACK)
    assert moved != added
    other = hashes(replace(PACK, code=lambda: b"other"))
    assert other[0] != moved
    assert other[1] != added
    printed = hashes(replace(PACK, more={elementwise: (matmul.__name__,)}))
    assert printed[0] == moved
    assert printed[1] != added


def test_the_text_of_a_module_or_package_is_read_without_importing_it() -> None:
    assert source_of("fuel_async.backends.grids.rows").startswith(b'"""Kernels along the last axis')
    assert source_of("fuel_async.backends.grids").startswith(b'"""Kernels of devices that run grids')
    assert source_of("fuel_async.backends.grids.nothing") == b"fuel_async.backends.grids.nothing"


def test_a_family_names_the_others_whose_code_it_runs() -> None:
    shared = {module.__name__ for module in SHARED}
    for family in FAMILIES:
        tree = ast.parse(source_of(family.__name__))
        froms = [node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)]
        siblings = {name for name in froms if name.startswith("fuel_async.backends.grids.")} - shared
        assert siblings <= {family.__name__, *getattr(family, "TAKES_FROM", ())}, family.__name__
