"""Simulated machines as tables: what a TOML file says of devices and links, in the words of `spec`.

    [[device]]                      # any field of SimDeviceSpec; rates and advertised are tables of Rates
    name = "large gpu"
    speed = 4.0
    rates = { flops_per_ns = 20, dense_flops_per_ns = 100, bytes_per_ns = 20, call_ns = 5_000 }

    [links]                         # all of them: fields of LinkSpec, and peers and sharing of Links
    latency_ns = 10_000
    bytes_per_ns = 12

    [[link]]                        # one that differs; the host's memory is called "host"
    from = "host"
    to = "large gpu"
    bytes_per_ns = 24

Pure: whoever has a file reads it. Numbers are those of the fields: ns, bytes, and bytes or flops a nanosecond.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from fuel_async.backends.sim.spec import HOST, Links, LinkSpec, Sharing, SimDeviceSpec
from fuel_async.cost import LinkEstimate, Rates
from fuel_async.errors import MachineDescriptionError, UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: What a link's end is called that is the host's memory.
HOST_NAME = "host"


@dataclass(frozen=True, slots=True)
class MachineDescription:
    """The devices of a machine in order, and its links."""

    devices: tuple[SimDeviceSpec, ...]
    links: Links


def describe_machine(table: Mapping[str, Any]) -> MachineDescription:
    """Return what a table says, as a TOML file has it. `MachineDescriptionError` names the place that is wrong."""
    _only(table, {"device", "link", "links"}, "the file")
    entries = _tables(table, "device")
    if not entries:
        raise MachineDescriptionError("the file", "has no [[device]]")
    devices = tuple(
        _build(SimDeviceSpec, entry, f"device {place}", _OF_DEVICE) for place, entry in enumerate(entries, 1)
    )
    return MachineDescription(devices, _links(table, [device.name for device in devices]))


def _links(table: Mapping[str, Any], names: Sequence[str]) -> Links:
    said = dict(_table(table.get("links", {}), "links"))
    of_all = {key: said.pop(key) for key in ("peers", "sharing") if key in said}
    matrix: dict[tuple[int, int], LinkSpec | None] = {}
    for number, entry in enumerate(_tables(table, "link"), 1):
        where, rest = f"link {number}", dict(entry)
        ends = tuple(_place(rest.pop(key, None), key, where, names) for key in ("from", "to"))
        one_way, there = rest.pop("one_way", False), not rest.pop("missing", False)
        spec = _build(LinkSpec, {**said, **rest}, where, _OF_LINK) if there else None
        for pair in (ends, ends[::-1])[: 1 if one_way else 2]:
            matrix[pair[0], pair[1]] = spec
    every = _build(LinkSpec, said, "links", _OF_LINK)
    sharing, peers = of_all.get("sharing", Sharing.NONE.value), of_all.get("peers", True)
    if sharing not in [one.value for one in Sharing] or not isinstance(peers, bool):
        known = " or ".join(repr(one.value) for one in Sharing)
        raise MachineDescriptionError("links", f"sharing is {known}, and peers is true or false")
    return Links(every, matrix, peers, Sharing(sharing))


def _place(name: object, key: str, where: str, names: Sequence[str]) -> int:
    if name == HOST_NAME:
        return HOST
    found = [place for place, known in enumerate(names) if known == name]
    if len(found) != 1:
        known = ", ".join(map(repr, (HOST_NAME, *names)))
        raise MachineDescriptionError(where, f"{key} = {name!r} is not one of {known}; give devices names of their own")
    return found[0]


# --- tables to specs --------------------------------------------------------------------------------------------------


def _build(cls: Any, table: Mapping[str, Any], where: str, special: Mapping[str, Callable[[Any, str], Any]]) -> Any:
    """Make a spec of the fields that a table gives; `special` has those that are no plain numbers and texts."""
    known = {one.name: one for one in fields(cls)}
    _only(table, known.keys(), where)
    values = {}
    for key, value in table.items():
        make = special[key] if key in special else _PLAIN[str(known[key].type).partition(" ")[0]]
        values[key] = make(value, f"{where}, {key}")
    try:
        return cls(**values)
    except UserError as error:
        raise MachineDescriptionError(where, str(error)) from error


def _only(table: Mapping[str, Any], known: Any, where: str) -> None:
    unknown = [key for key in table if key not in known]
    if unknown:
        raise MachineDescriptionError(where, f"has no {unknown[0]!r}; there are {', '.join(sorted(known))}")


def _tables(table: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = table.get(key, [])
    if not isinstance(found, list):
        raise MachineDescriptionError(key, f"is written [[{key}]]")
    return [_table(one, key) for one in found]


def _table(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise MachineDescriptionError(where, f"is a table, not {value!r}")
    return value


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise MachineDescriptionError(where, f"is a number, not {value!r}")
    return float(value)


def _whole(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise MachineDescriptionError(where, f"is a whole number, not {value!r}")
    return value


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise MachineDescriptionError(where, f"is true or false, not {value!r}")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise MachineDescriptionError(where, f"is a text, not {value!r}")
    return value


def _slowdowns(value: object, where: str) -> tuple[tuple[int, float], ...]:
    pairs: list[Any] = value if isinstance(value, list) else [None]
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise MachineDescriptionError(where, f"is a list of [moment in ns, factor], not {value!r}")
    return tuple((_whole(at_ns, where), _number(factor, where)) for at_ns, factor in pairs)


#: By the type of a field, as its annotation begins.
_PLAIN: Mapping[str, Callable[[Any, str], Any]] = {"float": _number, "int": _whole, "bool": _flag, "str": _text}


def _rates(value: object, where: str) -> Rates:
    rates: Rates = _build(Rates, _table(value, where), where, {})
    return rates


def _estimate(value: object, where: str) -> LinkEstimate:
    table = _table(value, where)
    _only(table, ("latency_ns", "bytes_per_ns"), where)
    latency_ns, bytes_per_ns = [_number(table.get(key), f"{where}, {key}") for key in ("latency_ns", "bytes_per_ns")]
    return LinkEstimate(latency_ns, bytes_per_ns)


_OF_DEVICE: Mapping[str, Callable[[Any, str], Any]] = {
    "rates": _rates,
    "advertised": _rates,
    "slowdowns": _slowdowns,
}
_OF_LINK: Mapping[str, Callable[[Any, str], Any]] = {"advertised": _estimate, "slowdowns": _slowdowns}
