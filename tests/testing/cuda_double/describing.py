"""Describes what is imported as CuPy, names, signatures and answers, as JSON: the real one and the double are compared.

Run as a script it describes the CuPy of its interpreter. Functions of Cython have no signature of Python, but begin
their docstring with one of C, which is read here. cuBLAS is loaded over a library of the same name without content, so
that it need not be installed.
"""

from __future__ import annotations

import ast
import ctypes
import inspect
import json
import pickle
import re
import subprocess
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

#: Expressions over `cupy`, `runtime`, `np` and `pickle`, whose values, or errors, are alike where there is no driver.
ANSWERS = (
    "cupy.cuda.is_available()",
    "runtime.driverGetVersion()",
    "runtime.runtimeGetVersion()",
    "runtime.getDeviceCount()",
    "runtime.getDevice()",
    "runtime.setDevice(0)",
    "runtime.memGetInfo()",
    "runtime.getDeviceProperties(0)",
    "runtime.deviceGetAttribute(16, 0)",
    "runtime.deviceCanAccessPeer(0, 1)",
    "runtime.deviceEnablePeerAccess(1)",
    "runtime.deviceSynchronize()",
    "runtime.malloc(8)",
    "runtime.hostAlloc(8, 0)",
    "runtime.memcpyAsync(1, 1, 1, 4, 0)",
    "runtime.memcpyPeerAsync(1, 0, 1, 1, 1, 0)",
    "runtime.memsetAsync(1, 0, 1, 0)",
    "runtime.eventQuery(0)",
    "runtime.eventCreateWithFlags(0)",
    "runtime.streamCreateWithPriority(1, 0)",
    "runtime.streamSynchronize(0)",
    "cupy.cuda.Device(0)",
    "cupy.cuda.Device(3) == cupy.cuda.Device(3)",
    "cupy.cuda.Device(3) == 3",
    "int(cupy.cuda.Device(3))",
    "hash(cupy.cuda.Device(3))",
    "cupy.cuda.Device()",
    "cupy.cuda.Device(0).use()",
    "cupy.cuda.Device(0).__enter__()",
    "cupy.cuda.Device(0).compute_capability",
    "cupy.cuda.Device(0).attributes",
    "cupy.cuda.Device(0).mem_info",
    "cupy.cuda.Device(0).pci_bus_id",
    "cupy.cuda.Device(0).synchronize()",
    "cupy.cuda.Stream.null",
    "cupy.cuda.Stream(null=True)",
    "cupy.cuda.Stream.null == cupy.cuda.Stream(null=True)",
    "cupy.cuda.Stream.ptds.ptr",
    "cupy.cuda.Stream.null.__cuda_stream__()",
    "cupy.cuda.Stream.null.begin_capture()",
    "cupy.cuda.get_current_stream()",
    "cupy.cuda.Event()",
    "cupy.cuda.Event(interprocess=True)",
    "cupy.cuda.Graph()",
    "cupy.cuda.Memory(8)",
    "cupy.cuda.PinnedMemory(8)",
    "cupy.cuda.alloc(8)",
    "cupy.cuda.alloc_pinned_memory(8)",
    "cupy.cuda.UnownedMemory(4096, 64, None, 1).device_id",
    "cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(4096, 64, None, 1), 16).ptr",
    "int(cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(4096, 64, None, 1), 16) + 8 - 4)",
    "cupy.empty(3)",
    "cupy.asarray([1.0])",
    "cupy.RawModule(code='x', options=['-DX'])",
    "cupy.RawModule(code='x').get_function('f')",
    "cupy.RawKernel('x', 'f').name",
    "cupy.ndarray((2, 3), 'f4', cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(4096, 64, None, 0), 0)).nbytes",
    "cupy.ndarray((2, 3), 'f4', cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(4096, 64, None, 0), 0)).strides",
    "runtime.CUDARuntimeError(700).args",
    "runtime.CUDARuntimeError(12345).args",
    "pickle.loads(pickle.dumps(runtime.CUDARuntimeError(719))).status",
    "str(cupy.cuda.memory.OutOfMemoryError(5000, 6000))",
    "str(cupy.cuda.memory.OutOfMemoryError(5000, 6000, 7000))",
    "str(cupy.cuda.compiler.CompileException('log', 'source', 'name', ()))",
    "vars(cupy.cuda.compiler.CompileException('log', 'source', 'name', ('-DX',)))",
    "cupy.cuda.compiler.CompileException('log', 'source', 'name', ()).get_message()",
)
#: Values as arguments of a kernel, which CuPy takes or refuses before it asks the driver.
ARGUMENTS = (
    "3", "-1", "2**63", "True", "1.5", "1j", "None", "'x'", "b'x'", "[1]", "np.uint64(3)", "np.uintp(3)",
    "np.float16(1)", "np.int8(1)", "np.bool_(True)", "np.zeros(1, [('a', 'u4'), ('b', 'u4')])[0]", "np.zeros(3)",
    "np.zeros(1)", "np.zeros(())", "np.zeros(1, [('a', 'u4')])",
    "cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(4096, 64, None, 0), 0)",
)  # fmt: skip
#: Every status that the runtime may answer with, and some that it does not know.
STATUSES = (
    *range(1, 130),
    *range(200, 230),
    *range(400, 402),
    500,
    600,
    *range(700, 721),
    800,
    801,
    *range(900, 912),
    999,
)
#: Names of Cython's own.
HIDDEN = frozenset({"cpdef", "np"})

