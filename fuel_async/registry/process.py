"""Whether this process is a fork: threads, and so lanes, do not survive one."""

from __future__ import annotations

import os


class _Forks:
    """How many forks lie between this process and the one that imported the module."""

    __slots__ = ("generation",)

    def __init__(self) -> None:
        self.generation = 0

    def count(self) -> None:
        """Called in each child, before anything else runs there."""
        self.generation += 1


_FORKS = _Forks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_FORKS.count)


def fork_generation() -> int:
    """Return a number that differs between a process and its forked children. Any thread."""
    return _FORKS.generation
