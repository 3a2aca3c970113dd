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
from fuel_async.ir import BY_NAME, OPS, BackendId, DType, Form, OpKind, OpSpec, SelectiveScan

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
    "rem": ("t % s", "floor-mod: the sign of the divisor"),
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
    "affine": ("t.affine(2, 1)", "x · 2 + 1"),
    "powi": ("t.powi(3)", "an integer power; 1 for 0, NaN included"),
    "powi_backward": ("fa.powi_backward(t, u, 3)", "of operand and upstream gradient, as all gradients are"),
    "sum": ("t.sum(axis)", "the sum of nothing is 0"),
    "mean": ("t.mean(axis)", "the mean of nothing is NaN"),
    "max": ("t.max(axis)", "NaN wins; of nothing it is refused"),
    "min": ("t.min(axis)", "NaN wins; of nothing it is refused"),
    "argmax": ("t.argmax(axis)", "u32; the first of equal ones, the first NaN if there is one"),
    "argmin": ("t.argmin(axis)", "u32, likewise"),
    "reduce_sum_to": ("t.sum_to((1, 1))", "what broadcasting from that shape repeats is summed"),
    "reduce_max_to": ("t.max_to((1, 1))", "NaN wins"),
    "reduce_max_to_backward": ("fa.max_to_backward(t, u)", "upstream in equal parts to equal maxima"),
    "cumsum": ("t.cumulative_sum(axis)", "one after the other; half types accumulate in f32"),
    "softmax": ("t.softmax(axis)", ""),
    "log_softmax": ("t.log_softmax(axis)", ""),
    "rms_norm": ("t.rms_norm(weight)", "along the last axis; `eps` is 1e-5 unless given"),
    "softmax_backward": ("fa.softmax_backward(t, u)", "of result and upstream"),
    "log_softmax_backward": ("fa.log_softmax_backward(t, u)", "of result and upstream"),
    "layer_norm_backward": ("fa.layer_norm_backward(t, u)", "without weight and bias"),
    "rms_norm_backward": ("fa.rms_norm_backward(t, u)", "without weight"),
    "fused_softmax_cross_entropy": (
        "fa.softmax_cross_entropy(t, targets)",
        'f32; i64 targets; `reduction` is "mean", "sum" or "none", `ignore_index` -100 unless given',
    ),
    "layer_norm": ("t.layer_norm(weight, bias)", "along the last axis; biased variance; `eps` is 1e-5 unless given"),
    "matmul": ("t @ u", "batches, vectors, grouped batches; half types accumulate in f32, i8 and u8 saturate"),
    "fused_linear": ("fa.linear(t, u, bias)", "t @ u + bias in one kernel"),
    "rope": ("fa.rope(heads, cos, sin)", "elements j and j + d/2 are turned together; cos and sin are [positions, d]"),
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
    "gather": ("fa.gather(t, index, axis=0)", "a u32 index for each result; `fa.take_along_axis` broadcasts both"),
    "index_add": ("fa.index_add(t, indices, u, axis=0)", "what meets in one place is added in the order of `u`"),
    "scatter_add": ("fa.scatter_add(t, index, u, axis=0)", "an index for each element of `u`; all are added, in order"),
    "roll": ("fa.roll(t, 1, axis=0)", "around the end; without an axis in row-major order"),
    "pad": ('fa.pad(t, ((1, 2), (0, 0)), "constant", 0)', 'also "reflect" and "replicate", which take no number'),
    "pad_backward": ('fa.pad_backward(t, 0, "reflect")', "the gradient of `pad` by its operand"),
    "masked_fill": ("fa.masked_fill(t, condition, 0)", "the number where the mask is not 0; the two broadcast"),
    "triu": ("fa.triu(t, k=0)", "of each matrix in the last two axes, what is not below the diagonal"),
    "tril": ("fa.tril(t, k=0)", "and what is not above it"),
    "relu_inplace": ("t.relu_inplace()", "what others read of `t` is what it was before; so with all that follow"),
    "silu_inplace": ("t.silu_inplace()", ""),
    "gelu_inplace": ('t.gelu_inplace("tanh")', ""),
    "tanh_inplace": ("t.tanh_inplace()", ""),
    "sigmoid_inplace": ("t.sigmoid_inplace()", ""),
    "neg_inplace": ("t.neg_inplace()", ""),
    "abs_inplace": ("t.abs_inplace()", ""),
    "sqr_inplace": ("t.square_inplace()", ""),
    "sqrt_inplace": ("t.sqrt_inplace()", ""),
    "rsqrt_inplace": ("t.rsqrt_inplace()", ""),
    "recip_inplace": ("t.reciprocal_inplace()", ""),
    "exp_inplace": ("t.exp_inplace()", ""),
    "log_inplace": ("t.log_inplace()", ""),
    "sin_inplace": ("t.sin_inplace()", ""),
    "cos_inplace": ("t.cos_inplace()", ""),
    "sign_inplace": ("t.sign_inplace()", ""),
    "floor_inplace": ("t.floor_inplace()", ""),
    "ceil_inplace": ("t.ceil_inplace()", ""),
    "round_inplace": ("t.round_inplace()", ""),
    "erf_inplace": ("t.erf_inplace()", ""),
    "gelu_erf_inplace": ("t.gelu_inplace()", ""),
    "clamp_inplace": ("t.clip_inplace(low, high)", ""),
    "powi_inplace": ("t.powi_inplace(3)", ""),
    "inplace_affine": ("t.affine_inplace(2, 1)", ""),
    "write_slice": ("t.write_slice(u, (0, 0))", "`u` from there on; `t.zero_fill()` is one of zeros"),
    "write_slice_doff": ("t.write_slice_at(u, offset, axis=0)", "an i64 scalar; outside of `t` it fails the run"),
    "write_slice_rotating": ("t.write_slice_rotating(u, position)", "a ring of `modulus` places; a u32 scalar"),
    "move": ("t.move(device)", "as `t.to`, and `t` is not needed any more"),
    "release": ("t.release()", "no elements; `t` is not needed any more"),
    "view_slot": ("bundle.slot(0)", "an output of an op that has several; `g.bundle(op, operands)` gives its bundle"),
    "view_owned": ("bundle.owned(0)", "and a copy of it, which keeps none of the others alive"),
    "selective_scan": (
        "fa.selective_scan(seq, seq, states, steps, steps)",
        "y and the last state of h = exp(delta · a) · h + delta · u · b, y = c · h; u, delta, a, b, c",
    ),
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
        case _, _ if op.takes_bundle:
            served = "any; a view" if op.form is Form.VIEW else "any; a copy"
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
        "index": g.input("index", (1, 1), fa.u32),
        "weight": g.constant([1.0]),
        "bias": g.constant([0.0]),
        "heads": g.input("heads", (1, 2)),
        "cos": g.input("cos", (1, 2)),
        "sin": g.input("sin", (1, 2)),
        "targets": g.input("targets", (1,), fa.i64),
        "offset": g.input("offset", (), fa.i64),
        "position": g.input("position", (), fa.u32),
        "seq": g.input("seq", (1, 3, 1)),
        "states": g.input("states", (1, 2)),
        "steps": g.input("steps", (1, 3, 2)),
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
    operands = [names[name] for name in ("seq", "seq", "states", "steps", "steps")]
    names["bundle"] = g.bundle(BY_NAME["selective_scan"], operands, SelectiveScan(False))
    before = len(g)
    eval(WRITTEN[op][0], names)
    assert op in [spec.name for spec in g.snapshot().ops[before:]]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
