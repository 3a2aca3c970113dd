"""The command line as a whole: help, bad arguments, exit statuses, terminals."""

from __future__ import annotations

import io
import re
import runpy
import sys
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from fuel_async.cli.command import Column, print_table
from fuel_async.cli.main import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Outcome


def test_help_lists_every_command(fuel: Callable[..., Outcome]) -> None:
    status, out, err = fuel("--help")
    assert (status, err) == (0, "")
    for command in COMMANDS:
        assert any(line.split() == [command.name, *command.summary.split()] for line in out)


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_every_command_describes_itself(fuel: Callable[..., Outcome], command: str) -> None:
    status, out, _ = fuel(command, "-h")
    assert status == 0
    assert out[0].startswith(f"usage: fuel-async {command}")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "required: COMMAND"),
        (["fly"], "invalid choice: 'fly'"),
        (["devices", "--fast"], "unrecognized arguments: --fast"),
        (["devices", "cpu:x"], "'cpu:x' names no device; write it as backend:ordinal"),
        (["ops", "matmull"], "'matmull' is no op; did you mean matmul"),
        (["ops", "###"], "'###' is no op; fuel-async ops lists those with a kernel"),
        (["ops", "--dtype", "f31"], "'f31' is no dtype; use one of u8"),
        (["ops", "--backend", "No Such"], "'No Such' cannot name a backend"),
    ],
)
def test_bad_arguments_are_status_2_and_say_what_would_be_good(
    fuel: Callable[..., Outcome], argv: list[str], said: str
) -> None:
    status, out, err = fuel(*argv)
    assert (status, out) == (2, [])
    assert said in err
    assert err.startswith("usage: fuel-async")


def test_the_module_is_a_program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["fuel-async", "ops", "matmul", "--dtype", "f32"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("fuel_async", run_name="__main__")
    assert stop.value.code == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["matmul", "cpu", "(T,", "T)", "->", "T", "f32"]


COLUMNS = (Column("name"), Column("size", right=True), Column("note"))
ROWS = [("one", "1", "first"), ("a much longer name", "20000", "")]


def printed(console: Console) -> str:
    print_table(console, COLUMNS, ROWS)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_off_a_terminal_each_row_is_one_aligned_line_however_narrow_the_window() -> None:
    assert printed(Console(file=io.StringIO(), width=10)).splitlines() == [
        "name                 size  note",
        "one                     1  first",
        "a much longer name  20000",
    ]


def test_on_a_terminal_the_table_is_drawn() -> None:
    text = printed(Console(file=io.StringIO(), force_terminal=True, width=60, color_system=None))
    assert "─" in text
    assert re.search(r"a much longer name\s+│\s+20000", text)
