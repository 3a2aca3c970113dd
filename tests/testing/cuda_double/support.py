"""What tests of the double share: an installed machine with some kernels of Python, and short words for long calls."""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.testing.cuda_double import DeviceModel, Machine, install

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: How long a test waits for what must come, and for what must not.
LONG_S, SHORT_S = 10.0, 0.03


class Gates:
    """Kernels that tell when they run and wait until they are let go."""

    def __init__(self) -> None:
        self.running = threading.Semaphore(0)
        self._go = threading.Event()

    def kernel(self, *_: Any) -> None:
        self.running.release()
        assert self._go.wait(LONG_S)

    def wait_running(self) -> None:
        """Return when one more of them runs."""
        assert self.running.acquire(timeout=LONG_S)

    def open(self) -> None:
        """Let all go, also those to come."""
        self._go.set()


@dataclass
class Rig:
    """An installed double, and what ran on it in which thread."""

    machine: Machine
    cupy: Any
    runtime: Any
    gates: Gates
    #: A second set, of the kernels "other_gate".
    other_gates: Gates
    #: Arguments of the kernels "note", in the order in which they ran, and their threads.
    noted: list[Any] = field(default_factory=list)
    threads: list[str] = field(default_factory=list)
    kernels: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, devices: int | Sequence[DeviceModel], **options: Any) -> Rig:
        gates, others = Gates(), Gates()
        kernels: dict[str, Callable[..., None]] = {"gate": gates.kernel, "other_gate": others.kernel}
        machine = install(devices, kernels=kernels, **options)
        rig = cls(machine, import_module("cupy"), import_module("cupy.cuda.runtime"), gates, others)
        machine.kernels |= {"note": rig._note, "crash": _crash, "add_one": _add_one}
        if machine.absence is None:
            rig._load()
        return rig

    def _load(self) -> None:
        """Load the kernels on every device: later that would be a call that a capture forbids."""
        for device in reversed(range(len(self.machine.gpus))):
            self.cupy.cuda.Device(device).use()
            for name in self.machine.kernels:
                self.kernels[name] = self.kernels.get(name) or self.cupy.RawKernel(f"// {name}", name)
                self.kernels[name].compile()

    def _note(self, grid: Any, block: Any, args: Sequence[Any], shared_nbytes: int) -> None:
        self.noted.append(int(args[0]))
        self.threads.append(threading.current_thread().name)

    def stream(self, device: int = 0) -> Any:
        """A stream of a device, which becomes the current one."""
        self.cupy.cuda.Device(device).use()
        return self.cupy.cuda.Stream(non_blocking=True)

    def event(self, *, timing: bool = False) -> Any:
        return self.cupy.cuda.Event(block=True, disable_timing=not timing)

    def launch(self, stream: Any, name: str, *args: Any, **sizes: Any) -> None:
        """Give one of the kernels to a stream."""
        with stream:
            self.kernels[name](
                sizes.get("grid", (1,)), sizes.get("block", (1,)), args, shared_mem=sizes.get("shared", 0)
            )

    def gate(self, stream: Any) -> None:
        """Give a stream a kernel that waits, and return when it runs."""
        self.launch(stream, "gate")
        self.gates.wait_running()

    def memory(self, nbytes: int) -> Any:
        """A pointer to new memory of the current device."""
        return self.cupy.cuda.MemoryPointer(self.cupy.cuda.Memory(nbytes), 0)

    def pinned(self, values: Any) -> Any:
        """Pinned memory with these values: the pointer and the array over it."""
        values = np.ascontiguousarray(values)
        pointer = self.cupy.cuda.PinnedMemoryPointer(self.cupy.cuda.PinnedMemory(values.nbytes), 0)
        array = np.frombuffer(pointer, values.dtype, values.size).reshape(values.shape)
        array[...] = values
        return pointer, array

    def upload(self, stream: Any, values: Any) -> Any:
        """New memory of the current device, filled in stream order."""
        pointer, array = self.pinned(values)
        memory = self.memory(array.nbytes)
        self.runtime.memcpyAsync(memory.ptr, pointer.ptr, array.nbytes, 1, stream.ptr)
        stream.synchronize()
        return memory

    def status_of(self, call: Callable[..., Any], *args: Any) -> int:
        """The status that a call raises."""
        try:
            call(*args)
        except self.runtime.CUDARuntimeError as error:
            return int(error.status)
        return 0


def bytes_at(address: int, nbytes: int) -> bytes:
    """What lies at an address now, past all rules."""
    return ctypes.string_at(address, nbytes)


def in_thread(call: Callable[[], Any]) -> Any:
    """The result of a call in a thread of its own."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join(LONG_S)
    return found[0]


def _crash(*_: Any) -> None:
    raise RuntimeError("a kernel that crashes")


def _add_one(grid: Any, block: Any, args: Sequence[Any], shared_nbytes: int) -> None:
    """Add one to each of the bytes from an address; the second argument says how many."""
    values = np.frombuffer(memoryview((ctypes.c_ubyte * int(args[1])).from_address(int(args[0]))), np.uint8)
    values += np.uint8(1)
