"""CUDA C run on the CPU: a program's text, compiled by g++ with the headers in `shim/`, and its kernels as functions.

A block's threads are fibers that meet at barriers, blocks run one after the other, and memory is the host's: a pointer
argument is an address. Kernels of warps (shuffles, votes), textures and cooperative groups do not compile. Contraction
of products and sums is off. What was compiled is kept in the user's cache directory, by text, options, compiler and
headers; any number of threads and processes may compile and launch at once, and a launch holds no lock of Python.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import re
import shutil
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from fuel_async.errors import InternalError, UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np

#: One argument of a kernel: an address, or a value, whose bytes are passed.
Argument: TypeAlias = "int | bytes | np.generic"

SHIM = Path(__file__).parent / "shim"
#: As `fibers.h` has them.
STACK_NBYTES, MOST_THREADS = 65_536 + 320, 1024
#: What one block may share, statically and not.
MOST_SHARED_NBYTES = 227 * 1024
#: As CUDA limits grids and blocks.
MOST_BLOCKS, MOST_SIZES = (2**31 - 1, 65_535, 65_535), (1024, 1024, 64)
#: Programs that one run of g++ compiles.
BATCH = 16

#: -Og takes 0.7 of the time that -O1 takes to compile, and its kernels 1.3 times as long.
_FLAGS = (
    "-Og", "-std=c++17", "-shared", "-fPIC", "-w", "-pipe", "-nostdlib", "-ffp-contract=off", "-fno-exceptions",
    "-fno-rtti", "-fno-asynchronous-unwind-tables", "-fno-math-errno", "-fvisibility=hidden", "-fwrapv",
    "-fno-strict-aliasing",
)  # fmt: skip
#: Options of NVRTC that change nothing here: those that a program may be given, by their names.
_IGNORED = frozenset({
    "std", "fmad", "gpu-architecture", "arch", "default-device", "extra-device-vectorization", "ftz", "prec-div",
    "prec-sqrt", "restrict", "device-as-default-execution-space", "minimal", "generate-line-info", "lineinfo",
})  # fmt: skip
_INCLUDES = ("-I", "--include-path=")
_KERNEL = re.compile(
    r"__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)"
)
_DYNAMIC = re.compile(r"extern\s+__shared__\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?([\w\s]+?)\s*\b(\w+)\s*\[\s*\]\s*;")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)


class CompilationFailed(UserError):
    """CUDA C that does not compile."""

    def __init__(self, log: str, code: str) -> None:
        self.log, self.code = log, code
        super().__init__(f"the program does not compile:\n{log.strip()}")


class BarrierDiverged(InternalError):
    """Threads of one block came to different barriers, or some came to one and others to their end."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        super().__init__(f"threads of a block of {kernel} did not come to the same barriers; all must, or none")


