"""Fixtures of the tests on CUDA devices: the double in CuPy's place, with everything given back at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.testing.cuda_double.compiling import missing_compiler
from tests.backends.cuda.demands import give_up
from tests.backends.cuda.support import Doubled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuel_async.backends.cuda.device import CudaDevice


@pytest.fixture
def make() -> Iterator[Callable[..., Doubled]]:
    """Open devices of a double; they are closed after the test, and nothing of them may be left."""
    if (missing := missing_compiler()) is not None:
        give_up(missing)
    made: list[Doubled] = []

    def open_some(*args: Any, **options: Any) -> Doubled:
        made.append(Doubled(*args, **options))
        return made[-1]

    yield open_some
    while made:
        made.pop().close()


@pytest.fixture
def one(make: Callable[..., Doubled]) -> Doubled:
    """A double with one device."""
    return make()


@pytest.fixture
def device(one: Doubled) -> CudaDevice:
    """Its device."""
    return one.devices[0]
