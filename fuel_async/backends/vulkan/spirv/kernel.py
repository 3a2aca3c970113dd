"""From a tree of primitives to the SPIR-V module that computes it over whole operands.

One invocation computes `ITEMS` elements, in turn and without a loop: some drivers cut loops short. What it is given
is said by `grids.form`; the words are push constants.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from fuel_async.backends.grids.form import ITEMS, LOCAL, Access, dtype_words, places_words, words_of
from fuel_async.backends.vulkan.spirv.code import Code, Functions, Reg
from fuel_async.backends.vulkan.spirv.module import (
    BOOL,
    U32,
    BuiltIn,
    Capability,
    Decoration,
    Kind,
    Module,
    Op,
    StorageClass,
)
from fuel_async.backends.vulkan.spirv.scalars import (
    PRIMITIVES,
    STORED,
    TRUTHS,
    as_number,
    as_truth,
    converted,
    given,
    literal,
    loaded,
    stored,
)
from fuel_async.ir import DType, Prim, Step

if TYPE_CHECKING:
    from fuel_async.backends.grids.form import ModuleForm

#: Execution modes: the size of a group, and that NaN, infinities and signs of zeros are kept.
LOCAL_SIZE, KEEP = 17, 4461


def module_of(form: ModuleForm, keeps: tuple[int, ...] = ()) -> bytes:
    """Return the module of a form. Pure: equal forms make equal bytes.

    `keeps` are widths of floats whose NaN, infinities and signs of zeros the device can be told to keep.
    """
    return _Writer(form, keeps).module()


class _Writer:
    """The parts of one module that its functions share."""

    def __init__(self, form: ModuleForm, keeps: tuple[int, ...]) -> None:
        self.form, self.keeps = form, keeps
        self.target = Module()
        self.functions: Functions = {}
        module, dtypes = self.target, [dtype for dtype, _ in form.inputs]
        self.result = form.result
        self.buffers = [
            _buffer(module, binding, STORED[dtype.nbytes], binding < len(dtypes))
            for binding, dtype in enumerate((*dtypes, self.result))
        ]
        self.push = 0 if form.baked else _push_constants(module, words_of(form))

    def module(self) -> bytes:
        module, vector = self.target, self.target.declare(Op.TypeVector, self.target.kind(U32), 3)
        built_in = {
            name: module.variable(StorageClass.Input, vector)
            for name in (BuiltIn.NumWorkgroups, BuiltIn.WorkgroupId, BuiltIn.LocalInvocationId)
        }
        for name, variable in built_in.items():
            module.decorate(variable, Decoration.BuiltIn, name)
        item = self._item()
        code = Code(module, self.functions)
        code.begin(module.fresh())

        def axis(name: BuiltIn, number: int) -> Reg:
            loaded_ = module.fresh()
            code.words += (4 << 16 | Op.Load, vector, loaded_, built_in[name])
            return code.emit(U32, Op.CompositeExtract, loaded_, number)

        # Groups in excess of what one axis may have are in the next.
        group = axis(BuiltIn.WorkgroupId, 1) * axis(BuiltIn.NumWorkgroups, 0) + axis(BuiltIn.WorkgroupId, 0)
        first = group * (LOCAL * ITEMS) + axis(BuiltIn.LocalInvocationId, 0)
        most = self._word(code, 0)
        void = module.declare(Op.TypeVoid)
        for number in range(ITEMS):
            place = first + number * LOCAL if number else first
            code.words += (6 << 16 | Op.FunctionCall, void, module.fresh(), item, place.id, most.id)
        code.act(Op.Return)
        main = module.fresh()
        module.functions += (5 << 16 | Op.Function, void, main, 0, module.declare(Op.TypeFunction, void))
        module.functions += (*code.words, 1 << 16 | Op.FunctionEnd)
        interface = (*built_in.values(), *self.buffers, *([self.push] if self.push else []))
        return module.assembled(main, interface, ((LOCAL_SIZE, LOCAL, 1, 1), *self._modes()))

    def _modes(self) -> list[tuple[int, ...]]:
        """What is asked of the arithmetic: that it keeps NaN, infinities and the signs of zeros."""
        used = {step.dtype.bits for step in self.form.steps if step.dtype in (DType.F32, DType.F64)}
        kept = sorted(used.intersection(self.keeps))
        if kept:
            self.target.capabilities.add(Capability.SignedZeroInfNanPreserve)
        return [(KEEP, width) for width in kept]

    def _item(self) -> int:
        """Write the function of (place, count) that computes one element, if there is one; return its number."""
        module = self.target
        code = Code(module, self.functions)
        place, most = Reg(code, module.fresh(), U32), Reg(code, module.fresh(), U32)
        inside, after = module.fresh(), module.fresh()
        code.begin(module.fresh())
        condition = place < most
        code.act(Op.SelectionMerge, after, 0)
        code.act(Op.BranchConditional, condition.id, inside, after)
        code.begin(inside)
        value = self._computed(code, place)
        self._store(code, place, value)
        code.act(Op.Branch, after)
        code.begin(after)
        code.act(Op.Return)
        void, uint, number = module.declare(Op.TypeVoid), module.kind(U32), module.fresh()
        words = module.functions
        words += (5 << 16 | Op.Function, void, number, 0, module.declare(Op.TypeFunction, void, uint, uint))
        for param in (place, most):
            words += (3 << 16 | Op.FunctionParameter, uint, param.id)
        words += (*code.words, 1 << 16 | Op.FunctionEnd)
        return number

    def _word(self, code: Code, number: int) -> Reg:
        """A word of the push constants, loaded where it is wanted."""
        if self.form.baked:
            return code.constant(U32, self.form.baked[number])
        module = self.target
        pointer = module.pointer(StorageClass.PushConstant, module.kind(U32))
        chain = module.fresh()
        index = code.constant(U32, number)
        code.words += (5 << 16 | Op.AccessChain, pointer, chain, self.push, index.id)
        return code.emit(U32, Op.Load, chain)

    def _element(self, code: Code, binding: int, kind: Kind, place: Reg) -> int:
        """The pointer to an element of a buffer."""
        module = self.target
        pointer = module.pointer(StorageClass.StorageBuffer, module.kind(kind))
        chain = module.fresh()
        zero = code.constant(U32, 0)
        code.words += (6 << 16 | Op.AccessChain, pointer, chain, self.buffers[binding], zero.id, place.id)
        return chain

    def _store(self, code: Code, place: Reg, value: Reg) -> None:
        value = as_number(value) if value.kind is BOOL else value
        kind = STORED[self.result.nbytes]
        chain = self._element(code, len(self.form.inputs), kind, place + self._word(code, 1))
        code.act(Op.Store, chain, stored(value, self.result).id)

    def _computed(self, code: Code, place: Reg) -> Reg:
        """The last step's value."""
        form, values = self.form, list[Reg]()
        places, word = self._places(code, place), count(places_words(form))
        for step in form.steps:
            args = [values[arg] for arg in step.args]
            match step:
                case Step(None, key=int(index)):
                    kind = STORED[step.dtype.nbytes]
                    element = code.emit(kind, Op.Load, self._element(code, index, kind, places[index]))
                    values.append(loaded(element, step.dtype))
                case Step(None, key=bytes(data)):
                    values.append(literal(code, data, step.dtype))
                case Step(None, key=None):
                    words = [self._word(code, next(word)) for _ in range(dtype_words(step.dtype))]
                    values.append(given(*words, dtype=step.dtype))
                case Step(Prim() as op):
                    values.append(_applied(op, args, form.steps[step.args[-1]].dtype, step.dtype))
                case _:
                    raise AssertionError(step)
        return values[-1]

    def _places(self, code: Code, place: Reg) -> list[Reg]:
        """Where each input's element is."""
        form, after = self.form, 2 + len(self.form.inputs)
        axes, rest = list[Reg](), place
        for axis in range(form.rank - 1):
            size = self._word(code, after + axis)
            above = rest // size
            axes.append(rest - above * size)
            rest = above
        axes.append(rest)
        stride = count(after + len(axes) - 1)
        found = list[Reg]()
        for number, (_, access) in enumerate(form.inputs):
            at = self._word(code, 2 + number)
            match access:
                case Access.DENSE:
                    at = at + place
                case Access.STRIDED:
                    for along in axes:
                        at = at + along * self._word(code, next(stride))
                case Access.ONE:
                    pass
            found.append(at)
        return found


