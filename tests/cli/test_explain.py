"""`fuel-async explain`: a graph and a machine by name, and what is printed of the plan."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from fuel_async.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Outcome

ROOT = Path(__file__).parents[2]
MACHINE = str(ROOT / "examples" / "machines" / "cpu_two_gpus.toml")
MINILM = "examples.minilm_model:shapes"

GRAPHS = """
    import numpy as np

    import fuel_async as fa


    def forked() -> fa.Graph:
        g = fa.Graph("forked")
        x = g.input("x", (512, 512))
        ends = []
        for _ in range(6):
            end = x
            for _ in range(3):
                end = (end @ g.constant(np.ones((512, 512), np.float32))).tanh()
            ends.append(end)
        g.output("y", sum(ends[1:], ends[0]))
        return g


    def sized() -> fa.Graph:
        g = fa.Graph("sized")
        g.output("y", g.input("x", ("batch", "tokens"), hint={"batch": 8}) * 2.0)
        return g


    class Holder:
        inner = forked()


    ready = sized()
    number = 7
    nothing = lambda: None


    def wanting(size: int) -> fa.Graph: ...


    async def later() -> fa.Graph: ...


    def failing() -> fa.Graph:
        raise RuntimeError("no weights here")


    def wrong() -> fa.Graph:
        g = fa.Graph()
        g.input("x", (2,)) + g.input("y", (3,))
        return g
