"""A machine for a test, with kernels that wait until they are let go, and nothing of it left afterwards."""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING

import pytest

from fuel_async.testing.cuda_double import uninstall
from fuel_async.testing.cuda_double.work import THREAD_PREFIX
from tests.testing.cuda_double.support import Rig

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """No thread of a stream outlives the machine, whatever a test did to it."""
    yield
    uninstall()
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith(THREAD_PREFIX)]
    assert left == []


@pytest.fixture
def rig() -> Iterator[Rig]:
    """Two devices. At the end every rule must have been kept, and all must have been given back."""
    made = Rig.of(2)
    yield made
    made.gates.open()
    made.other_gates.open()
    for device in range(len(made.machine.gpus)):
        made.machine.release(device)
    gc.collect()
    made.machine.check()
    uninstall()
