"""Which way: from a frozen graph to regions, lane programs and arena offsets. Pure; time and rates are arguments."""

from fuel_async.plan.indices import IndexCheck as IndexCheck
from fuel_async.plan.placement import STAYS as STAYS
from fuel_async.plan.placement import Fleet as Fleet
from fuel_async.plan.placement import Placement as Placement
from fuel_async.plan.placement import Problem as Problem
from fuel_async.plan.placement import Way as Way
from fuel_async.plan.placement import place as place
from fuel_async.plan.plan import Plan as Plan
from fuel_async.plan.plan import Port as Port
from fuel_async.plan.plan import Region as Region
from fuel_async.plan.plan import make_plan as make_plan
from fuel_async.plan.price import region_ns as region_ns
from fuel_async.plan.regions import HEAVY_NS as HEAVY_NS
from fuel_async.plan.regions import LONGEST_NS as LONGEST_NS
from fuel_async.plan.resolve import Target as Target
from fuel_async.plan.values import Value as Value
