"""Runs over several devices: their devices by number, shares of memory, copies, and the driver that carries it out."""

from fuel_async.runtime.spread.driver import PlanOutdated as PlanOutdated
from fuel_async.runtime.spread.driver import SpreadDriver as SpreadDriver
from fuel_async.runtime.spread.engine import SpreadEngine as SpreadEngine
from fuel_async.runtime.spread.prepared import PreparedSpread as PreparedSpread
from fuel_async.runtime.spread.run import SpreadRun as SpreadRun
from fuel_async.runtime.spread.table import DeviceTable as DeviceTable
