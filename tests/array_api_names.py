"""The names of the Python Array API standard, and what there is of them here: tables for `test_array_api`.

`Same` and `Differs` say how it is written, as an expression over names: `t` and `u` of [2, 3], `p` of positive numbers,
`v` of one dimension, `i` of two u32 indices and `j` [2, 1] of them, the graph `g`, and dtypes by our names. `theirs`
are the arguments of the standard's function over the same names, or the whole expression if it begins with `xp.`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Same:
    """What the standard's name does, `written` does: dtype and values of the result are equal."""

    written: str
    theirs: str


@dataclass(frozen=True, slots=True)
class Differs:
    """What is written has the same values, and differs in what `reason` says; without `theirs` it is not compared."""

    written: str
    theirs: str
    reason: str


@dataclass(frozen=True, slots=True)
class Absent:
    """There is no such name; `reason` says why, or what to write."""

    reason: str


Entry: TypeAlias = Same | Differs | Absent

_NO_KERNEL = Absent("no kernel yet")
_NO_COMPLEX = Absent("there are no complex dtypes")
_NO_BITS = Absent("no kernel yet for bits and truth values; these are u8")
_NO_VALUES = Absent("the shape of the result would depend on values, which a graph does not have")
_NUMPYS = Absent("a question to dtypes, not an op: ask numpy, with `DType.np`")
_NO_DTYPE = Absent("not among the dtypes")
_STRICTS = Absent("of array-api-strict itself, not of the standard")
_NO_EXTENSION = Absent("an extension, which is optional")
_ARRAY = "needs the graph, and counts as f32 unless a dtype is said"

CONSTANTS: Mapping[str, Entry] = {
    name: Absent("a Python number: " + written)
    for name, written in {"e": "`math.e`", "inf": "`math.inf`", "nan": "`math.nan`", "pi": "`math.pi`"}.items()
} | {"newaxis": Absent("`None` is the same")}

DTYPES: Mapping[str, Entry] = {
    **{
        name: Same(f"t.astype({ours})", f"xp.astype(t, {ours})")
        for name, ours in {
            "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint32": "u32",
            "float32": "f32", "float64": "f64",
        }.items()
    },
    "uint16": _NO_DTYPE,
    "uint64": _NO_DTYPE,
    "complex64": _NO_COMPLEX,
    "complex128": _NO_COMPLEX,
    "bool": Absent("truth values are u8 here and become bool when they are delivered"),
}  # fmt: skip

CREATION: Mapping[str, Entry] = {
    "asarray": Differs("g.constant([1.5, 2.0], f32)", "[1.5, 2.0], dtype=f32", "needs the graph; copies nothing"),
    "arange": Differs("fa.iota(g, 3, i64)", "3, dtype=i64", "needs the graph; from 0 and by 1"),
    "empty": Absent("`fa.zeros` costs nothing"),
    "empty_like": Absent("`fa.zeros_like` costs nothing"),
    "eye": _NO_KERNEL,
    "from_dlpack": Absent("values come in by feeds and `Graph.constant`"),
    "full": Differs("fa.full(g, (2, 3), 1.5, f32)", "(2, 3), 1.5, dtype=f32", _ARRAY),
    "full_like": Same("fa.full_like(t, 1.5)", "t, 1.5"),
    "linspace": _NO_KERNEL,
    "meshgrid": Absent("write `broadcast_to`"),
    "ones": Differs("fa.full(g, (2, 3), 1, f32)", "(2, 3), dtype=f32", "it is `fa.full`"),
    "ones_like": Differs("fa.full_like(t, 1)", "t", "it is `fa.full_like`"),
    "tril": Same("fa.tril(t, k=1)", "t, k=1"),
    "triu": Same("fa.triu(t, k=-1)", "t, k=-1"),
    "zeros": Differs("fa.zeros(g, (2, 3), f32)", "(2, 3), dtype=f32", _ARRAY),
    "zeros_like": Same("fa.zeros_like(t)", "t"),
}

DATA_TYPES: Mapping[str, Entry] = {
    "__array_namespace_info__": Absent("this is no namespace of arrays: what is built has no values"),
    "astype": Same("t.astype(f64)", "t, f64"),
    "broadcast_arrays": Absent("write `broadcast_to`"),
    "broadcast_shapes": Absent("a question to shapes, not an op: ask numpy"),
    "broadcast_to": Same("v.broadcast_to((2, 3))", "v, (2, 3)"),
    "can_cast": _NUMPYS,
    "finfo": _NUMPYS,
    "iinfo": _NUMPYS,
    "isdtype": _NUMPYS,
    "result_type": Absent("build the op, and read `Tensor.dtype`"),
}

