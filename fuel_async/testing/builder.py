"""The state of a random graph that grows: its tensors, their values at the drawn feeds, and what may be
picked.

Each node is computed as soon as it is built, so a recipe can look at the values it works on: it keeps them
bounded and away from poles, and knows which indices and casts are legal. What comes out is a function of the
choices alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from fuel_async.ir import BY_NAME, DType, Graph, Symbolic, bind, promote, symbol
from fuel_async.testing.reference import Interpreter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.ir import Dim, Shape, Tensor
    from fuel_async.testing.estimates.bounds import Array, Estimate

T = TypeVar("T")

#: Dtypes with arithmetic kernels.
ARITHMETIC = (DType.F32, DType.F64, DType.F16, DType.BF16)
#: Dtypes that can be joined and picked from.
MOVABLE = (*ARITHMETIC, DType.U32, DType.U8, DType.I16, DType.I32, DType.I64)
#: Dtypes that can be cast to each other.
CASTABLE = (*MOVABLE, DType.I8, DType.F8E4M3)

_LEAVES = (BY_NAME["input"], BY_NAME["constant"])

#: Values above this are scaled down before they are used again.
_PEAK = 8.0
_MAX_ELEMENTS = 2_048
_MAX_RANK = 5
#: A thrifty graph has constants instead of more inputs than this.
_MANY_FEEDS = 16


class Choices(Protocol):
    """Where decisions come from: a Hypothesis draw, or a seeded generator."""

    def integer(self, low: int, high: int) -> int:
        """Return an integer of [low, high]."""

    def pick(self, options: Sequence[T]) -> T:
        """Return one of `options`."""

    def chance(self, percent: int) -> bool:
        """Return True `percent` times out of a hundred."""


class Builder:
    """A random graph under construction."""

    def __init__(
        self,
        choices: Choices,
        name: str,
        *,
        batch: int | None = None,
        dtypes: Sequence[DType] = (DType.F32,),
        shape: Shape | None = None,
        window: int = 32,
        thrifty: bool = False,
    ) -> None:
        """`batch` is the size of the symbol `n`, unused when None; `shape` is that of all leaves."""
        self.choices, self.graph = choices, Graph(name)
        self.dtypes, self.shape, self.window, self.thrifty = dtypes, shape, window, thrifty
        self.feeds: dict[str, Array] = {}
        self.pool: list[Tensor] = []
        self.batch = None if batch is None else symbol("n")
        self._unused: dict[int, Tensor] = {}
        self._step_began = 0
        #: Whether a feed binds the symbol: until then nothing may be sliced by it.
        self.batch_named = False
        self._interpreter = Interpreter({} if batch is None else {"n": batch})

    # --- values ---------------------------------------------------------------------------------------------

    def estimate(self, tensor: Tensor) -> Estimate:
        """Return the tensor's value at the drawn feeds."""
        estimates = self._interpreter.estimates
        for index in range(len(estimates), tensor.index + 1):
            node = self.graph.node_at(index)
            if node.value is not None:  # a number beside a tensor; other leaves are known already
                self._interpreter.leaf(node.value)
            else:
                self._interpreter.compute(node.op, node.args, node.attrs, node.type)
        return estimates[tensor.index]

    def size(self, dim: Dim) -> int:
        """Return the size of a dimension at the drawn feeds."""
        return bind(dim, self._interpreter.sizes)

    def peak(self, tensor: Tensor) -> float:
        """Return the largest magnitude of a value, 0 for an empty one."""
        value = self.estimate(tensor).value
        return float(np.max(np.abs(value.astype(np.float64)), initial=0.0))

    def least(self, tensor: Tensor) -> float:
        """Return the lowest value, infinity for an empty one."""
        return float(np.min(self.estimate(tensor).value.astype(np.float64), initial=math.inf))

    # --- leaves ---------------------------------------------------------------------------------------------

    def draw_shape(self) -> Shape:
        """Return a shape of small dimensions, led by the symbol now and then."""
        if self.shape is not None:
            return self.shape
        rank = self.choices.pick((2, 1, 2, 3, 0, 4))
        dims: list[Dim] = [self.choices.pick((3, 2, 4, 1, 5)) for _ in range(rank)]
        if rank and self.choices.chance(4):
            dims[self.choices.integer(0, rank - 1)] = 0
        if rank and self.batch is not None and self.choices.chance(60):
            dims[0] = self.batch
        return tuple(dims)

    def fresh(self, dtype: DType | None = None, shape: Shape | None = None) -> Tensor:
        """Return a new input or constant."""
        dtype = self.choices.pick(self.dtypes) if dtype is None else dtype
        dims = self.draw_shape() if shape is None else shape
        return self.leaf(self._values(dtype, tuple([self.size(dim) for dim in dims])), dtype, dims)

    def leaf(self, value: Array, dtype: DType, dims: Shape) -> Tensor:
        """Return a new input or constant of that value."""
        if len(self.graph):
            self.estimate(self.last())
        enough = self.thrifty and len(self.feeds) >= _MANY_FEEDS
        if (enough or self.choices.chance(30)) and not any(isinstance(dim, Symbolic) for dim in dims):
            made = self.graph.constant(value)
        else:
            name = f"x{len(self.feeds)}"
            made = self.graph.input(name, dims, dtype)
            self.feeds[name] = self._dressed(value)
            self.batch_named = self.batch_named or self.batch in dims
        self._interpreter.leaf(value)
        self.pool.append(made)
        return made

    def last(self) -> Tensor:
        """Return the newest node."""
        node = len(self.graph) - 1
        return type(self.pool[0])(self.graph, node, self.graph.node_at(node).type)

    def _values(self, dtype: DType, shape: tuple[int, ...]) -> Array:
        random = np.random.default_rng(self.choices.integer(0, 2**32 - 1))
        if dtype.is_int:
            low, high = (-5 if dtype.is_signed_int else 0), (self.choices.pick((2, 3)) if dtype is DType.U8 else 6)
            return random.integers(low, high, shape).astype(dtype.require_np())
        if self.choices.chance(30):  # ties, zeros, and numbers that every floating dtype holds exactly
            return np.asarray(random.integers(-8, 9, shape) / 4).astype(dtype.require_np())
        return np.asarray(random.uniform(-2, 2, shape)).astype(dtype.require_np())

    def _dressed(self, value: Array) -> Array:
        """The same values, sometimes strided, column-major, read-only or bool."""
        if value.dtype == np.uint8 and value.max(initial=0) < 2 and not self.choices.chance(30):
            return value.astype(np.bool_)
        match self.choices.integer(0, 7):
            case 1 if value.ndim:
                return np.repeat(value, 2, axis=-1)[..., ::2]
            case 2:
                return np.asarray(value, order="F")
            case 3:
                value = value.copy()
                value.flags.writeable = False
                return value
            case _:
                return value

    def unused(self) -> list[Tensor]:
        """Return the kept tensors that no kept tensor is made of, the newest last."""
        return list(self._unused.values())

    # --- picking --------------------------------------------------------------------------------------------

    def find(self, fits: Callable[[Tensor], bool]) -> Tensor | None:
        """Return a recent tensor that fits, if a few looks find one; rather an unused one, most often if thrifty."""
        unused = self.unused() if self.choices.chance(85 if self.thrifty else 40) else []
        for tensors in (unused, self.pool):
            reach = min(self.window, len(tensors)) - 1
            for _ in range(6 if reach >= 0 else 0):
                found = tensors[-1 - self.choices.integer(0, reach)]
                if fits(found):
                    return found
        return None

    def any(self, dtypes: Sequence[DType] = CASTABLE, rank: int = 0) -> Tensor:
        """Return a tensor of one of `dtypes` and at least `rank` dimensions."""
        found = self.find(lambda t: t.dtype in dtypes and t.ndim >= rank)
        if found is not None:
            return found
        shape = self.draw_shape()
        dtype = self.choices.pick([dtype for dtype in self.dtypes if dtype in dtypes] or dtypes)
        return self.fresh(dtype, (*(2,) * (rank - len(shape)), *shape))

    def floating(self, rank: int = 0) -> Tensor:
        """Return a tensor with arithmetic kernels."""
        return self.any(ARITHMETIC, rank)

    def partner(self, tensor: Tensor) -> Tensor:
        """Return a tensor that `tensor` can be combined with, elementwise."""
        if self.choices.chance(60):
            found = self.find(lambda t: _mix(t, tensor) and broadcasts(t.shape, tensor.shape))
            if found is not None:
                return found
        return self.fresh(tensor.dtype, self._beside(tensor.shape))

    def number(self) -> float:
        """Return a Python number."""
        return self.choices.pick((0.5, 2, -1, 0.25, 1.5, 3, 0, -0.75, True))

    def operand(self, tensor: Tensor) -> Tensor | float:
        """Return a partner or a number."""
        return self.number() if self.choices.chance(25) else self.partner(tensor)

    def _beside(self, shape: Shape) -> Shape:
        """A shape that broadcasts against `shape`."""
        dims = [1 if self.choices.chance(20) else dim for dim in shape]
        return tuple(dims[self.choices.integer(0, len(dims)) if self.choices.chance(30) else 0 :])

    # --- keeping values tame --------------------------------------------------------------------------------

    def positive(self, tensor: Tensor) -> Tensor:
        """Return the tensor, or one made of it, with values of at least 0.25."""
        return tensor if self.least(tensor) >= 0.25 else abs(tensor) + 0.5

    def within(self, tensor: Tensor, limit: float) -> Tensor:
        """Return the tensor, clipped when it goes beyond ±limit."""
        return tensor if self.peak(tensor) <= limit else tensor.clip(-limit, limit)

    def begin(self) -> None:
        """Say that the nodes from here on belong to the next kept tensor, if they are operands of it."""
        self._step_began = len(self.graph)

    def keep(self, tensor: Tensor) -> None:
        """Let later nodes use the tensor, made small where it is large and exact where it is blurred.

        Values that the feeds do not determine, or that are not finite, are not used again.
        """
        if tensor.dtype in ARITHMETIC:
            value, error = self.estimate(tensor)
            if not (np.isfinite(value.astype(np.float64)).all() and np.isfinite(error).all()):
                return
            peak = self.peak(tensor)
            if peak > _PEAK:
                tensor = tensor * 2.0 ** -math.ceil(math.log2(peak / _PEAK) + 1)
                error = self.estimate(tensor).error
            if error.max(initial=0.0) > (0.25 if tensor.dtype.bits == 16 else 0.01):
                tensor = tensor * 2.0**-10 + self.number()
        elif self.thrifty and self.choices.chance(80):
            tensor = tensor.astype(next((dtype for dtype in self.dtypes if dtype in ARITHMETIC), DType.F32))
        self.estimate(tensor)
        elements = math.prod(map(self.size, tensor.shape))
        if tensor.ndim > _MAX_RANK or elements > _MAX_ELEMENTS or (self.thrifty and not elements):
            return
        made_of = [tensor.index]
        while made_of:
            index = made_of.pop()
            self._unused.pop(index, None)
            if index >= self._step_began:
                made_of += self.graph.node_at(index).args
        self.pool.append(tensor)
        self._unused[tensor.index] = tensor


def broadcasts(a: Shape, b: Shape) -> bool:
    """Whether two shapes broadcast against each other."""
    return all(x == y or x == 1 or y == 1 for x, y in zip(reversed(a), reversed(b), strict=False))


def _mix(a: Tensor, b: Tensor) -> bool:
    """Whether arithmetic may combine two tensors, cast to a common dtype."""
    if a.dtype is b.dtype:
        return a.dtype in ARITHMETIC
    if a.dtype not in ARITHMETIC or b.dtype not in ARITHMETIC or a.dtype.bits == b.dtype.bits:
        return False
    return promote(a.dtype, b.dtype) in ARITHMETIC
