"""The compiled shaders: that they are what their sources give, and ask of a device what the catalog says."""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING

import pytest

from fuel_async.backends.vulkan.shaders import MODULES, code
from fuel_async.backends.vulkan.shaders.build import FOLDER, TOOLS, build, differing, missing_tools
from fuel_async.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fuel_async.backends.vulkan.shaders import Module

MAGIC, SPIRV_1_5 = 0x07230203, 0x00010500
# Opcodes, decorations and capabilities of the SPIR-V specification, 3.
OP_CAPABILITY, OP_DECORATE = 17, 71
BINDING = 33
#: Capability, and the feature of the catalog that stands for it.
CAPABILITIES = {1: None, 10: "float64", 4433: "int16_storage", 4448: "int8_storage"}

with_tools = pytest.mark.skipif(bool(missing_tools()), reason="glslc and spirv-tools are not installed")
every_module = pytest.mark.parametrize("module", MODULES.values(), ids=lambda module: module.name)


def _instructions(module: Module) -> Iterator[tuple[int, ...]]:
    """Opcode and operands of each instruction."""
    raw = code(module.name)
    words = struct.unpack(f"<{len(raw) // 4}I", raw)
    at = 5
    while at < len(words):
        yield words[at] & 0xFFFF, *words[at + 1 : at + (words[at] >> 16)]
        at += words[at] >> 16


@every_module
def test_a_module_asks_for_what_the_catalog_says(module: Module) -> None:
    raw = code(module.name)
    assert len(raw) % 4 == 0
    assert struct.unpack("<2I", raw[:8]) == (MAGIC, SPIRV_1_5)
    asked = {CAPABILITIES[row[1]] for row in _instructions(module) if row[0] == OP_CAPABILITY} - {None}
    assert asked == module.needs
    bindings = {row[3] for row in _instructions(module) if row[0] == OP_DECORATE and row[2] == BINDING}
    assert bindings == set(range(module.bindings))


def test_there_is_nothing_but_the_catalog() -> None:
    assert {path.stem for path in (FOLDER / "spv").iterdir()} == set(MODULES)
    assert {path.stem for path in FOLDER.glob("*.comp")} == {module.source for module in MODULES.values()}


@pytest.mark.slow
@with_tools
def test_sources_give_what_is_there(tmp_path: Path) -> None:
    build(tmp_path)
    assert differing(FOLDER / "spv", tmp_path) == ()


@with_tools
def test_a_module_that_differs_is_named(tmp_path: Path) -> None:
    shutil.copytree(FOLDER / "spv", tmp_path / "spv")
    shutil.copy(FOLDER / "spv" / "move_1.spv", tmp_path / "spv" / "move_4.spv")
    (tmp_path / "spv" / "ratio.spv").unlink()
    some = {name: MODULES[name] for name in ("move_1", "move_4", "ratio")}
    assert differing(FOLDER / "spv", tmp_path / "spv", some) == ("move_4", "ratio")


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing_tools() == TOOLS
    with pytest.raises(UserError, match="glslc"):
        build(tmp_path)
