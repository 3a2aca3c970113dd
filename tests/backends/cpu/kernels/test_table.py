"""What the host registers: one row for each op and dtypes, priced and identified."""

from __future__ import annotations

import inspect

import pytest

from fuel_async.backends.cpu.kernels import KERNEL_SOURCE
from fuel_async.backends.cpu.kernels import table as rows
from fuel_async.backends.cpu.kernels.base import T4, T6, T9, T11, HostKernel
from fuel_async.dispatch import KernelBindingTable, OpParams, derive_backend_caps, unknown_cost
from fuel_async.errors import NoBackendForOp
from fuel_async.ir import CPU_DEVICE, BackendId, DType, OpKind, PrecisionGuarantee

CPU = BackendId.CPU
U8, U32 = DType.U8, DType.U32


def _stems(text: str) -> list[OpKind]:
    return [OpKind[f"{stem}Elementwise"] for stem in text.split()]


def _last_dim(suffix: str) -> list[OpKind]:
    return [OpKind[f"{stem}LastDim{suffix}"] for stem in ("Softmax", "LogSoftmax", "LayerNorm", "RmsNorm")]


#: Kinds, and the keys that each must have.
WANTED: list[tuple[list[OpKind], set[tuple[DType, ...]]]] = [
    (_stems("Add Sub Mul Div Maximum Minimum Pow Rem"), {(t, t, t) for t in T4}),
    (
        _stems(
            "Relu Neg Sqr Sqrt Recip Abs Tanh Exp Log Sin Cos Sigmoid Silu Step Gelu "
            "Floor Ceil Round Sign Erf GeluErf Rsqrt"
        ),
        {(t, t) for t in T4},
    ),
    (_stems("Clamp PowI"), {(t, t) for t in T4}),
    ([OpKind.Affine], {(t, t) for t in T4}),
    ([OpKind.PowIElementwiseBackward], {(t, t, t) for t in T4}),
    (_stems("Equal NotEqual Less LessEqual Greater GreaterEqual"), {(t, t, U8) for t in T4}),
    ([OpKind.Where], {(U8, t, t, t) for t in T4}),
    ([OpKind.SumReduce, OpKind.MeanReduce, OpKind.MaxReduce, OpKind.MinReduce], {(t, t) for t in T4}),
    ([OpKind.ReduceSumTo, OpKind.ReduceMaxTo, OpKind.CumSum], {(t, t) for t in T4}),
    ([OpKind.ReduceMaxToBackward], {(t, t, t) for t in T4}),
    ([OpKind.ArgMaxDim, OpKind.ArgMinDim], {(t, U32) for t in T4}),
    (_last_dim(""), {(t, t) for t in T4}),
    (_last_dim("Backward"), {(t, t, t) for t in T4}),
    ([OpKind.FusedSoftmaxCrossEntropy], {(t, DType.I64, DType.F32) for t in T4}),
    ([OpKind.Rope, OpKind.FusedLinear], {(t, t, t, t) for t in T4}),
    ([OpKind.SelectiveScan], {(t,) * 6 for t in T4}),
    ([OpKind.MatMul], {(t, t, t) for t in (*T4, DType.I8, U8)}),
    ([OpKind.Cast], {(a, b) for a in T11 for b in T11 if a is not b}),
    ([OpKind.Concat], {(t, t) for t in T9}),
    ([OpKind.Copy], {(t, t) for t in DType.ALL if t.np is not None}),
    ([OpKind.IndexSelect], {(t, U32, t) for t in T9}),
    ([OpKind.Gather], {(t, U32, t) for t in T9}),
    ([OpKind.IndexAdd, OpKind.ScatterAdd], {(t, U32, t, t) for t in T4}),
    ([OpKind.Flip, OpKind.Roll, OpKind.Pad, OpKind.Triu, OpKind.Tril], {(t, t) for t in T6}),
    ([OpKind.PadBackward], {(t, t) for t in T4}),
    ([OpKind.MaskedFill], {(t, U8, t) for t in T6}),
    ([kind for kind in OpKind if "Inplace" in kind.name], {(t, t) for t in T4}),
    (
        [OpKind.WriteSlice, OpKind.WriteSliceDoff, OpKind.WriteSliceRotating],
        {(t, t) for t in DType.ALL if t.np is not None},
    ),
]


#: Of kinds whose price is counted from them.
PARAMS: dict[OpKind, OpParams] = {
    OpKind.MatMul: OpParams.Matmul((), (), 2, 2, 2),
    OpKind.FusedLinear: OpParams.Matmul((), (), 2, 2, 2),
    OpKind.SelectiveScan: OpParams.SelectiveScan(1, 2, 2, 2, False),
}


def test_the_keys_are_complete_and_no_others(table: KernelBindingTable) -> None:
    wanted = {(op, key) for ops, keys in WANTED for op in ops for key in keys}
    assert {(op, dtypes) for op, dtypes, _ in table.iter_keys()} == wanted
    assert len(table) == table.key_count() == len(wanted)
    assert {backend for *_, backend in table.iter_keys()} == {CPU}


def test_every_row_is_priced_precise_and_identified(table: KernelBindingTable) -> None:
    caps = derive_backend_caps(CPU, CPU_DEVICE, table)
    for op, dtypes, _, entry in table.iter_entries():
        assert isinstance(entry.kernel, HostKernel)
        assert (entry.kernel.op, entry.kernel.dtypes) == (op, dtypes)
        assert entry.precision is PrecisionGuarantee.PRIMITIVE_DETERMINISTIC_CPU
        assert entry.cost is not unknown_cost
        assert entry.kernel_source == KERNEL_SOURCE == "portable-cpu"
        assert 0 < entry.kernel_revision_hash < 2**64
        assert entry.caps.strided_input
        params = PARAMS.get(op, OpParams.NONE)
        assert not entry.cost([(2, 2)] * len(dtypes), dtypes, params, caps).is_unpriced


def test_direct_kernels_need_no_scratch(table: KernelBindingTable) -> None:
    direct = [e.kernel for *_, e in table.iter_entries() if isinstance(e.kernel, HostKernel) and e.kernel.direct]
    assert len(direct) == 2 * (8 + 14 + 6 + 14)
    for kernel in direct:
        assert kernel.scratch(OpParams.NONE, [(9,)] * (len(kernel.dtypes) - 1), (9,)) == ()


def test_what_must_miss(table: KernelBindingTable) -> None:
    with pytest.raises(NoBackendForOp, match="add"):
        table.lookup(OpKind.AddElementwise, (DType.I64,) * 3, CPU)


def test_a_revision_follows_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows.revision_hash("a") != rows.revision_hash("b")
    assert rows.revision_hash("a") == rows.revision_hash("a") < 2**64

    def no_source(module: object) -> str:
        raise OSError

    monkeypatch.setattr(inspect, "getsource", no_source)
    made = KernelBindingTable()
    rows.register_cpu_kernels(made)
    hashes = {entry.kernel_revision_hash for *_, entry in made.iter_entries()}
    assert len(hashes) == len(rows.FAMILIES)
