"""Which task of a graph goes to which device, decided for the whole graph at once.

`place` takes a `Problem` and returns a `Placement`. Pure: no clock, no chance, and the same plan for equal problems.
"""

from fuel_async.plan.placement.live import EVERY as EVERY
from fuel_async.plan.placement.live import Progress as Progress
from fuel_async.plan.placement.live import ahead_of as ahead_of
from fuel_async.plan.placement.live import due as due
from fuel_async.plan.placement.live import learned as learned
from fuel_async.plan.placement.live import may_start as may_start
from fuel_async.plan.placement.live import resweep as resweep
from fuel_async.plan.placement.place import Origin as Origin
from fuel_async.plan.placement.place import Placement as Placement
from fuel_async.plan.placement.place import place as place
from fuel_async.plan.placement.problem import STAYS as STAYS
from fuel_async.plan.placement.problem import Fleet as Fleet
from fuel_async.plan.placement.problem import Problem as Problem
from fuel_async.plan.placement.problem import Row as Row
from fuel_async.plan.placement.problem import Way as Way
from fuel_async.plan.placement.problem import all_ways as all_ways
from fuel_async.plan.placement.replay import Copy as Copy
from fuel_async.plan.placement.stream import Arriving as Arriving
from fuel_async.plan.placement.stream import arriving as arriving
from fuel_async.plan.placement.stream import destination as destination
from fuel_async.plan.placement.tables import Tables as Tables
from fuel_async.plan.placement.tables import tables_of as tables_of
from fuel_async.plan.placement.two_way import FULL_TASKS as FULL_TASKS
from fuel_async.plan.placement.two_way import Effort as Effort
from fuel_async.plan.placement.two_way import effort_for as effort_for
