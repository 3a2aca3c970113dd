"""Explanations as plain values, for JSON: the fields of each fact by their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from fuel_async.ir import DeviceLocation

#: Grows when a field changes its meaning or goes. New ones may come at any time.
FORMAT = 1


def plain(value: object) -> Any:
    """Return facts as dicts, lists, texts and numbers; devices by their addresses."""
    if isinstance(value, DeviceLocation):
        return str(value)
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(one) for one in value]
    return value
