"""The decisions about a graph's nodes as the seeds have them: `compile_plan` and what it gives."""

from fuel_async.plan.execution.chain import ChainInput as ChainInput
from fuel_async.plan.execution.chain import PlacementDp as PlacementDp
from fuel_async.plan.execution.chain import RowStatus as RowStatus
from fuel_async.plan.execution.compile import compile_plan as compile_plan
from fuel_async.plan.execution.execution_plan import ExecutionPlan as ExecutionPlan
from fuel_async.plan.execution.options import PlanOptions as PlanOptions
