"""The seeds' module `plan`: for every node of a graph, which kernel on which device, and which else."""

from fuel_async.plan import ExecutionPlan as ExecutionPlan
from fuel_async.plan import PlanOptions as PlanOptions
from fuel_async.plan import compile_plan as compile_plan
