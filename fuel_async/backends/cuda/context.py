"""A device in use: what is shared by all that works on it, its events, and its loss.

CUDA's current device belongs to a thread, and nothing here leaves it changed: calls are made within `here()`. Of a lost
device nothing is ever freed: freeing fails after a crash, and blocks while a kernel hangs.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from typing import TYPE_CHECKING, Any

from fuel_async.backends.cuda.statuses import error_of
from fuel_async.backends.losing import Losable
from fuel_async.errors import DeviceLost, FuelError

if TYPE_CHECKING:
    from fuel_async.backends.cuda.driver import Driver
    from fuel_async.backends.cuda.options import CudaOptions
    from fuel_async.backends.cuda.physical import PhysicalDevice
    from fuel_async.ir import DeviceLocation


class Context(Losable):
    """One CUDA device of this process. Any thread."""

    def __init__(
        self, driver: Driver, physical: PhysicalDevice, location: DeviceLocation, options: CudaOptions
    ) -> None:
        """Nothing is asked of the driver yet."""
        super().__init__()
        self.driver, self.physical, self.location, self.options = driver, physical, location, options
        self.cuda, self.runtime = driver.cuda, driver.runtime
        self.ordinal, self.name = physical.ordinal, str(location)
        self.events = Events(self)
        #: What lives as long as the context, and of a lost one for ever.
        self._owned: list[Any] = [self.events]

    def here(self) -> Here:
        """Make this the thread's current device for a `with` block. Takes about a microsecond."""
        return Here(self.runtime, self.ordinal)

    # --- calling ----------------------------------------------------------------------------------

    def failed(self, error: BaseException, call: str, nbytes: int = 0, budget_nbytes: int = 0) -> FuelError:
        """The error that a failed call becomes; a loss of the device is noted. Not under a lock that a loss takes."""
        return self.noted(error_of(self.name, call, error, nbytes, budget_nbytes))

    def noted(self, error: FuelError) -> FuelError:
        """Return the error; a loss of the device is noted. Not under a lock that a loss takes."""
        if isinstance(error, DeviceLost) and error.device == self.name:
            self.lose(error)
        return error

    def wait(self, event: Any) -> None:
        """Block until an event is reached. `DeviceLost` when that fails: then nothing says when any work ends."""
        try:
            event.synchronize()
        except Exception as error:
            raise self.noted(self.unheard(error, "cudaEventSynchronize")) from None

    def unheard(self, error: Exception, call: str) -> DeviceLost:
        """What a failure makes of the device after which nobody hears of the ends of its work."""
        made = error_of(self.name, call, error)
        if isinstance(made, DeviceLost):
            return made
        lost = DeviceLost(self.name, str(made))
        lost.__cause__ = made
        return lost

    # --- what belongs to it -----------------------------------------------------------------------

    def own(self, thing: Any) -> Any:
        """Keep `thing` as long as the context, and return it."""
        self._owned.append(thing)
        return thing

    def end_with(self, owner: object, thing: Any) -> None:
        """Let go of `thing`, which the driver frees then, with its owner; the context lives until then."""
        weakref.finalize(owner, self._release, thing).atexit = False

    def bury(self, thing: Any) -> None:
        """Keep what the lost device may still work on for ever."""
        self.driver.graves.append(thing)

    def _release(self, thing: Any) -> None:
        if self.lost is not None:
            self.bury(thing)
        elif self.driver.capturing == threading.get_ident():
            self.driver.put_off.append(thing)  # freeing memory would spoil the capture

    # --- loss -------------------------------------------------------------------------------------

    def lose(self, error: DeviceLost) -> None:
        """Note that the device is lost, once, and tell who wants to know."""
        with self.lock:
            if self.lost is not None:
                return
            self.bury(self._owned)
            self.lost = error
        for tell in self.to_tell():
            tell()


class Here:
    """A device as the current one of a thread for a `with` block."""

    __slots__ = ("_before", "_ordinal", "_runtime")

    def __init__(self, runtime: Any, ordinal: int) -> None:
        self._runtime, self._ordinal, self._before = runtime, ordinal, ordinal

    def __enter__(self) -> None:
        self._before = self._runtime.getDevice()
        if self._before != self._ordinal:
            self._runtime.setDevice(self._ordinal)

    def __exit__(self, *_: object) -> None:
        if self._before != self._ordinal:
            # A thread whose device is lost cannot go back there, and that is no fault of this one's.
            with contextlib.suppress(RuntimeError):
                self._runtime.setDevice(self._before)


class Events:
    """Events that are used again: making one is a call of the driver's. Any thread.

    One that is given back may still be known to somebody who is about to wait for it. Waiting then ends at whatever it
    was recorded for meanwhile, which is later than what was meant, and never later than the present.
    """

    __slots__ = ("_context", "_free", "made")

    def __init__(self, context: Context) -> None:
        self._context = weakref.ref(context)
        self._free: list[Any] = []
        #: How many there are.
        self.made = 0

    @property
    def free_count(self) -> int:
        """How many of them nobody uses."""
        return len(self._free)

    def take(self) -> Any:
        """An event without timing, on which waiting sleeps. Within `Context.here`; raises what the driver raises."""
        try:
            return self._free.pop()
        except IndexError:
            context = self._context()
            assert context is not None  # whoever asks has it
            made = context.cuda.Event(block=True, disable_timing=True)
            self.made += 1
            return made

    def give(self, event: Any) -> None:
        """Take back an event that has been reached."""
        self._free.append(event)
