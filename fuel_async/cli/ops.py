"""`fuel-async ops`: which op runs on which dtypes of which backend, as the registered kernels say.

With `--missing`: which kernels of the vocabulary nobody has registered. With `--unpriced`: of which kernels nobody says
what they cost.
"""

from __future__ import annotations

import sys
from collections import Counter
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeAlias

from fuel_async.cli.command import Column, Command, argument, print_line, print_table
from fuel_async.cli.prices import priced_rows
from fuel_async.cli.vocabulary import CURRENT, OWNERS, Key, owed_keys
from fuel_async.cost import PriceSource
from fuel_async.errors import UserError
from fuel_async.ir import BackendId, DType, OpKind
from fuel_async.registry import bindings_problems, global_bindings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from fuel_async.dispatch import KernelBindingTable, KernelDTypes

COLUMNS = (Column("op"), Column("backend"), Column("operands"), Column("T"))

#: Operand dtypes in which None stands for T.
Pattern: TypeAlias = "tuple[DType | None, ...]"


def _run(arguments: argparse.Namespace, console: Console) -> int:
    table = global_bindings()
    for pack, problem in bindings_problems().items():
        print(f"fuel-async: kernel pack {pack} was left out: {problem}", file=sys.stderr)
    if arguments.missing:
        return _compare(table, arguments, console)
    if arguments.unpriced:
        return _show_unpriced(table, arguments, console)
    rows = coverage(table, set(arguments.op), arguments.backend, arguments.dtype)
    if not rows:
        print("fuel-async: no registered kernel fits; ask without filters to see all", file=sys.stderr)
        return 1
    print_table(console, COLUMNS, rows)
    shown = sum(len(row[-1].split()) for row in rows)
    print_line(console, f"{shown} of the {table.key_count()} combinations of op, operands and backend.")
    return 0


def _compare(table: KernelBindingTable, arguments: argparse.Namespace, console: Console) -> int:
    backend: BackendId = arguments.backend or BackendId.CPU
    owed = [key for key in owed_keys() if _wanted(key, set(arguments.op), arguments.dtype)]
    lacking = missing(table, owed, backend)
    rows = _rows((kind, backend, dtypes) for kind, dtypes, owner in lacking if owner == CURRENT)
    if rows:
        print_table(console, COLUMNS, rows)
    of_all, of_lacking = (Counter(key.owner for key in keys) for keys in (owed, lacking))
    print_line(console, f"{of_lacking[CURRENT]} of {of_all[CURRENT]} missing")
    for owner in OWNERS:
        if owner != CURRENT:
            print_line(console, f"{owner}: {of_lacking[owner]} of {of_all[owner]} later")
    return 1 if rows else 0


def _show_unpriced(table: KernelBindingTable, arguments: argparse.Namespace, console: Console) -> int:
    asked = [
        row
        for row in priced_rows(table)
        if _wanted(Key(row[0], row[1], CURRENT), set(arguments.op), arguments.dtype)
        and arguments.backend in (None, row[2])
    ]
    rows = _rows((op, backend, dtypes) for op, dtypes, backend, source in asked if source is PriceSource.UNPRICED)
    if rows:
        print_table(console, COLUMNS, rows)
    unpriced = sum(source is PriceSource.UNPRICED for *_, source in asked)
    print_line(console, f"{unpriced} of {len(asked)} unpriced")
    return 1 if rows else 0


def _wanted(key: Key, ops: set[OpKind], dtype: DType | None) -> bool:
    return (not ops or key.kind in ops) and (dtype is None or dtype in key.dtypes)


def missing(table: KernelBindingTable, owed: Iterable[Key], backend: BackendId) -> list[Key]:
    """Return those of the owed kernels that `table` does not have for `backend`, in their order."""
    live = {(kind, dtypes) for kind, dtypes, found in table.iter_keys() if found == backend}
    return [key for key in owed if (key.kind, key.dtypes) not in live]


def coverage(
    table: KernelBindingTable, ops: set[OpKind], backend: BackendId | None, dtype: DType | None
) -> list[tuple[str, str, str, str]]:
    """Return op, backend, operands and the dtypes that T stands for, in order of registration.

    Empty `ops` and None let everything through; `dtype` keeps kernels that have it among their operands.
    """
    return _rows(
        (op, found, dtypes)
        for op, dtypes, found in table.iter_keys()
        if (not ops or op in ops) and backend in (None, found) and (dtype is None or dtype in dtypes)
    )


def _rows(found_keys: Iterable[tuple[OpKind, BackendId, KernelDTypes]]) -> list[tuple[str, str, str, str]]:
    keys: dict[tuple[OpKind, BackendId], list[KernelDTypes]] = {}
    for op, found, dtypes in found_keys:
        keys.setdefault((op, found), []).append(dtypes)
    return [
        (op.as_str(), found.as_str(), _spell(pattern), " ".join(map(str, stands_for)))
        for (op, found), of_op in keys.items()
        for pattern, stands_for in patterns(of_op).items()
    ]


def patterns(keys: Sequence[KernelDTypes]) -> dict[Pattern, list[DType]]:
    """Group keys that differ in one dtype T: each pattern with what T stands for, in order.

    A key belongs to the most common pattern that it is a case of.
    """
    common = Counter(_pattern(key) for key in keys).most_common()
    grouped: dict[Pattern, list[DType]] = {}
    for key in keys:
        pattern, dtype = next(
            (pattern, dtype)
            for pattern, _ in common
            for dtype in dict.fromkeys(key)
            if tuple(dtype if one is None else one for one in pattern) == key
        )
        grouped.setdefault(pattern, []).append(dtype)
    return grouped


def _pattern(key: KernelDTypes) -> Pattern:
    """The key with its most frequent dtype (the first of those) replaced by T."""
    frequent, _ = Counter(key).most_common(1)[0]
    return tuple(None if dtype is frequent else dtype for dtype in key)


def _spell(pattern: Pattern) -> str:
    *inputs, output = ["T" if dtype is None else str(dtype) for dtype in pattern]
    return f"({', '.join(inputs)}) -> {output}"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("op", nargs="*", type=argument(_op), help="show only these, for example matmul add")
    parser.add_argument("--backend", type=argument(BackendId), help="show only this one's kernels")
    parser.add_argument("--dtype", type=argument(DType.parse), help="show only kernels with such operands")
    question = parser.add_mutually_exclusive_group()
    question.add_argument(
        "--unpriced", action="store_true", help="show kernels of which nobody says what they cost; status 1 if any"
    )
    question.add_argument(
        "--missing",
        action="store_true",
        help="show what the vocabulary names and this backend (cpu unless given) lacks; status 1 if that is anything",
    )


def _op(text: str) -> OpKind:
    try:
        return OpKind(text)
    except ValueError:
        near = get_close_matches(text, [op.value for op in OpKind], n=4)
        hint = f"did you mean {', '.join(near)}?" if near else "fuel-async ops lists those with a kernel"
        raise UserError(f"{text!r} is no op; {hint}") from None


COMMAND = Command(
    name="ops",
    summary="list which op runs on which dtypes of which backend",
    description="List what the registered kernels cover: op, backend, the dtypes of its operands, and what T may be.",
    add_arguments=_add_arguments,
    run=_run,
)
