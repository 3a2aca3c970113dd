"""The Python Array API standard, as array-api-strict has it, compared with what is here: names, promotion, Python
numbers, special values. What differs has a reason in a table; docs/array-api.md is made of the same tables.

    python -m tests.test_array_api          write the page's tables anew
"""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import array_api_strict as xp
import numpy as np
import pytest

import fuel_async as fa
from fuel_async.errors import DTypeMismatch, GraphError
from fuel_async.ir import DType, promote
from tests.array_api_names import ELEMENTWISE, GROUPS, MEMBERS, Absent, Differs, Entry, Same

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PAGE = Path(__file__).parent.parent / "docs" / "array-api.md"
BEGIN, END = "<!-- begin: tests/test_array_api.py -->", "<!-- end -->"

#: The dtypes of both sides, by our names.
SHARED: Mapping[str, str] = {
    "u8": "uint8", "u32": "uint32", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "f32": "float32", "f64": "float64",
}  # fmt: skip
#: Those that promotion here knows besides.
FLOATS = ("bf16", "f16", "f32", "f64")
INTEGERS = tuple(name for name in SHARED if name not in FLOATS)


def strict_dtype(name: str) -> Any:
    return getattr(xp, SHARED[name])


def our_name(dtype: object) -> str:
    """Our name of one of array-api-strict's dtypes; its own where we have none."""
    theirs = str(dtype).rpartition(".")[2]
    return next((ours for ours, name in SHARED.items() if name == theirs), theirs)


# --- names ------------------------------------------------------------------------------------------------------------

NAMES: Mapping[str, Entry] = {name: entry for group in GROUPS.values() for name, entry in group.items()}

VALUES: Mapping[str, np.ndarray[Any, Any]] = {
    "t": np.array([[0.5, -1.5, 2.5], [3.0, -0.25, 0.0]], np.float32),
    "u": np.array([[1.5, 0.5, 2.5], [-2.0, 4.0, 1.0]], np.float32),
    "p": np.array([[0.5, 1.5, 2.0], [3.0, 0.25, 1.0]], np.float32),
    "v": np.array([1.0, 2.0, -3.0], np.float32),
    "i": np.array([1, 0], np.uint32),
    "j": np.array([[2], [0]], np.uint32),
}


def theirs_of(name: str, entry: Same | Differs) -> str:
    return entry.theirs if entry.theirs.startswith("xp.") else f"xp.{name}({entry.theirs})"


async def ours_of(written: Mapping[str, str]) -> dict[str, Any]:
    """What our expressions give: all of them in one graph."""
    g = fa.Graph("array api")
    known: dict[str, Any] = {"fa": fa, "g": g, **{name: getattr(fa, name) for name in SHARED}}
    known |= {name: g.input(name, value.shape, DType.from_numpy(value.dtype)) for name, value in VALUES.items()}
    for place, expression in enumerate(written.values()):
        g.output(f"y{place}", eval(expression, known))
    async with fa.Executor() as executor:
        results = await executor.run(g, {name: VALUES[name] for name in g.inputs})
    return {name: results[f"y{place}"] for place, name in enumerate(written)}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, below array-api-strict
@pytest.mark.asyncio(loop_factories=["default"])
@pytest.mark.parametrize("table", [NAMES, MEMBERS], ids=["functions", "members"])
async def test_what_is_written_gives_what_the_standard_says(table: Mapping[str, Entry]) -> None:
    compared = {name: entry for name, entry in table.items() if not isinstance(entry, Absent) and entry.theirs}
    ours = await ours_of({name: entry.written for name, entry in compared.items()})
    known: dict[str, Any] = {"xp": xp, **{name: strict_dtype(name) for name in SHARED}}
    known |= {name: xp.asarray(value) for name, value in VALUES.items()}
    wrong = {}
    for name, entry in compared.items():
        got, wanted = ours[name], np.asarray(eval(theirs_of(name, entry), known)._array)
        alike = got.dtype == wanted.dtype or isinstance(entry, Differs)
        if not (alike and got.shape == wanted.shape and np.allclose(got, wanted, 1e-6, 1e-6, equal_nan=True)):
            wrong[name] = (got, wanted)
    assert not wrong


