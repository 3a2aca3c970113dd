"""Modules written in Python: their bytes are the same each time, the validator accepts them, and so is their shape."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fuel_async.backends.grids.elementwise import kernels
from fuel_async.backends.grids.form import MOST_WORDS, Access, ModuleForm, numbers_given, words_of
from fuel_async.backends.grids.grids import row_major
from fuel_async.backends.grids.kernel import GridKernel, Limits, Operand
from fuel_async.backends.vulkan.kernels.table import NEVER
from fuel_async.backends.vulkan.spirv import WRITERS
from fuel_async.backends.vulkan.spirv.kernel import module_of
from fuel_async.backends.vulkan.spirv.module import F32, MAGIC, U32, VERSION_1_5, Decoration, Module, Op, text_words
from fuel_async.dispatch import AffineParams, CastParams, ClampParams, NoParams, OpParams, PowIParams
from fuel_async.ir import Const, DType, Input, OpKind, Prim, apply, simplify, steps, tree

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMITS = Limits(128, (65535, 65535, 65535), 16384, 4, frozenset(), 2**27)
KERNELS = [kernel for kernel in kernels() if not kernel.needs & NEVER]
SAMPLES: dict[type[OpParams], OpParams] = {
    NoParams: NoParams(),
    CastParams: CastParams(),
    ClampParams: ClampParams(-1.0, 2.0),
    AffineParams: AffineParams(2.0, 0.5),
    PowIParams: PowIParams(-5),
}


def _instructions(code: bytes) -> Iterator[tuple[int, ...]]:
    words = struct.unpack(f"<{len(code) // 4}I", code)
    at = 5
    while at < len(words):
        yield (words[at] & 0xFFFF, *words[at + 1 : at + (words[at] >> 16)])
        at += words[at] >> 16


def _form(kind: OpKind, arity: int = 1, access: Access = Access.DENSE, rank: int = 0) -> ModuleForm:
    found = steps(simplify(tree(kind, (DType.F32,) * (arity + 1))))
    return ModuleForm(found, ((DType.F32, access),) * arity, rank)


def _modules(kernel: GridKernel) -> Iterator[bytes]:
    """Modules of a kernel over dense operands, and over a transposed one beside a single element."""
    dtypes, shape = kernel.dtypes, (3, 5)
    output = Operand(dtypes[-1], shape, row_major(shape), 1)
    dense = [Operand(dtype, shape, (5, 1), 2) for dtype in dtypes[:-1]]
    turned = [Operand(dtype, shape, (1, 3) if place % 2 == 0 else (0, 0), 3) for place, dtype in enumerate(dtypes[:-1])]
    for operands in (dense, turned):
        (dispatch,) = kernel.dispatches([*operands, output], SAMPLES[kernel.takes], LIMITS)
        assert isinstance(dispatch.shader.code, ModuleForm)
        yield module_of(dispatch.shader.code, (32, 64))


def test_every_module_that_writes_is_listed() -> None:
    folder = Path(__file__).parents[3] / "fuel_async" / "backends" / "vulkan" / "spirv"
    found = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert {name.rpartition(".")[2] for name in WRITERS} == found


# --- the builder --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "words"), [("", 1), ("main", 2), ("abc", 1), ("GLSL.std.450", 4)])
def test_literal_strings_end_with_a_zero_byte(text: str, words: int) -> None:
    found = text_words(text)
    assert len(found) == words
    assert struct.pack(f"<{words}I", *found).rstrip(b"\0").decode() == text


def test_types_and_constants_are_declared_once_and_zeros_of_two_signs_are_two() -> None:
    module = Module()
    assert module.kind(U32) == module.kind(U32)
    assert module.constant(U32, 7) == module.constant(U32, 7) == module.constant(U32, 7 - 2**32)
    assert module.constant(F32, 0.0) != module.constant(F32, -0.0)
    assert module.variable(12, module.kind(U32)) != module.variable(12, module.kind(U32))  # type: ignore[arg-type]


# --- modules ------------------------------------------------------------------------------------------------


def test_the_header() -> None:
    code = module_of(_form(OpKind.ExpElementwise))
    magic, version, _, bound, schema = struct.unpack_from("<5I", code)
    assert (magic, version, schema) == (MAGIC, VERSION_1_5, 0)
    results = [words[2] for words in _instructions(code) if words[0] == Op.FMul]
    assert max(results) < bound


def _digest() -> str:
    found = [k for k in KERNELS if k.dtypes[0] is DType.F64 or k.op in (OpKind.PowElementwise, OpKind.RemElementwise)]
    return hashlib.blake2b(b"".join(code for kernel in found for code in _modules(kernel))).hexdigest()


def test_equal_forms_make_equal_bytes() -> None:
    assert _digest() == _digest()


@pytest.mark.slow
def test_equal_forms_make_equal_bytes_in_every_process() -> None:
    program = "from tests.backends.vulkan.test_spirv import _digest; print(_digest())"
    path = os.pathsep.join([str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")])
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, env=env, text=True)
        assert done.stdout.strip() == _digest()


def test_inputs_are_read_only_and_sums_are_rounded_as_they_stand() -> None:
    words = list(_instructions(module_of(_form(OpKind.AddElementwise, 2))))
    read_only = [w[1] for w in words if w[0] == Op.Decorate and w[2] == Decoration.NonWritable]
    bindings = {w[1]: w[3] for w in words if w[0] == Op.Decorate and w[2] == Decoration.Binding}
    assert sorted(bindings[number] for number in read_only) == [0, 1]
    exact = {w[1] for w in words if w[0] == Op.Decorate and w[2] == Decoration.NoContraction}
    assert exact == {w[2] for w in words if w[0] == Op.FAdd}


@pytest.mark.parametrize("kernel", [k for k in KERNELS if k.dtypes[0] is DType.F32], ids=lambda k: k.op.value)
def test_only_remainders_loop_and_no_instruction_of_vague_precision_is_used(kernel: GridKernel) -> None:
    exact = {2, 8, 9, 31}  # RoundEven, Floor, Ceil, Sqrt
    for code in _modules(kernel):
        words = list(_instructions(code))
        assert any(w[0] == Op.LoopMerge for w in words) == (kernel.op is OpKind.RemElementwise)
        assert {w[4] for w in words if w[0] == Op.ExtInst} <= exact


def test_floats_keep_what_the_device_can_keep() -> None:
    for keeps, wanted in (((), []), ((32, 64), [32])):
        code = module_of(ModuleForm(steps(Input(0, DType.F32)), ((DType.F32, Access.DENSE),)), keeps)
        assert [w[3] for w in _instructions(code) if w[0] == Op.ExecutionMode and w[2] == 4461] == wanted


def test_numbers_come_with_the_push_constants_or_are_written_into_the_module() -> None:
    x, number = Input(0, DType.F64), Const(2.5, DType.F64)
    found, words = numbers_given(steps(apply(Prim.MUL, x, number)))
    assert struct.pack("<2I", *words) == struct.pack("<d", 2.5)
    form = ModuleForm(found, ((DType.F64, Access.DENSE),))
    assert words_of(form) == 3 + 2
    pushed = [w for w in _instructions(module_of(form)) if w[0] == Op.TypeStruct and len(w) == 2 + 5]
    assert len(pushed) == 1
    baked = ModuleForm(found, ((DType.F64, Access.DENSE),), baked=(9, 0, 0, *words))
    assert not [w for w in _instructions(module_of(baked)) if w[0] == Op.Variable and w[3] == 9]


# --- the validator ------------------------------------------------------------------------------------------

validator = pytest.mark.skipif(
    shutil.which("spirv-val") is None, reason="spirv-val is not installed; on Debian: apt install spirv-tools"
)


def _validate(folder: Path, codes: list[bytes]) -> None:
    for number, code in enumerate(codes):
        path = folder / f"{number}.spv"
        path.write_bytes(code)
        done = subprocess.run(
            ["spirv-val", "--target-env", "vulkan1.2", str(path)], check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


@validator
def test_the_validator_accepts_every_function_and_every_access(tmp_path: Path) -> None:
    wanted = {"pow", "rem", "sin", "tanh", "gelu_erf", "where", "step"}
    found = [k for k in KERNELS if k.op.value in wanted and k.dtypes[-1] in (DType.F32, DType.F64)]
    _validate(tmp_path, [code for kernel in found for code in _modules(kernel)])
    baked = ModuleForm(
        steps(tree(OpKind.AddElementwise, (DType.F32,) * 3)),
        ((DType.F32, Access.STRIDED),) * 2,
        12,
        tuple(range(1, 4 + 11 + 24 + 1)),
    )
    assert words_of(baked) == len(baked.baked) > MOST_WORDS
    _validate(tmp_path, [module_of(baked)])


@validator
@pytest.mark.slow
def test_the_validator_accepts_every_kernel(tmp_path: Path) -> None:
    _validate(tmp_path, [code for kernel in KERNELS for code in _modules(kernel)])
