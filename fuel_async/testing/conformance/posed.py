"""A builder of one-op graphs: recipes of random graphs, asked for one op over operands that lie and hold as told.

Where a recipe of a random graph keeps values tame, this builder lets them be: the op works on the leaves themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fuel_async.ir import BY_NAME, DType
from fuel_async.testing.builder import CASTABLE, MOVABLE, Builder
from fuel_async.testing.conformance.poses import LAYOUTS, specials

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.ir import Shape, Tensor
    from fuel_async.testing.builder import Choices
    from fuel_async.testing.estimates.bounds import Array


class Posed(Builder):
    """A graph whose leaves have one layout (others than the first may be contiguous, too) and one class of values.

    With `overwritten`, an operand may be a copy made in the graph, which an op is free to write over.
    """

    def __init__(
        self,
        choices: Choices,
        name: str,
        dtype: DType,
        shape: Shape,
        layout: str,
        values: str,
        *,
        modest: bool = False,
        overwritten: bool = False,
    ) -> None:
        super().__init__(choices, name, dtypes=(dtype,), shape=shape)
        self._layout, self._class, self._modest, self._overwritten = layout, values, modest, overwritten
        #: What the recipe was given, in order.
        self.operands: list[Tensor] = []

    def leaf(self, value: Array, dtype: DType, dims: Shape) -> Tensor:
        """Return a value that lies as told."""
        layout = self.choices.pick((self._layout, "contiguous")) if self.operands else self._layout
        base, view = LAYOUTS[layout](value)
        made = view(super().leaf(base, dtype, base.shape))
        if self._overwritten and dtype in MOVABLE and self.choices.chance(60):
            made = self.graph.node(BY_NAME["copy"], (made,))
        self.estimate(made)
        self.operands.append(made)
        return made

    def any(self, dtypes: Sequence[DType] = CASTABLE, rank: int = 0) -> Tensor:
        """Return a new tensor; the first has the case's dtype, which has a kernel even if no random graph has it."""
        return super().any(dtypes if self.operands else self.dtypes, rank)

    def find(self, fits: Callable[[Tensor], bool]) -> None:
        """Every operand is new."""
        return

    def positive(self, tensor: Tensor) -> Tensor:
        """Return the tensor as it is."""
        return tensor

    def within(self, tensor: Tensor, limit: float) -> Tensor:
        """Return the tensor as it is."""
        return tensor

    def _values(self, dtype: DType, shape: tuple[int, ...]) -> Array:
        value = super()._values(dtype, shape)
        odd = specials(dtype, modest=self._modest).get(self._class, ()) if dtype.np is not None else ()
        if not odd or not value.size:
            return value
        random = np.random.default_rng(self.choices.integer(0, 2**32 - 1))
        places = random.random(shape) < 0.5
        places.reshape(-1)[random.integers(value.size)] = True
        patterns = np.asarray(odd).astype(dtype.require_np())
        return np.where(places, patterns[random.integers(0, len(odd), shape)], value)

    def _dressed(self, value: Array) -> Array:
        return value
