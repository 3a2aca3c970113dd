"""The examples run. The demo, `examples/embed.py`, has a command of its own: `make demo`."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def output_of(example: str, capsys: pytest.CaptureFixture[str]) -> str:
    runpy.run_path(str(EXAMPLES / example), run_name="__main__")
    return capsys.readouterr().out


def test_hello_prints_the_scores(capsys: pytest.CaptureFixture[str]) -> None:
    assert output_of("hello.py", capsys) == "[[0.576 0.212 0.212]\n [0.212 0.576 0.212]]\n"


def test_hello_fits_the_readme() -> None:
    lines = (EXAMPLES / "hello.py").read_text("utf-8").splitlines()
    assert sum(bool(line.strip()) for line in lines) <= 15


def test_walk_shows_each_kernel_submitted_and_settled(capsys: pytest.CaptureFixture[str]) -> None:
    output = output_of("walk.py", capsys)
    lines = re.findall(r"^ *[0-9.]+ ms  (submitted|settled) +%(\d+) +(\w+)", output, re.MULTILINE)
    kernels = ["matmul", "tanh", "matmul", "softmax", "add", "sum"]
    assert [op for what, _, op in lines if what == "submitted"] == kernels
    assert [op for what, _, op in lines if what == "settled"] == kernels
    for node in {node for _, node, _ in lines}:
        assert [what for what, of, _ in lines if of == node] == ["submitted", "settled"]
    assert "y has the shape (512,)" in output
