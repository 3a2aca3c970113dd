"""Laws that hold for every registered kernel of the host, on sample operands of its own types.

Kernels of several outputs have them in `test_several_outputs`.
"""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from fuel_async.backends.cpu.kernels import register_cpu_kernels
from fuel_async.backends.cpu.kernels.base import HostKernel
from fuel_async.dispatch import GivenParams, KernelBindingTable
from fuel_async.errors import KernelArgumentError, StorageBusy, StoragePoisoned
from fuel_async.ir import DType, Layout, OpKind, TensorType
from fuel_async.storage import Storage, alloc_cpu, as_array, from_array

if TYPE_CHECKING:
    from collections.abc import Callable

Array = npt.NDArray[Any]


def _rows() -> list[HostKernel]:
    table = KernelBindingTable()
    register_cpu_kernels(table)
    kernels = [entry.kernel for *_, entry in table.iter_entries() if isinstance(entry.kernel, HostKernel)]
    return [kernel for kernel in kernels if not kernel.slots]


ROWS = _rows()


def _name(kernel: HostKernel) -> str:
    return f"{kernel.op.value}-{'-'.join(map(str, kernel.dtypes))}"


every_kernel = pytest.mark.parametrize("kernel", ROWS, ids=_name)
in_place_kernels = pytest.mark.parametrize(
    "kernel", [row for row in ROWS if row.caps.in_place and row.dtypes[0] is row.dtypes[-1]], ids=_name
)
#: Kernels whose sums depend on the order in which memory is walked.
ORDERED = {OpKind.SumReduce, OpKind.MeanReduce, OpKind.ReduceSumTo, OpKind.MatMul, OpKind.FusedLinear}

#: numpy's iterator may copy 8,192 elements of an operand that it broadcasts along short rows.
ITERATOR_BUFFER_NBYTES = 8_192 * 8 + 4_096
#: Kernels whose own operands are strided, and how many such buffers one of their calls may have.
BUFFERS = {OpKind.Rope: 2}


def _bytes(array: Array) -> bytes:
    return array.tobytes()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def run(bind: Callable[..., Any]) -> Callable[..., Array]:
    def run(kernel: HostKernel, sample: Any, out: Array | None = None) -> Array:
        if out is None:
            out = np.empty(sample.shape, kernel.dtypes[-1].require_np())
        function, args = bind(kernel, sample, out)
        function(*args)
        return out

    return run


@every_kernel
def test_the_plain_call_gives_the_bytes_of_the_bound_call(
    kernel: HostKernel, sample: Callable[..., Any], run: Callable[..., Array], rng: np.random.Generator
) -> None:
    operands = sample(kernel, rng)
    inputs = [from_array(operand.copy()) for operand in operands.inputs]
    output = alloc_cpu(kernel.dtypes[-1], int(np.prod(operands.shape)))
    layouts = [Layout.contiguous(shape) for shape in (*[o.shape for o in operands.inputs], operands.shape)]
    kernel(inputs, [output], layouts, operands.params)
    assert _bytes(as_array(output, layouts[-1])) == _bytes(run(kernel, operands))


@every_kernel
def test_arguments_are_the_operands_themselves_and_can_be_exchanged(
    kernel: HostKernel, sample: Callable[..., Any], bind: Callable[..., Any], run: Callable[..., Array]
) -> None:
    first, second = sample(kernel, np.random.default_rng(1)), sample(kernel, np.random.default_rng(2))
    out = np.empty(first.shape, kernel.dtypes[-1].require_np())
    function, args = bind(kernel, first, out)
    operands = [*first.inputs, out]
    assert all(sum(arg is operand for arg in args) == 1 for operand in operands)
    other = np.empty_like(out)
    exchange = {id(old): new for old, new in zip(operands, [*second.inputs, other], strict=True)}
    function(*[exchange.get(id(arg), arg) for arg in args])
    assert _bytes(other) == _bytes(run(kernel, second))


