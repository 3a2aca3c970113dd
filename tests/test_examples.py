"""The examples run. The demo, `examples/embed.py`, has a command of its own: `make demo`."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import numpy as np
import pytest

import fuel_async as fa
from examples import multi_device
from examples.minilm_assets import AssetsMissing, load_tokenizer, model_folder
from examples.timeline import Recorded, picture
from fuel_async.backends.sim import SimDeviceSpec, SimMachine, VirtualClock
from fuel_async.runtime import Row, Span
from fuel_async.testing import run_virtual, synthetic_op

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


# --- several devices --------------------------------------------------------------------------------------------------

SVG = "{http://www.w3.org/2000/svg}"


def boxes(svg: str, colour: str) -> list[tuple[float, float]]:
    """Left edge and width of each box of a colour, in their order."""
    found = [box for box in ElementTree.fromstring(svg).iter(f"{SVG}rect") if box.get("fill") == colour]
    return [(float(box.attrib["x"]), float(box.attrib["width"])) for box in found]


def test_a_picture_has_a_box_for_each_span_by_its_time() -> None:
    ms = 1_000_000
    spans = [Span("a", "run", 0, 10 * ms), Span("a", "run", 20 * ms, 40 * ms), Span("b", "copy", 40 * ms, 50 * ms)]
    spans += [Span("elsewhere", "run", 0, 50 * ms), Span("a", "unnamed", 0, 50 * ms)]
    rows = [Row("a", "first <lane>", note="60%"), Row("b", "second")]
    svg = picture("Two lanes", rows, {"run": ("#000001", "a run"), "copy": ("#000002", "a copy")}, spans, {"now": ms})

    legend, first, second = boxes(svg, "#000001")
    assert second[1] == pytest.approx(2 * first[1], abs=0.02)
    assert second[0] - first[0] == pytest.approx(2 * first[1], abs=0.02)
    _, copy = boxes(svg, "#000002")
    assert copy[0] + copy[1] - first[0] == pytest.approx(5 * first[1], abs=0.05)
    assert legend[1] == 14
    texts = [text.text for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert {"Two lanes", "first <lane>", "second", "60%", "a run", "a copy", "now", "0", "10", "50"} <= set(texts)


def test_what_nobody_could_see_apart_is_one_box() -> None:
    spans = [Span("a", "run", at, at + 1) for at in range(0, 1_000, 2)] + [Span("a", "run", 10**9, 2 * 10**9)]
    _, speck, block = boxes(picture("", [Row("a", "a")], {"run": ("#000001", "a run")}, spans), "#000001")
    assert speck[1] < 1 < block[1]


def test_recorded_devices_write_down_all_that_they_do() -> None:
    machine, spans = SimMachine([SimDeviceSpec(), SimDeviceSpec(speed=2)], clock=VirtualClock()), list[Span]()
    graph = fa.Graph("three branches")
    x = graph.input("x", (64,), fa.u8)
    branches = [synthetic_op(graph, [x], cost_ns=1_000_000, nbytes=64) for _ in range(3)]
    graph.output("y", synthetic_op(graph, branches, cost_ns=1_000, nbytes=64))

    async def main(clock: VirtualClock) -> fa.Executor:
        devices = [
            cast("Any", Recorded(device, spans, lambda program: program.graph.name)) for device in machine.devices
        ]
        async with fa.Executor(devices) as executor:
            await executor.run(graph, x=np.zeros(64, np.uint8))
        return executor

    assert isinstance(machine.clock, VirtualClock)
    run_virtual(main, clock=machine.clock)
    machine.close()
    lanes = {lane.name: lane for device in machine.devices for lane in device.lanes}
    links = {link.name: link for link in machine.links}
    for name, track in {**lanes, **links}.items():
        assert sum(span.end_ns - span.start_ns for span in spans if span.row == name) == track.busy_ns
    assert {span.row for span in spans if span.kind == "three branches"} == lanes.keys()
    assert sum(span.kind == "copy" for span in spans) == sum(link.copies for link in links.values()) > 0


@pytest.mark.slow
def test_requests_are_served_by_several_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        model_folder(), load_tokenizer()
    except AssetsMissing as error:
        pytest.skip(str(error))
    svg = tmp_path / "devices.svg"
    assert multi_device.main(["--requests", "4", "--svg", str(svg)]) == 0
    output = capsys.readouterr().out
    assert re.match(r"4 requests in \d+ ms of simulated time\nlatency: p50 ", output)
    assert len(re.findall(r"^gpu \d \(speed \d\) +\d+% +\d+ ", output, re.MULTILINE)) == 4
    assert "embeddings are those of the host (largest difference " in output
    labels = [text.text for text in ElementTree.parse(svg).iter(f"{SVG}text")]
    assert {"gpu 0 (speed 4)", "gpu 3 (speed 1)", "host → gpu 0", "gpu 0 → host"} <= set(labels)
