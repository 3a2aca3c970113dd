"""The decisions about a graph's nodes as the seeds have them: `compile_plan` and what it gives."""

from fuel_async.plan.execution.chain import ChainInput as ChainInput
from fuel_async.plan.execution.chain import PlacementDp as PlacementDp
from fuel_async.plan.execution.chain import RowStatus as RowStatus
from fuel_async.plan.execution.compile import compile_plan as compile_plan
from fuel_async.plan.execution.compile import needs_entry as needs_entry
from fuel_async.plan.execution.execution_plan import ExecutionPlan as ExecutionPlan
from fuel_async.plan.execution.options import PlanOptions as PlanOptions
from fuel_async.plan.execution.review import Fate as Fate
from fuel_async.plan.execution.review import Reviewed as Reviewed
from fuel_async.plan.execution.review import Reviewer as Reviewer
from fuel_async.plan.execution.review import review as review
