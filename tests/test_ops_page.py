"""The table of ops in docs/ops.md says what there is: it is made here, of the ops and of the host's kernels.

    python tests/test_ops_page.py          write the table anew

Names and dtypes are read off the package; how an op is written in Python is told here, in `WRITTEN`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import fuel_async as fa
from fuel_async.dispatch import KernelBindingTable
from fuel_async.fuel_dispatch.dispatch import register_cpu_kernels
from fuel_async.ir import OPS, BackendId, DType, Form, OpKind, OpSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE = Path(__file__).parent.parent / "docs" / "ops.md"
BEGIN, END = "<!-- begin: tests/test_ops_page.py -->", "<!-- end -->"

#: How each op is written, and what to know of it. `t`, `u` are tensors; `s` is a tensor or a number.
WRITTEN: Mapping[str, tuple[str, str]] = {
    "input": ("g.input(name, shape, dtype)", "a value that each run feeds"),
    "constant": ("g.constant(value)", "a value that is known now; numbers beside a tensor become constants, too"),
    "add": ("t + s", ""),
    "sub": ("t - s", ""),
    "mul": ("t * s", ""),
    "div": ("t / s", "floating dtypes; by 0 gives infinity or NaN"),
    "pow": ("t ** s", "as numpy's `power`"),
    "maximum": ("fa.maximum(t, s)", "NaN wins"),
    "minimum": ("fa.minimum(t, s)", "NaN wins"),
    "neg": ("-t", ""),
    "abs": ("abs(t)", ""),
    "sqr": ("t.square()", ""),
    "relu": ("t.relu()", "NaN stays NaN"),
    "step": ("", "1 where x > 0, else 0; for graph text and `Graph.node`"),
    "floor": ("t.floor()", ""),
    "ceil": ("t.ceil()", ""),
    "round": ("t.round()", "halves to even"),
    "sign": ("t.sign()", "0 at 0; NaN stays NaN"),
    "sqrt": ("t.sqrt()", "NaN below 0"),
    "rsqrt": ("t.rsqrt()", "infinity at 0"),
    "recip": ("t.reciprocal()", "infinity at 0"),
    "exp": ("t.exp()", ""),
    "log": ("t.log()", "-infinity at 0, NaN below"),
    "sin": ("t.sin()", "radians"),
    "cos": ("t.cos()", "radians"),
    "tanh": ("t.tanh()", ""),
    "sigmoid": ("t.sigmoid()", "1 / (1 + exp(-x))"),
    "gelu": ('t.gelu("tanh")', "the approximation by tanh"),
    "gelu_erf": ("t.gelu()", "by the error function"),
    "silu": ("t.silu()", "x times its sigmoid"),
    "erf": ("t.erf()", "the error function"),
    "eq": ("t == s", "delivered as bool, like every comparison; NaN compares false, but for `!=`"),
    "ne": ("t != s", ""),
    "lt": ("t < s", ""),
    "le": ("t <= s", ""),
    "gt": ("t > s", ""),
    "ge": ("t >= s", ""),
    "where": ("fa.where(condition, t, s)", "the condition is u8 or a comparison; 0 chooses the second value"),
    "clamp": ("t.clip(low, high)", "NaN stays NaN; an absent bound is open"),
    "cast": ("t.astype(dtype)", "between any two of them; floats to integers towards zero"),
    "sum": ("t.sum(axis)", "the sum of nothing is 0"),
    "mean": ("t.mean(axis)", "the mean of nothing is NaN"),
    "max": ("t.max(axis)", "NaN wins; of nothing it is refused"),
    "min": ("t.min(axis)", "NaN wins; of nothing it is refused"),
    "softmax": ("t.softmax(axis)", ""),
    "layer_norm": ("t.layer_norm(weight, bias)", "along the last axis; biased variance; `eps` is 1e-5 unless given"),
    "matmul": ("t @ u", "batches, vectors and grouped batches; half types accumulate in f32"),
    "permute": ("t.permute_dims(axes), t.T, t.mT", ""),
    "slice": ("t[1:3, ..., None]", "integers, slices, `...`, `None`"),
    "broadcast": ("t.broadcast_to(shape)", ""),
    "expand_dims": ("t.expand_dims(axis)", ""),
    "squeeze": ("t.squeeze(axis)", ""),
    "flip": ("t.flip(axis)", ""),
    "reshape": ("t.reshape(shape)", "a copy where the layout allows no view"),
    "contiguize": ("t.contiguous()", "a copy unless it is row-major already"),
    "concat": ("fa.concat([t, u], axis=0)", ""),
    "copy": ("t.to(device)", "on that device and nowhere else; the planner puts copies in, too"),
    "index_select": ("t.take(indices, axis=0)", "u32 indices of one dimension; out of range fails the run"),
}


def host_kernels() -> KernelBindingTable:
    table = KernelBindingTable()
    register_cpu_kernels(table)
    return table.finalize()


def dtypes_of(kernels: KernelBindingTable, kind: OpKind) -> tuple[DType, ...]:
    # The condition of a choice comes before the values; everywhere else the first operand is a value.
    value = 1 if kind is OpKind.Where else 0
    return tuple(
        dict.fromkeys(
            dtypes[value] for found, dtypes, backend in kernels.iter_keys() if (found, backend) == (kind, BackendId.CPU)
        )
    )


def row(op: OpSpec, kernels: KernelBindingTable) -> str:
    written, note = WRITTEN[op.name]
    code = f"`{written}`" if written else ""
    match op.form, op.kind:
        case Form.KERNEL, OpKind() as kind:
            served = " ".join(dtype.as_str() for dtype in dtypes_of(kernels, kind))
        case Form.VIEW, _:
            served = "any; a view"
        case _:
            served = "any"
    return f"| {op.name} | {code} | {served} | {note} |"


def table() -> str:
    kernels = host_kernels()
    lines = ["| op | written | dtypes | notes |", "| --- | --- | --- | --- |", *(row(op, kernels) for op in OPS)]
    return "\n".join(lines)


def page(text: str) -> str:
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def test_every_op_says_how_it_is_written() -> None:
    assert WRITTEN.keys() == {op.name for op in OPS}


def test_the_page_is_up_to_date() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "stale: run python tests/test_ops_page.py"


@pytest.mark.parametrize("op", [op.name for op in OPS if WRITTEN[op.name][0]])
def test_what_is_written_builds_the_op(op: str) -> None:
    g = fa.Graph()
    names: dict[str, Any] = {
        "fa": fa,
        "g": g,
        "t": g.input("t", (1, 1)),
        "u": g.input("u", (1, 1)),
        "s": 2.0,
        "condition": g.input("condition", (1, 1), fa.u8),
        "indices": g.input("indices", (1,), fa.u32),
        "weight": g.constant([1.0]),
        "bias": g.constant([0.0]),
        "name": "x",
        "value": 1.0,
        "dtype": fa.f64,
        "device": "cpu:0",
        "shape": (1, 1, 1),
        "axes": (1, 0),
        "axis": 0,
        "low": 0,
        "high": 1,
    }
    before = len(g)
    eval(WRITTEN[op][0], names)
    assert op in [spec.name for spec in g.snapshot().ops[before:]]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