Described = dict[str, Any]


def described(modules: list[str]) -> Described:
    """Describe modules: for each its public names, and of classes their members."""
    return {module: {name: _entry(value) for name, value in _public(import_module(module))} for module in modules}


def _public(owner: Any) -> list[tuple[str, Any]]:
    return [(name, getattr(owner, name)) for name in dir(owner) if not name.startswith("_") and name not in HIDDEN]


def _entry(value: Any) -> Described:
    if inspect.isclass(value):
        members = {name: _member(value, name) for name, _ in _public(value)}
        bases = [base.__name__ for base in value.__mro__ if not base.__name__.startswith("_")]
        return {"kind": "class", "bases": bases, "parameters": parameters_of(value), "members": members}
    if isinstance(value, (bool, int, str)):
        return {"kind": "number", "value": value}
    if callable(value):
        return {"kind": "function", "parameters": parameters_of(value)}
    return {"kind": "other"}


def _member(owner: Any, name: str) -> Described:
    value = getattr(owner, name)
    if inspect.ismodule(value) or not callable(value) or inspect.isclass(value):
        return {"kind": "property"}
    found = parameters_of(value)
    if found and found[0][0] in ("self", "cls"):
        found = found[1:]
    return {"kind": "method", "parameters": found}


def parameters_of(value: Any) -> list[list[str]] | None:
    """Return name, kind (positional, keyword, rest, keywords) and default of each parameter; None if nothing tells."""
    for line in _lines(value):
        if (found := _from_text(line)) is not None:
            return found[1:] if inspect.isclass(value) and found and found[0][0] == "self" else found
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    kinds: dict[Any, str] = {
        inspect.Parameter.KEYWORD_ONLY: "keyword",
        inspect.Parameter.VAR_POSITIONAL: "rest",
        inspect.Parameter.VAR_KEYWORD: "keywords",
    }
    return [
        [each.name, kinds.get(each.kind, "positional"), _default(each.default)]
        for each in signature.parameters.values()
    ]


def _default(value: Any) -> str:
    return "" if value is inspect.Parameter.empty else getattr(value, "__name__", repr(value))


