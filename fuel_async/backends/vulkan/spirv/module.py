"""A SPIR-V module under construction: numbered results, types and constants once each, sections in the order wanted.

Only what compute shaders need is here; what instructions mean is in the SPIR-V specification, version 1.5, whose names
the opcodes have. Equal calls in equal order make equal bytes. One object builds one module, in one thread.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass
from enum import IntEnum

MAGIC, VERSION_1_5 = 0x07230203, 0x00010500


class Op(IntEnum):
    """Opcodes."""

    ExtInstImport = 11
    ExtInst = 12
    MemoryModel = 14
    EntryPoint = 15
    ExecutionMode = 16
    Capability = 17
    TypeVoid = 19
    TypeBool = 20
    TypeInt = 21
    TypeFloat = 22
    TypeVector = 23
    TypeRuntimeArray = 29
    TypeStruct = 30
    TypePointer = 32
    TypeFunction = 33
    Constant = 43
    Function = 54
    FunctionParameter = 55
    FunctionEnd = 56
    FunctionCall = 57
    Variable = 59
    Load = 61
    Store = 62
    AccessChain = 65
    Decorate = 71
    MemberDecorate = 72
    CompositeExtract = 81
    CopyObject = 83
    ConvertFToU = 109
    ConvertFToS = 110
    ConvertSToF = 111
    ConvertUToF = 112
    UConvert = 113
    SConvert = 114
    FConvert = 115
    Bitcast = 124
    IAdd = 128
    FAdd = 129
    ISub = 130
    FSub = 131
    IMul = 132
    FMul = 133
    UDiv = 134
    FDiv = 136
    UMod = 137
    UMulExtended = 151
    LogicalOr = 166
    LogicalAnd = 167
    LogicalNot = 168
    Select = 169
    IEqual = 170
    INotEqual = 171
    ULessThan = 176
    SLessThan = 177
    FOrdNotEqual = 182
    FOrdLessThan = 184
    ShiftRightLogical = 194
    ShiftRightArithmetic = 195
    ShiftLeftLogical = 196
    BitwiseOr = 197
    BitwiseXor = 198
    BitwiseAnd = 199
    Phi = 245
    LoopMerge = 246
    SelectionMerge = 247
    Label = 248
    Branch = 249
    BranchConditional = 250
    Return = 253
    ReturnValue = 254


class Capability(IntEnum):
    """What a module may use beyond the basics."""

    Shader = 1
    Float64 = 10
    Int64 = 11
    StorageBuffer16BitAccess = 4433
    StorageBuffer8BitAccess = 4448
    SignedZeroInfNanPreserve = 4466


class Decoration(IntEnum):
    """What can be said of a result."""

    Block = 2
    ArrayStride = 6
    BuiltIn = 11
    NonWritable = 24
    Binding = 33
    DescriptorSet = 34
    Offset = 35
    NoContraction = 42


class BuiltIn(IntEnum):
    """Variables that the device fills in."""

    NumWorkgroups = 24
    WorkgroupId = 26
    LocalInvocationId = 27


class StorageClass(IntEnum):
    """Where a variable lies."""

    Input = 1
    PushConstant = 9
    StorageBuffer = 12


class Ext(IntEnum):
    """Instructions of GLSL.std.450 that are exact, or rounded once, wherever they are implemented."""

    RoundEven = 2
    Floor = 8
    Ceil = 9
    Sqrt = 31


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A scalar type. Integers have no sign: instructions do."""

    bits: int
    #: The type's opcode, and the operands of its declaration.
    declared: tuple[int, ...]
    #: How a number becomes the bytes of a constant, for `struct`; "" for what is no float.
    packed: str = ""
    capability: Capability | None = None

    @property
    def is_float(self) -> bool:
        """Whether it is a floating type."""
        return self.packed != ""


BOOL = Kind(1, (Op.TypeBool,))
#: Elements of storage alone: they are loaded, stored, and converted to and from U32.
U8 = Kind(8, (Op.TypeInt, 8, 0), capability=Capability.StorageBuffer8BitAccess)
U16 = Kind(16, (Op.TypeInt, 16, 0), capability=Capability.StorageBuffer16BitAccess)
U32 = Kind(32, (Op.TypeInt, 32, 0))
U64 = Kind(64, (Op.TypeInt, 64, 0), capability=Capability.Int64)
F32 = Kind(32, (Op.TypeFloat, 32), "<f")
F64 = Kind(64, (Op.TypeFloat, 64), "<d", Capability.Float64)


