"""Simulated machines: devices and links described as data, in virtual or scaled time, with the host's kernels.

For tests, for comparing policies, and for running on a machine that one does not have.
"""

from fuel_async.backends.sim.clock import ScaledClock as ScaledClock
from fuel_async.backends.sim.clock import SimClock as SimClock
from fuel_async.backends.sim.clock import VirtualClock as VirtualClock
from fuel_async.backends.sim.clock import VirtualDeadlock as VirtualDeadlock
from fuel_async.backends.sim.description import MachineDescription as MachineDescription
from fuel_async.backends.sim.description import describe_machine as describe_machine
from fuel_async.backends.sim.device import SimDevice as SimDevice
from fuel_async.backends.sim.link import LinkLane as LinkLane
from fuel_async.backends.sim.link import SimLane as SimLane
from fuel_async.backends.sim.machine import SimMachine as SimMachine
from fuel_async.backends.sim.spec import HOST as HOST
from fuel_async.backends.sim.spec import REFERENCE as REFERENCE
from fuel_async.backends.sim.spec import Links as Links
from fuel_async.backends.sim.spec import LinkSpec as LinkSpec
from fuel_async.backends.sim.spec import Sharing as Sharing
from fuel_async.backends.sim.spec import SimDeviceSpec as SimDeviceSpec
