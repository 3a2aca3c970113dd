"""Kernels from CUDA C: what is kept on disk and what for, where headers are found, and what the compiler says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.backends.cuda import compiling
from fuel_async.backends.cuda.compiling import Compiler
from fuel_async.backends.cuda.kernels.code import Code
from fuel_async.errors import InternalError, KernelFailed
from tests.backends.cuda.support import Doubled
from tests.backends.grids.devices import PATIENCE_S, Work, copied

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CODE = Code('extern "C" __global__ void kernel_main(float *x) { x[0] = 1; }', ("--std=c++17",))


def run(one: Doubled) -> int:
    """Run a program; how often anything was compiled."""
    work = Work(one.devices[0])
    work.submit().wait(PATIENCE_S)
    assert work.is_done
    return one.machine.counts().compiles


def test_what_was_compiled_is_loaded_by_the_next_process(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "as needed"
    for compiles in (1, 0):
        one = Doubled(cache=str(folder))
        assert run(one) == compiles
        one.close()
    assert [path.suffix for path in folder.iterdir()] == [".cubin"]


def test_what_is_damaged_is_compiled_again(tmp_path: Path) -> None:
    for data in (None, b"damaged", b""):
        for path in tmp_path.iterdir() if data is not None else ():
            path.write_bytes(data or b"")
        one = Doubled(cache=str(tmp_path))
        assert run(one) == 1
        one.close()


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    one = Doubled(cache=str(tmp_path / "file" / "below"))
    assert run(one) == 1
    one.close()


def test_what_differs_is_kept_apart(
    make: Callable[..., Doubled], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Source, options, architecture, and what compiles: also a double of CuPy is not CuPy."""
    (device,) = make(cache=str(tmp_path)).devices
    context: Any = device.context
    paths = [Compiler(context)._path(code, tmp_path) for code in (CODE, CODE._replace(text="other"))]
    paths.append(Compiler(context)._path(CODE._replace(options=()), tmp_path))
    for name, value in (("__version__", "99"), ("__file__", "/elsewhere/cupy/__init__.py")):
        with monkeypatch.context() as patch:
            patch.setattr(context.driver.cupy, name, value, raising=False)
            paths.append(Compiler(context)._path(CODE, tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(context.runtime, "runtimeGetVersion", lambda: 13000)
        paths.append(Compiler(context)._path(CODE, tmp_path))
    assert len(set(paths)) == len(paths)


def test_the_folder_is_the_users_unless_another_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert str(compiling._folder("")) == "/somewhere/fuel_async/cuda"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert str(compiling._folder("")) == os.path.expanduser("~/.cache/fuel_async/cuda")
    assert (compiling._folder("0"), str(compiling._folder("/kept"))) == (None, "/kept")


def test_headers_are_those_of_the_first_place_that_has_them(
    device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package's, an installed toolkit's, those that CuPy brings for its version of CUDA."""
    places = [tmp_path / "package", tmp_path / "toolkit" / "include", tmp_path / "cupy" / "_core" / "include"]
    places[2] = places[2] / "cupy" / "_cuda" / "cuda-12.9"
    monkeypatch.setattr(compiling, "_of_package", lambda: places[0])
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "toolkit"))
    monkeypatch.setattr(device.context.driver.cupy, "__file__", str(tmp_path / "cupy" / "__init__.py"), raising=False)
    assert Compiler(device.context)._headers == ()
    for place in reversed(places):
        place.mkdir(parents=True)
        (place / "cuda_fp16.h").touch()
        assert Compiler(device.context)._headers == (f"-I{place}",)


def test_what_the_compiler_refuses_is_told_with_its_words(device: Any) -> None:
    with pytest.raises(InternalError, match=r"(?s)NVRTC refuses a kernel of cuda:0.*undeclared_name"):
        Compiler(device.context).compiled(CODE._replace(text=CODE.text.replace("1;", "undeclared_name;")))


def test_a_program_with_a_kernel_that_does_not_compile_names_its_node(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fuel_async.backends.cuda import functions

    monkeypatch.setattr(functions, "code_of", lambda shader: CODE._replace(text="nonsense"))
    with pytest.raises(KernelFailed, match="InternalError: NVRTC refuses a kernel") as caught:
        device.instantiate(copied(device), [])
    assert isinstance(caught.value.__cause__, InternalError)
