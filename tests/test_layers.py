"""The dependency direction of the package, as data, checked over the AST of every file.

`violations` takes the sources as a mapping, so the rules themselves are tested below on small trees.
Imports inside functions, under TYPE_CHECKING and through `import_module("...")` count like any other.
"""

from __future__ import annotations

import ast
import re
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REPOSITORY = Path(__file__).resolve().parent.parent
ROOT = "fuel_async"
#: Longest file, by folder: a test file is a list that is read by its names.
MAX_LINES = {ROOT: 400, "examples": 400, "benchmarks": 400, "tests": 650}

PURE = ("errors", "ir", "dispatch", "cost", "plan", "schedule")
ACTING = ("registry", "storage", "streams", "backends", "judge")
BELOW_RUNTIME = {*PURE, *ACTING, "telemetry"}

#: What a package may import besides itself. "" is `fuel_async/__init__.py`.
ALLOWED: Mapping[str, set[str]] = {
    "errors": set(),
    "ir": {"errors"},
    "dispatch": {"errors", "ir"},
    "cost": {"errors", "ir", "dispatch"},
    "plan": {"errors", "ir", "dispatch", "cost"},
    "schedule": {"errors", "ir", "dispatch", "cost", "plan"},
    "registry": {"errors", "ir", "dispatch"},
    "storage": {"errors", "ir", "dispatch", "registry"},
    "streams": {"errors", "ir", "dispatch", "registry", "storage"},
    "backends": {"errors", "ir", "dispatch", "cost", "registry", "storage", "streams"},
    "judge": {"errors", "ir", "dispatch", "cost", "registry", "storage", "streams", "backends"},
    "telemetry": set(PURE),
    "runtime": BELOW_RUNTIME,
    "": {*BELOW_RUNTIME, "runtime"},
    "testing": {*BELOW_RUNTIME, "runtime", ""},
    "fuel_dispatch": {*BELOW_RUNTIME, "runtime", ""},
    "cli": {*BELOW_RUNTIME, "runtime", ""},
    "__main__": {"cli"},
}

#: Modules with effects, a clock or chance: what decides does without them.
IMPURE = frozenset({
    "anyio", "asyncio", "concurrent", "io", "logging", "multiprocessing", "os", "pathlib", "random",
    "socket", "subprocess", "threading", "time", "uvloop",
})  # fmt: skip
MAY_USE_ASYNCIO = frozenset({"streams", "runtime", "testing", "cli"})

#: Libraries of one kind of device; only that backend's folder imports them.
DRIVERS = frozenset({"cuda", "cupy", "cupyx", "torch", "vulkan"})
#: What only stands beside the package: its own folders, and libraries that some of them need.
BESIDE = frozenset({"benchmarks", "blockbuster", "dask", "examples", "safetensors", "tests", "tokenizers", "wfcommons"})
#: Folders of what several backends share: no backends themselves, and without a driver.
SHARED_FOLDERS = frozenset({"grids"})
#: What is compared with one of them loads it by itself.
MAY_IMPORT_DRIVERS: Mapping[str, set[str]] = {"testing/gpu_check/": {"torch"}}
#: Who may know one backend from another: simulated devices compute with the host's kernels, and virtual time for tests
#: is that of simulated machines. The command line describes such machines.
MAY_NAME_BACKENDS: Mapping[str, set[str]] = {
    "backends/sim": {"cpu"},
    "backends/cuda": {"grids"},
    "backends/vulkan": {"grids"},
    "testing": {"sim"},
    "cli": {"sim"},
}
BACKEND_NAME = re.compile(r"(cpu|cuda|vulkan|metal)(:\d+)?", re.IGNORECASE)
MAY_SPELL_BACKENDS = "ir/device.py"


class Import(NamedTuple):
    line: int
    module: str
    name: str | None = None  # of `from module import name`