def members_of_the_standard() -> set[str]:
    array = type(xp.asarray(1.0))
    compared = {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"}
    python = {"__annotations__", "__module__", "__slots__", "__weakref__", "__firstlineno__", "__static_attributes__"}
    found = {name for name in dir(array) if name[0] != "_" or name.startswith("__")}
    return found - python - (set(dir(object)) - compared)


def test_every_name_of_the_standard_is_in_a_table() -> None:
    assert sorted(NAMES) == sorted(xp.__all__)
    # Python 3.12 gives buffers a method.
    assert MEMBERS.keys() - {"__buffer__"} == members_of_the_standard() - {"__buffer__"}


def test_what_is_absent_is_not_there_under_its_name() -> None:
    absent = {name for table in (NAMES, MEMBERS) for name, entry in table.items() if isinstance(entry, Absent)}
    assert absent & set(fa.__all__) == set()
    assert absent & set(dir(fa.Tensor)) == set()


@pytest.mark.parametrize("name", ["__bool__", "__iter__"])
def test_what_needs_a_value_is_refused(name: str) -> None:
    entry = MEMBERS[name]
    assert isinstance(entry, Differs)
    with pytest.raises(GraphError):
        eval(entry.written, {"t": fa.Graph().input("t", (2, 3))})


def test_an_array_on_the_left_is_refused() -> None:
    t = fa.Graph().input("t", (2, 3))
    with pytest.raises(GraphError, match=r"Graph\.constant"):
        np.ones((2, 2), np.float32) @ t


def test_facts_have_the_values_of_the_standard() -> None:
    t, theirs = fa.Graph().input("t", (2, 3)), xp.zeros((2, 3), dtype=xp.float32)
    assert (t.ndim, t.shape, t.size) == (theirs.ndim, theirs.shape, theirs.size)
    assert t.dtype.as_str() == our_name(theirs.dtype)


# --- promotion --------------------------------------------------------------------------------------------------------


def promoted(left: str, right: str) -> str | None:
    try:
        return promote(DType.parse(left), DType.parse(right)).as_str()
    except DTypeMismatch:
        return None


def promoted_by_the_standard(left: str, right: str) -> str | None:
    try:
        return our_name(xp.result_type(strict_dtype(left), strict_dtype(right)))
    except TypeError:
        return None


@pytest.mark.parametrize(("left", "right"), [*product(SHARED, SHARED)])
def test_two_dtypes_promote_as_the_standard_says(left: str, right: str) -> None:
    wanted = promoted_by_the_standard(left, right)
    assert promoted(left, right) == wanted
    g = fa.Graph()
    one, other = g.input("one", (), DType.parse(left)), g.input("other", (), DType.parse(right))
    if wanted is None:
        with pytest.raises(DTypeMismatch, match="astype"):
            one + other
    else:
        assert (one + other).dtype.as_str() == wanted


# --- Python numbers ---------------------------------------------------------------------------------------------------

NUMBERS: Mapping[str, Any] = {
    "True": True, "2": 2, "-1": -1, "300": 300, "2**40": 2**40, "2**70": 2**70, "1.5": 1.5, "1e300": 1e300,
    "math.nan": math.nan, "math.inf": math.inf, "1j": 1j,
}  # fmt: skip

#: The reason why a number beside a dtype is not what the standard says; the dtypes are all that it holds for.
NUMBER_DIFFERENCES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "True": (tuple(SHARED), "counts as 1 beside any dtype; the standard wants a bool array beside it"),
    "1e300": (("f32",), "refused, as every number beyond the range of the dtype is; the standard leaves it open"),
    "1j": (("f32", "f64"), "refused: there are no complex dtypes"),
}