def _applied(op: Prim, args: list[Reg], operand: DType, result: DType) -> Reg:
    """One primitive; `operand` is the dtype of its last operand."""
    if op is Prim.SELECT:
        return as_truth(args[0]).pick(*[as_number(arg) if arg.kind is BOOL else arg for arg in args[1:]])
    numbers = [as_number(arg) if arg.kind is BOOL else arg for arg in args]
    if op is Prim.CAST:
        return converted(numbers[0], operand, result)
    rule = TRUTHS.get(op) or PRIMITIVES[op]
    return rule(numbers, operand)


def _buffer(module: Module, binding: int, kind: Kind, read_only: bool) -> int:
    """The storage buffer of a binding: an array of elements without an end."""
    struct = _block(module, kind)
    variable = module.variable(StorageClass.StorageBuffer, struct)
    module.decorate(variable, Decoration.DescriptorSet, 0)
    module.decorate(variable, Decoration.Binding, binding)
    if read_only:
        module.decorate(variable, Decoration.NonWritable)
    return variable


def _block(module: Module, kind: Kind) -> int:
    elements = module.declare(Op.TypeRuntimeArray, module.kind(kind))
    known = module.has(Op.TypeStruct, elements)
    struct = module.declare(Op.TypeStruct, elements)
    if not known:
        module.decorate(elements, Decoration.ArrayStride, kind.bits // 8)
        module.decorate(struct, Decoration.Block)
        module.decorate_member(struct, 0, Decoration.Offset, 0)
    return struct


def _push_constants(module: Module, words: int) -> int:
    struct = module.declare(Op.TypeStruct, *[module.kind(U32)] * words)
    module.decorate(struct, Decoration.Block)
    for word in range(words):
        module.decorate_member(struct, word, Decoration.Offset, 4 * word)
    return module.variable(StorageClass.PushConstant, struct)
