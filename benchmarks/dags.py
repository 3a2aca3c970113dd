"""Task graphs of the usual families, drawn from a seed: who reads whom, work, sizes, and what kind of work it is.

Stencil, FFT, tree, spread and random are the dependence patterns of Task Bench (Slaughter et al., SC 2020). The layered
random graphs are those that schedulers are compared on; the encoder and the ensemble have the flops and bytes of their
layers. Recorded workflows are in `workflows.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

#: Of a task, on a device of speed 1.
MEAN_WORK_NS = 200_000.0

#: Kinds of work: dense arithmetic, element by element, irregular. Devices are not equally good at them.
KINDS = DENSE, ELEMENTWISE, IRREGULAR = range(3)

#: How often each kind of work is drawn.
SHARES = (0.6, 0.3, 0.1)


@dataclass(frozen=True, slots=True)
class Dag:
    """Tasks in topological order. Each makes one value, which all its readers read."""

    preds: Sequence[Sequence[int]]
    #: On a device of speed 1.
    work_ns: Sequence[float]
    #: Relative where the graph is to be given a ratio of moves to work.
    nbytes: Sequence[float]
    kinds: Sequence[int]


def _drawn(preds: Sequence[Sequence[int]], chance: random.Random, spread: float = 0.5) -> Dag:
    """Work and sizes around their means, up to `spread` of them away."""
    low, high = 1 - spread, 1 + spread
    return Dag(
        preds,
        [MEAN_WORK_NS * chance.uniform(low, high) for _ in preds],
        [chance.uniform(low, high) for _ in preds],
        chance.choices(KINDS, SHARES, k=len(preds)),
    )


# --- dependence patterns ----------------------------------------------------------------------------------------------


def _grid(tasks: int, chance: random.Random, reads: Callable[[int, int, int], Sequence[int]]) -> Dag:
    """Steps of so many points each, of which each reads some points of the step before."""
    width = max(4, round(math.sqrt(tasks) * chance.choice((0.6, 1.0, 1.6))))
    preds: list[Sequence[int]] = [()] * width
    for step in range(1, max(2, tasks // width)):
        for point in range(width):
            read = {other for other in reads(step, point, width) if 0 <= other < width}
            preds.append(sorted((step - 1) * width + other for other in read))
    return _drawn(preds, chance)


def stencil(tasks: int, chance: random.Random) -> Dag:
    return _grid(tasks, chance, lambda _, point, __: (point - 1, point, point + 1))


def fft(tasks: int, chance: random.Random) -> Dag:
    def reads(step: int, point: int, width: int) -> Sequence[int]:
        stride = 1 << (step - 1) % max(1, int(math.log2(width)))
        return point - stride, point, point + stride

    return _grid(tasks, chance, reads)


def spread(tasks: int, chance: random.Random) -> Dag:
    def reads(step: int, point: int, width: int) -> Sequence[int]:
        return [(point + far * width // 3 + (step % width if far else 0)) % width for far in range(3)]

    return _grid(tasks, chance, reads)


def random_pattern(tasks: int, chance: random.Random) -> Dag:
    def reads(_: int, point: int, width: int) -> Sequence[int]:
        share = min(0.5, 3.0 / width)
        return [other for other in range(width) if chance.random() < share] or [point]

    return _grid(tasks, chance, reads)


def tree(tasks: int, chance: random.Random) -> Dag:
    """From the root, to the root, or both."""
    shape = chance.choice(("out", "in", "both"))
    count = tasks if shape != "both" else (1 << int(math.log2(tasks // 2 + 1))) - 1
    out: list[list[int]] = [[(node - 1) // 2] if node else [] for node in range(count)]
    if shape == "in":
        preds: list[list[int]] = [[] for _ in range(count)]
        for node in range(count - 1, 0, -1):
            preds[count - 1 - (node - 1) // 2].append(count - 1 - node)
        return _drawn(preds, chance)
    if shape == "both":
        last = [node for node in range(count) if 2 * node + 1 >= count]
        while len(last) > 1:
            joined = [last[place : place + 2] for place in range(0, len(last), 2)]
            last = list(range(len(out), len(out) + len(joined)))
            out += joined
    return _drawn(out, chance)


def fork_join(tasks: int, chance: random.Random) -> Dag:
    """Stages of equal branches, one after the other."""
    width, length = chance.choice((4, 6, 8, 12, 16)), chance.choice((1, 2, 3))
    preds: list[list[int]] = []
    while len(preds) < tasks:
        preds.append([len(preds) - 1] if preds else [])
        fork, ends = len(preds) - 1, []
        for _ in range(width):
            for place in range(length):
                preds.append([len(preds) - 1 if place else fork])
            ends.append(len(preds) - 1)
        preds.append(ends)
    return _drawn(preds, chance, 0.7)


def layered(tasks: int, chance: random.Random) -> Dag:
    """Layers of random width, with edges mostly from the layer before."""
    height = max(3, int(math.sqrt(tasks) / chance.choice((0.5, 1.0, 2.0))))
    layers: list[range] = []
    while (made := layers[-1].stop if layers else 0) < tasks:
        width = max(1, min(tasks - made, int(chance.uniform(0.4, 1.6) * tasks / height)))
        layers.append(range(made, made + width))
    preds: list[Sequence[int]] = [()] * len(layers[0])
    for number in range(1, len(layers)):
        for _ in layers[number]:
            read = {chance.choice(layers[number - 1])}
            for _ in range(chance.randint(0, 3)):
                back = 1 if chance.random() < 0.75 else chance.randint(1, min(3, number))
                read.add(chance.choice(layers[number - back]))
            preds.append(sorted(read))
    return _drawn(preds, chance, 0.9)


# --- models -----------------------------------------------------------------------------------------------------------


class _Model:
    """A graph under construction. Work is what a device of speed 1 takes: 5 Tflop/s, 500 GB/s, 3 µs at least."""

    def __init__(self) -> None:
        self.preds: list[Sequence[int]] = []
        self.work_ns: list[float] = []
        self.nbytes: list[float] = []
        self.kinds: list[int] = []

    def add(self, preds: Sequence[int], flops: float, moved: float, nbytes: float, kind: int) -> int:
        self.preds.append(preds)
        self.work_ns.append(max(3_000.0, flops / 5e3, moved / 5e2))
        self.nbytes.append(nbytes)
        self.kinds.append(kind)
        return len(self.preds) - 1

    def encoder(self, entry: int, layers: int, length: int, width: int) -> int:
        """Layers of a transformer over so many tokens; return its last node."""
        inner, heads = 4 * width, max(1, width // 64)
        state, scores = 4.0 * length * width, 4.0 * length * length * heads
        project, attend = 2.0 * length * width * width, 2.0 * length * length * width
        weights, hidden = 4.0 * width * width, 4.0 * length * inner
        last = entry
        for _ in range(layers):
            query, key, value = (self.add([last], project, 2 * state + weights, state, DENSE) for _ in range(3))
            score = self.add([query, key], attend, 2 * state + scores, scores, DENSE)
            share = self.add([score], 0, 2 * scores, scores, ELEMENTWISE)
            mixed = self.add([share, value], attend, scores + 2 * state, state, DENSE)
            out = self.add([mixed], project, 2 * state + weights, state, DENSE)
            added = self.add([last, out], 0, 3 * state, state, ELEMENTWISE)
            normed = self.add([added], 0, 2 * state, state, ELEMENTWISE)
            up = self.add([normed], 4 * project, state + hidden + 4 * weights, hidden, DENSE)
            gelu = self.add([up], 0, 2 * hidden, hidden, ELEMENTWISE)
            down = self.add([gelu], 4 * project, state + hidden + 4 * weights, state, DENSE)
            again = self.add([normed, down], 0, 3 * state, state, ELEMENTWISE)
            last = self.add([again], 0, 2 * state, state, ELEMENTWISE)
        return last

    def mixture(self, entry: int, layers: int, length: int, width: int, experts: int) -> int:
        """The same with experts in each layer, among which a router divides the tokens; return its last node."""
        inner, heads = 4 * width, max(1, width // 64)
        state, scores, hidden = 4.0 * length * width, 4.0 * length * length * heads, 4.0 * length * inner / experts
        project, attend, weights = 2.0 * length * width * width, 2.0 * length * length * width, 4.0 * width * width
        last = entry
        for _ in range(layers):
            query, key, value = (self.add([last], project, 2 * state + weights, state, DENSE) for _ in range(3))
            score = self.add([query, key], attend, 2 * state + scores, scores, DENSE)
            share = self.add([score], 0, 2 * scores, scores, ELEMENTWISE)
            mixed = self.add([share, value], attend, scores + 2 * state, state, DENSE)
            out = self.add([mixed], project, 2 * state + weights, state, DENSE)
            added = self.add([last, out], 0, 3 * state, state, ELEMENTWISE)
            routed = self.add([added], 0, state, state / experts, IRREGULAR)
            ends = []
            for _ in range(experts):
                up = self.add([routed], 4 * project / experts, hidden + 4 * weights, hidden, DENSE)
                gelu = self.add([up], 0, 2 * hidden, hidden, ELEMENTWISE)
                ends.append(self.add([gelu], 4 * project / experts, hidden + 4 * weights, state / experts, DENSE))
            last = self.add([added, *ends], 0, 3 * state, state, ELEMENTWISE)
        return last

    def done(self) -> Dag:
        return Dag(self.preds, self.work_ns, self.nbytes, self.kinds)


#: Nodes of one layer of an encoder.
_LAYER = 14


def encoder(tasks: int, chance: random.Random) -> Dag:
    """Eight requests to one encoder."""
    model, requests = _Model(), 8
    width, layers = chance.choice((256, 384, 768)), max(1, round(tasks / requests / _LAYER))
    for _ in range(requests):
        length = chance.choice((64, 128, 256))
        entry = model.add([], 1e8, 0, 4.0 * length * width, IRREGULAR)
        last = model.encoder(entry, layers, length, width)
        model.add([last], 0, 8.0 * length * width, 4.0 * width, ELEMENTWISE)
    return model.done()


def ensemble(tasks: int, chance: random.Random) -> Dag:
    """Requests that four models of different sizes answer together."""
    model, length = _Model(), chance.choice((64, 128))
    requests = 1 if tasks < 150 else 2 if tasks < 500 else 4
    layers = max(4, round(tasks / requests / _LAYER))
    for _ in range(requests):
        entry = model.add([], 1.5e8, 0, 4.0 * length * 768, IRREGULAR)
        ends = [
            model.encoder(entry, max(1, round(layers * share)), length, width)
            for width, share in ((256, 0.35), (384, 0.3), (512, 0.2), (768, 0.15))
        ]
        joined = model.add(ends, 2.5e7, 0, 4_096.0, ELEMENTWISE)
        model.add([joined], 0, 0, 4_096.0, IRREGULAR)
    return model.done()


def mixture(layers: int, experts: int = 3, length: int = 128, width: int = 768) -> Dag:
    """One request to a model of so many equal layers, each with experts: what repeats itself most plainly."""
    model = _Model()
    entry = model.add([], 1e8, 0, 4.0 * length * width, IRREGULAR)
    last = model.mixture(entry, layers, length, width, experts)
    model.add([last], 0, 8.0 * length * width, 4.0 * width, ELEMENTWISE)
    return model.done()