def imports_of(path: str, tree: ast.Module) -> Iterator[Import]:
    """Every import of the file at `path` (relative to the package), with relative ones made absolute."""
    package = [ROOT, *path.split("/")[:-1]]
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (Import(node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = package[: len(package) - level + 1] if level else []
                target = ".".join([*base, *([module] if module else [])])
                yield from (Import(node.lineno, target, alias.name) for alias in names)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                yield Import(node.lineno, module)
            case _:
                pass


def unit_of(path: str) -> str:
    """The top-level package or module a file belongs to; "" for the root `__init__`."""
    first = path.split("/")[0].removesuffix(".py")
    return "" if first == "__init__" else first


def backend_folder(path: str) -> str | None:
    """`x` for files in backends/x/, None elsewhere."""
    match path.split("/"):
        case ["backends", folder, _, *_]:
            return folder
        case _:
            return None


class Sources:
    """A package as a mapping from path, relative to the package, to source text."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.trees = {path: ast.parse(text, path) for path, text in files.items()}
        self.modules = {path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in files}

    def resolve(self, imported: Import) -> str | None:
        """The module inside the package that an import reads; "" for its root, None for other libraries."""
        if imported.module.split(".")[0] != ROOT:
            return None
        module = imported.module.removeprefix(ROOT).removeprefix(".")
        if imported.name is None:
            return module
        inner = f"{module}.{imported.name}" if module else imported.name
        exported = self._exports(module)
        return inner if inner in self.modules and imported.name not in exported else module

    def _exports(self, module: str) -> set[str]:
        """Names that the `__init__` of a package gives away itself, which hide modules of that name."""
        tree = self.trees.get(f"{module.replace('.', '/')}/__init__.py")
        froms = [] if tree is None else [node for node in tree.body if isinstance(node, ast.ImportFrom)]
        return {alias.asname or alias.name for node in froms for alias in node.names}

    def violations(self) -> list[str]:
        found = [(path, *fault) for path, tree in self.trees.items() for fault in self._faults(path, tree)]
        return [f"{path}:{line}: {text}" for path, line, text in sorted(found)]

    def _faults(self, path: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
        unit = unit_of(path)
        if unit not in ALLOWED:
            yield 1, f"{unit} has no row in ALLOWED"
            return
        for imported in imports_of(path, tree):
            module = self.resolve(imported)
            reasons = self._library(path, imported.module) if module is None else self._inner(path, module)
            yield from ((imported.line, reason) for reason in reasons)
        if path != MAY_SPELL_BACKENDS and backend_folder(path) is None:
            for node in ast.walk(tree):
                if (
                    isinstance(node, ast.Constant)
                    and isinstance(node.value, str)
                    and BACKEND_NAME.fullmatch(node.value)
                ):
                    yield node.lineno, f"spells the backend name {node.value!r}"

    def _library(self, path: str, module: str) -> Iterator[str]:
        unit, library = unit_of(path), module.split(".")[0]
        if unit in PURE and library in IMPURE:
            yield f"pure package {unit} imports {library}"
        elif library == "asyncio" and unit not in MAY_USE_ASYNCIO:
            yield f"{unit or 'the root'} imports asyncio"
        elif library in BESIDE:
            yield f"imports {library}, which stands beside the package"
        allowed = set[str]().union(*[names for folder, names in MAY_IMPORT_DRIVERS.items() if path.startswith(folder)])
        if library in DRIVERS - allowed and backend_folder(path) in {None, *SHARED_FOLDERS}:
            yield f"imports the driver library {library} outside a backend"

    def _inner(self, path: str, module: str) -> Iterator[str]:
        unit, target = unit_of(path), module.split(".")[0]
        if target != unit:
            if target not in ALLOWED[unit]:
                yield f"{unit or 'the root'} must not import {target or 'the root'}"
            elif module != target and module.removeprefix("backends.") not in MAY_NAME_BACKENDS.get(unit, ()):
                yield f"imports {module} past {target}/__init__"
        elif module == target and not path.endswith("__init__.py") and unit:
            yield f"imports its own package {unit} instead of the module"
        match module.split("."):
            case ["backends", folder, *_] if f"backends/{folder}/__init__.py" in self.trees:
                own = backend_folder(path)
                if folder != own and folder not in MAY_NAME_BACKENDS.get(f"backends/{own}" if own else unit, ()):
                    yield f"names the backend {folder}"
            case _:
                pass


def violations(files: Mapping[str, str]) -> list[str]:
    return Sources(files).violations()


def package_files() -> dict[str, str]:
    root = REPOSITORY / ROOT
    return {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in sorted(root.rglob("*.py"))}


def test_imports_follow_the_layers() -> None:
    assert violations(package_files()) == []


def test_the_layers_have_no_cycle() -> None:
    assert set().union(*ALLOWED.values()) <= ALLOWED.keys()
    TopologicalSorter(ALLOWED).prepare()


def test_what_only_benchmarks_and_examples_need_is_kept_out_of_the_package() -> None:
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    needed = {re.split(r"[^\w-]", need)[0] for name in ("bench", "examples", "workflows") for need in extras[name]}
    assert needed - {"fuel_async"} <= BESIDE | DRIVERS


def test_files_stay_short() -> None:
    lines = {
        (folder, path.relative_to(REPOSITORY).as_posix()): len(path.read_text("utf-8").splitlines())
        for folder in MAX_LINES
        for path in (REPOSITORY / folder).rglob("*.py")
    }
    assert {path: count for (folder, path), count in lines.items() if count > MAX_LINES[folder]} == {}


#: path of one file, its text, what is said of it (None: nothing). The tree around it is AROUND.
AROUND = {
    "__init__.py": "from fuel_async.runtime import Executor",
    "errors.py": "",
    "ir/__init__.py": "from fuel_async.ir.layout import Layout\nfrom fuel_async.ir.verify import verify",
    "ir/layout.py": "",
    "ir/verify.py": "",
    "plan/__init__.py": "",
    "runtime/__init__.py": "",
    "backends/__init__.py": "from fuel_async.backends.base import BackendSpec",
    "backends/base.py": "",
    "backends/cpu/__init__.py": "",
    "backends/cuda/__init__.py": "",
    "backends/grids/__init__.py": "",
    "fuel_dispatch/__init__.py": "",
}
CASES = [
    ("plan/a.py", "from fuel_async.ir import Layout, verify\nimport fuel_async.errors", None),
    ("plan/a.py", "import asyncio_extras, numpy", None),
    (
        "ir/a.py",
        "from fuel_async.ir.layout import Layout\nfrom . import layout\nfrom .layout import Layout",
        None,
    ),
    ("ir/a.py", "from fuel_async.plan import Plan", "1: ir must not import plan"),
    ("ir/a.py", "from ..plan import Plan", "1: ir must not import plan"),
    ("ir/a.py", "def f():\n    import fuel_async.plan", "2: ir must not import plan"),
    ("ir/a.py", "if TYPE_CHECKING:\n    from fuel_async.plan import Plan", "2: ir must not import plan"),
    ("ir/a.py", "x = importlib.import_module('fuel_async.plan')", "1: ir must not import plan"),
    ("ir/a.py", "from fuel_async import plan", "1: ir must not import plan"),
    ("ir/a.py", "from fuel_async import Graph", "1: ir must not import the root"),
    ("cli/a.py", "from fuel_async import Graph", None),
    ("cli/a.py", "import fuel_async.fuel_dispatch", "1: cli must not import fuel_dispatch"),
    (
        "__init__.py",
        "from fuel_async.runtime.executor import X",
        "1: imports runtime.executor past runtime/__init__",
    ),
    ("plan/a.py", "from fuel_async.ir.layout import Layout", "1: imports ir.layout past ir/__init__"),
    ("plan/a.py", "from fuel_async.ir import layout", "1: imports ir.layout past ir/__init__"),
    ("testing/a.py", "from fuel_async.ir import layout", "1: imports ir.layout past ir/__init__"),
    ("ir/a.py", "from fuel_async.ir import Layout", "1: imports its own package ir instead of the module"),
    ("ir/a.py", "from . import Layout", "1: imports its own package ir instead of the module"),
    ("schedule/a.py", "import os.path", "1: pure package schedule imports os"),
    ("errors.py", "from concurrent.futures import Future", "1: pure package errors imports concurrent"),
    ("storage/a.py", "import threading", None),
    ("storage/a.py", "import asyncio", "1: storage imports asyncio"),
    ("streams/a.py", "import asyncio", None),
    ("storage/a.py", "import cupy", "1: imports the driver library cupy outside a backend"),
    ("testing/gpu_check/a.py", "import torch", None),
    ("testing/gpu_check/a.py", "import cupy", "1: imports the driver library cupy outside a backend"),
    ("testing/a.py", "def f():\n    import wfcommons", "2: imports wfcommons, which stands beside the package"),
    ("testing/a.py", "from benchmarks.dags import Dag", "1: imports benchmarks, which stands beside the package"),
    ("backends/cuda/a.py", "import cupy\nname = 'cuda'", None),
    ("backends/cuda/a.py", "from fuel_async.backends.base import BackendSpec", None),
    ("backends/cuda/a.py", "from fuel_async.backends.cpu import f", "1: names the backend cpu"),
    ("backends/base.py", "from fuel_async.backends.cpu import f", "1: names the backend cpu"),
    ("backends/cuda/a.py", "from fuel_async.backends.grids import f", None),
    ("backends/grids/a.py", "from fuel_async.backends.cuda import f", "1: names the backend cuda"),
    ("backends/grids/a.py", "import cupy", "1: imports the driver library cupy outside a backend"),
    ("backends/cuda/a.py", "from fuel_async.plan import Plan", "1: backends must not import plan"),
    ("backends/base.py", "x = 'CPU:0'", "1: spells the backend name 'CPU:0'"),
    ("runtime/a.py", "x = f(on='vulkan')", "1: spells the backend name 'vulkan'"),
    ("ir/device.py", "CPU = 'cpu'", None),
    ("odd/a.py", "", "1: odd has no row in ALLOWED"),
]


@pytest.mark.parametrize(("path", "text", "fault"), CASES)
def test_the_rules_see(path: str, text: str, fault: str | None) -> None:
    assert violations({**AROUND, path: text}) == ([] if fault is None else [f"{path}:{fault}"])
