"""How events and instructions are declared: records that nobody changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """Make a class a slotted dataclass that type checkers know as frozen.

    A dataclass that is frozen at run time sets each field through `object.__setattr__`, which doubles what a record
    costs; a run of one region makes five.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
