"""The compiled shaders: that they are what their sources give, and ask of a device what the catalog says."""

from __future__ import annotations

import shutil
import struct
import subprocess
from typing import TYPE_CHECKING

import pytest

from fuel_async.backends.grids.catalog import MODULES
from fuel_async.backends.vulkan.shaders import code
from fuel_async.backends.vulkan.shaders.build import FOLDER, TOOLS, build, differing, missing_tools
from fuel_async.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fuel_async.backends.grids.catalog import Module

MAGIC, SPIRV_1_5 = 0x07230203, 0x00010500
# Opcodes, decorations and capabilities of the SPIR-V specification, 3.
OP_CAPABILITY, OP_DECORATE, OP_ENTRY_POINT, OP_EXECUTION_MODE = 17, 71, 15, 16
#: Sections of a module come in this order: capabilities, imports, memory model, entry points, modes, the rest.
SECTIONS = {17: 0, 11: 1, 14: 2, 15: 3, 16: 4}
BINDING = 33
#: Capability, and the feature of the catalog that stands for it.
CAPABILITIES = {1: None, 10: "float64", 4433: "int16_storage", 4448: "int8_storage"}

with_tools = pytest.mark.skipif(bool(missing_tools()), reason="glslc and spirv-tools are not installed")
every_module = pytest.mark.parametrize("module", MODULES.values(), ids=lambda module: module.name)


def _instructions(raw: bytes) -> Iterator[tuple[int, ...]]:
    """Opcode and operands of each instruction."""
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
    asked = {CAPABILITIES[row[1]] for row in _instructions(raw) if row[0] == OP_CAPABILITY} - {None}
    assert asked == module.needs
    bindings = {row[3] for row in _instructions(raw) if row[0] == OP_DECORATE and row[2] == BINDING}
    assert bindings == set(range(module.bindings))


@pytest.mark.parametrize("name", ["softmax_32_32", "reduce_64_64", "ratio_32_32"])
def test_a_module_can_be_told_to_keep_what_is_not_finite(name: str) -> None:
    plain, kept = list(_instructions(code(name))), list(_instructions(code(name, MODULES[name].floats)))
    added = [row for row in kept if row not in plain]
    (entry,) = (row[2] for row in plain if row[0] == OP_ENTRY_POINT)
    assert added == [(OP_CAPABILITY, 4466), (OP_EXECUTION_MODE, entry, 4461, MODULES[name].floats)]
    assert [row for row in kept if row in plain] == plain
    order = [row[0] for row in kept]
    places = [SECTIONS.get(opcode, 9) for opcode in order]
    assert places == sorted(places)


@with_tools
@pytest.mark.parametrize("name", ["softmax_32_32", "reduce_64_64", "ratio_32_32"])
def test_such_a_module_is_valid(name: str, tmp_path: Path) -> None:
    (tmp_path / "kept.spv").write_bytes(code(name, MODULES[name].floats))
    command = ["spirv-val", "--target-env", "vulkan1.2", str(tmp_path / "kept.spv")]
    assert subprocess.run(command, check=False, capture_output=True).stderr == b""


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
    (tmp_path / "spv" / "ratio_32_32.spv").unlink()
    some = {name: MODULES[name] for name in ("move_1", "move_4", "ratio_32_32")}
    assert differing(FOLDER / "spv", tmp_path / "spv", some) == ("move_4", "ratio_32_32")


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing_tools() == TOOLS
    with pytest.raises(UserError, match="glslc"):
        build(tmp_path)
