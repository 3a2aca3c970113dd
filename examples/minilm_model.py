"""all-MiniLM-L6-v2 as a graph: six layers of a BERT encoder, the mean over the tokens, unit length.

The encoder as published (Devlin et al. 2018; Wang et al. 2020; Reimers and Gurevych 2019), with one large
product where the checkpoint has weights for three small ones. Where they come from: `minilm_assets.py`.

    graph = sentence_encoder(load_weights())
    embeddings = (await executor.run(graph, ids=ids, mask=mask))["embeddings"]

Planning reads no numbers, so how it would run can be looked at without the weights:

    python -m fuel_async explain examples.minilm_model:shapes --machine examples/machines/cpu_two_gpus.toml
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import fuel_async as fa

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

LAYERS = 6
HEADS = 12
WIDTH = 384
HEAD_WIDTH = WIDTH // HEADS
INNER = 4 * WIDTH
VOCABULARY, POSITIONS, SEGMENTS = 30_522, 512, 2
EPS = 1e-12

#: Added to the score of a padding token: its share of the attention rounds to nothing.
FAR_BELOW = 1e9


def sentence_encoder(weights: Mapping[str, npt.NDArray[np.float32]]) -> fa.Graph:
    """Return the graph from token ids to embeddings; `weights` has the checkpoint's names.

    Inputs: `ids`, u32 [batch, tokens], at most 512 tokens; `mask`, f32 [batch, tokens], 1 for a token and 0
    for padding. Output: `embeddings`, f32 [batch, 384], each of length 1.
    """
    g = fa.Graph("minilm")
    ids = g.input("ids", ("batch", "tokens"), fa.u32, hint={"batch": 8, "tokens": 64})
    mask = g.input("mask", ("batch", "tokens"), fa.f32)
    padding = ((mask - 1.0) * FAR_BELOW).expand_dims((1, 2))  # [batch, 1, 1, tokens]

    # Between the layers the tokens of the whole batch are the rows of one matrix: [batch * tokens, width].
    encoder = _Encoder(g, weights)
    x = encoder.embedding(ids)
    for index in range(LAYERS):
        x = encoder.layer(f"encoder.layer.{index}", x, padding)

    seen = x.reshape((*ids.shape, WIDTH)) * mask.expand_dims(2)
    mean = seen.sum(axis=1) / mask.sum(axis=1, keepdims=True)
    g.output("embeddings", mean / (mean * mean).sum(axis=1, keepdims=True).sqrt())
    return g


def shapes() -> fa.Graph:
    """Return the same graph with zeros for weights, in the shapes of the checkpoint: for planning."""
    sizes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (VOCABULARY, WIDTH),
        "embeddings.position_embeddings.weight": (POSITIONS, WIDTH),
        "embeddings.token_type_embeddings.weight": (SEGMENTS, WIDTH),
    }
    norms = ["embeddings.LayerNorm"]
    for index in range(LAYERS):
        layer = f"encoder.layer.{index}"
        parts = {f"attention.self.{part}": (WIDTH, WIDTH) for part in ("query", "key", "value")}
        parts |= {"attention.output.dense": (WIDTH, WIDTH), "intermediate.dense": (INNER, WIDTH)}
        parts["output.dense"] = (WIDTH, INNER)
        for name, (outputs, inputs) in parts.items():
            sizes |= {f"{layer}.{name}.weight": (outputs, inputs), f"{layer}.{name}.bias": (outputs,)}
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    for norm in norms:
        sizes |= {f"{norm}.weight": (WIDTH,), f"{norm}.bias": (WIDTH,)}
    return sentence_encoder({name: np.zeros(shape, np.float32) for name, shape in sizes.items()})


@dataclass(frozen=True, slots=True)
class _Encoder:
    """The parts of the model, each by the name that its weights have in the checkpoint."""

    graph: fa.Graph
    weights: Mapping[str, npt.NDArray[np.float32]]

    def embedding(self, ids: fa.Tensor) -> fa.Tensor:
        words = self._constant("embeddings.word_embeddings.weight")
        # Every token is of segment 0: that segment's vector is a part of each position's.
        segment = self.weights["embeddings.token_type_embeddings.weight"][0]
        positions = self.graph.constant(self.weights["embeddings.position_embeddings.weight"] + segment)
        _, tokens = ids.shape
        x = words.take(ids.reshape((-1,))).reshape((*ids.shape, WIDTH)) + positions[:tokens]
        return self._layer_norm("embeddings.LayerNorm", x.reshape((-1, WIDTH)))

    def layer(self, name: str, x: fa.Tensor, padding: fa.Tensor) -> fa.Tensor:
        attended = self._attention(f"{name}.attention.self", x, padding)
        attended = self._dense(f"{name}.attention.output.dense", attended)
        x = self._layer_norm(f"{name}.attention.output.LayerNorm", x + attended)
        hidden = self._dense(f"{name}.intermediate.dense", x).gelu()
        output = self._dense(f"{name}.output.dense", hidden)
        return self._layer_norm(f"{name}.output.LayerNorm", x + output)

    def _attention(self, name: str, x: fa.Tensor, padding: fa.Tensor) -> fa.Tensor:
        # Queries, keys and values are columns of one product. The queries' weights carry the scores' scale.
        scale = {"query": np.float32(HEAD_WIDTH**-0.5), "key": np.float32(1.0), "value": np.float32(1.0)}
        weight = np.concatenate([scale[part] * self.weights[f"{name}.{part}.weight"] for part in scale])
        bias = np.concatenate([scale[part] * self.weights[f"{name}.{part}.bias"] for part in scale])
        joined = x @ self.graph.constant(weight.T) + self.graph.constant(bias)  # [batch * tokens, 3 * width]

        batch, _, _, tokens = padding.shape
        # [3, batch, heads, tokens, head width]: only views, read where the product left the numbers.
        parts = joined.reshape((batch, tokens, 3, HEADS, HEAD_WIDTH)).permute_dims((2, 0, 3, 1, 4))
        query, key, value = parts[0], parts[1], parts[2]
        shares = (query @ key.mT + padding).softmax()
        return (shares @ value).permute_dims((0, 2, 1, 3)).reshape((-1, WIDTH))

    def _dense(self, name: str, x: fa.Tensor) -> fa.Tensor:
        weight = self.graph.constant(self.weights[f"{name}.weight"].T)  # stored as [outputs, inputs]
        return x @ weight + self._constant(f"{name}.bias")

    def _layer_norm(self, name: str, x: fa.Tensor) -> fa.Tensor:
        return x.layer_norm(self._constant(f"{name}.weight"), self._constant(f"{name}.bias"), eps=EPS)

    def _constant(self, name: str) -> fa.Tensor:
        return self.graph.constant(self.weights[name])