@every_kernel
def test_strides_and_alignment_do_not_change_the_bits(
    kernel: HostKernel,
    sample: Callable[..., Any],
    run: Callable[..., Array],
    strided: Callable[[Array], Array],
    shifted: Callable[[Array, int], Array],
    rng: np.random.Generator,
) -> None:
    operands = sample(kernel, rng)
    expected = run(kernel, operands)
    for offset in (1, 3, 8):
        moved = operands._replace(inputs=tuple(shifted(operand, offset) for operand in operands.inputs))
        out = shifted(np.empty_like(expected), 2)
        assert _bytes(run(kernel, moved, out)) == _bytes(expected)
    moved = operands._replace(inputs=tuple(strided(operand) for operand in operands.inputs))
    got = run(kernel, moved)
    if kernel.op in ORDERED:
        np.testing.assert_allclose(got.astype(float), expected.astype(float), rtol=2e-2, atol=1e-2)
    else:
        assert _bytes(got) == _bytes(expected)


@every_kernel
def test_operands_repeated_by_a_zero_stride(
    kernel: HostKernel, sample: Callable[..., Any], run: Callable[..., Array], rng: np.random.Generator
) -> None:
    operands = sample(kernel, rng)
    repeated = [np.broadcast_to(operand[:1] if operand.ndim else operand, operand.shape) for operand in operands.inputs]
    dense = [np.array(operand, order="C") for operand in repeated]
    got, expected = (run(kernel, operands._replace(inputs=tuple(inputs))) for inputs in (repeated, dense))
    if kernel.op in ORDERED:
        np.testing.assert_allclose(got.astype(float), expected.astype(float), rtol=2e-2, atol=1e-2)
    else:
        assert _bytes(got) == _bytes(expected)


def _check_in_place(kernel: HostKernel, operands: Any, run: Callable[..., Array]) -> None:
    expected = run(kernel, operands)
    for position, operand in enumerate(operands.inputs):
        if (operand.dtype, operand.shape) != (expected.dtype, expected.shape):
            continue
        inputs = list(operands.inputs)
        inputs[position] = memory = operand.copy()
        # Another array object over the same bytes, as a program's slots are.
        out = memory.view()
        assert _bytes(run(kernel, operands._replace(inputs=tuple(inputs)), out)) == _bytes(expected)


@in_place_kernels
def test_the_output_may_be_an_input(
    kernel: HostKernel, sample: Callable[..., Any], run: Callable[..., Array], rng: np.random.Generator
) -> None:
    _check_in_place(kernel, sample(kernel, rng), run)


@pytest.mark.parametrize(
    "kernel",
    [row for row in ROWS if row.caps.in_place and row.direct is None and row.dtypes[-1] is DType.F32],
    ids=_name,
)
def test_the_output_may_be_an_input_of_several_blocks(
    kernel: HostKernel, sample: Callable[..., Any], run: Callable[..., Array], rng: np.random.Generator
) -> None:
    _check_in_place(kernel, sample(kernel, rng, rows=30_000), run)


@pytest.mark.parametrize(
    "kernel", [row for row in ROWS if {row.dtypes[0], row.dtypes[-1]} & {DType.F32, DType.F64}], ids=_name
)
def test_a_bound_call_allocates_no_array(
    kernel: HostKernel, sample: Callable[..., Any], bind: Callable[..., Any], rng: np.random.Generator
) -> None:
    operands = sample(kernel, rng, rows=40_000)
    function, args = bind(kernel, operands, np.empty(operands.shape, kernel.dtypes[-1].require_np()))
    function(*args)
    tracemalloc.start()
    function(*args)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    limit = ITERATOR_BUFFER_NBYTES * BUFFERS.get(kernel.op, 1)
    assert peak < limit, f"{peak} bytes for operands of {operands.inputs[0].nbytes}"


@every_kernel
def test_a_wrong_call_is_refused_with_the_op_named(
    kernel: HostKernel, sample: Callable[..., Any], rng: np.random.Generator
) -> None:
    operands = sample(kernel, rng)
    out = np.empty(operands.shape, kernel.dtypes[-1].require_np())
    scratch = [
        np.empty(nbytes, np.uint8)
        for nbytes in kernel.scratch(operands.params, [o.shape for o in operands.inputs], operands.shape)
    ]
    wrong_type = (operands.inputs[0].astype(np.complex64), *operands.inputs[1:])
    wrong_calls: list[tuple[Any, ...]] = [
        ((), [out], operands.params, scratch),
        (operands.inputs, [out, out], operands.params, scratch),
        (operands.inputs, [out], GivenParams(()), scratch),
        (wrong_type, [out], operands.params, scratch),
        (operands.inputs, [np.empty((3, 3, 3), out.dtype)], operands.params, scratch),
    ]
    for wrong in wrong_calls:
        with pytest.raises(KernelArgumentError, match=kernel.op.value):
            kernel.bind(*wrong)


