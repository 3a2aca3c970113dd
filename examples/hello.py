"""A graph described once, then awaited with feeds of any batch size."""

import asyncio

import numpy as np

import fuel_async as fa

g = fa.Graph("classifier")
x = g.input("x", ("batch", 4))  # float32; a feed's shape gives "batch" its size
weights = g.constant(np.eye(4, 3, dtype=np.float32))
g.output("scores", (x @ weights).softmax())


async def main() -> None:
    async with fa.Executor() as executor:
        results = await executor.run(g, x=np.eye(2, 4, dtype=np.float32))
        print(results["scores"].round(3))  # a numpy array of shape (2, 3)


asyncio.run(main())
