"""Laws of every registered kernel of the host that has several outputs, given slot by slot or as a bundle."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from fuel_async.backends.cpu.kernels import register_cpu_kernels
from fuel_async.backends.cpu.kernels.base import HostKernel
from fuel_async.dispatch import GivenParams, KernelBindingTable
from fuel_async.errors import BundleMisuse, KernelArgumentError, StorageBusy, StoragePoisoned
from fuel_async.ir import OPS, Layout, compose_bundle
from fuel_async.storage import Storage, alloc_bundle, alloc_cpu, from_array, slot_arrays

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Array = npt.NDArray[Any]


def _rows() -> list[HostKernel]:
    table = KernelBindingTable()
    register_cpu_kernels(table)
    kernels = [entry.kernel for *_, entry in table.iter_entries() if isinstance(entry.kernel, HostKernel)]
    return [kernel for kernel in kernels if kernel.slots]


ROWS = _rows()
every_kernel = pytest.mark.parametrize("kernel", ROWS, ids=lambda kernel: f"{kernel.op.value}-{kernel.dtypes[0]}")


#: numpy's iterator may copy 8,192 elements of each of two operands that it broadcasts.
ITERATOR_BUFFERS_NBYTES = 2 * (8_192 * 8 + 4_096)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def outputs(kernel: HostKernel, sample: Any) -> list[Array]:
    shapes = (sample.shape, *sample.others)
    # Filled with NaN patterns: what is not written shows.
    made = [np.empty(shape, dtype.require_np()) for shape, dtype in zip(shapes, kernel.slots, strict=True)]
    for array in made:
        array.view(np.uint8).fill(255)
    return made


def bind(kernel: HostKernel, sample: Any, outs: Sequence[Array]) -> tuple[Callable[..., object], tuple[Any, ...]]:
    sizes = kernel.scratch(sample.params, [operand.shape for operand in sample.inputs], sample.shape)
    assert all(nbytes > 0 for nbytes in sizes)
    return kernel.bind(sample.inputs, outs, sample.params, [np.full(nbytes, 255, np.uint8) for nbytes in sizes])


def run(kernel: HostKernel, sample: Any) -> list[bytes]:
    outs = outputs(kernel, sample)
    function, args = bind(kernel, sample, outs)
    function(*args)
    return [out.tobytes() for out in outs]


def bundle(kernel: HostKernel, sample: Any) -> Storage:
    shapes = (sample.shape, *sample.others)
    _, views = compose_bundle(list(zip(kernel.slots, shapes, strict=True)))
    return alloc_bundle(views)


def layouts(sample: Any) -> list[Layout]:
    return [Layout.contiguous(shape) for shape in (*[operand.shape for operand in sample.inputs], sample.shape)]


def test_every_kind_of_several_outputs_is_here() -> None:
    assert {kernel.op for kernel in ROWS} == {op.kind for op in OPS if op.slots}
    counts = {op.kind: len(op.slots) for op in OPS if op.slots}
    assert all(len(kernel.slots) == counts[kernel.op] for kernel in ROWS)
    assert all(kernel.slots[0] is kernel.dtypes[-1] for kernel in ROWS)


@every_kernel
def test_a_bundle_gets_the_bytes_of_the_bound_call(
    kernel: HostKernel, sample: Callable[..., Any], rng: np.random.Generator
) -> None:
    operands = sample(kernel, rng)
    output = bundle(kernel, operands)
    kernel([from_array(operand.copy()) for operand in operands.inputs], [output], layouts(operands), operands.params)
    assert [array.tobytes() for array in slot_arrays(output)] == run(kernel, operands)


@every_kernel
def test_arguments_are_the_operands_themselves_and_can_be_exchanged(
    kernel: HostKernel, sample: Callable[..., Any]
) -> None:
    first, second = sample(kernel, np.random.default_rng(1)), sample(kernel, np.random.default_rng(2))
    outs, others = outputs(kernel, first), outputs(kernel, second)
    function, args = bind(kernel, first, outs)
    operands = [*first.inputs, *outs]
    assert all(sum(arg is operand for arg in args) == 1 for operand in operands)
    exchange = {id(old): new for old, new in zip(operands, [*second.inputs, *others], strict=True)}
    function(*[exchange.get(id(arg), arg) for arg in args])
    assert [other.tobytes() for other in others] == run(kernel, second)


@every_kernel
def test_strides_and_alignment_do_not_change_the_bits(
    kernel: HostKernel,
    sample: Callable[..., Any],
    strided: Callable[[Array], Array],
    shifted: Callable[[Array, int], Array],
    rng: np.random.Generator,
) -> None:
    operands = sample(kernel, rng)
    expected = run(kernel, operands)
    for offset in (1, 3, 8):
        assert run(kernel, operands._replace(inputs=tuple(shifted(one, offset) for one in operands.inputs))) == expected
    assert run(kernel, operands._replace(inputs=tuple(map(strided, operands.inputs)))) == expected
    repeated = [np.broadcast_to(operand[:1], operand.shape) for operand in operands.inputs]
    dense = [np.array(operand, order="C") for operand in repeated]
    found, wanted = (run(kernel, operands._replace(inputs=tuple(inputs))) for inputs in (repeated, dense))
    assert found == wanted


@every_kernel
def test_a_bound_call_allocates_no_array(
    kernel: HostKernel, sample: Callable[..., Any], rng: np.random.Generator
) -> None:
    operands = sample(kernel, rng, rows=40_000)
    function, args = bind(kernel, operands, outputs(kernel, operands))
    function(*args)
    tracemalloc.start()
    function(*args)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < ITERATOR_BUFFERS_NBYTES, f"{peak} bytes for operands of {operands.inputs[0].nbytes}"


@every_kernel
def test_a_wrong_call_is_refused_with_the_op_named(
    kernel: HostKernel, sample: Callable[..., Any], rng: np.random.Generator
) -> None:
    operands = sample(kernel, rng)
    outs = outputs(kernel, operands)
    sizes = kernel.scratch(operands.params, [operand.shape for operand in operands.inputs], operands.shape)
    scratch = [np.empty(nbytes, np.uint8) for nbytes in sizes]
    wrong_type = (operands.inputs[0].astype(np.complex64), *operands.inputs[1:])
    wrong_calls: list[tuple[Any, ...]] = [
        ((), outs, operands.params, scratch),
        (operands.inputs, outs[:1], operands.params, scratch),
        (operands.inputs, [*outs, outs[0]], operands.params, scratch),
        (operands.inputs, outs, GivenParams(()), scratch),
        (wrong_type, outs, operands.params, scratch),
        (operands.inputs, [np.empty((3, 3, 3), outs[0].dtype), *outs[1:]], operands.params, scratch),
        (operands.inputs, [outs[0], np.empty((3, 3, 3, 3), outs[1].dtype), *outs[2:]], operands.params, scratch),
        *[
            ([*operands.inputs[:place], operand[:1], *operands.inputs[place + 1 :]], outs, operands.params, scratch)
            for place, operand in enumerate(operands.inputs)
        ],
    ]
    for wrong in wrong_calls:
        with pytest.raises(KernelArgumentError, match=kernel.op.value):
            kernel.bind(*wrong)


@every_kernel
def test_the_plain_call_wants_one_bundle(
    kernel: HostKernel, sample: Callable[..., Any], rng: np.random.Generator
) -> None:
    operands = sample(kernel, rng)
    inputs = [from_array(operand.copy()) for operand in operands.inputs]
    plain = alloc_cpu(kernel.slots[0], int(np.prod(operands.shape)))
    with pytest.raises(BundleMisuse, match="holds one value and has no slots"):
        kernel(inputs, [plain], layouts(operands), operands.params)
    made = bundle(kernel, operands)
    with pytest.raises(KernelArgumentError, match="number of outputs"):
        kernel(inputs, [made, made], layouts(operands), operands.params)
    with pytest.raises(StorageBusy):  # an input that is the output
        kernel([made, *inputs[1:]], [made], layouts(operands), operands.params)
    made.poison()
    with pytest.raises(StoragePoisoned):
        kernel(inputs, [made], layouts(operands), operands.params)
