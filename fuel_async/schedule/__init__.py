"""What next: the scheduler as a pure state machine. Events in, instructions out; time and effects are elsewhere."""

from fuel_async.schedule.events import CancelRequested as CancelRequested
from fuel_async.schedule.events import Event as Event
from fuel_async.schedule.events import RegionFailed as RegionFailed
from fuel_async.schedule.events import RegionFinished as RegionFinished
from fuel_async.schedule.events import RunAdmitted as RunAdmitted
from fuel_async.schedule.instructions import Deliver as Deliver
from fuel_async.schedule.instructions import Instruction as Instruction
from fuel_async.schedule.instructions import Launch as Launch
from fuel_async.schedule.instructions import Release as Release
from fuel_async.schedule.instructions import Stop as Stop
from fuel_async.schedule.invariants import check as check
from fuel_async.schedule.scheduler import Scheduler as Scheduler
from fuel_async.schedule.shape import LaneShape as LaneShape
from fuel_async.schedule.shape import RunShape as RunShape
from fuel_async.schedule.shape import shape_of as shape_of
from fuel_async.schedule.state import Phase as Phase
from fuel_async.schedule.state import RunState as RunState