def beside(dtype: str, number: object, *, first: bool) -> str | None:
    """The dtype of a sum of a tensor and a number; None when it is refused."""
    t: Any = fa.Graph().input("t", (2,), DType.parse(dtype))
    try:
        return str((number + t if first else t + number).dtype.as_str())
    except (DTypeMismatch, GraphError):
        return None


def beside_by_the_standard(dtype: str, number: object, *, first: bool) -> str | None:
    array: Any = xp.zeros((2,), dtype=strict_dtype(dtype))
    try:
        return our_name((number + array if first else array + number).dtype)
    except (TypeError, OverflowError):
        return None


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("first", [False, True], ids=["behind", "in front"])
def test_python_numbers_take_the_dtype_beside_them(number: str, *, first: bool) -> None:
    value = NUMBERS[number]
    differing = [
        dtype
        for dtype in SHARED
        if beside(dtype, value, first=first) != beside_by_the_standard(dtype, value, first=first)
    ]
    wanted, _ = NUMBER_DIFFERENCES.get(number, ((), ""))
    assert tuple(differing) == wanted


# --- special values ---------------------------------------------------------------------------------------------------

SPECIAL = (
    math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.0, -2.0, 2.5, -2.5, 3.0, -3.0,
    1e30, -1e30, 1e-30,
)  # fmt: skip

_T = fa.Tensor
UNARY: Mapping[str, Callable[..., Any]] = {
    "abs": abs, "ceil": _T.ceil, "cos": _T.cos, "exp": _T.exp, "floor": _T.floor, "log": _T.log,
    "negative": _T.__neg__, "positive": _T.__pos__, "reciprocal": _T.reciprocal, "round": _T.round,
    "sign": _T.sign, "sin": _T.sin, "sqrt": _T.sqrt, "square": _T.square, "tanh": _T.tanh,
}  # fmt: skip
BINARY: Mapping[str, Callable[..., Any]] = {
    "add": _T.__add__, "subtract": _T.__sub__, "multiply": _T.__mul__, "divide": _T.__truediv__, "pow": _T.__pow__,
    "remainder": _T.__mod__, "maximum": fa.maximum, "minimum": fa.minimum, "equal": _T.__eq__,
    "not_equal": _T.__ne__, "less": _T.__lt__, "less_equal": _T.__le__, "greater": _T.__gt__,
    "greater_equal": _T.__ge__,
}  # fmt: skip

#: Functions that give something else than the standard for some special value, and why.
SPECIAL_DIFFERENCES: Mapping[str, str] = {}


def test_every_elementwise_function_is_compared() -> None:
    same = {name for name, entry in ELEMENTWISE.items() if isinstance(entry, Same)}
    assert same == {*UNARY, *BINARY}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, below array-api-strict
@pytest.mark.asyncio(loop_factories=["default"])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=DType.as_str)
async def test_special_values_are_those_of_the_standard(dtype: DType) -> None:
    left, right = (np.array(side, dtype.np) for side in zip(*product(SPECIAL, SPECIAL), strict=True))
    g = fa.Graph("special values")
    a, b = g.input("a", left.shape, dtype), g.input("b", right.shape, dtype)
    for name, unary in UNARY.items():
        g.output(name, unary(a))
    for name, binary in BINARY.items():
        g.output(name, binary(a, b))
    async with fa.Executor() as executor:
        results = await executor.run(g, a=left, b=right)
    one, other = xp.asarray(left), xp.asarray(right)
    differing = {}
    for name, got in results.items():
        function = getattr(xp, name)
        wanted = np.asarray((function(one) if name in UNARY else function(one, other))._array)
        if (bad := np.flatnonzero(~_alike(got, wanted))).size:
            differing[name] = [(left[at], right[at], got[at], wanted[at]) for at in bad[:4]]
    assert differing.keys() == SPECIAL_DIFFERENCES.keys(), differing


