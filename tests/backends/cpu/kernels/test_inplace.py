"""Kernels of ops that may write over their operand: the same values as their likes, and writes against plain numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fuel_async.backends.cpu.kernels.base import T4, HostKernel
from fuel_async.backends.cpu.kernels.inplace import IN_PLACE_KINDS
from fuel_async.dispatch import KernelBindingTable, OpParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import BackendId, DType, OpKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[Any]

F32 = (DType.F32, DType.F32)
CPU = BackendId.CPU


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


@pytest.mark.parametrize("dtype", T4)
@pytest.mark.parametrize("kind", IN_PLACE_KINDS)
def test_in_place_or_not_the_bytes_are_those_of_the_op_that_keeps_its_operand(
    table: KernelBindingTable, sample: Callable[..., Any], bind: Callable[..., Any], kind: OpKind, dtype: DType
) -> None:
    def run(op: OpKind, over: bool) -> bytes:
        kernel = table.lookup(op, (dtype, dtype), CPU)
        assert isinstance(kernel, HostKernel)
        operands = sample(kernel, np.random.default_rng(5), rows=9_000)
        out = operands.inputs[0] if over else np.empty(operands.shape, dtype.require_np())
        function, args = bind(kernel, operands, out)
        function(*args)
        return bytes(out.tobytes())

    over = IN_PLACE_KINDS[kind]
    assert run(over, True) == run(over, False) == run(kind, False)


def test_an_operand_is_not_broadcast(table: KernelBindingTable) -> None:
    kernel: Any = table.lookup(OpKind.ExpInplace, F32, CPU)
    with pytest.raises(KernelArgumentError, match=r"exp_inplace: .*output's shape"):
        kernel.bind([np.zeros((1, 3), np.float32)], [np.zeros((2, 3), np.float32)], OpParams.NONE, [])


class Write:
    """Calls of a write into a slice, apart from its destination and over it."""

    def __init__(self, table: KernelBindingTable, op: OpKind, params: OpParams) -> None:
        self.kernel: Any = table.lookup(op, F32, CPU)
        self.params = params

    def __call__(self, dest: Array, *others: Array) -> Array:
        results = []
        for over in ("apart", "same", "view"):
            held = dest.copy()
            out = {"apart": np.full_like(dest, np.nan), "same": held, "view": held.view()}[over]
            shapes = [operand.shape for operand in (held, *others)]
            scratch = [np.full(n, 255, np.uint8) for n in self.kernel.scratch(self.params, shapes, out.shape)]
            call, args = self.kernel.bind([held, *others], [out], self.params, scratch)
            call(*args)
            if over == "apart":
                assert held.tobytes() == dest.tobytes()
            results.append(out)
        assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()
        return results[0]


def test_write_slice(table: KernelBindingTable, rng: np.random.Generator) -> None:
    dest = rng.normal(size=(5, 6)).astype(np.float32)
    for starts, lengths in (((0, 0), (5, 6)), ((1, 2), (3, 4)), ((4, 5), (1, 1)), ((2, 3), (0, 2)), ((5, 6), (0, 0))):
        source = rng.normal(size=lengths).astype(np.float32)
        ranges = tuple([(start, start + length) for start, length in zip(starts, lengths, strict=True)])
        expected = dest.copy()
        expected[tuple([slice(*each) for each in ranges])] = source
        for laid in (source, source[::-1, ::-1][::-1, ::-1], np.asfortranarray(source)):
            assert Write(table, OpKind.WriteSlice, OpParams.WriteSlice((5, 6), ranges))(dest, laid).tobytes() == (
                expected.tobytes()
            )


def test_write_slice_of_no_dimensions_and_of_nothing(table: KernelBindingTable) -> None:
    scalar = Write(table, OpKind.WriteSlice, OpParams.WriteSlice((), ()))
    assert scalar(np.array(1, np.float32), np.array(2, np.float32)) == 2
    empty = Write(table, OpKind.WriteSlice, OpParams.WriteSlice((0, 3), ((0, 0), (0, 3))))
    assert empty(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)).shape == (0, 3)


@pytest.mark.parametrize("axis", [0, 1])
def test_write_slice_doff_at_every_place(table: KernelBindingTable, rng: np.random.Generator, axis: int) -> None:
    dest, source = rng.normal(size=(5, 5)).astype(np.float32), rng.normal(size=(2, 2)).astype(np.float32)
    write = Write(table, OpKind.WriteSliceDoff, OpParams.WriteSliceDoff((5, 5), axis, ((0, 2), (0, 2))))
    for offset in range(4):
        expected = dest.copy()
        where = [slice(0, 2), slice(0, 2)]
        where[axis] = slice(offset, offset + 2)
        expected[tuple(where)] = source
        assert write(dest, source, np.array(offset)).tobytes() == expected.tobytes()
    for wrong in (-1, 4, np.iinfo(np.int64).max, np.iinfo(np.int64).min):
        out = dest.copy()
        call, args = write.kernel.bind([out, source, np.array(wrong)], [out], write.params, [])
        with pytest.raises(KernelArgumentError, match=rf"write_slice_doff: .*axis {axis}.*{wrong}.*from 0 to 3"):
            call(*args)
        assert out.tobytes() == dest.tobytes()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("length", [0, 1, 3, 4])
@pytest.mark.parametrize("modulus", [4, 5])
def test_write_slice_rotating_from_every_place(
    table: KernelBindingTable, rng: np.random.Generator, axis: int, length: int, modulus: int
) -> None:
    lengths = [2, 2]
    lengths[axis] = length
    dest, source = rng.normal(size=(5, 5)).astype(np.float32), rng.normal(size=lengths).astype(np.float32)
    ranges = tuple([(0, size) for size in lengths])
    write = Write(table, OpKind.WriteSliceRotating, OpParams.WriteSliceRotating((5, 5), axis, modulus, ranges))
    for position in (0, 1, 3, 4, 9, 2**32 - 1):
        expected = dest.copy()
        for entry in range(length):
            where: list[Any] = [slice(0, 2), slice(0, 2)]
            where[axis] = (position + entry) % modulus
            expected[tuple(where)] = source.take(entry, axis)
        assert write(dest, source, np.array(position, np.uint32)).tobytes() == expected.tobytes()


def test_a_ring_that_is_written_whole_may_be_its_own_source(table: KernelBindingTable) -> None:
    """The result may take the bytes of the source, which it is turned against."""
    kernel: Any = table.lookup(OpKind.WriteSliceRotating, F32, CPU)
    params = OpParams.WriteSliceRotating((4,), 0, 4, ((0, 4),))
    source = np.arange(4, dtype=np.float32)
    (nbytes,) = kernel.scratch(params, [(4,), (4,), ()], (4,))
    inputs = [np.zeros(4, np.float32), source, np.array(1, np.uint32)]
    call, args = kernel.bind(inputs, [source], params, [np.empty(nbytes, np.uint8)])
    call(*args)
    assert source.tolist() == [3, 0, 1, 2]


def test_a_source_that_covers_all_may_be_what_is_written_over(table: KernelBindingTable) -> None:
    """The result takes the bytes of the source, and nothing of the destination is brought there."""
    for op, params in (
        (OpKind.WriteSlice, OpParams.WriteSlice((4,), ((0, 4),))),
        (OpKind.WriteSliceDoff, OpParams.WriteSliceDoff((4,), 0, ((0, 4),))),
    ):
        kernel: Any = table.lookup(op, F32, CPU)
        source = np.arange(4, dtype=np.float32)
        inputs = [np.zeros(4, np.float32), source, np.array(0)][: len(kernel.operands) - 1]
        call, args = kernel.bind(inputs, [source], params, [])
        call(*args)
        assert source.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("op", "params", "shapes", "said"),
    [
        (OpKind.WriteSlice, OpParams.WriteSlice((4,), ((3, 5),)), [(4,), (2,)], "ranges"),
        (OpKind.WriteSlice, OpParams.WriteSlice((4,), ((-1, 1),)), [(4,), (2,)], "ranges"),
        (OpKind.WriteSlice, OpParams.WriteSlice((4,), ()), [(4,), (2,)], "ranges"),
        (OpKind.WriteSlice, OpParams.WriteSlice((4,), ((0, 2),)), [(4,), (3,)], "source's shape"),
        (OpKind.WriteSliceDoff, OpParams.WriteSliceDoff((4,), 1, ((0, 2),)), [(4,), (2,), ()], "axis"),
        (OpKind.WriteSliceDoff, OpParams.WriteSliceDoff((4,), 0, ((0, 2),)), [(4,), (2,), (1,)], "shape of the place"),
        (
            OpKind.WriteSliceRotating,
            OpParams.WriteSliceRotating((4,), 0, 5, ((0, 2),)),
            [(4,), (2,), ()],
            "modulus",
        ),
        (
            OpKind.WriteSliceRotating,
            OpParams.WriteSliceRotating((4,), 0, 1, ((0, 2),)),
            [(4,), (2,), ()],
            "modulus",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    table: KernelBindingTable, op: OpKind, params: OpParams, shapes: list[tuple[int, ...]], said: str
) -> None:
    kernel: Any = table.lookup(op, F32, CPU)
    inputs = [np.zeros(shape, kind.require_np()) for shape, kind in zip(shapes, kernel.operands, strict=False)]
    with pytest.raises(KernelArgumentError, match=f"{op.value}: .*{said}"):
        kernel.bind(inputs, [np.zeros(4, np.float32)], params, [])
