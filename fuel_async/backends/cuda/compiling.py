"""From CUDA C to what a device loads, by NVRTC through CuPy; kept on disk, so that a later process only loads it.

CuPy's own modules are compiled to flush subnormal floats to zero, with no way to say otherwise. These are not.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from fuel_async.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuel_async.backends.cuda.context import Context
    from fuel_async.backends.cuda.kernels.code import Code

#: What is looked for where headers of the toolkit may be.
_HEADER = "cuda_fp16.h"


class Compiler:
    """Compiles for one device. Any thread."""

    def __init__(self, context: Context) -> None:
        """Find the headers, and the folder of what was compiled before."""
        self._context = context
        self._headers = tuple([f"-I{folder}" for folder in _header_folders(context)][:1])
        self._folder = _folder(context.options.cache)
        cupy = context.driver.cupy
        made_by = (cupy.__version__, getattr(cupy, "__file__", ""), context.runtime.runtimeGetVersion(), self._headers)
        self._for = repr((context.physical.capability, made_by))

    def kept(self, code: Code) -> bytes | None:
        """Return what was compiled before; None when it is to be done."""
        if self._folder is None:
            return None
        try:
            return self._path(code, self._folder).read_bytes()
        except OSError:
            return None

    def compiled(self, code: Code) -> bytes:
        """Return what is loaded for a program, and keep it. Within `Context.here`; takes up to a second.

        `InternalError` has the compiler's log where it refuses the source; raises what CuPy raises.
        """
        compiler = self._context.cuda.compiler
        try:
            made: bytes = compiler.compile_using_nvrtc(code.text, (*code.options, *self._headers))[0]
        except compiler.CompileException as error:
            hint = "" if self._headers else f"; where {_HEADER} is not found, install CuPy with its extra ctk"
            raise InternalError(f"NVRTC refuses a kernel of {self._context.name}{hint}: {error}") from None
        if self._folder is not None:
            _keep(self._path(code, self._folder), made)
        return made

    def _path(self, code: Code, folder: Path) -> Path:
        """By source, options, architecture, and what compiles."""
        key = hashlib.sha256(repr((self._for, code.options, code.text)).encode()).hexdigest()
        return folder / f"{key}.cubin"


def _folder(asked: str) -> Path | None:
    """Where compiled programs are kept; None for nowhere."""
    if asked == "0":
        return None
    if asked:
        return Path(asked).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "fuel_async" / "cuda"


def _keep(path: Path, data: bytes) -> None:
    """Write a file as a whole, or not at all: a disk that is full or read-only is no fault."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(name, path)
        except OSError:
            os.unlink(name)
            raise


def _header_folders(context: Context) -> Iterator[Path]:
    """Folders with the toolkit's headers: a package's, an installed toolkit's, or those that an older CuPy brings."""
    for folder in (_of_package(), _of_toolkit(context), *_of_cupy(context)):
        if folder is not None and (folder / _HEADER).exists():
            yield folder


def _of_package() -> Path | None:
    """What CuPy itself depends on for this."""
    try:
        found = import_module("cuda.pathfinder").find_nvidia_header_directory("cudart")
    except Exception:  # it is not there, or not as it was
        return None
    return None if found is None else Path(found)


def _of_toolkit(context: Context) -> Path | None:
    get = getattr(context.cuda, "get_cuda_path", None)
    root = os.environ.get("CUDA_PATH") or (get() if get is not None else None)
    return None if not root else Path(root) / "include"


def _of_cupy(context: Context) -> list[Path]:
    file = getattr(context.driver.cupy, "__file__", None)
    if file is None:
        return []
    root = Path(file).parent / "_core" / "include" / "cupy" / "_cuda"
    major = context.runtime.runtimeGetVersion() // 1000
    return sorted(root.glob(f"cuda-{major}*"), reverse=True)
