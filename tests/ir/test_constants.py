"""Constants: what they are made of, which arrays are adopted, and numbers beside tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from fuel_async.errors import DTypeMismatch, DTypeParseError, GraphError, UserError
from fuel_async.ir import DType, Graph, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def held(graph: Graph, tensor: Tensor) -> NDArray[Any]:
    """The array that a constant holds."""
    return graph.snapshot().constants[tensor.index]


@pytest.mark.parametrize(
    ("value", "dtype", "shape"),
    [
        (1, DType.I64, ()),
        (1.5, DType.F32, ()),
        (True, DType.U8, ()),
        ([1, 2], DType.I64, (2,)),
        ([[1.0, 2.0]], DType.F32, (1, 2)),
        ([True, False], DType.U8, (2,)),
        ([], DType.F32, (0,)),
        (np.float64(2), DType.F64, ()),
        (np.ones((2, 3), np.float16), DType.F16, (2, 3)),
        (np.ones(2, ml_dtypes.bfloat16), DType.BF16, (2,)),
        (np.ones(2, np.bool_), DType.U8, (2,)),
        (np.zeros((0, 3), np.int16), DType.I16, (0, 3)),
        (memoryview(b"abc"), DType.U8, (3,)),
    ],
)
def test_constants_take_the_values_type(value: object, dtype: DType, shape: tuple[int, ...]) -> None:
    graph = Graph()
    made = graph.constant(value)
    assert (made.dtype, made.shape) == (dtype, shape)
    array = held(graph, made)
    assert not array.flags.writeable
    assert array.flags.c_contiguous
    assert np.array_equal(array, np.asarray(value))


def test_a_dtype_converts_the_value() -> None:
    graph = Graph()
    source = np.array([1.25, 2.5])
    made = graph.constant(source, DType.F16)
    assert held(graph, made).dtype == np.float16
    assert source.flags.writeable


def test_owned_read_only_arrays_are_adopted() -> None:
    graph = Graph()
    array = np.arange(6.0).reshape(2, 3).copy()
    array.flags.writeable = False
    assert held(graph, graph.constant(array)) is array
    row = array[1]
    assert np.shares_memory(held(graph, graph.constant(row)), array)


def test_arrays_over_bytes_are_adopted() -> None:
    graph = Graph()
    array = np.frombuffer(bytes(range(8)), np.int32)
    assert np.shares_memory(held(graph, graph.constant(array)), array)


def test_read_only_bools_are_adopted_as_uint8() -> None:
    graph = Graph()
    array = np.array([True, False])
    array.flags.writeable = False
    made = held(graph, graph.constant(array))
    assert made.dtype == np.uint8
    assert np.shares_memory(made, array)


class Wrapped:
    """An object that shows its own writable array to numpy."""

    def __init__(self) -> None:
        self.array = np.arange(3.0)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NDArray[Any]:
        return self.array


def read_only_view(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def unaligned() -> NDArray[Any]:
    array = np.frombuffer(bytes(17), np.uint8)[1:].view(np.float64)
    assert not array.flags.aligned
    return array


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.arange(6.0),
        lambda: read_only_view(np.arange(6.0)),
        lambda: read_only_view(np.arange(6.0).reshape(2, 3).T),
        lambda: read_only_view(np.arange(6.0)[::2]),
        lambda: np.frombuffer(bytearray(16), np.float64),
        lambda: np.ones((2, 2), order="F"),
        lambda: np.zeros(0),
        lambda: np.array([True]),
        unaligned,
    ],
)
def test_arrays_that_somebody_can_write_are_copied(make: Callable[[], NDArray[Any]]) -> None:
    graph = Graph()
    array = make()
    writeable = array.flags.writeable
    made = held(graph, graph.constant(array))
    assert not np.may_share_memory(made, array) or not array.size
    assert made is not array
    assert np.array_equal(made, array)
    assert made.flags.c_contiguous
    assert made.flags.aligned
    assert array.flags.writeable == writeable  # the caller's array is left as it was


def test_the_array_inside_another_object_is_copied() -> None:
    graph, wrapped = Graph(), Wrapped()
    made = held(graph, graph.constant(wrapped))
    assert not np.shares_memory(made, wrapped.array)
    assert wrapped.array.flags.writeable


def test_foreign_byte_order_becomes_native() -> None:
    graph = Graph()
    made = graph.constant(np.array([1, 256], ">i4"))
    assert made.dtype is DType.I32
    assert held(graph, made).tolist() == [1, 256]


@pytest.mark.parametrize("value", [[[1], [1, 2]], object(), {"a": 1}, [1, "a"]])
def test_what_is_no_array_is_a_user_error(value: object) -> None:
    with pytest.raises(UserError):
        Graph().constant(value)


def test_a_value_that_the_dtype_refuses_is_a_user_error() -> None:
    graph = Graph()
    with pytest.raises(GraphError, match="constant"):
        graph.constant("text", DType.F32)
    with pytest.raises(GraphError, match="constant"):
        graph.constant(300, DType.U8)
    with pytest.raises(DTypeParseError, match="uint64"):
        graph.constant(np.uint64(3))
    with pytest.raises(GraphError, match="a Tensor has no value"):
        graph.constant(graph.input("x", ()))


def test_numbers_are_shared_scalars() -> None:
    graph = Graph()
    x = graph.input("x", ())
    before = len(graph)
    first, second = x * 2, 2 + x
    assert len(graph) == before + 3
    frozen_args = graph.snapshot().args
    assert frozen_args[first.index][1] == frozen_args[second.index][0]
    assert held(graph, graph.scalar(-0.0, DType.F32)).tobytes() != held(graph, graph.scalar(0.0, DType.F32)).tobytes()


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (300, DType.U8),
        (-1, DType.U32),
        (2**70, DType.I64),
        (70000.0, DType.F16),
        (1e39, DType.F32),
        (10**400, DType.F64),
    ],
)
def test_a_number_beyond_the_dtype_is_refused(value: float, dtype: DType) -> None:
    with pytest.raises(DTypeMismatch, match="beyond its range"):
        Graph().input("x", (), dtype) + value


def test_infinite_numbers_are_meant() -> None:
    graph = Graph()
    assert held(graph, graph.scalar(float("inf"), DType.F16)) == np.inf
    assert np.isnan(held(graph, graph.scalar(float("nan"), DType.F32)))


def test_a_float_beside_integers_is_refused() -> None:
    with pytest.raises(DTypeMismatch, match=r"0\.5 is no integer; cast"):
        Graph().input("x", (), DType.I32) * 0.5