ELEMENTWISE: Mapping[str, Entry] = {
    "abs": Same("abs(t)", "t"),
    **dict.fromkeys(["acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh"], _NO_KERNEL),
    "add": Same("t + u", "t, u"),
    "bitwise_and": _NO_BITS,
    "bitwise_invert": _NO_BITS,
    "bitwise_left_shift": _NO_BITS,
    "bitwise_or": _NO_BITS,
    "bitwise_right_shift": _NO_BITS,
    "bitwise_xor": _NO_BITS,
    "ceil": Same("t.ceil()", "t"),
    "clip": Differs("t.clip(0, 1)", "t, 0, 1", "bounds are numbers"),
    "conj": _NO_COMPLEX,
    "copysign": _NO_KERNEL,
    "cos": Same("t.cos()", "t"),
    "cosh": _NO_KERNEL,
    "divide": Same("t / u", "t, u"),
    "equal": Same("t == u", "t, u"),
    "exp": Same("t.exp()", "t"),
    "expm1": _NO_KERNEL,
    "floor": Same("t.floor()", "t"),
    "floor_divide": Differs("(t / u).floor()", "t, u", "two ops, and the quotient is rounded once more"),
    "greater": Same("t > u", "t, u"),
    "greater_equal": Same("t >= u", "t, u"),
    "hypot": _NO_KERNEL,
    "imag": _NO_COMPLEX,
    "isfinite": Absent("write `t - t == 0`"),
    "isinf": Absent("write `abs(t) == math.inf`"),
    "isnan": Differs("t != t", "t", "a comparison with itself"),
    "less": Same("t < u", "t, u"),
    "less_equal": Same("t <= u", "t, u"),
    "log": Same("p.log()", "p"),
    "log10": _NO_KERNEL,
    "log1p": _NO_KERNEL,
    "log2": _NO_KERNEL,
    "logaddexp": _NO_KERNEL,
    **dict.fromkeys(["logical_and", "logical_not", "logical_or", "logical_xor"], _NO_BITS),
    "maximum": Same("fa.maximum(t, u)", "t, u"),
    "minimum": Same("fa.minimum(t, u)", "t, u"),
    "multiply": Same("t * u", "t, u"),
    "negative": Same("-t", "t"),
    "nextafter": _NO_KERNEL,
    "not_equal": Same("t != u", "t, u"),
    "positive": Same("+t", "t"),
    "pow": Same("p ** t", "p, t"),
    "real": _NO_COMPLEX,
    "reciprocal": Same("t.reciprocal()", "t"),
    "remainder": Same("t % u", "t, u"),
    "round": Same("t.round()", "t"),
    "sign": Same("t.sign()", "t"),
    "signbit": _NO_KERNEL,
    "sin": Same("t.sin()", "t"),
    "sinh": _NO_KERNEL,
    "sqrt": Same("p.sqrt()", "p"),
    "square": Same("t.square()", "t"),
    "subtract": Same("t - u", "t, u"),
    "tan": _NO_KERNEL,
    "tanh": Same("t.tanh()", "t"),
    "trunc": _NO_KERNEL,
}

INDEXING: Mapping[str, Entry] = {
    "take": Differs("fa.take(t, i, axis=0)", "t, i, axis=0", "u32 indices, none below 0; the first axis unless said"),
    "take_along_axis": Differs("fa.take_along_axis(t, j, axis=1)", "t, j, axis=1", "u32 indices, none below 0"),
}

LINEAR: Mapping[str, Entry] = {
    "matmul": Same("fa.matmul(t, u.T)", "t, u.T"),
    "matrix_transpose": Same("t.mT", "t"),
    "tensordot": Absent("write `reshape` and `matmul`"),
    "vecdot": Absent("write a product and `sum`"),
    "linalg": _NO_EXTENSION,
    "fft": _NO_EXTENSION,
}

MANIPULATION: Mapping[str, Entry] = {
    "concat": Same("fa.concat([t, u], axis=1)", "[t, u], axis=1"),
    "expand_dims": Same("t.expand_dims(1)", "t, axis=1"),
    "flip": Same("t.flip(axis=1)", "t, axis=1"),
    "moveaxis": Absent("write `permute_dims`"),
    "permute_dims": Same("fa.permute_dims(t, (1, 0))", "t, (1, 0)"),
    "repeat": Absent("write `expand_dims`, `broadcast_to` and `reshape`"),
    "reshape": Same("t.reshape((3, 2))", "t, (3, 2)"),
    "roll": Same("fa.roll(t, 1, axis=1)", "t, 1, axis=1"),
    "squeeze": Same("t[:, :1].squeeze(1)", "t[:, :1], 1"),
    "stack": Absent("write `expand_dims` and `concat`"),
    "tile": Absent("write `concat`"),
    "unstack": Absent("index it: the number of results would depend on the shape"),
}

SEARCHING: Mapping[str, Entry] = {
    "argmax": Differs("t.argmax(axis=1)", "t, axis=1", "u32"),
    "argmin": Differs("t.argmin(axis=1)", "t, axis=1", "u32"),
    "count_nonzero": Differs(
        "fa.where(t != 0, fa.full_like(t, 1), 0).sum(1)", "t, axis=1", "a sum, in the dtype of the values"
    ),
    "nonzero": _NO_VALUES,
    "searchsorted": _NO_KERNEL,
    "where": Same("fa.where(t < u, t, u)", "t < u, t, u"),
    "unique_all": _NO_VALUES,
    "unique_counts": _NO_VALUES,
    "unique_inverse": _NO_VALUES,
    "unique_values": _NO_VALUES,
    "isin": _NO_KERNEL,
    "argsort": _NO_KERNEL,
    "sort": _NO_KERNEL,
}

