"""The checkpoint that every run passes: one turn of the loop, where a cancellation is delivered."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@types.coroutine
def checkpoint() -> Generator[None, None, None]:
    """Let the loop go round once. What `asyncio.sleep(0)` does, without its frames."""
    yield
