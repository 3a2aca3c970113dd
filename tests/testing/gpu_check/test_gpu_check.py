"""The check of CUDA devices, on the double: it finds what is wrong, keeps its budget, and tells what it left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fuel_async.backends import Absent
from fuel_async.testing.cuda_double import DeviceModel, doubled
from fuel_async.testing.gpu_check import SECTIONS, Budget, Report, Section, run_check
from fuel_async.testing.gpu_check.check import QUICK, Setting
from fuel_async.testing.gpu_check.encoder import Shape, batch_of, encoder, weights_of
from fuel_async.testing.gpu_check.finding import entry_points_there, find, opened
from fuel_async.testing.gpu_check.looking import judge
from fuel_async.testing.gpu_check.programs import rotation

if TYPE_CHECKING:
    from collections.abc import Iterator

once = pytest.mark.asyncio(loop_factories=["default"])

ROOT = Path(__file__).parents[3]


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_the_command_checks_everything_in_its_budget(tmp_path: Path) -> None:
    """As from a plain checkout: nothing of this package is known to be installed there."""
    path = tmp_path / "report.json"
    ended = subprocess.run(
        [sys.executable, "-m", "fuel_async.testing.gpu_check", "--double", "--budget-s", "9", "--json", str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told = json.loads(path.read_text())
    assert told["is_good"]
    assert told["facts"]["on"] == "the double"
    assert [section["name"] for section in told["sections"]] == [name for name, _, _ in SECTIONS]
    assert ended.stdout.rstrip().endswith("all is good")
    figures = {name: value for section in told["sections"] for name, value in section["figures"].items()}
    assert figures["captured graphs"] == 1
    assert figures["cases"] > 0
    assert any("cases: the time was over" in what for section in told["sections"] for what in section["left_out"])


@pytest.fixture
def setting() -> Iterator[Setting]:
    with entry_points_there(), doubled([DeviceModel(memory_nbytes=256 << 20)]):
        found = find()
        assert not isinstance(found, Absent)
        yield Setting(found, QUICK, 0, is_double=True)


@once
async def test_what_is_wrong_is_found(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device whose copies back are off by one."""
    from fuel_async.testing.gpu_check import finding

    section = Section("conformance")
    with opened(setting.found[:1]) as (device,):
        lane = type(device.copy_lane(device.location, _host()))
    real = lane.submit_copy

    def submit_copy(self: Any, src: Any, dst: Any, waits: Any = ()) -> Any:
        handle = real(self, src, dst, waits)
        if isinstance(dst, np.ndarray) and dst.dtype == np.float32:
            handle.add_done_callback(lambda _: np.add(dst, 1, out=dst))
        return handle

    monkeypatch.setattr(lane, "submit_copy", submit_copy)
    await judge(setting, section, Budget(5.0))
    assert not section.is_good
    assert any("failed: " in fault for fault in section.faults)
    assert finding.OPTIONS not in os.environ


def _host() -> Any:
    from fuel_async.ir import CPU_DEVICE

    return CPU_DEVICE


@once
async def test_a_section_that_raises_is_a_fault_and_the_next_goes_on(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fuel_async.testing.gpu_check import check

    async def fail(setting: Setting, section: Section, budget: Budget) -> None:
        raise RuntimeError("broken")

    async def work(setting: Setting, section: Section, budget: Budget) -> None:
        section.figures["left_s"] = budget.left_s

    heard: list[int] = []
    monkeypatch.setattr(check, "SECTIONS", (("first", 1, fail), ("second", 3, work), ("third", 4, work)))
    clock = Clock()
    report = await run_check(setting, Budget(8.0, clock), {}, lambda told: heard.append(len(told.sections)))
    assert heard == [1, 2, 3]
    assert [section.is_good for section in report.sections] == [False, True, True]
    assert "RuntimeError: broken" in report.sections[0].faults[0]
    assert [section.figures.get("left_s") for section in report.sections] == [None, pytest.approx(24 / 7), 8.0]


@once
async def test_sections_without_time_are_left_out(setting: Setting) -> None:
    report = await run_check(setting, Budget(0.0), {"on": "nothing"}, lambda told: None)
    assert [section.left_out for section in report.sections] == [["all of it: the time was over"]] * len(SECTIONS)
    assert "left out: all of it" in report.table()


def test_time_that_one_section_leaves_goes_to_the_others() -> None:
    clock = Clock()
    whole = Budget(10.0, clock)
    first = whole.share(1, 1, 3)
    assert first.left_s == 2
    clock.now_s += 1
    assert whole.share(1, 3).left_s == 9 / 4
    clock.now_s += 20
    assert (first.is_over, whole.is_over, whole.left_s) == (True, True, 0)


def test_a_report_says_what_is_wrong_first_of_all() -> None:
    section = Section("sums", {"us": 1.23456}, left_out=["the rest"])
    for number in range(9):
        section.demand(number < 2, f"wrong {number}")
    report = Report({"budget_s": 1}, [section])
    assert not report.is_good
    table = report.table()
    assert "  us                                 1.235" in table
    assert "fault: wrong 2" in table
    assert "and 2 more faults" in table
    assert table.endswith("there are faults")
    assert json.loads(report.json())["sections"][0]["faults"][0] == "wrong 2"


def test_no_device_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from fuel_async.testing.gpu_check import command

    monkeypatch.setattr(command, "find", lambda: Absent("nothing here"))
    assert command.main([]) == 2
    assert capsys.readouterr().out == "no CUDA device: nothing here\n"


def test_powers_of_a_rotation_keep_their_size() -> None:
    made = np.linalg.matrix_power(rotation(64).astype(np.float64), 50)
    np.testing.assert_allclose(made @ made.T, np.eye(64), atol=1e-5)


@once
async def test_the_encoder_computes_what_torch_does() -> None:
    """Torch's own way needs a device: on the host its formulas are written in numpy."""
    import fuel_async as fa

    shape = Shape(layers=2, heads=2, width=32, hidden=64, batch=2, tokens=8)
    weights, batch = weights_of(shape), batch_of(shape)
    async with fa.Executor(["cpu:0"]) as executor:
        found = (await executor.run(encoder(shape, weights), x=batch))["y"]
    x = batch.astype(np.float64)
    for held in weights:
        x = _layer(x, held, shape)
    np.testing.assert_allclose(found, x, rtol=1e-3, atol=1e-4)


def _layer(x: Any, held: Any, shape: Shape) -> Any:
    def norm(y: Any) -> Any:
        return (y - y.mean(1, keepdims=True)) / np.sqrt(y.var(1, keepdims=True) + 1e-12)

    def gelu(y: Any) -> Any:
        from math import erf

        return y * 0.5 * (1 + np.vectorize(erf)(y / np.sqrt(2)))

    width = shape.width // shape.heads
    parts = (x @ held["joined"] + held["joined_bias"]).reshape(shape.batch, shape.tokens, 3, shape.heads, width)
    query, key, value = parts.transpose(2, 0, 3, 1, 4)
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(width)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    attended = (shares @ value).transpose(0, 2, 1, 3).reshape(shape.rows, shape.width)
    x = norm(x + attended @ held["out"] + held["out_bias"])
    hidden = gelu(x @ held["up"] + held["up_bias"])
    return norm(x + hidden @ held["down"] + held["down_bias"])
