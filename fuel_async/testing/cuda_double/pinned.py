"""Pinned host memory, which devices copy from and to without the host's help."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any

from fuel_async.testing.cuda_double import statuses
from fuel_async.testing.cuda_double.addresses import Block, new_block
from fuel_async.testing.cuda_double.machine import installed
from fuel_async.testing.cuda_double.statuses import CUDARuntimeError

if TYPE_CHECKING:
    from fuel_async.testing.cuda_double.machine import Machine


def hostAlloc(size: int, flags: int) -> int:
    """Allocate pinned memory and return its address."""
    machine = installed()
    machine.enter("hostAlloc", place="pinned", unsafe=True)
    block = new_block(size, None)
    machine.addresses.add(block)
    machine.count("pinned_allocations")
    return block.start


def freeHost(ptr: int) -> None:
    """Give it back."""
    machine = installed()
    machine.enter("freeHost", unsafe=True)
    if not _release(machine, ptr):
        raise CUDARuntimeError(statuses.INVALID_VALUE)


def hostRegister(ptr: int, size: int, flags: int) -> None:
    """Pin memory that is there already."""
    machine = installed()
    machine.enter("hostRegister", place="pinned", unsafe=True)
    if machine.addresses.at(ptr) is not None:
        raise CUDARuntimeError(statuses.INVALID_VALUE)
    machine.addresses.add(Block(ptr, size, None, None))


def hostUnregister(ptr: int) -> None:
    """Let it be pageable again."""
    freeHost(ptr)


def _release(machine: Machine, ptr: int) -> bool:
    block = machine.addresses.at(ptr)
    if block is None or block.device is not None:
        return False
    if not block.is_intact():
        machine.violations.append(f"a write beside {block.nbytes} bytes of pinned memory")
    machine.addresses.retire(block)
    return True


class PinnedMemory:
    """`cupy.cuda.PinnedMemory`: pinned memory that is given back with this object."""

    _machine: Machine | None = None

    def __init__(self, size: int, flags: int = 0) -> None:
        self.size, self.ptr = size, 0
        if size > 0:
            machine = installed()
            self.ptr = hostAlloc(size, flags)
            self._machine = machine

    def __del__(self) -> None:
        if self._machine is not None and not sys.is_finalizing():
            self._machine.captures.refuse_unsafe()
            _release(self._machine, self.ptr)


def PinnedMemoryPointer(mem: PinnedMemory, offset: int) -> Any:
    """`cupy.cuda.PinnedMemoryPointer`: an address in pinned memory that numpy reads as a buffer.

    In CuPy this is a class. What is returned has its `mem`, `ptr` and `size()` and the buffer protocol, which before
    Python 3.12 only arrays of ctypes can have.
    """
    kind = type("PinnedMemoryPointer", (ctypes.c_ubyte * (mem.size - offset),), {"size": lambda pointer: len(pointer)})
    pointer: Any = kind.from_address(mem.ptr + offset)  # type: ignore[attr-defined]  # arrays of ctypes have it
    pointer.mem, pointer.ptr = mem, mem.ptr + offset
    return pointer


def alloc_pinned_memory(size: int) -> Any:
    """Allocate pinned memory and return a pointer to its begin."""
    return PinnedMemoryPointer(PinnedMemory(size), 0)
