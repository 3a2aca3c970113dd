"""A sentence encoder over Vulkan devices and the host together, and a graph pinned across all of them.

    python -m examples.vulkan_embed

On a machine without a GPU this takes a software driver, which computes on the host's own processor: nothing is gained
by it, and the default placement leaves nearly everything to the host's kernels. `placement="spread"` does not ask what
is gained. `VK_DRIVER_FILES` says which drivers there are, with `:` between them.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import fuel_async as fa
from examples.minilm_assets import AssetsMissing, encode_batch, load_tokenizer, load_weights
from examples.minilm_model import sentence_encoder
from fuel_async.backends.vulkan import VulkanOptions, open_devices
from fuel_async.errors import DeviceLost

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from fuel_async.backends.vulkan.device import VulkanDevice
    from fuel_async.runtime.explain import Explanation

GOLDEN = Path(__file__).parent.parent / "tests" / "data" / "minilm_embeddings.json"

#: Float32 rounding, on whatever devices.
TOLERANCE = 1e-5

HOST = "cpu:0"

#: Regions of an explanation that are printed.
SHOWN = 8


async def embed(devices: Sequence[VulkanDevice]) -> None:
    """Embed one short sentence with every device taking its part; then say what the default placement would do."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    sentence, expected = golden["sentences"][0], np.array(golden["embedding_float64"][:1])
    ids, mask = await asyncio.to_thread(encode_batch, load_tokenizer(), [sentence])
    encoder = sentence_encoder(load_weights())
    async with fa.Executor([*devices, HOST], placement="spread") as executor:
        embedding = (await executor.run(encoder, ids=ids, mask=mask))["embeddings"]
        spread = executor.explain(encoder, ids=ids, mask=mask)
        did = executor.statistics().devices
    error = float(np.abs(embedding - expected).max())
    assert error < TOLERANCE, f"the embedding is {error} from the golden one"
    print(f"{sentence!r}, spread over {len(did)} devices: {error:.0e} from the golden embedding")
    for location, one in did.items():
        print(f"  {location}: {one.regions} regions, {one.kernels} kernels")
    print(*excerpt(spread), sep="\n")

    async with fa.Executor([*devices, HOST]) as executor:
        print(*verdict(executor.explain(encoder, ids=ids, mask=mask)), sep="\n")


def excerpt(explanation: Explanation) -> Iterator[str]:
    """Yield the beginning of an explanation."""
    lines = str(explanation).splitlines()
    shown = 2 + 2 * SHOWN
    yield from ("  " + line for line in lines[:shown])
    if len(lines) > shown:
        yield f"  and {len(explanation.regions) - SHOWN} regions more"


def verdict(explanation: Explanation) -> Iterator[str]:
    """Yield how many regions the default placement gives to the host, and why the largest goes where it does."""
    regions = explanation.regions
    hosts = sum(str(region.device) == HOST for region in regions)
    largest = max(regions, key=lambda region: region.finish_s - region.start_s)
    yield f"by default {hosts} of {len(regions)} regions would be the host's; the largest of all:"
    yield from ("  " + line for line in str(largest).splitlines())
    for one in largest.candidates:
        yield f"    {one.device} would take {one.predicted_s * 1e3:.2f} ms for it, after {one.copies} copies"


def layers(weights: npt.NDArray[np.float32], places: Sequence[fa.DeviceLocation | str]) -> fa.Graph:
    """Layers tanh(x @ w), each pinned to the next of the places."""
    graph = fa.Graph("pinned")
    x = graph.input("x", (4, len(weights)))
    for place in places:
        with graph.on(place):
            x = (x @ graph.constant(weights)).tanh()
    graph.output("y", x)
    return graph


async def pinned(devices: Sequence[VulkanDevice]) -> None:
    """One graph that crosses from device to device and gives what the host alone gives."""
    draw = np.random.default_rng(7)
    x = draw.standard_normal((4, 32)).astype(np.float32)
    weights = (draw.standard_normal((32, 32)) / 32**0.5).astype(np.float32)
    places: list[fa.DeviceLocation | str] = [*[device.location for device in devices], HOST] * 2
    async with fa.Executor([HOST]) as executor:
        expected = (await executor.run(layers(weights, [HOST] * len(places)), x=x))["y"]
    async with fa.Executor([*devices, HOST]) as executor:
        found = (await executor.run(layers(weights, places), x=x))["y"]
        did = executor.statistics().devices
    error = float(np.abs(found - expected).max())
    assert error < TOLERANCE, f"the pinned graph is {error} from the host's values"
    assert all(one.regions for one in did.values()), "a device took no part"
    print(f"pinned to {' -> '.join(map(str, places))}: {error:.0e} from what the host alone gives")


def main() -> int:
    try:
        devices = open_devices(VulkanOptions.from_environment())
    except DeviceLost as error:
        print(f"{error}; docs/vulkan.md says how to get a driver", file=sys.stderr)
        return 1
    for device in devices:
        print(f"{device.location}: {device.info.name}, {device.info.detail}")
    try:
        asyncio.run(pinned(devices))
        asyncio.run(embed(devices))
    except AssetsMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    finally:
        for device in devices:
            device.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
