"""Every public name of the seeds is where it should be, and some test uses it.

`data/seed-map.tsv` lists the names with the piece of work that owes each. Once that work is in LANDED, each of
its names must be importable from the façade and name a test that uses it and asserts something. Run as a
program, this file writes `docs/seed-map.md`.
"""

from __future__ import annotations

import ast
import importlib
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REPOSITORY = Path(__file__).resolve().parent.parent
TABLE = REPOSITORY / "tests" / "data" / "seed-map.tsv"
DOCUMENT = REPOSITORY / "docs" / "seed-map.md"
FACADE = "fuel_async.fuel_dispatch"

#: The pieces of work whose names are all there.
LANDED = frozenset({"skeleton", "many-devices", "primitives", "planner-1"})

MODULE, RE_EXPORT = "(module)", "re-export"


@dataclass(frozen=True, slots=True)
class Row:
    """One name of the seeds, as the table has it."""

    module: str
    name: str
    kind: str
    owed_by: str
    #: The test node that stands for it; "" while it is owed.
    test: str = ""

    @property
    def landed(self) -> bool:
        return self.owed_by in LANDED

    @property
    def symbol(self) -> str:
        """What code spells to use it."""
        return self.module if self.name == MODULE else self.name

    def __str__(self) -> str:
        return self.module if self.name == MODULE else f"{self.module}.{self.name}"


def read_rows(text: str) -> list[Row]:
    _, *lines = text.splitlines()
    return [Row(*line.split("\t")) for line in lines]


ROWS = read_rows(TABLE.read_text("utf-8"))


# --- what a landed row must have ---


def missing_import(row: Row) -> str | None:
    """Say where the name cannot be imported from; None when it can."""
    try:
        module = importlib.import_module(f"{FACADE}.{row.module}")
    except ModuleNotFoundError:
        return f"there is no module {FACADE}.{row.module}"
    if row.name != MODULE and not hasattr(module, row.name):
        return f"{FACADE}.{row.module} has no {row.name}"
    crate = importlib.import_module(FACADE)
    if row.kind == RE_EXPORT and getattr(crate, row.name, None) is not getattr(module, row.name):
        return f"{FACADE} does not re-export {row.name}"
    return None


def fault_of_test(row: Row, source: Callable[[str], str | None]) -> str | None:
    """Say why the row's test proves nothing; None when it does. `source` gives the text of a file."""
    path, _, function = row.test.partition("::")
    if not function:
        return "names no test"
    text = source(path)
    if text is None:
        return f"there is no {path}"
    found = [
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function
    ]
    if not found:
        return f"{path} has no {function}"
    marks = {_spelled(node) for mark in found[0].decorator_list for node in ast.walk(mark)}
    if marks & {"skip", "skipif", "xfail"}:
        return f"{function} is not meant to pass"
    body = [node for statement in found[0].body for node in ast.walk(statement)]
    if not any(_spelled(node) == row.symbol for node in body):
        return f"{function} does not use {row.symbol}"
    if not any(map(_asserts, body)):
        return f"{function} asserts nothing"
    return None


def _asserts(node: ast.AST) -> bool:
    match node:
        case ast.Assert() | ast.Attribute(value=ast.Name("pytest"), attr="raises"):
            return True
        case _:
            return False


def _spelled(node: ast.AST) -> str | None:
    match node:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name
        case _:
            return None


def source_in_repository(path: str) -> str | None:
    file = REPOSITORY / path
    return file.read_text("utf-8") if file.is_file() else None


# --- the document ---


def home_of(row: Row) -> str:
    """The module that defines a landed name."""
    if row.name == MODULE:
        return f"{FACADE}.{row.module}"
    module = _defining_module(f"{FACADE}.{row.module}", row.name)
    if module.startswith(FACADE):
        value = getattr(importlib.import_module(module), row.name)
        return str(value.__module__)
    return module


