"""Looking at a graph kernel by kernel: each is one line when it is submitted, and one when it has settled.

    python -m examples.walk

A walk submits kernels ahead of the lane that runs them, so the two kinds of lines overlap. It is for looking: `run`
computes the same values with far less work a kernel.
"""

from __future__ import annotations

import asyncio
import time

import numpy as np

import fuel_async as fa

SIZE = 512


def two_branches() -> fa.Graph:
    """Return a graph that forks after one product and joins again."""
    g = fa.Graph("two branches")
    x = g.input("x", (SIZE, SIZE))
    mixed = x @ g.constant(np.full((SIZE, SIZE), 1 / SIZE, np.float32))
    g.output("y", (mixed.tanh() @ x + mixed.softmax()).sum(axis=1))
    return g


async def main() -> None:
    feed = np.random.default_rng(7).uniform(-1, 1, (SIZE, SIZE)).astype(np.float32)
    async with fa.Executor() as executor:
        walk = executor.walk(two_branches(), x=feed)
        start_s = time.perf_counter()

        def report(what: str, handle: fa.CompletionHandle, more: str) -> None:
            assert handle.node is not None  # the handles of a walk name theirs
            op, kind = walk.graph.ops[handle.node].name, walk.graph.types[handle.node]
            at_ms = 1e3 * (time.perf_counter() - start_s)
            print(f"{at_ms:7.2f} ms  {what:9}  %{handle.node:<2} {op:<7} {kind!s:<14} {more}")

        def settled(handle: fa.CompletionHandle) -> None:  # called by the thread of the lane
            timing = handle.result()
            report("settled", handle, f"waited {timing.queued_ns / 1e6:.2f} ms, ran {timing.elapsed_ns / 1e6:.2f} ms")

        async for handle in walk:
            report("submitted", handle, f"to {handle.lane}")
            handle.add_done_callback(settled)
        print(f"y has the shape {walk.results['y'].shape}")


if __name__ == "__main__":
    asyncio.run(main())
