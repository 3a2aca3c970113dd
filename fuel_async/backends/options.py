"""Options that the environment may give a backend: one variable with `name=value` pairs, `;` between them.

`FUEL_ASYNC_CUDA="devices=H100,A100; streams=4; capture=0"`, for instance. The names are those of the fields of the
backend's dataclass of options, which says what they mean.
"""

from __future__ import annotations

import os
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeVar

from fuel_async.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from _typeshed import DataclassInstance

    #: By name of an option: what its text becomes; `ValueError` when it cannot be read.
    Readers = Mapping[str, Callable[[str], Any]]

T = TypeVar("T", bound="DataclassInstance")

#: The longest that one submission may take before its device is given up, unless an option says otherwise.
DEADLINE_S = 60.0


def read_options(variable: str, defaults: T, readers: Readers, environment: Mapping[str, str] | None = None) -> T:
    """Return `defaults` with what the variable says changed. `UserError` names what cannot be read.

    `environment` is the process's unless it is given. An empty variable changes nothing.
    """
    text, found = (os.environ if environment is None else environment).get(variable, ""), defaults
    for part in filter(None, map(str.strip, text.split(";"))):
        name, _, value = part.partition("=")
        read = readers.get(name.strip())
        if read is None:
            raise UserError(f"{variable}={part!r}: no such option; there are {', '.join(readers)}")
        try:
            found = replace(found, **{name.strip(): read(value.strip())})
        except ValueError as error:
            raise UserError(f"{variable}: {part!r} cannot be read: {error}") from error
    return found


def flag(text: str) -> bool:
    """Read a number as a truth value; the name alone says yes."""
    return bool(int(text or "1"))


def patterns(text: str) -> tuple[str, ...]:
    """Read words with `,` between them, as `fits` takes them."""
    return tuple(filter(None, map(str.strip, text.split(","))))


def fits(name: str, wanted: Sequence[str]) -> bool:
    """Whether one of the patterns, with `*`, fits a name or a part of it, whatever the case; none lets all pass."""
    return not wanted or any(fnmatchcase(name.lower(), f"*{one.lower()}*") for one in wanted)
