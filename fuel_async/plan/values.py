"""Values that cross regions: what must be where when the regions of one run are placed on several devices.

A value is the bytes of a base slot that some region reads and that another one made, or the caller gave or receives.
Views are their base, but of a bundle those outputs cross that are read elsewhere, each for itself. Offsets are the same
in every arena, so a value is copied to its own offset in the reader's.

Such a copy is safe at any moment between the end of the region that makes the value and the start of one that reads
it. Let v be the value, and w another that shares bytes with it. `plan.memory.offsets` shares bytes only if every region
that touches the one precedes, or is, the region that writes the other.

- v first: all readers of v, and so the copy, precede the region that writes w, or the reader is that region and the
  copy precedes it. So w is written nowhere, in no arena, before the copy is done and the reader is through with it; and
  a copy of w comes later still.
- w first: all regions that touch w precede the region that makes v, or are it. So at the moment of the copy none of
  them is still to read w, in any arena, and every copy of w was done before the region that it was for.

Hence the copy neither meets bytes of another value that is alive, nor is overwritten, whatever arena it goes to.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fuel_async.dispatch import SlotClass
from fuel_async.ir import Breathe, no_breath

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuel_async.plan.lower import Rows

#: A C call over more items than this holds the interpreter for longer than a loop should wait.
_SLICE = 2_048


@dataclass(frozen=True, slots=True)
class Value:
    """Bytes that cross regions: a feed, a temporary that another region reads, or an output."""

    kind: SlotClass
    #: Index into the plan's feeds or outputs; of a temporary the slot that shows its bytes as a row-major array.
    place: int
    nbytes: int
    #: The region that makes it; -1 for a feed.
    producer: int


@dataclass(frozen=True, slots=True)
class Crossing:
    """The values of a plan, by producer, and what of them each region reads and writes, by place among them, sorted."""

    values: tuple[Value, ...]
    reads: Sequence[tuple[int, ...]]
    writes: Sequence[tuple[int, ...]]
    #: By region: places of the constants it reads, sorted.
    constants: Sequence[tuple[int, ...]]


def cross(
    rows: Rows, region_of: Sequence[int], regions: int, canonical: Sequence[int], breathe: Breathe = no_breath
) -> Crossing:
    """Find what crosses the regions that the placed `rows` were cut into. O(rows)."""
    homes = _homes(rows, region_of, breathe)
    outside: list[set[int]] = [set() for _ in range(regions)]
    for row, slots in enumerate(rows.slots):
        region = region_of[row]
        for slot in slots:
            if homes[slot] != region:
                outside[region].add(slot)
        if not row & 63:
            breathe()
    constants: list[tuple[int, ...]] = []
    reads: list[set[int]] = []
    for met in outside:
        bases = {rows.pieces.get(slot, rows.bases[slot]) for slot in met}
        known = {base for base in bases if rows.classes[base] == SlotClass.CONSTANT}
        constants.append(tuple(sorted([rows.places[base] for base in known])))
        reads.append(bases - known)
        breathe()
    values: list[Value] = []
    number: dict[int, int] = {}
    writes: list[tuple[int, ...]] = []
    for producer, made in enumerate(_by_producer(rows, homes, reads, regions, breathe), -1):
        first = len(values)
        for base in made:
            number[base] = len(values)
            values.append(_value(rows, canonical, base, producer))
        if producer >= 0:
            writes.append(tuple(range(first, len(values))))
        breathe()
    return Crossing(
        tuple(values), [tuple(sorted([number[base] for base in some])) for some in reads], writes, constants
    )


def _by_producer(
    rows: Rows, homes: Sequence[int], reads: Sequence[set[int]], regions: int, breathe: Breathe
) -> list[list[int]]:
    """The base slots that cross, feeds first, then by the region that makes them; each list sorted."""
    outputs = np.flatnonzero(np.frombuffer(bytes(rows.classes), np.uint8) == SlotClass.OUTPUT).tolist()
    made: list[list[int]] = [[] for _ in range(regions + 1)]
    for count, base in enumerate({rows.bases[slot] for slot in outputs}.union(*reads)):
        made[homes[base] + 1].append(base)
        if not count & 63:
            breathe()
    for bases in made:
        bases.sort()
    return made


def _homes(rows: Rows, region_of: Sequence[int], breathe: Breathe) -> array[int]:
    """By slot: the region that writes the bytes it shows, -1 when they come from outside."""
    by_row = array("i")
    for start in range(0, len(region_of), _SLICE):
        by_row.extend(region_of[start : start + _SLICE])
        breathe()
    by_row.append(-1)  # what row -1 is in
    writers = np.frombuffer(rows.writers, np.int32)[np.frombuffer(rows.bases, np.int32)]
    homes = array("i")
    homes.frombytes(np.frombuffer(by_row, np.int32)[writers].tobytes())
    breathe()
    return homes


def _value(rows: Rows, canonical: Sequence[int], base: int, producer: int) -> Value:
    kind = SlotClass(rows.classes[base])
    place = canonical[base] if kind is SlotClass.TEMPORARY else rows.places[base]
    return Value(kind, place, rows.types[base].nbytes, producer)
