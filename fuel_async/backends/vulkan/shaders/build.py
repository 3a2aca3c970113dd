"""Compiles the shaders: `glslc` makes the modules, `spirv-val` proves them, `spirv-dis` compares them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from fuel_async.backends.grids.catalog import MODULES
from fuel_async.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fuel_async.backends.grids.catalog import Module

FOLDER = Path(__file__).parent
#: What a build needs: Debian's packages glslc and spirv-tools have them.
TOOLS = ("glslc", "spirv-val", "spirv-dis")
TARGET = "vulkan1.2"


def missing_tools() -> tuple[str, ...]:
    """Return the tools that are not installed."""
    return tuple([tool for tool in TOOLS if shutil.which(tool) is None])


def build(folder: Path) -> None:
    """Compile and prove every module into `folder`, and remove what the catalog does not have from it.

    `UserError` with the tool's words when one does not compile.
    """
    if missing := missing_tools():
        raise UserError(f"{', '.join(missing)} not found; install glslc and spirv-tools")
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.spv"):
        if old.stem not in MODULES:
            old.unlink()
    for module in MODULES.values():
        _compile(module, folder / f"{module.name}.spv")


def differing(ours: Path, theirs: Path, modules: Iterable[str] = MODULES) -> tuple[str, ...]:
    """Return the names of modules that are not in both folders with one disassembly."""
    files = [(name, f"{name}.spv") for name in modules]
    return tuple([name for name, file in files if _text(ours / file) != _text(theirs / file)])


def _compile(module: Module, path: Path) -> None:
    macros = [f"-D{define}" for define in module.defines]
    source = str(FOLDER / f"{module.source}.comp")
    _run(["glslc", "-O", f"--target-env={TARGET}", *macros, source, "-o", str(path)])
    _run(["spirv-val", "--target-env", TARGET, str(path)])


def _text(path: Path) -> str | None:
    """Return a module's instructions; comments, which name the compiler's version, left out."""
    if not path.exists():
        return None
    lines = _run(["spirv-dis", "--no-header", str(path)]).splitlines()
    return "\n".join([line for line in lines if not line.startswith(";")])


def _run(command: Sequence[str]) -> str:
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        raise UserError(f"{' '.join(command)} failed:\n{found.stdout}{found.stderr}")
    return found.stdout
