"""Whether a chain of nodes wants to change its device: a carry-forward programme over devices.

A row is a node that could run on several devices. Its best time on each is what its own kernel takes there, the copies
of operands that lie somewhere, and for operands that are rows themselves the least of their best times with the copy
from there. A row whose reader's place becomes known commits where it is best to have been, and all behind it with it.

For chains, and for trees of which every row has one reader, that is exact. It knows nothing of lanes, nor of a value
with several readers: those commit before they are read. Placing whole graphs is not asked of it. All numbers stop at
64 bits. O(nodes · devices²).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from fuel_async.plan.rank import inbound_ns
from fuel_async.plan.rank.candidate import MOST_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fuel_async.ir import DeviceLocation
    from fuel_async.plan.rank import TransferEstimator

#: A node and where it runs.
Commitment = tuple[int, "DeviceLocation"]


class RowStatus(Enum):
    """How far a row is decided."""

    OPEN = "open"
    #: A reader goes on from it, and decides with its own place.
    CHAINED = "chained"
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True)
class ChainInput:
    """An operand that is a row: the node, and the bytes of each copy that a change of device takes."""

    node: int
    edge_bytes: tuple[int, ...]


@dataclass(slots=True)
class _Row:
    devices: tuple[DeviceLocation, ...]
    #: Least time from where the chain begins, by place of the device.
    best: list[int]
    #: For each device: the producers, and the place of the device that is best for each.
    back: list[list[tuple[int, int]]]
    status: RowStatus = RowStatus.OPEN
    device: DeviceLocation | None = None


@dataclass(slots=True)
class PlacementDp:
    """The rows of one plan. Nodes are pushed in topological order."""

    estimator: TransferEstimator
    _rows: dict[int, _Row] = field(default_factory=dict)
    #: Devices of rows, one tuple for equal ones; and what copies between the devices of two rows take.
    _devices: dict[tuple[DeviceLocation, ...], tuple[DeviceLocation, ...]] = field(default_factory=dict)
    _ways: dict[tuple[int, int, tuple[int, ...]], Sequence[Sequence[int]]] = field(default_factory=dict)

    def __contains__(self, node: int) -> bool:
        return node in self._rows

    def best(self, node: int) -> tuple[int, ...]:
        """Return the least time of a row on each of its devices, in their order."""
        return tuple(self._rows[node].best)

    def status(self, node: int) -> RowStatus:
        """Return how far a row is decided."""
        return self._rows[node].status

    def push_row(
        self,
        node: int,
        device_costs: Sequence[tuple[DeviceLocation, int]],
        fixed_inputs: Iterable[tuple[DeviceLocation, int]] = (),
        chain_inputs: Iterable[ChainInput] = (),
    ) -> None:
        """Add a node: what its kernel takes on each device, the preferred first, and its operands.

        `fixed_inputs` are where an operand lies and its bytes; `chain_inputs` are open rows, which it goes on from. Of
        equal devices of a producer the first is taken.
        """
        fixed, chained = tuple(fixed_inputs), tuple(chain_inputs)
        row = _Row(self._one(tuple([device for device, _ in device_costs])), [], [])
        producers = [self._rows[one.node] for one in chained]
        ways = [self._between(of, row.devices, one.edge_bytes) for of, one in zip(producers, chained, strict=True)]
        for number, (device, own_ns) in enumerate(device_costs):
            total, origins = own_ns + inbound_ns(fixed, device, self.estimator), []
            for one, producer, moves in zip(chained, producers, ways, strict=True):
                place, took = _best(producer, moves[number])
                total += took
                origins.append((one.node, place))
            row.best.append(min(total, MOST_NS))
            row.back.append(origins)
        for one in chained:
            self._rows[one.node].status = RowStatus.CHAINED
        self._rows[node] = row

    def close_toward(self, node: int, consumer: DeviceLocation | None, edge_bytes: Sequence[int]) -> list[Commitment]:
        """Commit an open row for a reader at a known place, None for one that may be anywhere.

        Return what is committed, with all rows that it goes on from; nothing when the row is not open.
        """
        row = self._rows[node]
        if row.status is not RowStatus.OPEN:
            return []
        if consumer is None:
            return self._commit(node, row.best.index(min(row.best)))
        (moves,) = self._between(row, self._one((consumer,)), tuple(edge_bytes))
        place, _ = _best(row, moves)
        return self._commit(node, place)

    def finish(self, exit_device: DeviceLocation | None, exit_bytes: Callable[[int], int]) -> list[Commitment]:
        """Commit every open row as if it were read at `exit_device`, in order; return what is committed."""
        done: list[Commitment] = []
        for node, row in self._rows.items():
            if row.status is RowStatus.OPEN:
                done += self.close_toward(node, exit_device, (exit_bytes(node),))
        return done

    def _one(self, devices: tuple[DeviceLocation, ...]) -> tuple[DeviceLocation, ...]:
        """The same tuple for equal ones."""
        return self._devices.setdefault(devices, devices)

    def _between(
        self, row: _Row, devices: tuple[DeviceLocation, ...], edge_bytes: tuple[int, ...]
    ) -> Sequence[Sequence[int]]:
        """By device: what the copies of a row's value to it take from each of the row's devices."""
        key = id(row.devices), id(devices), edge_bytes
        found = self._ways.get(key)
        if found is None:
            estimate = self.estimator.estimate_transfer_ns
            found = self._ways[key] = [
                [sum([estimate(source, device, each) for each in edge_bytes]) for source in row.devices]
                for device in devices
            ]
        return found

    def _commit(self, node: int, place: int) -> list[Commitment]:
        done: list[Commitment] = []
        stack = [(node, place)]
        while stack:
            one, at = stack.pop()
            row = self._rows[one]
            if row.status is RowStatus.COMMITTED:
                continue
            row.status, row.device = RowStatus.COMMITTED, row.devices[at]
            done.append((one, row.device))
            stack += row.back[at]
        return done


def _best(row: _Row, moves: Sequence[int]) -> tuple[int, int]:
    """The place of the device from which a value is first where the moves go, and that time."""
    times = [best + move for best, move in zip(row.best, moves, strict=True)]
    took = min(times)
    return (times.index(took), took) if took < MOST_NS else (0, MOST_NS)  # at the end of the numbers all are equal