STATISTICAL: Mapping[str, Entry] = {
    "cumulative_prod": _NO_KERNEL,
    "cumulative_sum": Differs("t.cumulative_sum(1)", "t, axis=1", "the dtype of the values, nothing in front"),
    "max": Same("t.max(axis=1)", "t, axis=1"),
    "mean": Same("t.mean(axis=1)", "t, axis=1"),
    "min": Same("t.min(axis=1)", "t, axis=1"),
    "prod": _NO_KERNEL,
    "std": _NO_KERNEL,
    "sum": Differs("t.sum(axis=1)", "t, axis=1", "in the dtype of the values; integers have no kernel"),
    "var": _NO_KERNEL,
    "all": Differs("(t != 0).astype(f32).min(1)", "t, axis=1", "a minimum, in f32"),
    "any": Differs("(t != 0).astype(f32).max(1)", "t, axis=1", "a maximum, in f32"),
    "diff": Differs("t[:, 1:] - t[:, :-1]", "t, axis=1", "a difference of slices"),
}

REST: Mapping[str, Entry] = {
    "__array_api_version__": Absent("this is no namespace of arrays: what is built has no values"),
    "__version__": Same("fa.__version__", ""),
    "Device": Differs("fa.DeviceLocation", "", "an address, such as `cpu:0`"),
    **dict.fromkeys(
        [
            "ArrayAPIStrictFlags", "get_array_api_strict_flags", "reset_array_api_strict_flags",
            "set_array_api_strict_flags",
        ],
        _STRICTS,
    ),
}  # fmt: skip

GROUPS: Mapping[str, Mapping[str, Entry]] = {
    "Constants": CONSTANTS,
    "Dtypes": DTYPES,
    "Creation": CREATION,
    "Dtypes and shapes": DATA_TYPES,
    "Elementwise": ELEMENTWISE,
    "Indexing": INDEXING,
    "Linear algebra": LINEAR,
    "Manipulation": MANIPULATION,
    "Searching, sorting, sets": SEARCHING,
    "Statistics": STATISTICAL,
    "Other": REST,
}

_IN_PLACE = Absent("values do not change: Python makes `t += u` a new tensor")
_NO_NUMBER = Absent("a tensor has no value while its graph is built")
_WITHOUT_VALUE = "refused: a tensor has no value while its graph is built"

#: Members of the standard's array object: the same expression on both sides.
MEMBERS: Mapping[str, Entry] = {
    **{
        name: Same(written, f"xp.asarray({written})")
        for name, written in {
            "T": "t.T", "mT": "t.mT", "__abs__": "abs(t)", "__add__": "t + u", "__radd__": "2 + t", "__sub__": "t - u",
            "__rsub__": "2 - t", "__mul__": "t * u", "__rmul__": "2 * t", "__truediv__": "t / u",
            "__rtruediv__": "2 / t", "__mod__": "t % u", "__rmod__": "2 % t", "__pow__": "p ** t", "__rpow__": "2 ** t",
            "__matmul__": "t @ u.T", "__neg__": "-t", "__pos__": "+t", "__eq__": "t == u", "__ne__": "t != u",
            "__lt__": "t < u", "__le__": "t <= u", "__gt__": "t > u", "__ge__": "t >= u",
            "__getitem__": "t[1:, ..., None, 0]",
        }.items()
    },
    "dtype": Same("t.dtype", ""),
    "ndim": Same("t.ndim", ""),
    "shape": Same("t.shape", ""),
    "size": Same("t.size", ""),
    "__rmatmul__": Differs("t @ u", "", "refused: an array on the left is wrapped by `Graph.constant`"),
    "__bool__": Differs("bool(t)", "", _WITHOUT_VALUE),
    "__iter__": Differs("iter(t)", "", "refused: a tensor is indexed"),
    "device": Absent("where a value lies is decided when a run is planned"),
    "to_device": Differs('t.to("cpu:0")', "xp.asarray(t)", "a node of the graph"),
    **dict.fromkeys(["__complex__", "__float__", "__index__", "__int__", "__array__", "__buffer__"], _NO_NUMBER),
    **dict.fromkeys(["__dlpack__", "__dlpack_device__"], Absent("results have it: `DeviceArray`")),
    "__array_namespace__": Absent("this is no namespace of arrays: what is built has no values"),
    "__setitem__": Absent("write `t.write_slice(u, starts)`"),
    **dict.fromkeys(["__floordiv__", "__rfloordiv__"], Absent("write `(t / u).floor()`")),
    **dict.fromkeys(
        [
            "__and__", "__rand__", "__or__", "__ror__", "__xor__", "__rxor__", "__invert__", "__lshift__",
            "__rlshift__", "__rshift__", "__rrshift__",
        ],
        _NO_BITS,
    ),
    **{
        f"__i{stem}__": _IN_PLACE
        for stem in (
            "add", "and", "floordiv", "lshift", "matmul", "mod", "mul", "or", "pow", "rshift", "sub", "truediv", "xor",
        )
    },
}  # fmt: skip
