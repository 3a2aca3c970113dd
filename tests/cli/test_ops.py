"""`fuel-async ops`: the coverage of the registered kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.cli import ops, prices
from fuel_async.cli.vocabulary import owed_keys
from fuel_async.dispatch import KernelBindingTable
from fuel_async.ir import BackendId, DType, OpKind
from fuel_async.registry import global_bindings

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from tests.cli.conftest import Outcome

F32, F64, U8, U32 = DType.F32, DType.F64, DType.U8, DType.U32
CPU, NPU = BackendId.CPU, BackendId("npu")


def nothing(*_: object) -> None:
    """A kernel nobody calls."""


def table() -> KernelBindingTable:
    made = KernelBindingTable()
    for dtype in (F32, F64):
        made.register(OpKind.AddElementwise, (dtype,) * 3, CPU, nothing)
        made.register(OpKind.Where, (U8, dtype, dtype, dtype), CPU, nothing)
    made.register(OpKind.AddElementwise, (F32,) * 3, NPU, nothing)
    for dtype in (F32, U32):
        made.register(OpKind.IndexSelect, (dtype, U32, dtype), CPU, nothing)
    made.register(OpKind.Cast, (F32, F64), CPU, nothing)
    made.register(OpKind.Cast, (U8, F64), CPU, nothing)
    return made.finalize()


def test_kernels_that_differ_in_one_dtype_are_one_row() -> None:
    assert ops.coverage(table(), set(), None, None) == [
        ("add", "cpu", "(T, T) -> T", "f32 f64"),
        ("where", "cpu", "(u8, T, T) -> T", "f32 f64"),
        ("add", "npu", "(T, T) -> T", "f32"),
        ("index_select", "cpu", "(T, u32) -> T", "f32 u32"),
        ("cast", "cpu", "(T) -> f64", "f32 u8"),
    ]


def test_filters_keep_what_is_asked_for() -> None:
    rows = table()
    assert ops.coverage(rows, {OpKind.AddElementwise}, NPU, None) == [("add", "npu", "(T, T) -> T", "f32")]
    assert [row[0] for row in ops.coverage(rows, set(), CPU, U8)] == ["where", "cast"]
    assert ops.coverage(rows, {OpKind.Cast}, NPU, None) == []


def test_every_registered_kernel_is_counted_once(fuel: Callable[..., Outcome]) -> None:
    status, out, err = fuel("ops")
    assert (status, err) == (0, "")
    count = global_bindings().key_count()
    assert out[-1] == f"{count} of the {count} combinations of op, operands and backend."
    listed = {line.split()[0] for line in out[1:-1]}
    assert listed == {op.as_str() for op, _, _ in global_bindings().iter_keys()}


def test_ops_can_be_asked_for_by_name_and_dtype(fuel: Callable[..., Outcome]) -> None:
    status, out, _ = fuel("ops", "matmul", "add", "--dtype", "f64", "--backend", "cpu")
    assert status == 0
    assert [line.split()[0] for line in out] == ["op", "add", "matmul", "2"]
    assert [line.split()[-1] for line in out[1:3]] == ["f64", "f64"]


def test_nothing_to_show_is_status_1(fuel: Callable[..., Outcome]) -> None:
    status, out, err = fuel("ops", "--backend", "nowhere")
    assert (status, out) == (1, [])
    assert "no registered kernel fits" in err


def test_a_kernel_pack_that_was_left_out_is_named(
    fuel: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ops, "bindings_problems", lambda: {"npu": "ImportError: libnpu.so"})
    status, _, err = fuel("ops", "add")
    assert status == 0
    assert err == "fuel-async: kernel pack npu was left out: ImportError: libnpu.so\n"


# --- what is missing --------------------------------------------------------------------------------------------------


LATER = ["attention: 40 of 40 later", "convolution: 20 of 20 later", "scan: 4 of 8 later", "quantised: 4 of 4 later"]


def test_the_host_lacks_nothing_that_is_owed_by_now(fuel: Callable[..., Outcome]) -> None:
    status, out, err = fuel("ops", "--missing")
    assert (status, err) == (0, "")
    assert out == ["0 of 562 missing", *LATER, "dynamic: 2 of 2 later"]


def test_what_is_missing_is_listed(fuel: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops, "global_bindings", table)
    status, out, _ = fuel("ops", "--missing", "add", "index_select", "rope", "flash_attn", "--dtype", "f64")
    assert status == 1
    assert [line.split() for line in out] == [
        ["op", "backend", "operands", "T"],
        ["rope", "cpu", "(T,", "T,", "T)", "->", "T", "f64"],
        ["index_select", "cpu", "(T,", "u32)", "->", "T", "f64"],
        ["2", "of", "3", "missing"],
        ["attention:", "2", "of", "2", "later"],
        *([f"{owner}:", "0", "of", "0", "later"] for owner in ("convolution", "scan", "quantised", "dynamic")),
    ]
    status, out, _ = fuel("ops", "--missing", "add", "--backend", "npu")
    assert (status, out[1].split()[-3:], out[2]) == (1, ["f64", "bf16", "f16"], "3 of 4 missing")


def test_every_registered_kernel_has_a_price(fuel: Callable[..., Outcome]) -> None:
    status, out, err = fuel("ops", "--unpriced")
    assert (status, err) == (0, "")
    kernels = sum(op is not OpKind.RuntimeFused for op, *_ in global_bindings().iter_entries())
    assert out == [f"0 of {kernels} unpriced"]


def test_what_nobody_prices_is_listed(fuel: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    made = table().copy()
    for dtype in (F32, F64):
        made.register(OpKind.MatMul, (dtype,) * 3, CPU, nothing)
    monkeypatch.setattr(ops, "global_bindings", made.finalize)
    monkeypatch.setattr(prices, "PARAMS", {})  # then Layer 1 says nothing of products
    status, out, _ = fuel("ops", "--unpriced")
    assert status == 1
    assert [line.split() for line in out] == [
        ["op", "backend", "operands", "T"],
        ["matmul", "cpu", "(T,", "T)", "->", "T", "f32", "f64"],
        ["2", "of", "11", "unpriced"],
    ]
    assert fuel("ops", "--unpriced", "matmul", "--dtype", "f64")[1][-1] == "1 of 1 unpriced"
    assert fuel("ops", "--unpriced", "--backend", "npu") == (0, ["0 of 1 unpriced"], "")


def test_what_is_there_beyond_the_vocabulary_does_not_count() -> None:
    owed = owed_keys()
    lacking = ops.missing(table(), owed, CPU)
    served = set(owed) - set(lacking)
    assert len(served) == 2 + 2 + 2 + 2  # all that the table has for the host is in the vocabulary
    assert ops.missing(table(), owed, NPU)[0].dtypes == (F64,) * 3
    assert ops.missing(table(), [], NPU) == []