"""


@pytest.fixture(autouse=True)
def _graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a module of graphs, in which the command is run."""
    (tmp_path / "explained_graphs.py").write_text(dedent(GRAPHS))
    (tmp_path / "explained_broken.py").write_text("import explained_graphs, nothing_like_it\n")
    (tmp_path / "explained_raising.py").write_text("raise OSError('no file')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def said(out: list[str], start: str) -> list[str]:
    """The lines of a table, from the one that begins so to the next empty line."""
    first = next(place for place, line in enumerate(out) if line.startswith(start))
    end = next((place for place in range(first, len(out)) if not out[place]), len(out))
    return out[first + 1 : end]


# --- what is printed ---


def test_the_encoder_over_a_host_and_two_gpus(fuel: Callable[..., Outcome]) -> None:
    since_s = time.perf_counter()
    status, out, err = fuel("explain", MINILM, "--machine", MACHINE)
    assert time.perf_counter() - since_s < 10  # two seconds alone on a machine
    assert (status, err) == (0, "")
    assert re.fullmatch(r"graph 'minilm', batch = 8, tokens = 64: 147 kernels in \d+ regions, [\d.]+ ms", out[0])
    assert re.match(r"over 3 devices, \d+ copies, by earliest_finish, following a plan of the whole run;", out[1])
    devices = said(out, "device")
    assert [line.split("  ")[1].strip() for line in devices] == ["processor", "large gpu", "small gpu"]
    picture = said(out, "timeline")
    assert picture[0].split()[:2] == ["ms", "0"]
    assert len(picture) >= 4
    regions = said(out, "region ")
    assert len(regions) < 20  # the six layers share their lines
    assert all(re.search(r"done [\d.]+ ms before sim:\d+, \w+", line) for line in regions)
    kernels = said(out, "kernel ")
    assert kernels[0].startswith("matmul")
    assert re.search(r"layer 1 +sim:\d+ [\d.]+x, sim:\d+ [\d.]+x$", kernels[0])
    # Simulated devices are numbered through the process.
    assert [line for line in out if len(re.sub(r"sim:\d+", "sim:0", line)) > 120] == []


def test_a_region_in_full_has_every_candidate_with_its_verdict(fuel: Callable[..., Outcome]) -> None:
    _, out, _ = fuel("explain", "explained_graphs:forked", "--machine", MACHINE, "--json")
    told = json.loads("\n".join(out))
    wanted = next(one for one in told["regions"] if "shorter as a whole" in one["reason"])
    number = wanted["number"]
    status, out, _ = fuel("explain", "explained_graphs:forked", "--machine", MACHINE, "--region", str(number))
    assert status == 0
    start = next(place for place, line in enumerate(out) if line.startswith(f"region {number}: 1 matmul"))
    assert "as planned, though sim:" in out[start + 1]
    assert re.match(r"planned on sim:\d+ from [\d.]+ ms; without a plan it would go", out[start + 2])
    candidates = said(out[start:], "device")
    verdicts = [re.split(r" {2,}", line)[-1] for line in candidates]
    assert verdicts[0] == "chosen"
    assert sum(", but planned elsewhere" in one for one in verdicts) == 1
    assert sum(" later: start " in one for one in verdicts) == 1
    assert re.match(r"[\d.]+ ms by portable-cpu, price layer 1; built at explained_graphs.py:\d+$", out[start + 10])
    alternatives = said(out[start:], "runs")
    assert sum(line.startswith("*") for line in alternatives) == 1
    assert [re.split(r" {2,}", line)[-1] == "ranked first" for line in alternatives] == [True, False, False]
    # Simulated devices are numbered through the process.
    assert [line for line in out if len(re.sub(r"sim:\d+", "sim:0", line)) > 120] == []


def test_all_regions_in_full(fuel: Callable[..., Outcome]) -> None:
    _, short, _ = fuel("explain", "explained_graphs:forked", "--machine", MACHINE)
    _, out, _ = fuel("explain", "explained_graphs:forked", "--machine", MACHINE, "--all")
    count = int(re.search(r"in (\d+) regions", out[0])[1])  # type: ignore[index]
    assert [line.split()[1].rstrip(":") for line in out if re.match(r"region \d", line)] == list(map(str, range(count)))
    assert short[-1] == "--region N shows every candidate for a region, --all for all."


def test_json_is_the_explanation(fuel: Callable[..., Outcome]) -> None:
    status, out, err = fuel("explain", "explained_graphs:forked", "--machine", MACHINE, "--json")
    told = json.loads("\n".join(out))
    assert (status, err, told["format"], told["graph"]) == (0, "", 1, "forked")
    assert [one["name"] for one in told["devices"]] == ["processor", "large gpu", "small gpu"]
    again = json.loads("\n".join(fuel("explain", "explained_graphs:forked", "--machine", MACHINE, "--json")[1]))
    named = {one["device"]: one["name"] for one in (*told["devices"], *again["devices"])}
    assert [named[one["device"]] for one in again["regions"]] == [named[one["device"]] for one in told["regions"]]
    assert again["makespan_s"] == told["makespan_s"]


def test_the_first_run_pays_for_the_constants(fuel: Callable[..., Outcome]) -> None:
    def makespan_s(*more: str) -> float:
        told = json.loads("\n".join(fuel("explain", MINILM, "--machine", MACHINE, "--json", *more)[1]))
        return float(told["makespan_s"])

    assert makespan_s("--first-run") > makespan_s()


def test_without_a_machine_it_is_over_the_devices_that_are_here(fuel: Callable[..., Outcome]) -> None:
    status, out, _ = fuel("explain", "explained_graphs:ready", "--bind", "tokens=5")
    assert status == 0
    assert out[0].startswith("graph 'sized', batch = 8, tokens = 5: 1 kernels in 1 regions, ")
    assert any(line.startswith("cpu:0 ") for line in said(out, "device"))


@pytest.mark.parametrize("name", ["explained_graphs:ready", "explained_graphs:sized", "explained_graphs:Holder.inner"])
def test_a_graph_is_an_attribute_or_what_one_returns(fuel: Callable[..., Outcome], name: str) -> None:
    bind = [] if "inner" in name else ["--bind", "batch=2", "tokens=3"]
    assert fuel("explain", name, "--machine", MACHINE, *bind)[0] == 0


def test_a_run_that_would_fail_is_status_1(fuel: Callable[..., Outcome], tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text("[[device]]\nmemory_nbytes = 1000\n[[device]]\nmemory_nbytes = 1000\n")
    status, out, _ = fuel("explain", "explained_graphs:forked", "--machine", "tiny.toml")
    assert status == 1
    assert out[-1].startswith("it would fail: OutOfMemory: ")
    assert fuel("explain", "explained_graphs:forked", "--machine", "tiny.toml", "--json")[0] == 1


def test_on_a_terminal_it_keeps_to_its_width(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wide(*, highlight: bool, markup: bool) -> Console:
        return Console(force_terminal=True, width=100, color_system=None, highlight=highlight, markup=markup)

    monkeypatch.setattr(sys.modules[main.__module__], "Console", wide)
    assert main(["explain", MINILM, "--machine", MACHINE]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100 + 10  # the sentence of the way may run on
    assert any("│ large gpu " in line for line in lines)


# --- what goes wrong ---

WRONG = {
    ("nothing",): "nothing: has no module and attribute with a colon between; give MODULE:GRAPH",
    ("no_such_module:g",): "there is no module 'no_such_module'",
    ("explained_graphs.deeper:g",): "there is no module 'explained_graphs.deeper'",
    ("explained_broken:g",): "its module needs 'nothing_like_it', which is not installed",
    ("explained_raising:g",): "importing 'explained_raising' raised OSError: no file",
    ("explained_graphs:g",): "module 'explained_graphs' has no 'g'",
    ("explained_graphs:number",): "'number' is of type int, not a graph",
    ("explained_graphs:nothing",): "'nothing' returned None, not a graph",
    ("explained_graphs:wanting",): "'wanting' cannot be called without arguments (missing a required argument: 'size')",
    ("explained_graphs:later",): "'later' is asynchronous",
    ("explained_graphs:failing",): "'failing' raised RuntimeError: no weights here",
    ("explained_graphs:wrong",): "shapes do not broadcast",
    ("explained_graphs:sized",): "graph 'sized' has the symbol 'tokens', without a hint; give --bind tokens=SIZE",
    ("explained_graphs:sized", "--bind", "b=1"): "graph 'sized' has no symbol 'b'; it has batch, tokens",
    ("explained_graphs:forked", "--bind", "b=1"): "graph 'forked' has no symbol 'b'; it has none",
    ("explained_graphs:forked", "--region", "99", "--machine", MACHINE): "there is no region 99; there are 37, from 0",
    ("explained_graphs:forked", "--machine", "none.toml"): "none.toml cannot be read: No such file or directory",
    ("explained_graphs:forked", "--machine", "explained_graphs.py"): "explained_graphs.py is no TOML: ",
    ("explained_graphs:forked", "--machine", "odd.toml"): "device 1 has no 'spede'; there are ",
}


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_what_is_wrong_is_said_in_one_line(fuel: Callable[..., Outcome], arguments: tuple[str, ...]) -> None:
    Path("odd.toml").write_text("[[device]]\nspede = 2\n")
    status, out, err = fuel("explain", *arguments)
    assert (status, out) == (1, [])
    assert err.startswith("fuel-async: ")
    assert WRONG[arguments] in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("text", ["batch", "batch=", "=3", "batch=-1", "batch=two"])
def test_a_binding_is_a_name_and_a_size(fuel: Callable[..., Outcome], text: str) -> None:
    status, _, err = fuel("explain", "explained_graphs:sized", "--bind", text)
    assert status == 2
    assert "binds nothing; write NAME=SIZE, for example batch=8" in err