def _alike(got: Any, wanted: Any) -> Any:
    """NaN is NaN, zeros have their signs, infinities are exact; between them four units of the last place count."""
    assert got.dtype == wanted.dtype
    if got.dtype == np.bool_:
        return got == wanted
    both_nan = np.isnan(got) & np.isnan(wanted)
    with np.errstate(all="ignore"):
        near = np.isfinite(got) & np.isfinite(wanted) & (np.abs(got - wanted) <= 4 * np.spacing(np.abs(wanted)))
    near &= (got != 0) & (wanted != 0)
    return both_nan | near | ((got == wanted) & (np.signbit(got) == np.signbit(wanted)))


# --- the page ---------------------------------------------------------------------------------------------------------


def rows_of(table: Mapping[str, Entry]) -> Iterator[str]:
    """What is there, in order; then what is absent, by reason."""
    yield from ("| name | here | what is different |", "| --- | --- | --- |")
    absent: dict[str, list[str]] = {}
    for name, entry in table.items():
        match entry:
            case Same(written=written):
                yield f"| {name} | `{written}` |  |"
            case Differs(written=written, reason=reason):
                yield f"| {name} | `{written}` | {reason} |"
            case Absent(reason=reason):
                absent.setdefault(reason, []).append(name)
    for reason, names in absent.items():
        yield f"| {', '.join(names)} | absent | {reason} |"


def promotion_of(dtypes: tuple[str, ...]) -> Iterator[str]:
    yield f"|  | {' | '.join(dtypes)} |"
    yield "| --- " * (len(dtypes) + 1) + "|"
    for left in dtypes:
        yield f"| {left} | {' | '.join(promoted(left, right) or '-' for right in dtypes)} |"


def numbers() -> Iterator[str]:
    yield f"| number | {' | '.join(SHARED)} | what is different |"
    yield "| --- " * (len(SHARED) + 2) + "|"
    for number, value in NUMBERS.items():
        _, reason = NUMBER_DIFFERENCES.get(number, ((), ""))
        cells = [beside(dtype, value, first=False) or "-" for dtype in SHARED]
        yield f"| `{number}` | {' | '.join(cells)} | {reason} |"


def lines() -> Iterator[str]:
    all_entries = [entry for group in GROUPS.values() for entry in group.values()]
    counts = [sum(isinstance(entry, kind) for entry in all_entries) for kind in (Same, Differs, Absent)]
    yield f"Of the {len(all_entries)} names, {counts[0]} are the same, {counts[1]} differ, {counts[2]} are absent."
    for title, group in GROUPS.items():
        yield from ("", f"### {title}", "", *rows_of(group))
    yield from ("", "### Members of arrays", "", *rows_of(MEMBERS))
    yield from ("", "## Promotion", "", "Two dtypes promote as in the standard; `-` is refused.", "")
    yield from (*promotion_of(INTEGERS), "", *promotion_of(FLOATS))
    yield from ("", "Integers and floats have no common dtype. bf16 and f16 are not in the standard.", "")
    yield from ("## Python numbers", "", "A number beside a tensor of each dtype; `-` is refused.", "", *numbers())
    yield from ("", "## Special values", "")
    yield f"NaN, infinities, zeros of both signs and {len(SPECIAL) - 5} numbers more, in f32 and f64, each beside each:"
    yield f"{', '.join(UNARY)},"
    yield f"{', '.join(BINARY)}."
    yield from (f"{name}: {reason}." for name, reason in SPECIAL_DIFFERENCES.items())
    yield "" if SPECIAL_DIFFERENCES else "All results are the standard's, the signs of zeros included."


def page(text: str) -> str:
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    tables = "\n".join(lines())
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"


def test_the_page_is_up_to_date() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "stale: run python -m tests.test_array_api"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
