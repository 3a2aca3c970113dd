"""A real model, all-MiniLM-L6-v2, batch 8 of 64 tokens: ours, plain numpy, and torch's eager mode, one thread each."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

import fuel_async as fa
from benchmarks.minilm_numpy import embed
from benchmarks.report import Figures, Report, Target, WrongResult
from benchmarks.timing import Quiet, loop_factories, median, now_ns, run_on
from examples.minilm_assets import AssetsMissing, encode_batch, load_tokenizer, load_weights
from examples.minilm_model import sentence_encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.workloads import Array

TARGETS = {"ratio_numpy": Target(max=0.9)}

GOLDEN = Path(__file__).parent.parent / "tests" / "data" / "minilm_embeddings.json"

#: Float32 rounding through six layers stays an order of magnitude below this.
TOLERANCE = 2e-6

#: Ids of ordinary words in the vocabulary.
WORD_IDS = (1_996, 29_000)


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    sentences: int = 8
    tokens: int = 64
    rounds: int = 11
    golden: int | None = None
    patience_s: float = 60


QUICK = Scale(sentences=1, tokens=4, rounds=1, golden=2, patience_s=0)


@dataclass(frozen=True, slots=True)
class Batch:
    """The model's graph and one batch of full-length sentences."""

    weights: Mapping[str, Array]
    graph: fa.Graph
    feeds: dict[str, Array]

    def check(self, results: Mapping[str, Array]) -> None:
        """`WrongResult` unless a run gave what numpy gives."""
        _compare("the batch", results["embeddings"], embed(self.weights, self.feeds["ids"], self.feeds["mask"]))


def load_batch(sentences: int, tokens: int) -> Batch:
    """Read the weights, build the graph, draw the words. `AssetsMissing` when there are no weights here."""
    weights = load_weights()
    ids = np.random.default_rng(7).integers(*WORD_IDS, (sentences, tokens)).astype(np.uint32)
    feeds: dict[str, Array] = {"ids": ids, "mask": np.ones((sentences, tokens), np.float32)}
    return Batch(weights, sentence_encoder(weights), feeds)


def measure(quick: bool) -> Report:
    """Measure on the first loop: it has nothing to do here."""
    scale = QUICK if quick else Scale()
    quiet = Quiet(scale.patience_s)
    try:
        batch = load_batch(scale.sentences, scale.tokens)
    except AssetsMissing as error:
        raise SystemExit(str(error)) from None
    name, factory = next(iter(loop_factories().items()))
    figures = run_on(factory, _figures(batch, scale, quiet))
    facts = {"batch": scale.sentences, "tokens": scale.tokens, **quiet.facts}
    return Report("minilm", {name: figures}, TARGETS, facts)


async def _figures(batch: Batch, scale: Scale, quiet: Quiet) -> Figures:
    with ExitStack() as limits:
        limits.enter_context(threadpool_limits(1, user_api="blas"))
        async with fa.Executor(blas_threads=1) as executor:
            worst = await _check_golden(executor, batch, scale.golden)
            one = await _beside(executor, batch, _peers(batch, 1), scale.rounds, quiet)
    # Every library at its own default; an executor leaves a core to the loop.
    async with fa.Executor() as executor:
        ours = await _beside(executor, batch, {}, scale.rounds // 2 + 1, quiet)
    theirs = await _beside(None, batch, _peers(batch, None), scale.rounds // 2 + 1, quiet)
    default = {**theirs, "ms": ours["ms"]}
    return {
        **{name: _median(times) for name, times in one.items()},
        "ratio_numpy": _ratio(one["ms"], one["numpy_ms"]),
        "ratio_torch": _ratio(one["ms"], one["torch_ms"]),
        "golden_error": worst,
        **{f"default_threads.{name}": _median(times) for name, times in default.items()},
    }


async def _beside(
    executor: fa.Executor | None,
    batch: Batch,
    peers: Mapping[str, Callable[[], Array]],
    rounds: int,
    quiet: Quiet,
) -> dict[str, list[float]]:
    """Times in ms, one of each a round."""

    async def measured() -> dict[str, float]:
        taken, results = {}, {}
        if executor is not None:
            started_ns = now_ns()
            results["ms"] = (await executor.run(batch.graph, batch.feeds))["embeddings"]
            taken["ms"] = (now_ns() - started_ns) / 1e6
        for name, call in peers.items():
            started_ns = now_ns()
            results[name] = call()
            taken[name] = (now_ns() - started_ns) / 1e6
        for name, embeddings in results.items():
            _compare(name, embeddings, expected)
        return taken

    expected = embed(batch.weights, batch.feeds["ids"], batch.feeds["mask"])
    await measured()
    times = await quiet.rounds(rounds, measured)
    names = ("ms", "numpy_ms", "torch_ms")
    return {name: [one[name] for one in times if name in one] for name in names}


def _peers(batch: Batch, threads: int | None) -> dict[str, Callable[[], Array]]:
    peers: dict[str, Callable[[], Array]] = {
        "numpy_ms": partial(embed, batch.weights, batch.feeds["ids"], batch.feeds["mask"])
    }
    if importlib.util.find_spec("torch") is not None:
        from benchmarks.minilm_torch import torch_forward

        peers["torch_ms"] = torch_forward(batch.weights, batch.feeds["ids"], batch.feeds["mask"], threads)
    return peers


def _median(times: list[float]) -> float | None:
    return median(times) if times else None


def _ratio(ours: list[float], theirs: list[float]) -> float | None:
    """The median of the rounds' ratios; None without a peer."""
    if not theirs:
        return None
    return median(mine / other for mine, other in zip(ours, theirs, strict=True))


async def _check_golden(executor: fa.Executor, batch: Batch, count: int | None) -> float:
    """Embed sentences through the tokenizer; the largest distance from what the model's authors' code gives."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    tokenizer = load_tokenizer()
    ids, mask = await asyncio.to_thread(encode_batch, tokenizer, golden["sentences"][:count])
    embeddings = (await executor.run(batch.graph, ids=ids, mask=mask))["embeddings"]
    return _compare("the golden sentences", embeddings, np.array(golden["embedding_float64"][:count]))


def _compare(what: str, embeddings: Array, expected: Array) -> float:
    error = float(np.abs(embeddings - expected).max())
    if not error <= TOLERANCE:
        raise WrongResult(f"{what}: embeddings differ by {error:.2e}, more than {TOLERANCE:.0e}")
    return error