class _Launch(ctypes.Structure):
    """`fuel_launch` in `launching.h`."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("arguments", ctypes.c_void_p),
        ("stacks", ctypes.c_void_p),
        ("shared", ctypes.c_void_p),
        ("shared_nbytes", ctypes.c_size_t),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """One kernel: callable from any thread, and from several at once."""

    name: str
    #: Bytes of each parameter.
    sizes: tuple[int, ...]
    #: Whether its program has barriers.
    barriers: bool
    _entry: Any

    def __call__(
        self, grid: Sequence[int], block: Sequence[int], args: Sequence[Argument], shared_nbytes: int = 0
    ) -> None:
        """Run all blocks and return when the last has ended.

        `grid` and `block` have one to three axes, x first. `UserError` for sizes that no device takes and for arguments
        that are not as many or as large as the parameters; `BarrierDiverged`.
        """
        values = [_packed(arg) for arg in args]
        if tuple(map(len, values)) != self.sizes:
            raise UserError(f"{self.name} has parameters of {self.sizes} bytes, given were {[*map(len, values)]}")
        full_grid, full_block = _extents("grid", grid, MOST_BLOCKS), _extents("block", block, MOST_SIZES)
        threads = full_block[0] * full_block[1] * full_block[2]
        if threads > MOST_THREADS or not 0 <= shared_nbytes <= MOST_SHARED_NBYTES:
            raise UserError(
                f"{self.name}: {threads} threads that share {shared_nbytes} bytes; a block has at most "
                f"{MOST_THREADS} and {MOST_SHARED_NBYTES}"
            )
        held = [ctypes.create_string_buffer(value, len(value)) for value in values]
        pointers = (ctypes.c_void_p * max(len(held), 1))(*[ctypes.addressof(each) for each in held])
        room = _room()
        stacks = room.stacks(threads) if self.barriers else None
        launch = _Launch(full_grid, full_block, ctypes.addressof(pointers), stacks, room.shared, shared_nbytes)
        if self._entry(ctypes.byref(launch)):
            raise BarrierDiverged(self.name)


class Program:
    """A compiled text: its kernels by name. Immutable, usable from any thread."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = functions

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its kernels."""
        return tuple(self._functions)

    def function(self, name: str) -> Function:
        """Return a kernel; `KeyError` for a name that the program does not have."""
        return self._functions[name]


def compiled(code: str, options: Sequence[str] = ()) -> Program:
    """Compile a program, or find it compiled: in this process, or in the cache on disk.

    `options` are NVRTC's; of those only `-D` has a meaning here. `CompilationFailed` has the compiler's words;
    `UserError` for an option that is not known, and where there is no g++.
    """
    return _program(code, tuple(options))


def compile_many(programs: Iterable[tuple[str, Sequence[str]]]) -> list[Program]:
    """Compile programs, each a text and its options, as `compiled` does; together they take less time than alone."""
    asked = [(code, tuple(options)) for code, options in programs]
    missing = _missing(asked)
    batches = [missing[start : start + BATCH] for start in range(0, len(missing), BATCH)]
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        for done in [workers.submit(_compile, batch) for batch in batches]:
            done.result()
    return [_program(*each) for each in asked]


@cache
def cache_folder() -> Path:
    """Return where compiled programs are kept; a folder of its own where the user's cache cannot be written."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "fuel_async" / "cuda_double"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix="fuel_async-"))


def missing_compiler() -> str | None:
    """Return why programs cannot be compiled here, in words that say what to do; None where they can."""
    return None if shutil.which("g++") else "there is no g++; on Debian and Ubuntu: apt install g++"


def _missing(programs: Iterable[tuple[str, tuple[str, ...]]]) -> list[_Unit]:
    """What of the programs is not in the cache."""
    keyed = {_key(*each): each for each in programs}
    return [_Unit(key, *each) for key, each in keyed.items() if not _library(key).exists()]


def _library(key: str) -> Path:
    return cache_folder() / f"{key}.so"


# --- compiling --------------------------------------------------------------------------------------------------------


class _Unit:
    """A program's part of a translation unit: the text in a namespace of its own, and what leads into it."""

    def __init__(self, key: str, code: str, options: Sequence[str]) -> None:
        self.key, self.code = key, code
        self.names = kernels_of(code)
        macros = _macros(options)
        text = _DYNAMIC.sub(r"\n#define \2 ((\1 *)fuel_shared)\n", code).replace('extern "C"', "")
        undone = dict.fromkeys([*macros, *_MACRO.findall(text)])
        defined = [f"#define {name} {value}" for name, value in macros.items()]
        lead = (
            f"FUEL_EXPORT({key}_{name}, fuel_{key}::{name}, {str(_has_barriers(code)).lower()})" for name in self.names
        )
        self.text = "\n".join([
            *defined, f"namespace fuel_{key} {{ namespace {{", '#line 1 "kernel.cu"', text, "} }",
            *[f"#undef {name}" for name in undone], *lead,
        ])  # fmt: skip


def kernels_of(code: str) -> tuple[str, ...]:
    """Return the names of a program's kernels, in order; one that is written for several macros is one."""
    return tuple(dict.fromkeys(_KERNEL.findall(code)))


def _has_barriers(code: str) -> bool:
    return "__syncthreads" in code