def _bytes_of(kind: Kind, value: float) -> bytes:
    if kind.packed:
        return struct.pack(kind.packed, value)
    return (int(value) % (1 << kind.bits)).to_bytes(kind.bits // 8, "little")


def text_words(text: str) -> tuple[int, ...]:
    """Return a literal string: UTF-8 with at least one zero byte, padded to whole words."""
    data = text.encode()
    data += bytes(4 - len(data) % 4)
    return struct.unpack(f"<{len(data) // 4}I", data)


class Module:
    """Sections of words, and the numbers given to results. `assembled` puts them together."""

    __slots__ = (
        "_bound",
        "_declared",
        "_kinds",
        "_numbers",
        "capabilities",
        "decorations",
        "extended",
        "functions",
        "globals",
    )

    def __init__(self) -> None:
        self._bound = 1
        self._declared: dict[tuple[int, ...], int] = {}
        self._kinds: dict[Kind, int] = {}
        self._numbers: dict[tuple[Kind, float], int] = {}
        self.capabilities = {Capability.Shader}
        self.decorations: list[int] = []
        self.globals: list[int] = []
        #: Finished functions, callees first.
        self.functions: list[int] = []
        #: The number of the instruction set `Ext`.
        self.extended = self.fresh()

    def fresh(self) -> int:
        """Return a number for a result."""
        number = self._bound
        self._bound += 1
        return number

    def kind(self, kind: Kind) -> int:
        """Return the type of a kind, with the capability that it needs."""
        number = self._kinds.get(kind)
        if number is None:
            if kind.capability is not None:
                self.capabilities.add(kind.capability)
            number = self._kinds[kind] = self.declare(*kind.declared)
        return number

    def declare(self, op: int, *operands: int) -> int:
        """Return the type that `op` declares; equal ones are one."""
        key = (op, *operands)
        number = self._declared.get(key)
        if number is None:
            number = self._declared[key] = self.fresh()
            self.globals += ((len(operands) + 2) << 16 | op, number, *operands)
        return number

    def has(self, op: int, *operands: int) -> bool:
        """Whether a type was declared."""
        return (op, *operands) in self._declared

    def constant(self, kind: Kind, value: float) -> int:
        """Return a constant; integers wrap to their width."""
        number = self._numbers.get((kind, value)) if value else None  # zeros of both signs are equal, their words not
        if number is None:
            number = self._numbers[kind, value] = self.literal(kind, _bytes_of(kind, value))
        return number

    def literal(self, kind: Kind, data: bytes) -> int:
        """Return the constant of these bytes."""
        return self._typed(Op.Constant, self.kind(kind), *struct.unpack(f"<{len(data) // 4}I", data))

    def _typed(self, op: int, result: int, *operands: int) -> int:
        key = (op, result, *operands)
        number = self._declared.get(key)
        if number is None:
            number = self._declared[key] = self.fresh()
            self.globals += ((len(operands) + 3) << 16 | op, result, number, *operands)
        return number

    def pointer(self, storage: StorageClass, pointee: int) -> int:
        """Return the type of pointers to a type."""
        return self.declare(Op.TypePointer, storage, pointee)

    def variable(self, storage: StorageClass, pointee: int) -> int:
        """Return a new variable; unlike types and constants, no two are one."""
        number = self.fresh()
        self.globals += (4 << 16 | Op.Variable, self.pointer(storage, pointee), number, storage)
        return number

    def decorate(self, number: int, decoration: Decoration, *operands: int) -> None:
        """Say something of a result."""
        self.decorations += ((len(operands) + 3) << 16 | Op.Decorate, number, decoration, *operands)

    def decorate_member(self, number: int, member: int, decoration: Decoration, *operands: int) -> None:
        """Say something of a member of a struct."""
        self.decorations += ((len(operands) + 4) << 16 | Op.MemberDecorate, number, member, decoration, *operands)

    def assembled(self, entry: int, interface: tuple[int, ...], modes: tuple[tuple[int, ...], ...]) -> bytes:
        """Return the module's bytes: `main` is the function `entry`, with these variables and execution modes."""
        name = text_words("main")
        words = array("I", (MAGIC, VERSION_1_5, 0, self._bound, 0))
        for capability in sorted(self.capabilities):
            words.extend((2 << 16 | Op.Capability, capability))
        library = text_words("GLSL.std.450")
        words.extend(((len(library) + 2) << 16 | Op.ExtInstImport, self.extended, *library))
        words.extend((3 << 16 | Op.MemoryModel, 0, 1))  # logical addressing, GLSL450
        words.extend(((3 + len(name) + len(interface)) << 16 | Op.EntryPoint, 5, entry, *name, *interface))
        for mode in modes:
            words.extend(((len(mode) + 2) << 16 | Op.ExecutionMode, entry, *mode))
        for section in (self.decorations, self.globals, self.functions):
            words.extend(section)
        return words.tobytes()
