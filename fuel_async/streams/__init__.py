"""Order and completion: lanes, the handles of what is submitted to them, and the doors between threads and loops."""

from fuel_async.streams.clock import HOST_CLOCK as HOST_CLOCK
from fuel_async.streams.clock import Clock as Clock
from fuel_async.streams.clock import HostClock as HostClock
from fuel_async.streams.completion import Completion as Completion
from fuel_async.streams.completion import CompletionHandle as CompletionHandle
from fuel_async.streams.completion import HostSignal as HostSignal
from fuel_async.streams.completion import Timing as Timing
from fuel_async.streams.completion import WaitStatus as WaitStatus
from fuel_async.streams.errors import fresh as fresh
from fuel_async.streams.errors import without_frames as without_frames
from fuel_async.streams.history import History as History
from fuel_async.streams.host import HostCall as HostCall
from fuel_async.streams.host import HostLane as HostLane
from fuel_async.streams.in_place import InPlaceLane as InPlaceLane
from fuel_async.streams.lane import Lane as Lane
from fuel_async.streams.lane import ProgramInstance as ProgramInstance
from fuel_async.streams.lane import StopFlag as StopFlag
from fuel_async.streams.loop_share import LoopShare as LoopShare
from fuel_async.streams.waits import first_error as first_error
from fuel_async.streams.waits import when_all as when_all
from fuel_async.streams.waker import Waker as Waker