def _defining_module(module: str, name: str) -> str:
    """Follow imports of `name` through the package to where it is made."""
    file = importlib.import_module(module).__file__
    assert file is not None
    for node in ast.parse(Path(file).read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _defining_module(node.module, alias.name)
    return module


def document(rows: list[Row]) -> str:
    landed = sum(row.landed for row in rows)
    return "\n".join([
        "# Names of the seeds",
        "",
        "Written by `python tests/test_seed_names.py` from `tests/data/seed-map.tsv`; do not edit.",
        "",
        "Every public name of the seeds' pages, spelled as there. A name that has landed is importable as",
        f"`{FACADE}.<module>.<name>`; its home is the module that defines it, its test one that uses",
        f"it (those marked {RE_EXPORT} are importable from `{FACADE}` itself, too). The others are owed by the",
        "piece of work named.",
        "",
        f"{landed} of {len(rows)} names have landed.",
        *_sections(rows),
        "",
    ])  # fmt: skip


def _sections(rows: list[Row]) -> Iterator[str]:
    for module, of_module in groupby(sorted(rows, key=attrgetter("module")), key=attrgetter("module")):
        yield from ("", f"## {module}", "", "| name | kind | home | test |", "| --- | --- | --- | --- |")
        for row in of_module:
            home, test = (f"`{home_of(row)}`", f"`{row.test}`") if row.landed else ("", f"owed by {row.owed_by}")
            yield f"| `{row.name}` | {row.kind} | {home} | {test} |"


# --- the tests ---


@pytest.mark.parametrize("row", [row for row in ROWS if row.landed], ids=str)
def test_seed_name(row: Row) -> None:
    assert missing_import(row) is None
    assert fault_of_test(row, source_in_repository) is None


def test_the_document_is_what_would_be_written_now() -> None:
    stale = f"{DOCUMENT.relative_to(REPOSITORY)} is stale; run: python tests/test_seed_names.py"
    assert source_in_repository("docs/seed-map.md") == document(ROWS), stale


def test_every_name_is_listed_once() -> None:
    assert len({str(row) for row in ROWS}) == len(ROWS)
    assert {row.owed_by for row in ROWS} >= LANDED


def test_the_facade_has_no_names_of_its_own() -> None:
    listed = {module: {row.name for row in ROWS if row.module == module} for module in {r.module for r in ROWS}}
    crate = importlib.import_module(FACADE)
    public = {name for name in vars(crate) if not name.startswith("_")}
    assert public <= listed.keys() | {row.name for row in ROWS if row.kind == RE_EXPORT}
    for module in public & listed.keys():
        inner = importlib.import_module(f"{FACADE}.{module}")
        names = {name for name in vars(inner) if not name.startswith("_")}
        if listed[module] == {MODULE}:  # the seeds say what it is for, and name nothing in it
            assert not any(str(vars(inner)[name].__module__).startswith(FACADE) for name in names)
        else:
            assert names <= listed[module]


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (Row("nowhere", "X", "struct", "", ""), f"there is no module {FACADE}.nowhere"),
        (Row("kernel", "X", "struct", "", ""), f"{FACADE}.kernel has no X"),
        (Row("kernel", "KernelCaps", RE_EXPORT, "", ""), f"{FACADE} does not re-export KernelCaps"),
        (Row("kernel", "KernelCaps", "struct", "", ""), None),
    ],
)
def test_a_name_that_is_not_there_is_found(row: Row, fault: str | None) -> None:
    assert missing_import(row) == fault


@pytest.mark.parametrize(
    ("node", "text", "fault"),
    [
        ("", "", "names no test"),
        ("b.py::test_x", "", "there is no b.py"),
        ("a.py::test_x", "def test_y(): assert Name", "a.py has no test_x"),
        ("a.py::test_x", "def test_x(name: Name): assert other", "test_x does not use Name"),
        ("a.py::test_x", "def test_x(): Name()", "test_x asserts nothing"),
        ("a.py::test_x", "@pytest.mark.skip\ndef test_x(): assert Name", "test_x is not meant to pass"),
        ("a.py::test_x", "async def test_x():\n    assert module.Name()", None),
        ("a.py::test_x", "def test_x():\n    with pytest.raises(E): Name()", None),
    ],
)
def test_a_test_that_proves_nothing_is_found(node: str, text: str, fault: str | None) -> None:
    row = Row("module", "Name", "struct", "", node)
    assert fault_of_test(row, {"a.py": text}.get) == fault


if __name__ == "__main__":
    DOCUMENT.parent.mkdir(exist_ok=True)
    DOCUMENT.write_text(document(ROWS), "utf-8")
