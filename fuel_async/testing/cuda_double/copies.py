"""Copies and fills in stream order, as the runtime has them.

Copies of pageable memory behave as documented: what is copied from there is read during the call, and a copy to there
has been done when the call returns. Kinds and spans are checked during the call.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final, NamedTuple

from fuel_async.testing.cuda_double import statuses
from fuel_async.testing.cuda_double.machine import installed
from fuel_async.testing.cuda_double.statuses import CUDARuntimeError
from fuel_async.testing.cuda_double.work import Operation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuel_async.testing.cuda_double.addresses import Block
    from fuel_async.testing.cuda_double.gpu import Gpu
    from fuel_async.testing.cuda_double.machine import Machine
    from fuel_async.testing.cuda_double.work import Engine

HOST_TO_HOST: Final = 0
HOST_TO_DEVICE: Final = 1
DEVICE_TO_HOST: Final = 2
DEVICE_TO_DEVICE: Final = 3
DEFAULT: Final = 4

#: Whether destination and source are on a device, by kind.
SIDES: Mapping[int, tuple[bool, bool]] = {
    HOST_TO_HOST: (False, False),
    HOST_TO_DEVICE: (True, False),
    DEVICE_TO_HOST: (False, True),
    DEVICE_TO_DEVICE: (True, True),
}
ENGINES: Mapping[tuple[bool, bool], Engine] = {
    (False, False): "none",
    (True, False): "upload",
    (False, True): "download",
    (True, True): "compute",
}


class Span(NamedTuple):
    """Bytes from an address, and the block they lie in; without one they are pageable memory of the host."""

    address: int
    block: Block | None

    @property
    def device(self) -> int | None:
        """The device they are on."""
        return None if self.block is None else self.block.device


def span_of(machine: Machine, address: int, nbytes: int) -> Span:
    """Return the span of `nbytes` from `address`. `CUDARuntimeError` if it is freed or longer than its block."""
    block = machine.addresses.find(address)
    is_outside = block is not None and (not block.is_live or address + nbytes > block.end)
    if address == 0 or is_outside or machine.addresses.is_guard(address):
        raise CUDARuntimeError(statuses.INVALID_VALUE)
    return Span(address, block)


def memcpyAsync(dst: int, src: int, size: int, kind: int, stream: int) -> None:
    """Copy `size` bytes. Memory of a device other than the stream's is refused: that is `memcpyPeerAsync`."""
    machine = installed()
    work = machine.stream(stream)
    gpu = machine.enter("memcpyAsync", work.gpu)
    if not size:
        return
    to, source = span_of(machine, dst, size), span_of(machine, src, size)
    sides = (to.device is not None, source.device is not None)
    if kind != DEFAULT and SIDES.get(kind) != sides:
        raise CUDARuntimeError(statuses.INVALID_VALUE)
    if {to.device, source.device} - {None, gpu.index}:
        raise CUDARuntimeError(statuses.INVALID_HANDLE)
    is_pageable = any(sides) and (to.block is None or source.block is None)
    if is_pageable and work.capture is not None:
        machine.captures.refuse_on(work)
    duration_s = _duration_s(size, gpu.model.memory_bytes_per_s if all(sides) else gpu.model.link_bytes_per_s)
    read_now = ctypes.string_at(src, size) if is_pageable and source.block is None else None

    def run() -> None:
        ctypes.memmove(dst, src if read_now is None else read_now, size)

    machine.count("copies")
    machine.count("copied_nbytes", size)
    mark = machine.submit(work, Operation("copy", run, ENGINES[sides], duration_s))
    if is_pageable:
        machine.count("pageable_copies")
        if to.block is None and mark is not None:
            mark.wait()
            machine.demand_healthy(gpu)


def memcpyPeerAsync(dst: int, dstDevice: int, src: int, srcDevice: int, size: int, stream: int) -> None:
    """Copy between devices. Without access between them it goes through the host and takes twice as long."""
    machine = installed()
    work = machine.stream(stream)
    gpu = machine.enter("memcpyPeerAsync", work.gpu)
    ends = machine.gpu(dstDevice), machine.gpu(srcDevice)
    for end in ends:
        machine.demand_healthy(end)
    if not size:
        return
    spans = span_of(machine, dst, size), span_of(machine, src, size)
    if tuple(span.device for span in spans) != (dstDevice, srcDevice) or gpu not in ends:
        raise CUDARuntimeError(statuses.INVALID_VALUE)
    is_staged = dstDevice != srcDevice and not _sees(*ends)
    if is_staged:
        machine.count("staged_peer_copies")
        if work.capture is not None:
            machine.captures.refuse_on(work)
    speed = min((end.model.link_bytes_per_s for end in ends if end.model.link_bytes_per_s), default=None)
    duration_s = _duration_s(size, speed) * (2 if is_staged else 1)
    machine.count("copies")
    machine.count("copied_nbytes", size)
    engine: Engine = "upload" if gpu.index == dstDevice else "download"
    machine.submit(work, Operation("copy", lambda: _move(dst, src, size), engine, duration_s))


def memsetAsync(ptr: int, value: int, size: int, stream: int) -> None:
    """Fill `size` bytes of the stream's device with the low byte of `value`."""
    machine = installed()
    work = machine.stream(stream)
    gpu = machine.enter("memsetAsync", work.gpu)
    if not size:
        return
    span = span_of(machine, ptr, size)
    if span.device is None:
        raise CUDARuntimeError(statuses.INVALID_VALUE)
    if span.device != gpu.index:
        raise CUDARuntimeError(statuses.INVALID_HANDLE)

    def run() -> None:
        ctypes.memset(ptr, value & 0xFF, size)

    duration_s = _duration_s(size, gpu.model.memory_bytes_per_s)
    machine.submit(work, Operation("fill", run, "compute", duration_s))


def _move(dst: int, src: int, size: int) -> None:
    ctypes.memmove(dst, src, size)


def _sees(one: Gpu, other: Gpu) -> bool:
    return other.index in one.peers or one.index in other.peers


def _duration_s(nbytes: int, bytes_per_s: float | None) -> float:
    return 0.0 if bytes_per_s is None else nbytes / bytes_per_s
