"""The stretch of a run before anything else knows of it: it is being prepared, or waits to be admitted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from fuel_async.runtime.engine import Engine


class Entering:
    """Tells the engine when such a stretch begins and how it ends."""

    __slots__ = ("_engine", "loop")

    def __init__(self, engine: Engine) -> None:
        self._engine, self.loop = engine, asyncio.get_running_loop()

    def __enter__(self) -> None:
        self._engine.entering.add(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self._engine.entered(self, error)
