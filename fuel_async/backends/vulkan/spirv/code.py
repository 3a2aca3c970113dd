"""The code of one function, written as Python expressions over registers.

`Code` holds the instructions, `Reg` is a scalar value with the operators of its kind: `x * x + 1.0` appends an OpFMul
and an OpFAdd. Products, sums and differences of floats are marked NoContraction, so that each is rounded as it stands.
Numbers beside a register are constants of its kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from fuel_async.backends.vulkan.spirv.module import BOOL, F32, F64, U32, U64, Decoration, Ext, Kind, Module, Op

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: A register, or a number that becomes a constant of the other operand's kind.
Operand: TypeAlias = "Reg | float"
#: A function of scalars.
Body: TypeAlias = "Callable[..., Reg]"
#: Those that a module has, by body and kinds of their operands: number and kind of the result.
Functions: TypeAlias = "dict[tuple[Body, tuple[Kind, ...]], tuple[int, Kind]]"

#: Sums, differences and products of floats.
_ROUNDED = frozenset({Op.FAdd, Op.FSub, Op.FMul})
_FLOAT_OF, _UINT_OF = {32: F32, 64: F64}, {32: U32, 64: U64}


class Code:
    """Instructions of one function; `functions` are those that the module has already."""

    __slots__ = ("_known", "functions", "label", "module", "words")

    def __init__(self, module: Module, functions: Functions) -> None:
        self.module = module
        self.functions = functions
        self.words: list[int] = []
        #: The block that is being written.
        self.label = 0
        #: What was computed already, in blocks that every later one comes after: no value is computed twice.
        self._known: dict[tuple[object, ...], Reg] = {}

    def emit(self, kind: Kind, op: Op, *operands: int) -> Reg:
        """Append an instruction with a result that follows from its operands; a known one is not computed again."""
        key = (kind, op, operands)
        known = self._known.get(key)
        if known is None:
            module = self.module
            number = module.fresh()
            self.words += ((len(operands) + 3) << 16 | op, module.kind(kind), number, *operands)
            if op in _ROUNDED:
                module.decorations += (3 << 16 | Op.Decorate, number, Decoration.NoContraction)
            known = self._known[key] = Reg(self, number, kind)
        return known

    def act(self, op: Op, *operands: int) -> None:
        """Append an instruction without a result."""
        self.words += ((len(operands) + 1) << 16 | op, *operands)

    def begin(self, label: int) -> None:
        """Begin a block."""
        self.act(Op.Label, label)
        self.label = label

    def constant(self, kind: Kind, value: float) -> Reg:
        """Return a constant."""
        return Reg(self, self.module.constant(kind, value), kind)

    def call(self, body: Body, *args: Reg) -> Reg:
        """Call a function of scalars, after writing it if the module does not have it."""
        key = (body, tuple([arg.kind for arg in args]))
        found = self.functions.get(key)
        if found is None:
            found = self.functions[key] = _written(self.module, self.functions, *key)
        function, kind = found
        return self.emit(kind, Op.FunctionCall, function, *[arg.id for arg in args])

    def repeat(self, count: Reg, state: Reg, body: Callable[[Reg], Reg]) -> Reg:
        """Return `state` after `count` turns of `body`, none if the count is 0."""
        module = self.module
        header, check, inside, following, after = [module.fresh() for _ in range(5)]
        before, next_turn, next_state = self.label, module.fresh(), module.fresh()
        zero = self.constant(count.kind, 0)
        self.act(Op.Branch, header)
        self.begin(header)
        turn = self.emit(count.kind, Op.Phi, zero.id, before, next_turn, following)
        current = self.emit(state.kind, Op.Phi, state.id, before, next_state, following)
        self.act(Op.LoopMerge, after, following, 0)
        self.act(Op.Branch, check)
        self.begin(check)
        self.act(Op.BranchConditional, (turn < count).id, inside, after)
        self.begin(inside)
        known = dict(self._known)
        changed = body(current)
        self._known = known
        self.act(Op.Branch, following)
        self.begin(following)
        one = self.constant(count.kind, 1)
        self.words += (5 << 16 | Op.IAdd, module.kind(count.kind), next_turn, turn.id, one.id)
        self.words += (4 << 16 | Op.CopyObject, module.kind(state.kind), next_state, changed.id)
        self.act(Op.Branch, header)
        self.begin(after)
        return current


def _written(module: Module, functions: Functions, body: Body, kinds: Sequence[Kind]) -> tuple[int, Kind]:
    """Append the function of a body to the module; what it calls is appended before it."""
    code, number = Code(module, functions), module.fresh()
    params = [Reg(code, module.fresh(), kind) for kind in kinds]
    code.begin(module.fresh())
    result = body(*params)
    code.act(Op.ReturnValue, result.id)
    types = [module.kind(kind) for kind in kinds]
    returned = module.kind(result.kind)
    words = module.functions
    words += (5 << 16 | Op.Function, returned, number, 0, module.declare(Op.TypeFunction, returned, *types))
    for param, type_ in zip(params, types, strict=True):
        words += (3 << 16 | Op.FunctionParameter, type_, param.id)
    words += code.words
    words.append(1 << 16 | Op.FunctionEnd)
    return number, result.kind


class Reg:
    """A scalar value of a kind."""

    __slots__ = ("code", "id", "kind")

    def __init__(self, code: Code, number: int, kind: Kind) -> None:
        self.code = code
        self.id = number
        self.kind = kind

    def _two(self, kind: Kind, op: Op, other: Operand) -> Reg:
        right = other if isinstance(other, Reg) else self.code.constant(self.kind, other)
        return self.code.emit(kind, op, self.id, right.id)

    def _arithmetic(self, of_floats: Op, of_integers: Op, other: Operand) -> Reg:
        return self._two(self.kind, of_floats if self.kind.packed else of_integers, other)

    def __add__(self, other: Operand) -> Reg:
        return self._arithmetic(Op.FAdd, Op.IAdd, other)

    def __sub__(self, other: Operand) -> Reg:
        return self._arithmetic(Op.FSub, Op.ISub, other)

    def __mul__(self, other: Operand) -> Reg:
        return self._arithmetic(Op.FMul, Op.IMul, other)

    def __truediv__(self, other: Operand) -> Reg:
        return self._two(self.kind, Op.FDiv, other)

    def __floordiv__(self, other: Operand) -> Reg:
        return self._two(self.kind, Op.UDiv, other)

    def __mod__(self, other: Operand) -> Reg:
        return self._two(self.kind, Op.UMod, other)

    def __and__(self, other: Operand) -> Reg:
        return self._two(self.kind, Op.LogicalAnd if self.kind is BOOL else Op.BitwiseAnd, other)

    def __or__(self, other: Operand) -> Reg:
        return self._two(self.kind, Op.LogicalOr if self.kind is BOOL else Op.BitwiseOr, other)

    def __xor__(self, other: Operand) -> Reg:
        return self._two(self.kind, Op.BitwiseXor, other)

    def __invert__(self) -> Reg:
        return self.code.emit(BOOL, Op.LogicalNot, self.id)

    def __lshift__(self, other: Operand) -> Reg:
        return self._two(self.kind, Op.ShiftLeftLogical, other)

    def __rshift__(self, other: Operand) -> Reg:
        return self._two(self.kind, Op.ShiftRightLogical, other)

    def __lt__(self, other: Operand) -> Reg:
        return self._two(BOOL, Op.FOrdLessThan if self.kind.is_float else Op.ULessThan, other)

    def below(self, other: Operand) -> Reg:
        """Compare as signed integers."""
        return self._two(BOOL, Op.SLessThan, other)

    def equals(self, other: Operand) -> Reg:
        """Compare integers."""
        return self._two(BOOL, Op.IEqual, other)

    def differs(self, other: Operand) -> Reg:
        """Compare integers, or floats that are not NaN."""
        return self._two(BOOL, Op.FOrdNotEqual if self.kind.is_float else Op.INotEqual, other)

    def shifted(self, count: Operand) -> Reg:
        """Shift right, the sign coming in."""
        return self._two(self.kind, Op.ShiftRightArithmetic, count)

    def pick(self, a: Reg, b: Operand) -> Reg:
        """Return `a` where this is true, else `b`; every bit comes through."""
        other = b if isinstance(b, Reg) else self.code.constant(a.kind, b)
        return self.code.emit(a.kind, Op.Select, self.id, a.id, other.id)

    def bits(self) -> Reg:
        """Return a float's bits."""
        return self.code.emit(_UINT_OF[self.kind.bits], Op.Bitcast, self.id)

    def as_float(self) -> Reg:
        """Return the float of these bits."""
        return self.code.emit(_FLOAT_OF[self.kind.bits], Op.Bitcast, self.id)

    def converted(self, kind: Kind, op: Op) -> Reg:
        """Convert to another kind by the instruction named."""
        return self.code.emit(kind, op, self.id)

    def ext(self, instruction: Ext) -> Reg:
        """Apply an instruction of the extended set."""
        return self.code.emit(self.kind, Op.ExtInst, self.code.module.extended, instruction, self.id)

    def high_product(self, other: Operand) -> Reg:
        """Return the upper half of the product of unsigned integers."""
        module = self.code.module
        right = other if isinstance(other, Reg) else self.code.constant(self.kind, other)
        one = module.kind(self.kind)
        both = module.fresh()
        pair = module.declare(Op.TypeStruct, one, one)
        self.code.words += (5 << 16 | Op.UMulExtended, pair, both, self.id, right.id)
        return self.code.emit(self.kind, Op.CompositeExtract, both, 1)
