"""What identifies the code of a kernel in what is persisted: 64 bits of a hash of its source."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import ClassVar

from fuel_async.errors import UserError


@dataclass(frozen=True, slots=True)
class KernelRevisionHash:
    """A number of 64 bits; `UNTRACKED`, which is 0, says that nobody keeps track of the kernel's code."""

    value: int

    UNTRACKED: ClassVar[KernelRevisionHash]

    def __post_init__(self) -> None:
        if not 0 <= self.value < 2**64:
            raise UserError(f"revision {self.value} is no unsigned integer of 64 bits")

    @classmethod
    def of_source(cls, *sources: bytes) -> KernelRevisionHash:
        """Return the BLAKE2b hash of these bytes, one after the other; never `UNTRACKED`."""
        state = blake2b(digest_size=8)
        for source in sources:
            state.update(source)
        return cls(int.from_bytes(state.digest(), "little") or 1)

    @property
    def is_tracked(self) -> bool:
        """Whether it identifies any code."""
        return self != KernelRevisionHash.UNTRACKED


KernelRevisionHash.UNTRACKED = KernelRevisionHash(0)