class TestStorages:
    """The plain signature, on one kernel."""

    layout = Layout.contiguous((4,))

    @pytest.fixture
    def add(self) -> HostKernel:
        return next(k for k in ROWS if k.op is OpKind.AddElementwise and k.dtypes[0] is DType.F32)

    @pytest.fixture
    def storages(self) -> tuple[Storage, Storage, Storage]:
        left, right = (from_array(np.arange(4, dtype=np.float32)) for _ in range(2))
        return left, right, alloc_cpu(DType.F32, 4)

    def test_layouts_are_applied(self, add: HostKernel, storages: tuple[Storage, Storage, Storage]) -> None:
        left, right, out = storages
        reversed_layout = Layout((4,), (-1,), 3)
        add([left, right], [out], [self.layout, reversed_layout, self.layout], add.takes())
        assert as_array(out, self.layout).tolist() == [3, 3, 3, 3]

    def test_an_output_that_is_an_input_is_refused(
        self, add: HostKernel, storages: tuple[Storage, Storage, Storage]
    ) -> None:
        left, right, _ = storages
        compare = next(k for k in ROWS if k.op is OpKind.EqualElementwise and k.dtypes[0] is DType.F32)
        truth = from_array(np.zeros(16, np.uint8))
        with pytest.raises(StorageBusy):
            compare([left, truth], [truth], [self.layout] * 3, add.takes())
        with pytest.raises(StorageBusy):  # another layout: its bytes would be read after they are written
            add([left, right], [left], [Layout((4,), (-1,), 3), self.layout, self.layout], add.takes())

    def test_a_kernel_in_place_may_be_given_one_storage_twice(
        self, add: HostKernel, storages: tuple[Storage, Storage, Storage]
    ) -> None:
        left, right, _ = storages
        add([left, right], [left], [self.layout] * 3, add.takes())
        assert as_array(left, self.layout).tolist() == [0, 2, 4, 6]
        add([left, left], [left], [self.layout] * 3, add.takes())
        assert as_array(left, self.layout).tolist() == [0, 4, 8, 12]

    def test_poison_is_respected(self, add: HostKernel, storages: tuple[Storage, Storage, Storage]) -> None:
        left, right, out = storages
        left.poison()
        with pytest.raises(StoragePoisoned):
            add([left, right], [out], [self.layout] * 3, add.takes())

    def test_layouts_are_counted_and_outputs_row_major(
        self, add: HostKernel, storages: tuple[Storage, Storage, Storage]
    ) -> None:
        left, right, out = storages
        with pytest.raises(KernelArgumentError, match="number of layouts"):
            add([left, right], [out], [self.layout] * 2, add.takes())
        with pytest.raises(KernelArgumentError, match="row-major"):
            add([left, right], [out], [self.layout, self.layout, Layout((4,), (-1,), 3)], add.takes())

    def test_no_warning_reaches_the_caller(self, add: HostKernel, storages: tuple[Storage, Storage, Storage]) -> None:
        huge = from_array(np.full(4, 3e38, np.float32))
        with np.errstate(all="raise"):
            add([huge, huge], [storages[2]], [self.layout] * 3, add.takes())
        assert np.isinf(as_array(storages[2], self.layout)).all()


@every_kernel
def test_scratch_follows_from_types_as_from_shapes(
    kernel: HostKernel, sample: Callable[..., Any], rng: np.random.Generator
) -> None:
    operands = sample(kernel, rng)
    kinds = [kernel.dtypes[0]] * len(operands.inputs) if kernel.variadic else kernel.operands[:-1]
    shapes = [operand.shape for operand in operands.inputs]
    inputs = [TensorType(shape, kind, -1) for shape, kind in zip(shapes, kinds, strict=True)]
    output = TensorType(operands.shape, kernel.dtypes[-1], -1)
    sizes = kernel.scratch_nbytes(operands.params, inputs, (output,))
    assert sizes == kernel.scratch(operands.params, shapes, operands.shape)
    assert all(nbytes > 0 for nbytes in sizes)
