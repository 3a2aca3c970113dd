"""Revisions of kernels: numbers that follow the source."""

from __future__ import annotations

import pytest

from fuel_async.dispatch import KernelRevisionHash
from fuel_async.errors import UserError

#: The first 8 bytes of the digest of "hello", the lowest first.
HELLO = 0x7D34E501A8EDB6A7


def test_a_revision_is_64_bits_of_blake2b_of_the_source() -> None:
    assert KernelRevisionHash.of_source(b"hello") == KernelRevisionHash(HELLO)
    assert KernelRevisionHash.of_source(b"hel", b"lo") == KernelRevisionHash.of_source(b"hello")
    assert KernelRevisionHash.of_source(b"hello ") != KernelRevisionHash.of_source(b"hello")


def test_code_that_is_tracked_can_be_told_from_code_that_is_not() -> None:
    assert KernelRevisionHash.of_source().is_tracked
    assert KernelRevisionHash(0) == KernelRevisionHash.UNTRACKED
    assert not KernelRevisionHash(0).is_tracked


@pytest.mark.parametrize("value", [-1, 2**64])
def test_a_revision_has_64_bits(value: int) -> None:
    with pytest.raises(UserError, match="64 bits"):
        KernelRevisionHash(value)
