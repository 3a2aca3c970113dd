"""Device memory: allocations, `cupy.cuda.Memory` and pointers into it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from fuel_async.testing.cuda_double import copies, statuses
from fuel_async.testing.cuda_double.addresses import new_block
from fuel_async.testing.cuda_double.current import current_stream_ptr
from fuel_async.testing.cuda_double.devices import Device, getDevice
from fuel_async.testing.cuda_double.machine import installed
from fuel_async.testing.cuda_double.statuses import CUDARuntimeError
from fuel_async.testing.cuda_double.work import StreamWork

if TYPE_CHECKING:
    from fuel_async.testing.cuda_double.machine import Machine


def malloc(size: int) -> int:
    """Allocate `size` bytes on the current device and return their address. Their content is not zero."""
    machine = installed()
    gpu = machine.enter("malloc", place="malloc", unsafe=True)
    if not gpu.take(size):
        raise CUDARuntimeError(statuses.OUT_OF_MEMORY)
    block = new_block(size, gpu.index)
    machine.addresses.add(block)
    machine.count("allocations")
    return block.start


def free(ptr: int) -> None:
    """Give an allocation back, when all that its device was given until now is done; the caller waits for that."""
    machine = installed()
    block = machine.addresses.at(ptr)
    if block is None or block.device is None:
        raise CUDARuntimeError(statuses.INVALID_VALUE)
    machine.enter("free", machine.gpus[block.device], unsafe=True)
    give_back(machine, ptr)


def give_back(machine: Machine, ptr: int) -> None:
    """Free an allocation whatever the state of its device."""
    block = machine.addresses.at(ptr)
    if block is None or block.device is None:
        return
    gpu = machine.gpus[block.device]
    if not machine.is_over and not StreamWork.is_here():
        for mark in [stream.tail() for stream in list(gpu.streams)]:
            mark.wait()
    if not block.is_intact():
        machine.violations.append(f"a write beside {block.nbytes} bytes of gpu:{gpu.index}")
    machine.addresses.retire(block)
    gpu.give(block.nbytes)


class BaseMemory:
    """Bytes of a device."""

    ptr: int
    size: int
    device_id: int

    @property
    def device(self) -> Device:
        """The device they are on."""
        return Device(self.device_id)


class Memory(BaseMemory):
    """`cupy.cuda.Memory`: an allocation that is given back with this object."""

    _machine: Machine | None = None

    def __init__(self, size: int) -> None:
        self.size, self.device_id, self.ptr = size, getDevice(), 0
        if size > 0:
            machine = installed()
            self.ptr = malloc(size)
            self._machine = machine

    def __del__(self) -> None:
        machine = self._machine
        if machine is not None and self.ptr and not sys.is_finalizing():
            machine.captures.refuse_unsafe()
            give_back(machine, self.ptr)


class UnownedMemory(BaseMemory):
    """`cupy.cuda.UnownedMemory`: bytes that another object owns, which is kept alive."""

    def __init__(self, ptr: int, size: int, owner: Any, device_id: int = -1) -> None:
        if device_id < 0:
            block = installed().addresses.find(ptr)
            if block is None or block.device is None:
                raise RuntimeError("UnownedMemory requires explicit device_id for a null or host pointer")
            device_id = block.device
        self.ptr, self.size, self._owner, self.device_id = ptr, size, owner, device_id


class MemoryPointer:
    """`cupy.cuda.MemoryPointer`: an address within a memory, which it keeps alive."""

    def __init__(self, mem: BaseMemory, offset: int) -> None:
        self.mem, self.ptr, self.device_id = mem, mem.ptr + offset, mem.device_id

    @property
    def device(self) -> Device:
        """The device it points into."""
        return Device(self.device_id)

    def __int__(self) -> int:
        return self.ptr

    def __repr__(self) -> str:
        return f"<MemoryPointer {self.ptr:#x} device={self.device_id} mem={self.mem!r}>"

    def __add__(self, y: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self.ptr - self.mem.ptr + y)

    def __radd__(self, y: int) -> MemoryPointer:
        return self + y

    def __sub__(self, y: int) -> MemoryPointer:
        return self + -y

    def copy_from_device_async(self, src: MemoryPointer, size: int, stream: Any = None) -> None:
        """Copy from the same or another device."""
        if not size:
            return
        stream_ptr = _ptr_of(stream)
        if src.device_id == self.device_id:
            copies.memcpyAsync(self.ptr, src.ptr, size, copies.DEVICE_TO_DEVICE, stream_ptr)
        else:
            copies.memcpyPeerAsync(self.ptr, self.device_id, src.ptr, src.device_id, size, stream_ptr)

    def copy_from_host_async(self, mem: Any, size: int, stream: Any = None) -> None:
        """Copy from the host; `mem` is an address or a `ctypes.c_void_p`."""
        if size:
            copies.memcpyAsync(self.ptr, _address(mem), size, copies.HOST_TO_DEVICE, _ptr_of(stream))

    def copy_to_host_async(self, mem: Any, size: int, stream: Any = None) -> None:
        """Copy to the host."""
        if size:
            copies.memcpyAsync(_address(mem), self.ptr, size, copies.DEVICE_TO_HOST, _ptr_of(stream))

    def memset_async(self, value: int, size: int, stream: Any = None) -> None:
        """Fill bytes."""
        if size:
            copies.memsetAsync(self.ptr, value, size, _ptr_of(stream))


def _ptr_of(stream: Any) -> int:
    return current_stream_ptr() if stream is None else int(stream.ptr)


def _address(mem: Any) -> int:
    return mem if isinstance(mem, int) else int(mem.value)


def alloc(size: int) -> MemoryPointer:
    """Allocate on the current device."""
    return MemoryPointer(Memory(size), 0)
