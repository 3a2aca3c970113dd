"""Options from the environment: what is read, what is refused, and which names fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from fuel_async.backends.options import fits, flag, patterns, read_options
from fuel_async.errors import UserError

if TYPE_CHECKING:
    from fuel_async.backends.options import Readers


@dataclass(frozen=True, slots=True)
class Options:
    names: tuple[str, ...] = ()
    lanes: int = 2
    fast: bool = False

    def __post_init__(self) -> None:
        if self.lanes < 1:
            raise UserError("lanes must be positive")


READ: Readers = {"names": patterns, "lanes": int, "fast": flag}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", Options()),
        (" ; ;", Options()),
        ("lanes=4", Options(lanes=4)),
        (" lanes = 4 ; fast; names=a, b,", Options(("a", "b"), 4, True)),
        ("fast=1;fast=0", Options()),
    ],
)
def test_pairs_change_the_defaults_and_the_last_one_counts(text: str, wanted: Options) -> None:
    assert read_options("X", Options(), READ, {"X": text}) == wanted


def test_the_variable_is_the_processs_unless_another_environment_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUEL_ASYNC_SOMETHING", "lanes=7")
    assert read_options("FUEL_ASYNC_SOMETHING", Options(), READ).lanes == 7
    assert read_options("FUEL_ASYNC_SOMETHING", Options(), READ, {}) == Options()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lane=4", "X='lane=4': no such option; there are names, lanes, fast"),
        ("lanes=four", "X: 'lanes=four' cannot be read: invalid literal"),
        ("fast=yes", "X: 'fast=yes' cannot be read"),
        ("lanes=0", "lanes must be positive"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        read_options("X", Options(), READ, {"X": text})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "wanted", "found"),
    [
        ("NVIDIA H100 PCIe", (), True),
        ("NVIDIA H100 PCIe", ("h100",), True),
        ("NVIDIA H100 PCIe", ("a100", "nv*pci"), True),
        ("NVIDIA H100 PCIe", ("a100",), False),
        ("llvmpipe (LLVM 19)", ("LLVMpipe",), True),
    ],
)
def test_a_pattern_fits_a_part_of_a_name_whatever_the_case(name: str, wanted: tuple[str, ...], found: bool) -> None:
    assert fits(name, wanted) is found
