"""The example of a sentence encoder over Vulkan devices and the host runs, and says what it did."""

from __future__ import annotations

import re

import pytest

from examples import vulkan_embed
from examples.minilm_assets import AssetsMissing, load_tokenizer, model_folder
from fuel_async.backends.vulkan.options import VARIABLE
from fuel_async.errors import DeviceLost
from fuel_async.ir import DeviceLocation
from fuel_async.runtime.explain import Candidate, Explanation, RegionExplanation
from tests.backends.vulkan.support import demanded, options


@pytest.mark.slow
def test_the_example_spreads_an_encoder_and_crosses_all_devices(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        model_folder(), load_tokenizer()
    except AssetsMissing as error:
        pytest.skip(str(error))
    asked = options()
    found = demanded(asked)
    monkeypatch.setenv(VARIABLE, f"validation={int(asked.validation)}")
    assert vulkan_embed.main() == 0
    output = capsys.readouterr().out
    places = [f"vulkan:{number}" for number in range(len(found))] + ["cpu:0"]
    assert f"pinned to {' -> '.join(places * 2)}: " in output
    assert f"spread over {len(places)} devices: " in output
    regions = dict(re.findall(r"^  (\S+): (\d+) regions, ", output, re.MULTILINE))
    assert regions.keys() == set(places)
    assert min(map(int, regions.values())) >= 5
    assert "graph 'minilm', batch = 1, tokens = 9: " in output
    assert re.search(r"^by default \d+ of \d+ regions would be the host's", output, re.MULTILINE)
    for place in places:
        assert re.search(rf"^    {place} would take [0-9.]+ ms for it, after \d copies$", output, re.MULTILINE)


def test_without_a_device_it_says_why(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def none(asked: object) -> None:
        raise DeviceLost("vulkan", "no driver offers a device")

    monkeypatch.setattr(vulkan_embed, "open_devices", none)
    assert vulkan_embed.main() == 1
    assert "no driver offers a device; docs/vulkan.md says how to get a driver" in capsys.readouterr().err


def test_the_verdict_names_the_largest_region_and_what_each_device_would_take() -> None:
    host, device = DeviceLocation.parse("cpu:0"), DeviceLocation.parse("vulkan:0")
    offers = (Candidate(host, 0, 0.002, 0.002, 0, 0), Candidate(device, 0, 0.03, 0.029, 1, 64))
    small = RegionExplanation(0, {"add": 1}, (), device, 0, 0.001, offers, "done first")
    large = RegionExplanation(1, {"matmul": 1}, (0,), host, 0.001, 0.003, offers, "done before vulkan:0")
    said = list(vulkan_embed.verdict(Explanation("g", {}, 2, (small, large), 0.003, "over 2 devices")))
    assert said[0] == "by default 1 of 2 regions would be the host's; the largest of all:"
    assert said[1].startswith("  region 1 after 0: 1 matmul")
    assert said[-2:] == [
        "    cpu:0 would take 2.00 ms for it, after 0 copies",
        "    vulkan:0 would take 29.00 ms for it, after 1 copies",
    ]
