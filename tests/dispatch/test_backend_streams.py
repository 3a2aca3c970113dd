"""What is pending on a device, asked of anything that may be one."""

from __future__ import annotations

import dataclasses

import pytest

from fuel_async.dispatch import BackendStreams, pending_work_count


@dataclasses.dataclass(frozen=True)
class Queues:
    pending: int | None
    slot_capacity: int = 2

    def pending_work_count(self) -> int | None:
        return self.pending


class CapacityOnly:
    slot_capacity = 2


@pytest.mark.parametrize("pending", [0, 3, None])
def test_a_device_with_queues_is_asked(pending: int | None) -> None:
    queues: BackendStreams = Queues(pending)
    assert pending_work_count(queues) == pending


@pytest.mark.parametrize("handle", [None, CapacityOnly(), object()])
def test_what_has_no_queues_cannot_tell(handle: object) -> None:
    assert not isinstance(handle, BackendStreams)
    assert pending_work_count(handle) is None
