"""all-MiniLM-L6-v2 as a numpy user would write it: the encoder benchmark's baseline and the tests' reference.

Float32, out of place, one operation after the other. Between the layers the tokens of the whole batch are the
rows of one matrix, since one large product is faster than a small one for each sentence. It knows nothing of
graphs or executors; of fuel_async it takes only `erf`, which numpy lacks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fuel_async.backends.cpu.kernels.erf import erf

LAYERS = 6
HEADS = 12
EPS = 1e-12

FloatArray = npt.NDArray[np.float32]
Weights = Mapping[str, FloatArray]


def embed(weights: Weights, ids: npt.NDArray[np.uint32], mask: FloatArray) -> FloatArray:
    """Return the unit-length sentence embeddings, float32 [batch, 384].

    `ids` and `mask` have the shape [batch, tokens]; the mask is 1 for a token and 0 for padding, and every
    sentence has at least one token.
    """
    batch, tokens = ids.shape
    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][:tokens]
    x = x + weights["embeddings.token_type_embeddings.weight"][0]
    x = _layer_norm(x.reshape(batch * tokens, -1), weights, "embeddings.LayerNorm")
    for index in range(LAYERS):
        x = _layer(x, mask, weights, f"encoder.layer.{index}")
    x = x.reshape(batch, tokens, -1)
    pooled: FloatArray = (x * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
    length: FloatArray = np.sqrt((pooled * pooled).sum(axis=1, keepdims=True))
    return pooled / length


def _layer(x: FloatArray, mask: FloatArray, weights: Weights, name: str) -> FloatArray:
    attended = _attention(x, mask, weights, f"{name}.attention.self")
    attended = _dense(attended, weights, f"{name}.attention.output.dense")
    x = _layer_norm(x + attended, weights, f"{name}.attention.output.LayerNorm")
    hidden = _gelu(_dense(x, weights, f"{name}.intermediate.dense"))
    output = _dense(hidden, weights, f"{name}.output.dense")
    return _layer_norm(x + output, weights, f"{name}.output.LayerNorm")


def _attention(x: FloatArray, mask: FloatArray, weights: Weights, name: str) -> FloatArray:
    batch, tokens = mask.shape
    query = _split_heads(_dense(x, weights, f"{name}.query"), batch, tokens)
    key = _split_heads(_dense(x, weights, f"{name}.key"), batch, tokens)
    value = _split_heads(_dense(x, weights, f"{name}.value"), batch, tokens)
    scores = query @ key.swapaxes(-1, -2) / math.sqrt(query.shape[-1])
    scores = np.where(mask[:, None, None, :] > 0, scores, -np.inf)
    return (_softmax(scores) @ value).swapaxes(1, 2).reshape(x.shape)


def _split_heads(x: FloatArray, batch: int, tokens: int) -> FloatArray:
    return x.reshape(batch, tokens, HEADS, -1).swapaxes(1, 2)


def _dense(x: FloatArray, weights: Weights, name: str) -> FloatArray:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _layer_norm(x: FloatArray, weights: Weights, name: str) -> FloatArray:
    centred: FloatArray = x - x.mean(axis=-1, keepdims=True)
    variance: FloatArray = (centred * centred).mean(axis=-1, keepdims=True)
    deviation: FloatArray = np.sqrt(variance + EPS)
    return centred / deviation * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _softmax(x: FloatArray) -> FloatArray:
    powers: FloatArray = np.exp(x - x.max(axis=-1, keepdims=True))
    total: FloatArray = powers.sum(axis=-1, keepdims=True)
    return powers / total


def _gelu(x: FloatArray) -> FloatArray:
    error: FloatArray = erf(x / math.sqrt(2.0))
    return 0.5 * x * (1.0 + error)
