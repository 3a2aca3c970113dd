"""all-MiniLM-L6-v2 as torch's eager mode runs it: plain functional ops over the checkpoint's weights."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from benchmarks.minilm_numpy import EPS, HEADS, LAYERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.workloads import Array


def torch_forward(weights: Mapping[str, Array], ids: Array, mask: Array, threads: int | None) -> Callable[[], Array]:
    """Return the call that embeds the batch with `threads` threads, torch's own choice for None."""
    held = {name: torch.from_numpy(array.copy()) for name, array in weights.items()}
    tokens, seen = torch.from_numpy(ids.astype("int64")), torch.from_numpy(mask)
    count = _DEFAULT_THREADS if threads is None else threads

    def forward() -> Array:
        torch.set_num_threads(count)
        with torch.inference_mode():
            embeddings: Array = _embed(held, tokens, seen).numpy()
        return embeddings

    return forward


_DEFAULT_THREADS = torch.get_num_threads()


def _embed(weights: Mapping[str, Any], ids: Any, mask: Any) -> Any:
    x = F.embedding(ids, weights["embeddings.word_embeddings.weight"])
    x = x + weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
    x = x + weights["embeddings.token_type_embeddings.weight"][0]
    x = _layer_norm(x, weights, "embeddings.LayerNorm")
    padding = (1.0 - mask)[:, None, None, :] * torch.finfo(torch.float32).min
    for index in range(LAYERS):
        x = _layer(x, padding, weights, f"encoder.layer.{index}")
    pooled = (x * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
    return F.normalize(pooled, dim=1)


def _layer(x: Any, padding: Any, weights: Mapping[str, Any], name: str) -> Any:
    attended = _attention(x, padding, weights, f"{name}.attention.self")
    attended = _dense(attended, weights, f"{name}.attention.output.dense")
    x = _layer_norm(x + attended, weights, f"{name}.attention.output.LayerNorm")
    hidden = F.gelu(_dense(x, weights, f"{name}.intermediate.dense"))
    return _layer_norm(x + _dense(hidden, weights, f"{name}.output.dense"), weights, f"{name}.output.LayerNorm")


def _attention(x: Any, padding: Any, weights: Mapping[str, Any], name: str) -> Any:
    batch, tokens, width = x.shape
    query, key, value = [
        _dense(x, weights, f"{name}.{part}").view(batch, tokens, HEADS, -1).transpose(1, 2)
        for part in ("query", "key", "value")
    ]
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]) + padding
    return (torch.softmax(scores, -1) @ value).transpose(1, 2).reshape(batch, tokens, width)


def _dense(x: Any, weights: Mapping[str, Any], name: str) -> Any:
    return F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def _layer_norm(x: Any, weights: Mapping[str, Any], name: str) -> Any:
    return F.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], EPS)
