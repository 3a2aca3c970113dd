"""Feeds: checked all at once, before anything runs, and adopted without a copy where they lie as a kernel reads them.

One error names everything that is wrong: missing, extra, ill-shaped and wrong-dtype feeds. Nothing is cast silently;
bool arrays are viewed as uint8, Python numbers and lists take the declared dtype.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuel_async.errors import DTypeParseError, FeedError
from fuel_async.ir import Dim, DType, FrozenGraph, Symbolic, TensorType, UnboundSymbol, bind
from fuel_async.storage import DeviceArray

Array = NDArray[Any]


def symbol_sizes(graph: FrozenGraph, feeds: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """Return the size of each symbol of the graph, read off the feeds' shapes: sorted pairs.

    Feeds that are missing or ill-shaped are passed over: `as_arrays` names them. `FeedError` when two feeds disagree
    on a symbol, or when none gives it.
    """
    sizes: dict[str, int] = {}
    problems: dict[str, str] = {}
    for name, node in graph.inputs.items():
        shape = graph.types[node].shape
        given = np.shape(feeds[name]) if name in feeds else ()
        if len(given) != len(shape):
            continue
        for dim, size in zip(shape, given, strict=True):
            symbol = _plain(dim)
            if symbol is not None and sizes.setdefault(symbol, size) != size:
                problems[name] = f"{symbol} is {size} here and {sizes[symbol]} in another feed"
    missing = [symbol for symbol in graph.symbols if symbol not in sizes]
    if missing and not problems:
        problems = check(graph, feeds, sizes)
        for symbol in missing:
            problems.setdefault(symbol, "no feed gives the size of this symbol")
    if problems:
        raise FeedError(graph.name, problems)
    return tuple(sorted(sizes.items()))


def check(graph: FrozenGraph, feeds: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, str]:
    """Return what is wrong with each feed by name; nothing when all fit."""
    problems = {name: "is not an input of the graph" for name in feeds if name not in graph.inputs}
    for name, node in graph.inputs.items():
        kind = graph.types[node]
        if name not in feeds:
            problems[name] = f"is missing; wanted {kind}"
            continue
        problem = _problem(feeds[name], kind, sizes)
        if problem:
            problems[name] = problem
    return problems


def as_arrays(graph: FrozenGraph, feeds: Mapping[str, Any], sizes: Mapping[str, int]) -> list[Array]:
    """Return the feeds as arrays of the declared types, in the order of the inputs. `FeedError` names all that do not fit.

    An array that lies row-major is returned as it is; others are returned as they are too, and copied by the caller.
    """
    problems = check(graph, feeds, sizes)
    if problems:
        raise FeedError(graph.name, problems)
    return [_array(feeds[name], graph.types[node].dtype) for name, node in graph.inputs.items()]


def sound(array: Array) -> bool:
    """Whether kernels can read the array where it is."""
    return array.flags.c_contiguous and array.flags.aligned


def dense(feed: Any, dtype: DType) -> Array:
    """Return a feed that has been checked as a row-major, aligned array; the same bytes where it is one."""
    array = _array(feed, dtype)
    return array if sound(array) else array.copy(order="C")


def _plain(dim: Dim) -> str | None:
    """The symbol that a dimension is, or None."""
    if isinstance(dim, Symbolic) and len(dim.terms) == 1:
        (monomial, factor) = dim.terms[0]
        return monomial[0] if factor == 1 and len(monomial) == 1 else None
    return None


def _problem(feed: Any, kind: TensorType, sizes: Mapping[str, int]) -> str | None:
    try:
        array = _array(feed, kind.dtype)
        dtype = DType.from_numpy(array.dtype)
    except (TypeError, ValueError, DTypeParseError, OverflowError) as error:
        return f"is no array of {kind}: {error}"
    try:
        shape: Sequence[Dim] = [bind(dim, sizes) for dim in kind.shape]
    except UnboundSymbol:
        shape = kind.shape
    if dtype is not kind.dtype or array.shape != tuple(shape):
        bound = f", which is {tuple(shape)} here" if list(shape) != list(kind.shape) else ""
        return f"is {dtype}{list(array.shape)}; wanted {kind}{bound}"
    return None


def _array(feed: Any, dtype: DType) -> Array:
    if isinstance(feed, DeviceArray):
        feed = feed.numpy()
    if isinstance(feed, bool | int | float | list | tuple):
        return np.asarray(feed, dtype=dtype.require_np())
    array = np.asarray(feed)
    return array.view(np.uint8) if array.dtype == np.bool_ else array
