"""The host kernel: one object with the three faces that dispatch knows, over a rule that binds numpy arrays.

`kernel(inputs, outputs, layouts, params)` works on storages and makes every check; `bind` works on arrays and
returns a callable with its arguments, the operand arrays themselves among them; `direct` is that callable
where it takes nothing but the operands. The rules are in the modules of the families, the rows in `table`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from fuel_async.backends.cpu.kernels.blocks import (
    Array,
    Body,
    Bound,
    NumpyDType,
    Shape,
    bind_body,
    scratch_nbytes,
)
from fuel_async.dispatch import KernelCaps, KernelDTypes, NoParams, OpParams
from fuel_async.errors import KernelArgumentError
from fuel_async.ir import DType, Layout, OpKind, TensorType
from fuel_async.storage import Storage, as_array, read_storage, slot_arrays, write_storage

#: (inputs, output, params, scratch) -> (callable, arguments). Checks shapes; count and dtypes are right. A kernel of
#: several outputs is given their arrays in a tuple.
Rule: TypeAlias = Callable[[Sequence[Array], Any, Any, Sequence[Array]], Bound]
#: (params, shapes of the inputs, shape of the output) -> bytes of working memory.
ScratchRule: TypeAlias = Callable[[Any, Sequence[Shape], Shape], tuple[int, ...]]

#: numpy reads any strides, so every host kernel does.
STRIDED = KernelCaps(strided_input=True)
IN_PLACE = KernelCaps(strided_input=True, in_place=True)

T4 = (DType.F32, DType.F64, DType.BF16, DType.F16)
T6 = (*T4, DType.U32, DType.U8)
T9 = (*T6, DType.I16, DType.I32, DType.I64)
T11 = (
    DType.F32, DType.F64, DType.F16, DType.BF16, DType.F8E4M3,
    DType.U8, DType.I8, DType.U32, DType.I16, DType.I32, DType.I64,
)  # fmt: skip

#: Types whose arithmetic is done in float32 and narrowed once.
HALVES = (DType.BF16, DType.F16)
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


def compute_type(dtype: DType) -> NumpyDType:
    """Return the type that a kernel of `dtype` computes in."""
    return F32 if dtype in HALVES else dtype.require_np()


def _no_scratch(params: object, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
    return ()


@dataclass(frozen=True, slots=True, eq=False)
class HostKernel:
    """A kernel of the host: equal only to itself, immutable, usable from any thread. Outputs are row-major.

    Bound calls expect numpy's floating-point warnings to be off, `np.errstate(all="ignore")`, as in lanes.
    """

    op: OpKind
    #: The key: inputs in order, then the output; a variadic kernel has any number of inputs of the first type.
    dtypes: KernelDTypes
    rule: Rule
    #: The variant of parameters it takes.
    takes: type[OpParams] = NoParams
    caps: KernelCaps = STRIDED
    scratch: ScratchRule = _no_scratch
    direct: Callable[..., object] | None = None
    variadic: bool = False
    #: Inputs in order, then the output, for a kernel whose key leaves some of them out.
    operands: KernelDTypes = ()
    #: The dtypes of all outputs, for a kernel that has several; the key has the first.
    slots: KernelDTypes = ()
    _expected: tuple[NumpyDType, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "operands", self.operands or (*self.dtypes[:-1], *(self.slots or self.dtypes[-1:])))
        object.__setattr__(self, "_expected", tuple(dtype.require_np() for dtype in self.operands))

    def bind(
        self, inputs: Sequence[Array], outputs: Sequence[Array], params: OpParams, scratch: Sequence[Array]
    ) -> Bound:
        """Check operands and parameters and return the call; `KernelArgumentError` says what does not fit.

        `scratch` holds byte arrays of the sizes of `scratch_nbytes`; the call allocates no array besides.
        """
        self._check_call(inputs, outputs, params, len(self.slots) or 1)
        wanted = self._expected
        if self.variadic:
            wanted = (*wanted[:1] * len(inputs), wanted[-1])
        for position, (array, dtype) in enumerate(zip((*inputs, *outputs), wanted, strict=True)):
            if array.dtype is not dtype and array.dtype != dtype:
                raise self._refuse(f"the dtype of operand {position}", array.dtype, dtype)
        return self.rule(inputs, tuple(outputs) if self.slots else outputs[0], params, scratch)

    def scratch_nbytes(
        self, params: OpParams, input_types: Sequence[TensorType], output_types: Sequence[TensorType]
    ) -> tuple[int, ...]:
        """Return the bytes of working memory that one call needs, for concrete shapes; () when none."""
        shapes: list[Any] = [kind.shape for kind in (*input_types, output_types[0])]
        return self.scratch(params, shapes[:-1], shapes[-1])

    def __call__(
        self,
        inputs: Sequence[Storage],
        outputs: Sequence[Storage],
        layouts: Sequence[Layout],
        params: OpParams,
    ) -> None:
        """Run once over storages, leased for the length of the call; working memory is made for it.

        Besides the errors of `bind`: those of leases, `WrongSubstrate`, and `ShapeMismatch` for a layout
        outside its storage. An output that is also an input is refused by its lease, unless the kernel works in
        place and both lie alike.
        """
        self._check_call(inputs, outputs, params, 1)
        operands = (*inputs, *outputs)
        if len(layouts) != len(operands):
            raise self._refuse("the number of layouts", len(layouts), len(operands))
        if not layouts[-1].is_contiguous:
            raise self._refuse("the output's layout", layouts[-1], "a row-major one")
        with ExitStack() as leases:
            over = [
                self.caps.in_place and storage is outputs[0] and layout == layouts[-1]
                for storage, layout in zip(operands, layouts, strict=True)
            ]
            for storage, is_output in zip(inputs, over, strict=False):
                if not is_output:
                    leases.enter_context(read_storage(storage))
            leases.enter_context(write_storage(outputs[0]))
            results = slot_arrays(outputs[0]) if self.slots else (as_array(outputs[0], layouts[-1]),)
            arrays = [
                results[0] if is_output else self._array(storage, layout, position)
                for position, (storage, layout, is_output) in enumerate(zip(inputs, layouts, over, strict=False))
            ]
            shapes = [layout.shape for layout in layouts]
            scratch = [np.empty(nbytes, np.uint8) for nbytes in self.scratch(params, shapes[:-1], shapes[-1])]
            call, args = self.bind(arrays, results, params, scratch)
            with np.errstate(all="ignore"):
                call(*args)

    def _array(self, storage: Storage, layout: Layout, position: int) -> Array:
        """An input: of a storage with a bundle, the slot that has the dtype which is wanted here."""
        if storage.bundle is None:
            return as_array(storage, layout)
        return as_array(storage, layout, self.operands[0 if self.variadic else position])

    def _check_call(
        self, inputs: Sequence[object], outputs: Sequence[object], params: OpParams, wanted_outputs: int
    ) -> None:
        arity = len(self._expected) - (len(self.slots) or 1)
        if len(inputs) != arity and not (self.variadic and inputs):
            raise self._refuse("the number of inputs", len(inputs), "one or more" if self.variadic else arity)
        if len(outputs) != wanted_outputs:
            raise self._refuse("the number of outputs", len(outputs), wanted_outputs)
        if not isinstance(params, self.takes):
            raise self._refuse("the parameters", params, self.takes.__name__)

    def _refuse(self, argument: str, got: object, wanted: object) -> KernelArgumentError:
        return KernelArgumentError(self.op.value, argument, got, wanted)


def check_broadcast(op: OpKind, inputs: Sequence[Array], output: Array) -> None:
    """`KernelArgumentError` unless the inputs, broadcast together as numpy does, have the output's shape."""
    shape = output.shape
    if all(operand.shape == shape for operand in inputs):
        return
    shapes = [operand.shape for operand in inputs]
    try:
        found = np.broadcast_shapes(*shapes)
    except ValueError:
        found = None
    if found != shape:
        raise KernelArgumentError(op.value, "the output's shape", shape, f"{' and '.join(map(str, shapes))} together")


def elementwise(
    op: OpKind,
    dtypes: KernelDTypes,
    body: Body,
    planes: Sequence[NumpyDType] = (),
    *,
    caps: KernelCaps = IN_PLACE,
    whole: bool = False,
) -> HostKernel:
    """Return the kernel of a body (see `blocks`).

    A `whole` body, one pass over the operands themselves, is called as it is whatever the size: it is `direct`.
    """

    def rule(inputs: Sequence[Array], output: Array, params: OpParams, scratch: Sequence[Array]) -> Bound:
        check_broadcast(op, inputs, output)
        if whole:
            return body, (*inputs, output)
        return bind_body(body, inputs, output, planes, scratch)

    def working(params: OpParams, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
        return scratch_nbytes(planes, output)

    return HostKernel(op, dtypes, rule, caps=caps, scratch=working, direct=body if whole else None)