def _lines(value: Any) -> list[str]:
    """The lines of a docstring that are signatures of C: the first ones."""
    name = getattr(value, "__name__", "")
    texts = [value.__doc__, value.__init__.__doc__] if inspect.isclass(value) else [value.__doc__]
    lines = [line.strip() for text in texts if text for line in text.splitlines()[:3]]
    return [line for line in lines if re.match(rf"([\w.]+\.)?({re.escape(name)}|__init__)\(.*\)( -> .*)?$", line)]


def _from_text(line: str) -> list[list[str]] | None:
    """Read `name(type name=default, *, type name)`."""
    inside = line[line.index("(") + 1 : line.rindex(")")]
    found, kind = [], "positional"
    for part in filter(None, (part.strip() for part in inside.split(","))):
        if part == "*":
            kind = "keyword"
            continue
        if part == "/":
            continue
        declared, _, default = part.partition("=")
        name = declared.split()[-1]
        stars = len(name) - len(name.lstrip("*"))
        found.append([name.lstrip("*"), ("rest", "keywords")[stars - 1] if stars else kind, _literal(default.strip())])
    names = [name for name, _, _ in found]
    return None if names in (["args", "kwargs"], ["self", "args", "kwargs"]) else found


def _literal(text: str) -> str:
    """A default as Python prints it; names of the runtime's numbers stay."""
    try:
        return repr(ast.literal_eval(text)) if text else ""
    except ValueError:
        return text


def answers(expressions: tuple[str, ...], names: Described) -> dict[str, Any]:
    """Evaluate expressions: their values as text, or their errors by type, text and status."""
    return {expression: _answer(expression, names) for expression in expressions}


def _answer(expression: str, names: Described) -> list[Any]:
    try:
        return ["value", repr(eval(expression, dict(names)))]
    except Exception as error:
        return ["error", type(error).__name__, str(error), getattr(error, "status", None)]


def texts_of_statuses(runtime: Any) -> dict[str, str]:
    return {str(status): str(runtime.CUDARuntimeError(status)) for status in STATUSES}


def load_hollow_cublas() -> None:
    """Load a `libcublas.so.12` whose functions do nothing, and CuPy's module over it."""
    spec = find_spec("cupy_backends.cuda.libs")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    (module,) = Path(next(iter(spec.submodule_search_locations))).glob("cublas.*.so")
    names = sorted(set(re.findall(rb"\x00(cublas[A-Z]\w+)(?=\x00)", module.read_bytes())))
    source = "".join(f"int {name.decode()}(void) {{ return 1; }}\n" for name in names)
    with tempfile.TemporaryDirectory() as folder:
        library, versions = Path(folder) / "libcublas.so.12", Path(folder) / "versions"
        versions.write_text("libcublas.so.12 { *; };")
        linked = [f"-Wl,-soname,{library.name}", f"-Wl,--version-script={versions}", "-o", str(library)]
        command = ["g++", "-shared", "-fPIC", "-w", "-x", "c", "-", *linked]
        subprocess.run(command, input=source, text=True, check=True)
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    import_module("cupy_backends.cuda.libs.cublas")


def launched(cupy: Any) -> Any:
    """Return a function that gives one argument to a kernel that is not there."""
    kernel = cupy.cuda.Function.__new__(cupy.cuda.Function)

    class Handle:
        ptr = 5

    return lambda argument: kernel((1,), (1,), (argument,), 0, Handle())


def main(modules: list[str]) -> None:
    cupy, runtime = import_module("cupy"), import_module("cupy.cuda.runtime")
    import_module("cupy.cuda.compiler")
    load_hollow_cublas()
    names = {"cupy": cupy, "runtime": runtime, "np": np, "pickle": pickle}
    launch = launched(cupy)
    json.dump(
        {
            "version": cupy.__version__,
            "modules": described(modules),
            "answers": answers(ANSWERS, names),
            "arguments": answers(tuple(f"launch({argument})" for argument in ARGUMENTS), {**names, "launch": launch}),
            "statuses": texts_of_statuses(runtime),
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
