"""Scripts: what a program launches, in order; and the same with addresses, for the arrays of a submission."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fuel_async.backends.cuda.blas import arguments
from fuel_async.backends.cuda.kernels.gemm import Gemm
from fuel_async.backends.grids.operands import is_same
from fuel_async.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.cuda.memory import CudaArray
    from fuel_async.backends.cuda.site import Site
    from fuel_async.backends.cuda.streams import Stream
    from fuel_async.backends.grids.kernel import Dispatch
    from fuel_async.backends.grids.operands import Bound, Space

    #: What it is called with besides addresses: (grid, block), and what comes after the addresses.
    Sizes = tuple[tuple[int, int, int], tuple[int, int, int]]


class _Product(NamedTuple):
    """One call of cuBLAS, but for addresses."""

    gemm: Gemm
    #: By place.
    operands: Sequence[Bound]


class _Step(NamedTuple):
    """One launch, but for addresses."""

    function: Any
    sizes: Sizes
    operands: tuple[Bound, ...]
    #: The words that are given by value; none for a kernel without.
    words: tuple[Any, ...]


class Launches:
    """Launches over given arrays, with all arguments made. Used by one thread at a time."""

    __slots__ = ("_calls",)

    def __init__(self, calls: Sequence[tuple[Any, tuple[Any, ...]]]) -> None:
        """Each is a function with its arguments; None stands for cuBLAS, which takes its handle first."""
        self._calls = calls

    def __len__(self) -> int:
        return len(self._calls)

    def prepare(self, stream: Stream) -> None:
        """Make what the stream needs for them and cannot make while it captures. Within `Context.here`."""
        if any(function is None for function, _ in self._calls):
            _ = stream.blas

    def run(self, stream: Stream) -> None:
        """Put them on a stream. Within `Context.here`; raises what the driver raises."""
        raw = stream.raw
        for function, args in self._calls:
            if function is None:
                stream.context.driver.blas.gemmStridedBatchedEx(stream.blas, *args)
            else:
                function(*args, 0, raw)


class Script:
    """Dispatches over operands in spaces; where the spaces lie is told when they are bound. One thread at a time.

    A stream keeps its order, so nothing stands between two launches.
    """

    __slots__ = ("_site", "_steps", "_words")

    def __init__(self, site: Site) -> None:
        self._site = site
        self._steps: list[_Step | _Product] = []
        #: Equal words are one object.
        self._words: dict[bytes, tuple[Any, ...]] = {}

    @property
    def dispatches(self) -> int:
        """How many there are."""
        return len(self._steps)

    @property
    def products(self) -> bool:
        """Whether cuBLAS is needed."""
        return any(isinstance(step, _Product) for step in self._steps)

    def add(self, dispatch: Dispatch | Gemm, operands: Sequence[Bound]) -> None:
        """Append a dispatch of a kernel with these operands. Compiles its code: up to a second, the first time."""
        if isinstance(dispatch, Gemm):
            self._steps.append(_Product(dispatch, operands))
            return
        shader = dispatch.shader
        if len(dispatch.push) != shader.push_nbytes:
            raise InternalError(f"{len(dispatch.push)} bytes of words for {shader.name}: {shader.push_nbytes}")
        if dispatch.copies is not None and is_same(*[operands[at] for at in dispatch.copies]):
            return
        self._steps.append(
            _Step(
                self._site.functions.get(shader),
                (dispatch.groups, (shader.threads, 1, 1)),
                tuple([operands[at] for at in dispatch.operands]),
                self._given(dispatch.push),
            )
        )

    def bind(self, place: Callable[[Space], CudaArray]) -> Launches:
        """Make the arguments of all launches."""
        bases: dict[Space, int] = {}

        def address(one: Bound) -> int:
            base = bases.get(one.space)
            if base is None:
                base = bases[one.space] = place(one.space).ptr
            return base + one.start

        calls: list[tuple[Any, tuple[Any, ...]]] = []
        for step in self._steps:
            if isinstance(step, _Product):
                addresses = [address(one) for one in step.operands]
                calls.append((None, arguments(step.gemm, addresses.__getitem__)))
            else:
                pointers = [np.uint64(address(one)) for one in step.operands]
                calls.append((step.function, (*step.sizes, (*pointers, *step.words))))
        return Launches(calls)

    def _given(self, push: bytes) -> tuple[Any, ...]:
        """The words as an argument by value: an array of one element, whose bytes CuPy hands on as they are."""
        found = self._words.get(push)
        if found is None:
            found = (np.frombuffer(push, np.dtype((np.void, len(push)))),) if push else ()
            self._words[push] = found
        return found
