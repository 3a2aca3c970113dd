"""Feeds: checked all at once, before anything runs, and adopted without a copy where they lie as a kernel reads them.

One error names everything that is wrong: missing, extra, ill-shaped and wrong-dtype feeds. Nothing is cast silently;
bool arrays are viewed as uint8, Python numbers and lists take the declared dtype where it can hold them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fuel_async.errors import FeedError, FuelError
from fuel_async.ir import Dim, DType, FrozenGraph, Symbolic, TensorType, UnboundSymbol, bind
from fuel_async.storage import DeviceArray

if TYPE_CHECKING:
    from collections.abc import Mapping

Array = NDArray[Any]


def symbol_sizes(graph: FrozenGraph, feeds: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """Return the size of each symbol of the graph, read off the feeds' shapes: sorted pairs.

    Feeds that are missing or ill-shaped are passed over: `as_arrays` names them. `FeedError` names everything that is
    wrong when two feeds disagree on a symbol, or when none gives it.
    """
    sizes: dict[str, int] = {}
    conflicts: dict[str, str] = {}
    for name, node in graph.inputs.items():
        shape = graph.types[node].shape
        given = _shape(feeds[name]) if name in feeds else None
        if given is None or len(given) != len(shape):
            continue
        for dim, size in zip(shape, given, strict=True):
            symbol = _plain(dim)
            if symbol is not None and sizes.setdefault(symbol, size) != size:
                conflicts[name] = f"{symbol} is {size} here and {sizes[symbol]} in another feed"
    missing = [symbol for symbol in graph.symbols if symbol not in sizes]
    if missing or conflicts:
        problems = check(graph, feeds, sizes) | conflicts
        for symbol in missing:
            problems.setdefault(symbol, "no feed gives the size of this symbol")
        raise FeedError(graph.name, problems)
    return tuple(sorted(sizes.items()))


def check(graph: FrozenGraph, feeds: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, str]:
    """Return what is wrong with each feed by name; nothing when all fit."""
    return _taken(graph, feeds, sizes)[1]


def as_arrays(graph: FrozenGraph, feeds: Mapping[str, Any], sizes: Mapping[str, int]) -> list[Array]:
    """Return the feeds as arrays of the declared types, in the inputs' order. `FeedError` names all that do not fit.

    An array that lies row-major is returned as it is; others are returned as they are too, and copied by the caller.
    """
    arrays, problems = _taken(graph, feeds, sizes)
    if problems:
        raise FeedError(graph.name, problems)
    return arrays


def sound(array: Array) -> bool:
    """Whether kernels can read the array where it is."""
    return array.flags.c_contiguous and array.flags.aligned


def dense(feed: Any, dtype: DType) -> Array:
    """Return a feed that has been checked as a row-major, aligned array; the same bytes where it is one."""
    array = _array(feed, dtype)
    return array if sound(array) else array.copy(order="C")


def _taken(
    graph: FrozenGraph, feeds: Mapping[str, Any], sizes: Mapping[str, int]
) -> tuple[list[Array], dict[str, str]]:
    """The feeds that fit, and what is wrong with the others: each is converted once."""
    arrays: list[Array] = []
    problems = {name: "is not an input of the graph" for name in feeds if name not in graph.inputs}
    for name, node in graph.inputs.items():
        kind = graph.types[node]
        if name not in feeds:
            problems[name] = f"is missing; wanted {kind}"
            continue
        try:
            array = _array(feeds[name], kind.dtype)
            problem = _problem(array, kind, sizes)
        except (TypeError, ValueError, OverflowError, FuelError) as error:
            problem = f"is no array of {kind}: {error}"
        if problem:
            problems[name] = problem
        else:
            arrays.append(array)
    return arrays, problems


def _problem(array: Array, kind: TensorType, sizes: Mapping[str, int]) -> str | None:
    dtype = DType.from_numpy(array.dtype)
    try:
        shape: tuple[Dim, ...] = tuple([bind(dim, sizes) for dim in kind.shape])
    except UnboundSymbol:
        shape = kind.shape
    if dtype is not kind.dtype or array.shape != shape:
        bound = f", which is {shape} here" if shape != kind.shape else ""
        return f"is {dtype}{list(array.shape)}; wanted {kind}{bound}"
    return None


def _plain(dim: Dim) -> str | None:
    """The symbol that a dimension is, or None."""
    if isinstance(dim, Symbolic) and len(dim.terms) == 1:
        (monomial, factor) = dim.terms[0]
        return monomial[0] if factor == 1 and len(monomial) == 1 else None
    return None


def _shape(feed: Any) -> tuple[int, ...] | None:
    """The feed's shape, or None when it has none, as a ragged list."""
    try:
        shape: tuple[int, ...] = np.shape(feed)
        return shape
    except (TypeError, ValueError):
        return None


def _array(feed: Any, dtype: DType) -> Array:
    if isinstance(feed, DeviceArray):
        feed = feed.numpy()
    if isinstance(feed, bool | int | float | list | tuple):
        return _of_numbers(feed, dtype)
    array = np.asarray(feed)
    return array.view(np.uint8) if array.dtype == np.bool_ else array


def _of_numbers(feed: bool | int | float | list[Any] | tuple[Any, ...], dtype: DType) -> Array:
    """Python's numbers in the declared dtype; `ValueError` where that would change them by more than rounding."""
    plain = np.asarray(feed)
    if plain.dtype.kind not in "biuf" and not (plain.dtype.kind == "O" and all(isinstance(n, int) for n in plain.flat)):
        raise ValueError(f"numpy makes {plain.dtype} of it, which is no number")
    if plain.dtype.kind == "f" and dtype.is_int and plain.size:
        raise ValueError("it holds a float; pass integers")
    with np.errstate(over="ignore"):
        array = np.asarray(feed, dtype=dtype.require_np())
    if dtype.is_float and plain.dtype.kind == "f" and not np.isfinite(array[np.isfinite(plain)]).all():
        raise ValueError("it holds a number beyond the dtype's range")
    return array
