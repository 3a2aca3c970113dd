"""NVRTC by its C interface, from the wheels nvidia-cuda-nvrtc-cu12 and nvidia-cuda-runtime-cu12: no driver, no device.

https://docs.nvidia.com/cuda/nvrtc/ has the functions.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.backends.cuda.demands import give_up

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Compute capabilities that programs are compiled for: Turing, Ampere, Hopper.
ARCHITECTURES = (75, 80, 90)


_INCLUDE = re.compile(r"^#include <.*>$", re.MULTILINE)


class Compiled(NamedTuple):
    """What became of a program."""

    #: None when it does not compile.
    ptx: str | None
    #: Errors and warnings.
    log: str

    def parameters(self, entry: str) -> list[int]:
        """Bytes of each parameter of the kernel whose name matches."""
        assert self.ptx is not None
        found = re.search(rf"\.entry {entry}\((.*?)\)", self.ptx, re.DOTALL)
        assert found is not None, f"there is no kernel {entry}"
        declared = re.findall(r"\.param (?:\.align \d+ )?\.\D(\d+) \w+(?:\[(\d+)\])?", found[1])
        return [int(bits) // 8 * int(count or 1) for bits, count in declared]

    def shared_nbytes(self) -> int:
        """Bytes of the arrays that a block shares."""
        assert self.ptx is not None
        return sum(map(int, re.findall(r"^\s*\.shared .*\[(\d+)\];", self.ptx, re.MULTILINE)))

    def has(self, instruction: str) -> bool:
        """Whether an instruction or declaration that begins so is in it."""
        assert self.ptx is not None
        return re.search(rf"^\s*(?:@!?%\w+ )?{re.escape(instruction)}", self.ptx, re.MULTILINE) is not None


class Nvrtc:
    """The library; any thread."""

    def __init__(self, library: Path, headers: Path) -> None:
        self._library, self._headers = ctypes.CDLL(str(library)), headers

    def compile(self, text: str, options: Sequence[str], architecture: int) -> Compiled:
        """Compile a program to PTX."""
        program = ctypes.c_void_p()
        self._call("nvrtcCreateProgram", ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None)
        try:
            given = [*options, f"--gpu-architecture=compute_{architecture}", f"-I{self._headers}"]
            encoded = (ctypes.c_char_p * len(given))(*[option.encode() for option in given])
            failed = self._library.nvrtcCompileProgram(program, len(given), encoded)
            log = self._text("nvrtcGetProgramLog", program)
            return Compiled(None if failed else self._text("nvrtcGetPTX", program), log.strip())
        finally:
            self._call("nvrtcDestroyProgram", ctypes.byref(program))

    def _text(self, name: str, program: ctypes.c_void_p) -> str:
        size = ctypes.c_size_t()
        self._call(f"{name}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call(name, program, buffer)
        return buffer.value.decode()

    def _call(self, name: str, *args: object) -> None:
        status = getattr(self._library, name)(*args)
        assert status == 0, f"{name} gave status {status}"


def together(texts: Sequence[str], entry: str) -> tuple[str, list[str]]:
    """Programs as one, which takes a fraction of the time to compile; and what the names of their kernels match."""
    includes = dict.fromkeys(line for text in texts for line in _INCLUDE.findall(text))
    plain = [_INCLUDE.sub("", text).replace('extern "C"', "") for text in texts]
    bodies = [f"namespace part{number} {{\n{text}\n}}" for number, text in enumerate(plain)]
    names = [f"part{number}" for number in range(len(texts))]
    return "\n".join([*includes, *bodies]), [rf"_ZN{len(name)}{name}{len(entry)}{entry}\w+" for name in names]


def _installed(package: str, pattern: str) -> Path | None:
    try:
        found = find_spec(package)
    except ModuleNotFoundError:
        return None
    folders = found.submodule_search_locations if found is not None else None
    return next((path for folder in folders or () for path in Path(folder).glob(pattern)), None)


@cache
def nvrtc() -> Nvrtc:
    """The library that is installed; skips where there is none, unless it is demanded."""
    library = _installed("nvidia.cuda_nvrtc", "lib/libnvrtc.so.*[0-9]")
    headers = _installed("nvidia.cuda_runtime", "include/cuda_fp16.h")
    if library is None or headers is None:
        give_up("NVRTC is not installed: pip install 'fuel_async[test-cuda]'")
    assert library is not None
    assert headers is not None
    return Nvrtc(library, headers.parent)
