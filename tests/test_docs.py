"""The pages say what is so: their code runs, and what they name exists."""

from __future__ import annotations

import ast
import asyncio
import builtins
import importlib
import inspect
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.__main__ import BENCHMARKS
from fuel_async.registry import bindings, bump_topology_generation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "fuel_async"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
#: A page that is generated has a test of its own.
PAGES = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")] + [
    page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "seed-map.md"
]
#: Pages of results have nothing to run.
RESULTS = {"gpu-results.md"}
GUIDES = [page for page in PAGES if page.parent.name == "docs" and page.name not in RESULTS]

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def text_of(page: Path) -> str:
    return page.read_text("utf-8")


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """The blocks of code, each with the number of lines before it."""
    text = text_of(page)
    found = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text[: block.start(1)].count("\n"), block[1]) for block in found]


# --- code -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def _own_bindings() -> Iterator[None]:
    """Whatever kernels a page registers are gone after it."""
    store = bindings._BINDINGS
    before = store.snapshot()
    yield
    store._table = before
    bump_topology_generation()


@pytest.mark.usefixtures("_own_bindings")
@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page: Path) -> None:
    names: dict[str, Any] = {"__name__": page.stem}

    async def run() -> None:
        for line, source in blocks(page, "python"):
            code = compile("\n" * line + source, str(page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(code, names)
            if inspect.isawaitable(result):
                await result

    assert blocks(page, "python")
    asyncio.run(run())


def test_the_readmes_example_is_the_one_that_runs() -> None:
    ((_, source),) = blocks(ROOT / "README.md", "python")
    assert source == text_of(ROOT / "examples" / "hello.py")


@each_page
def test_commands_exist(page: Path) -> None:
    text, makefile = text_of(page), text_of(ROOT / "Makefile")
    for name in re.findall(r'BENCH="?([\w-]+)|python -m benchmarks ([a-z][\w-]*)', text):
        assert "".join(name) in BENCHMARKS
    for target in re.findall(r"`make ([a-z][a-z-]*)|^make ([a-z][a-z-]*)", text, re.MULTILINE):
        assert re.search(rf"^{''.join(target)}:", makefile, re.MULTILINE), target


# --- names ------------------------------------------------------------------------------------------------------------


class Names(ast.NodeVisitor):
    """What the sources define: classes with their members, functions, constants."""

    def __init__(self) -> None:
        self.members: defaultdict[str, set[str]] = defaultdict(set)
        self.functions: set[str] = set()
        self.assigned: set[str] = set()
        self._class: str | None = None

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        before, self._class = self._class, node.name
        self.members[node.name].update(base.id for base in node.bases if isinstance(base, ast.Name))
        self.generic_visit(node)
        self._class = before

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.functions.add(node.name)
        if self._class is not None:
            self.members[self._class].add(node.name)
        self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.assigned.add(node.id)
            if self._class is not None:
                self.members[self._class].add(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Store) and self._class is not None:
            self.members[self._class].add(node.attr)
        self.generic_visit(node)


@cache
def defined() -> Names:
    names = Names()
    for folder in ("fuel_async", "benchmarks", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            names.visit(ast.parse(path.read_text("utf-8")))
    return names


#: Names of other libraries that pages mention.
FOREIGN = {*dir(builtins), *dir(asyncio), "Runner", "TaskGroup"}


def unknown(token: str) -> bool:
    """Whether a piece of inline code names something that does not exist."""
    names = defined()
    if re.fullmatch(r"[\w.*-]+(/[\w.*-]*)+|[\w-]+\.(py|md|toml)", token):
        return not any((base / token).exists() for base in (ROOT, PACKAGE))
    if re.fullmatch(r"(fuel_async|benchmarks|examples)(\.\w+)+", token):
        return not importable(token) and f'entry-points."{token}"' not in text_of(ROOT / "pyproject.toml")
    if match := re.fullmatch(r"([A-Z]\w+)\.(\w+)", token):
        return match[2] not in names.members.get(match[1], set())
    if match := re.fullmatch(r"(\w+)\(\)", token):
        return match[1] not in names.functions
    if re.fullmatch(r"_?[A-Z][A-Z0-9]*_[A-Z0-9_]+", token):
        return token not in names.assigned
    if re.fullmatch(r"_?[A-Z][a-z]\w*", token):
        return token not in names.members and token not in FOREIGN
    return False


def importable(dotted: str) -> bool:
    module, _, name = dotted.rpartition(".")
    try:
        return hasattr(importlib.import_module(module), name) or bool(importlib.import_module(dotted))
    except ImportError:
        return False


@each_page
def test_what_a_page_names_exists(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    tokens = set(re.findall(r"`([^`\n]+)`", prose))
    assert sorted(filter(unknown, tokens)) == []


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", text_of(page)):
        assert target.startswith("https://") or (page.parent / target).exists(), target


@pytest.mark.parametrize(
    "token",
    ["runtime/engines.py", "fuel_async.nothing", "Engine.walk_away", "planish()", "MOST_PLANETS", "Enginer", "x.py"],
)
def test_a_name_that_does_not_exist_is_found(token: str) -> None:
    assert unknown(token)


# --- the map ----------------------------------------------------------------------------------------------------------


def test_every_package_has_its_paragraph() -> None:
    described = set(re.findall(r"^\*\*`([\w.]+)/?`\*\*", text_of(ARCHITECTURE), re.MULTILINE))
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert described - {"errors.py"} == folders


def constants() -> Mapping[str, tuple[str, str]]:
    rows = re.findall(r"^\| `(\w+)` \| `([\w/.]+)` \| ([\d_.]+) \|$", text_of(ARCHITECTURE), re.MULTILINE)
    return {name: (path, value) for name, path, value in rows}


@pytest.mark.parametrize("name", constants())
def test_constants_are_those_of_the_code(name: str) -> None:
    path, value = constants()[name]
    module = importlib.import_module(f"fuel_async.{path.removesuffix('.py').replace('/', '.')}")
    assert getattr(module, name) == ast.literal_eval(value)


#: Words that every reader of the code meets.
WORDS = """node kernel candidate arm branch region lane slot arena plan handle completion walker Tensor DeviceArray"""


def test_the_glossary_has_every_term() -> None:
    glossary = text_of(ARCHITECTURE).partition("## Glossary")[2]
    listed = {word.strip() for row in re.findall(r"^\| ([^|]+) \|", glossary, re.MULTILINE) for word in row.split(",")}
    assert {*WORDS.split(), "lane program", "program instance", "in-flight count"} <= listed
