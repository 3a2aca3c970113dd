"""Every law of a module of laws is held by the tests of both backends: a name that is not imported is not run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent

#: By module of laws: the modules of tests that hold them.
HOLDERS = {
    "elementwise_laws": ("cuda/test_printed.py", "vulkan/test_elementwise.py"),
    "executor_laws": ("cuda/test_executor.py", "vulkan/test_executor.py"),
    "kernel_laws": ("cuda/test_sources.py", "vulkan/test_kernels.py"),
    "lane_laws": ("cuda/test_lane.py", "vulkan/test_lane.py"),
    "once_laws": ("cuda/test_once.py", "vulkan/test_once.py"),
}


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_every_module_of_laws_is_held() -> None:
    assert HOLDERS.keys() == {path.stem for path in HERE.glob("*_laws.py")}


@pytest.mark.parametrize(("laws", "holder"), [(laws, one) for laws, both in HOLDERS.items() for one in both])
def test_every_law_is_held(laws: str, holder: str) -> None:
    wanted = {
        node.name
        for node in tree_of(HERE / f"{laws}.py").body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and node.name.startswith(("test_", "Test"))
    }
    got = {
        alias.name
        for node in tree_of(HERE.parent / holder).body
        if isinstance(node, ast.ImportFrom) and node.module == f"tests.backends.grids.{laws}"
        for alias in node.names
    }
    assert wanted
    assert wanted - got == set()