def _macros(options: Sequence[str]) -> dict[str, str]:
    found = {}
    for option in options:
        name, _, value = option.removeprefix("--define-macro=").removeprefix("-D").partition("=")
        if option.startswith(("-D", "--define-macro=")) and name.isidentifier():
            found[name] = value or "1"
        elif option.startswith(_INCLUDES):
            continue  # the headers here stand for the toolkit's
        elif not option.startswith("-") or option.lstrip("-").split("=")[0] not in _IGNORED:
            known = ", ".join(sorted(_IGNORED))
            raise UserError(f"{option!r} is no option that programs are compiled with here; known are D, {known}")
    return found


def _compile(units: Sequence[_Unit]) -> None:
    """Compile units into one library, and give it the names of all. A unit that fails is told from the others."""
    if why := missing_compiler():
        raise UserError(f"kernels of the CUDA double are compiled here, and {why}")
    text = "\n".join(['#include "cuda_runtime.h"', *[unit.text for unit in units]])
    with tempfile.TemporaryDirectory(dir=cache_folder()) as made:
        library = Path(made) / "library.so"
        command = ["g++", *_FLAGS, f"-I{SHIM}", "-x", "c++", "-", "-o", str(library), "-lm", "-lc"]
        ran = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if ran.returncode and len(units) > 1:
            for unit in units:
                _compile([unit])
            return
        if ran.returncode:
            raise CompilationFailed(ran.stderr, units[0].code)
        for at, unit in enumerate(units):
            name = Path(made) / str(at)
            name.hardlink_to(library)
            name.replace(_library(unit.key))


@cache
def _compiler() -> bytes:
    """What programs depend on besides their own text."""
    found = subprocess.run(["g++", "-dumpfullversion", "-dumpmachine"], capture_output=True, check=False)
    headers = [path.read_bytes() for path in sorted(SHIM.glob("*.h"))]
    return hashlib.sha256(b"\0".join([found.stdout, repr(_FLAGS).encode(), *headers])).digest()


def _key(code: str, options: Sequence[str]) -> str:
    return hashlib.sha256(_compiler() + repr((code, tuple(options))).encode()).hexdigest()[:32]


# --- loading ----------------------------------------------------------------------------------------------------------


@cache
def _program(code: str, options: tuple[str, ...]) -> Program:
    if units := _missing([(code, options)]):
        _compile(units)
    key = _key(code, options)
    library = ctypes.CDLL(str(_library(key)))
    return Program({name: _function(library, key, name, _has_barriers(code)) for name in kernels_of(code)})


def _function(library: ctypes.CDLL, key: str, name: str, barriers: bool) -> Function:
    parameters = getattr(library, f"fuel_parameters_{key}_{name}")
    parameters.restype = ctypes.POINTER(ctypes.c_uint)
    count = ctypes.c_uint()
    sizes = parameters(ctypes.byref(count))
    entry = getattr(library, f"fuel_launch_{key}_{name}")
    entry.restype = ctypes.c_int
    return Function(name, tuple(sizes[: count.value]), barriers, entry)


def _packed(arg: Argument) -> bytes:
    if isinstance(arg, int):
        return arg.to_bytes(8, "little")
    return arg if isinstance(arg, bytes) else arg.tobytes()


def _extents(what: str, given: Sequence[int], most: tuple[int, int, int]) -> Any:
    sizes = (*given, 1, 1)[:3]
    if not 1 <= len(given) <= 3 or not all(0 < size <= limit for size, limit in zip(sizes, most, strict=True)):
        raise UserError(f"a {what} is of one to three sizes, from 1 to {most}; given was {tuple(given)}")
    return (ctypes.c_uint * 3)(*sizes)


class _Room(threading.local):
    """What blocks need beside their arguments, kept for each thread that launches: stacks and shared memory."""

    def __init__(self) -> None:
        self._stacks = self._shared = _mapped(MOST_SHARED_NBYTES)
        self.shared = _address(self._shared)

    def stacks(self, threads: int) -> int:
        """Return the address of that many stacks; pages that no stack has reached take no memory."""
        if len(self._stacks) < threads * STACK_NBYTES:
            self._stacks = _mapped(threads * STACK_NBYTES)
        return _address(self._stacks)


@cache
def _room() -> _Room:
    return _Room()


def _mapped(nbytes: int) -> mmap.mmap:
    return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))
