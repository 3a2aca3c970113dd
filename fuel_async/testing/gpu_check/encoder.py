"""A sentence encoder of MiniLM's shape with weights drawn by chance, in this package and in torch's eager mode."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.ir import DType, Graph

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fuel_async.ir import Tensor

    Array = np.ndarray[Any, Any]

EPS = 1e-12


@dataclass(frozen=True, slots=True)
class Shape:
    """How large it is."""

    layers: int = 6
    heads: int = 12
    width: int = 384
    hidden: int = 1_536
    batch: int = 8
    tokens: int = 64

    @property
    def rows(self) -> int:
        """Tokens of the whole batch."""
        return self.batch * self.tokens


def weights_of(shape: Shape) -> list[dict[str, Array]]:
    """Draw the weights, layer by layer, small enough that nothing grows."""
    chance, width, hidden = np.random.default_rng(5), shape.width, shape.hidden

    def drawn(rows: int, columns: int) -> Array:
        made: Array = (chance.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)
        return made

    sizes = {"joined": (width, 3 * width), "out": (width, width), "up": (width, hidden), "down": (hidden, width)}
    return [
        {
            **{name: drawn(*size) for name, size in sizes.items()},
            **{f"{name}_bias": drawn(1, size[1])[0] for name, size in sizes.items()},
        }
        for _ in range(shape.layers)
    ]


def batch_of(shape: Shape) -> Array:
    """Draw a batch: [batch · tokens, width]."""
    batch: Array = np.random.default_rng(6).standard_normal((shape.rows, shape.width)).astype(np.float32)
    return batch


def encoder(shape: Shape, weights: list[dict[str, Array]]) -> Graph:
    """Return the graph from `x`, [batch · tokens, width], to `y` of that shape."""
    graph = Graph("encoder")
    x = graph.input("x", (shape.rows, shape.width), DType.F32)
    for held in weights:
        x = _layer(graph, x, {name: graph.constant(value) for name, value in held.items()}, shape)
    graph.output("y", x)
    return graph


def _layer(graph: Graph, x: Tensor, held: Mapping[str, Tensor], shape: Shape) -> Tensor:
    one, none = graph.constant(np.ones(shape.width, np.float32)), graph.constant(np.zeros(shape.width, np.float32))
    apart = (shape.batch, shape.tokens, 3, shape.heads, shape.width // shape.heads)
    parts = (x @ held["joined"] + held["joined_bias"]).reshape(apart).permute_dims((2, 0, 3, 1, 4))
    query, key, value = parts[0], parts[1], parts[2]
    shares = (query @ key.mT * (shape.width // shape.heads) ** -0.5).softmax()
    attended = (shares @ value).permute_dims((0, 2, 1, 3)).reshape((shape.rows, shape.width))
    x = (x + (attended @ held["out"] + held["out_bias"])).layer_norm(one, none, eps=EPS)
    hidden = (x @ held["up"] + held["up_bias"]).gelu()
    return (x + (hidden @ held["down"] + held["down_bias"])).layer_norm(one, none, eps=EPS)


def torch_encoder(shape: Shape, weights: list[dict[str, Array]], batch: Array) -> Callable[[], Array] | str:
    """Return the call that encodes the batch on the first device, and copies it back; else why there is none."""
    try:
        torch: Any = import_module("torch")
    except ImportError as error:
        return f"torch is not installed ({error})"
    if not torch.cuda.is_available():
        return "torch finds no CUDA device"
    torch.backends.cuda.matmul.allow_tf32 = False
    held = [{name: torch.from_numpy(value).cuda() for name, value in one.items()} for one in weights]
    functional = torch.nn.functional
    apart = (shape.batch, shape.tokens, 3, shape.heads, shape.width // shape.heads)

    def layer(x: Any, of: Mapping[str, Any]) -> Any:
        parts = (x @ of["joined"] + of["joined_bias"]).view(apart).permute(2, 0, 3, 1, 4)
        shares = (parts[0] @ parts[1].transpose(-1, -2) * (shape.width // shape.heads) ** -0.5).softmax(-1)
        attended = (shares @ parts[2]).permute(0, 2, 1, 3).reshape(shape.rows, shape.width)
        x = functional.layer_norm(x + (attended @ of["out"] + of["out_bias"]), (shape.width,), eps=EPS)
        hidden = functional.gelu(x @ of["up"] + of["up_bias"])
        return functional.layer_norm(x + (hidden @ of["down"] + of["down_bias"]), (shape.width,), eps=EPS)

    def encode() -> Array:
        with torch.inference_mode():
            x = torch.from_numpy(batch).cuda()
            for one in held:
                x = layer(x, one)
            found: Array = x.cpu().numpy()
        return found

    return encode
