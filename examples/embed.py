"""Semantic search over this project's own pages: a sentence encoder served from an asyncio program.

    make demo                                        (or: python -m examples.embed "your question" ...)

README.md and docs/*.md are split into sentences and embedded by all-MiniLM-L6-v2, one graph of 294 nodes.
The batches run concurrently; each is nothing but `await executor.run(graph, ids=..., mask=...)`. A heartbeat
on the same event loop shows what it feels meanwhile. Then questions find the sentences nearest in meaning.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

import fuel_async as fa
from examples.minilm_assets import AssetsMissing, encode_batch, load_tokenizer, load_weights
from examples.minilm_model import WIDTH, sentence_encoder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    import numpy.typing as npt
    from tokenizers import Tokenizer

ROOT = Path(__file__).parent.parent
QUESTIONS = ("How do I cancel a run?", "What happens when a device fails?", "How do I add my own kernel?")
MAX_SENTENCES = 400
BATCH = 8
TICK_S = 0.002


class Sentence(NamedTuple):
    """A sentence and the page it stands on."""

    page: str
    text: str


class Encoder(NamedTuple):
    """All that turns text into vectors."""

    executor: fa.Executor
    graph: fa.Graph
    tokenizer: Tokenizer

    async def embed(self, texts: Sequence[str], done: Callable[[int], object]) -> npt.NDArray[np.float32]:
        """Return a unit vector for each text, [texts, WIDTH]; `done` hears how many a finished batch had."""
        vectors = np.empty((len(texts), WIDTH), dtype=np.float32)

        async def embed_rows(rows: Sequence[int]) -> None:
            # Tokenizing takes milliseconds, so it goes to a thread. The executor needs no such care.
            ids, mask = await asyncio.to_thread(encode_batch, self.tokenizer, [texts[row] for row in rows])
            vectors[rows] = (await self.executor.run(self.graph, ids=ids, mask=mask))["embeddings"]
            done(len(rows))

        # Sentences of like length share a batch: little padding.
        by_length = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        async with asyncio.TaskGroup() as tasks:
            for first in range(0, len(texts), BATCH):
                tasks.create_task(embed_rows(by_length[first : first + BATCH]))
        return vectors


async def main(console: Console, questions: Sequence[str]) -> None:
    """Embed the pages, say how that went, answer the questions."""
    sentences = list(read_sentences())[:MAX_SENTENCES]
    graph, tokenizer = sentence_encoder(load_weights()), load_tokenizer()
    async with fa.Executor() as executor:
        encoder = Encoder(executor, graph, tokenizer)
        async with heartbeat() as idle_ms:
            await asyncio.sleep(0.5)
        start_s = time.perf_counter()
        # The bar is drawn seldom: drawing holds the interpreter, and the heartbeat would see it.
        with Progress(console=console, refresh_per_second=4) as progress:
            task = progress.add_task("embedding", total=len(sentences))
            async with heartbeat() as late_ms:
                texts = [sentence.text for sentence in sentences]
                vectors = await encoder.embed(texts, lambda count: progress.advance(task, count))
        took_s = time.perf_counter() - start_s

        console.print(f"{len(texts)} sentences in {took_s:.1f} s, {len(texts) / took_s:.0f} a second")
        for device, did in executor.statistics().devices.items():
            console.print(f"{device}: {did.kernels:,} kernels, busy {did.busy_s:.1f} s")
        console.print(f"event loop: late by {spread(late_ms)} (idle: {spread(idle_ms)})")
        for question, vector in zip(questions, await encoder.embed(questions, lambda _: None), strict=True):
            console.print(answer(question, vectors @ vector, sentences), soft_wrap=True)


@contextlib.asynccontextmanager
async def heartbeat() -> AsyncIterator[list[float]]:
    """Tick on the event loop meanwhile; the list fills with how late each tick came, in milliseconds."""
    late_ms: list[float] = []

    async def tick() -> None:
        while True:
            due_s = time.perf_counter() + TICK_S
            await asyncio.sleep(TICK_S)
            late_ms.append(1e3 * (time.perf_counter() - due_s))

    ticking = asyncio.create_task(tick())
    try:
        yield late_ms
    finally:
        ticking.cancel()


def read_sentences() -> Iterator[Sentence]:
    """Yield the prose of the project's pages, in order: no code, headings, tables or links."""
    for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))):
        text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        text = re.sub(r"^[#|<].*", "", text, flags=re.MULTILINE)
        text = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", text).replace("**", "")
        for block in re.split(r"\n\s*\n|^\s*(?:[-*]|\d+\.)\s", text, flags=re.MULTILINE):
            for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z`])", " ".join(block.split())):
                if len(sentence.split()) >= 4:
                    yield Sentence(str(path.relative_to(ROOT)), sentence)


def spread(late_ms: Sequence[float]) -> str:
    """Name the median and the 99th percentile."""
    p50, p99 = np.percentile(late_ms, (50, 99))
    return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms"


def answer(question: str, likeness: npt.NDArray[np.float32], sentences: Sequence[Sentence]) -> Text:
    """Name the two sentences nearest to the question; the product of unit vectors is their cosine."""
    nearest = np.argsort(-likeness, kind="stable")[:2]
    lines = [f"\n  {likeness[row]:.2f}  {sentences[row].text}  [{sentences[row].page}]" for row in nearest]
    return Text.assemble("\n", (question, "bold"), *lines)


if __name__ == "__main__":
    try:
        asyncio.run(main(Console(highlight=False), sys.argv[1:] or QUESTIONS))
    except AssetsMissing as missing:
        sys.exit(str(missing))
