"""docs/coverage.md says which kernels there are: its tables are made here, of the host's kernels and the vocabulary.

python tests/test_coverage_page.py          write the tables anew
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from fuel_async.cli.ops import coverage, missing
from fuel_async.cli.vocabulary import OWNERS, WITHOUT_KEYS, owed_keys
from fuel_async.dispatch import KernelBindingTable
from fuel_async.fuel_dispatch.dispatch import register_cpu_kernels
from fuel_async.ir import BackendId

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parent.parent / "docs" / "coverage.md"
BEGIN, END = "<!-- begin: tests/test_coverage_page.py -->", "<!-- end -->"


def host_kernels() -> KernelBindingTable:
    table = KernelBindingTable()
    register_cpu_kernels(table)
    return table.finalize()


def lines(table: KernelBindingTable) -> Iterator[str]:
    owed = owed_keys()
    lacking = missing(table, owed, BackendId.CPU)
    of_all, of_lacking = (Counter(key.owner for key in keys) for keys in (owed, lacking))
    named = {(key.kind, key.dtypes) for key in owed}
    beyond = sum((kind, dtypes) not in named for kind, dtypes, _ in table.iter_keys())
    yield f"The host has {table.key_count()} kernels; {beyond} of them go beyond the vocabulary."
    yield from ("", "| part of the vocabulary | kernels | of these the host has |", "| --- | --- | --- |")
    for owner in OWNERS:
        yield f"| {owner} | {of_all[owner]} | {of_all[owner] - of_lacking[owner]} |"
    yield from ("", "| kind of kernel | backend | operands | T |", "| --- | --- | --- | --- |")
    for kind, backend, operands, dtypes in coverage(table, set(), None, None):
        yield f"| {kind} | {backend} | {operands} | {dtypes} |"
    yield ""
    served = {kind for kind, _, _ in table.iter_keys()}
    absent = dict.fromkeys(key.kind.as_str() for key in lacking if key.kind not in served)
    yield f"No kernel yet: {', '.join(absent) or 'of none'}."
    yield from (f"No kernel of its own: {kind.as_str()}; {reason}." for kind, reason in WITHOUT_KEYS.items())


def page(text: str) -> str:
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    tables = "\n".join(lines(host_kernels()))
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"


def test_the_page_is_up_to_date() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "stale: run python tests/test_coverage_page.py"


def test_every_kernel_is_in_a_row() -> None:
    table = host_kernels()
    rows = [line.split(" | ")[-1] for line in lines(table) if line.startswith("| ") and "->" in line]
    assert sum(len(row.removesuffix(" |").split()) for row in rows) == table.key_count()


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
