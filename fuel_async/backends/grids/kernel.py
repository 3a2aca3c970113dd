"""What a kernel of grids is: a pure rule from operands and parameters to dispatches.

`GridKernel.plan` sees every operand as type, shape, strides and offset, and returns what is to be launched for it, in
order. Nothing here touches a device: plans are made, and tested, without one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from fuel_async.dispatch import KernelCaps, KernelDTypes, NoParams, OpParams
from fuel_async.errors import InternalError, KernelArgumentError

if TYPE_CHECKING:
    from fuel_async.backends.grids.catalog import Module
    from fuel_async.backends.grids.form import ModuleForm
    from fuel_async.ir import DType, Layout, OpKind, TensorType

#: Sizes of the axes, outermost first.
Shape: TypeAlias = tuple[int, ...]
#: (params, shapes of the inputs, shape of the output) -> bytes of working memory, one number an operand.
ScratchRule: TypeAlias = Callable[[Any, Sequence[Shape], Shape], tuple[int, ...]]

#: Kernels read their inputs through any strides.
STRIDED = KernelCaps(strided_input=True)
IN_PLACE = KernelCaps(strided_input=True, in_place=True)


@dataclass(frozen=True, slots=True)
class Operand:
    """How a kernel sees one operand: strides and offset in elements, counted from the start of its descriptor.

    A descriptor starts at a multiple of 4 bytes. Working memory is one axis of `U8`, its offset a multiple of 16.
    """

    dtype: DType
    shape: Shape
    strides: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class Shader:
    """What runs on every thread of a grid: its code by name, and its interface. Equal ones are made once a device."""

    name: str
    #: A module of the catalog, or what one is printed from.
    code: Module | ModuleForm = field(repr=False)
    #: Storage buffers 0 .. bindings - 1.
    bindings: int
    #: Bytes of the words that are pushed, a multiple of 4.
    push_nbytes: int = 0
    #: Constants 0 .. of 32 bits each that are known when it is made, the sides of a group among them.
    spec: tuple[int, ...] = ()
    #: Threads of a group.
    threads: int = 1
    #: Device features it cannot run without: "float64", "float16", "int8_storage", "int16_storage", "int64", ...
    needs: frozenset[str] = frozenset()
    #: It is looked up for every dispatch of a program: the hash is computed once.
    _hash: int = field(init=False, compare=False, repr=False, default=0)

    def __post_init__(self) -> None:
        key = (self.name, self.code, self.bindings, self.push_nbytes, self.spec, self.threads)
        object.__setattr__(self, "_hash", hash(key))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One launch of a grid."""

    shader: Shader
    #: Which operand each binding is, among inputs, output, working memory.
    operands: tuple[int, ...]
    push: bytes
    groups: tuple[int, int, int]
    #: Operands that it reads and writes: they place the barriers between the dispatches of one kernel.
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    #: (from, to) of a dispatch that does nothing but copy one operand to another: it is left out where both are the
    #: same elements in the same order.
    copies: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """A device's limits, as far as kernels care."""

    max_invocations: int
    max_groups: tuple[int, int, int]
    shared_nbytes: int
    subgroup: int
    features: frozenset[str]
    max_range_nbytes: int


#: Pure: (inputs then output then working memory, params, limits) -> dispatches in order; none for an empty output.
Plan: TypeAlias = Callable[[Sequence[Operand], Any, Limits], Sequence[Dispatch]]


def no_scratch(params: object, inputs: Sequence[Shape], output: Shape) -> tuple[int, ...]:
    """Ask for no working memory."""
    return ()


#: (kernel, inputs, outputs, layouts, params): run once over storages of one device, and wait for it.
Once: TypeAlias = "Callable[[GridKernel, Sequence[Any], Sequence[Any], Sequence[Layout], OpParams], None]"


def nowhere(
    kernel: GridKernel, inputs: Sequence[Any], outputs: Sequence[Any], layouts: Sequence[Layout], params: OpParams
) -> None:
    """What runs a kernel that no backend has registered: nothing."""
    raise InternalError(f"{kernel.op.value} belongs to no backend, so nothing can run it")


@dataclass(frozen=True, slots=True, eq=False)
class GridKernel:
    """A kernel of grids: equal only to itself, immutable, usable from any thread. Outputs are row-major."""

    op: OpKind
    #: The key: inputs in order, then the output; a variadic kernel has any number of inputs of the first type.
    dtypes: KernelDTypes
    plan: Plan
    #: The variant of parameters it takes.
    takes: type[OpParams] = NoParams
    caps: KernelCaps = STRIDED
    #: Device features without which its device does not advertise it.
    needs: frozenset[str] = frozenset()
    scratch: ScratchRule = no_scratch
    variadic: bool = False
    #: Inputs in order, then the output, for a kernel whose key leaves some of them out.
    operands: KernelDTypes = ()
    #: What runs it outside of programs: its backend's.
    once: Once = nowhere

    def __post_init__(self) -> None:
        object.__setattr__(self, "operands", self.operands or self.dtypes)

    def scratch_nbytes(
        self, params: OpParams, input_types: Sequence[TensorType], output_types: Sequence[TensorType]
    ) -> tuple[int, ...]:
        """Return the bytes of working memory that one call needs, for concrete shapes; () when none."""
        shapes: list[Any] = [kind.shape for kind in (*input_types, output_types[0])]
        return self.scratch(params, shapes[:-1], shapes[-1])

    def dispatches(self, operands: Sequence[Operand], params: OpParams, limits: Limits) -> Sequence[Dispatch]:
        """Check operands and parameters and return the plan; `KernelArgumentError` says what does not fit."""
        arity = len(self.operands) - 1
        if not isinstance(params, self.takes):
            raise KernelArgumentError(self.op.value, "the parameters", params, self.takes.__name__)
        if len(operands) < arity + 1:
            raise KernelArgumentError(self.op.value, "the number of operands", len(operands), f"at least {arity + 1}")
        return self.plan(operands, params, limits)

    def __call__(
        self, inputs: Sequence[Any], outputs: Sequence[Any], layouts: Sequence[Layout], params: OpParams
    ) -> None:
        """Run once over storages of one device, and wait for it."""
        self.once(self, inputs, outputs, layouts, params)
