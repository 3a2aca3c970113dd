"""The seeds' names, spelled as there: `fuel_async.fuel_dispatch.<seed module>.<Name>`.

A façade for readers of the seeds: re-exports only, imported by nothing inside. `docs/seed-map.md` lists every
name with its home here and the test that uses it.
"""

from fuel_async.fuel_dispatch import dispatch as dispatch
from fuel_async.fuel_dispatch import fused as fused
from fuel_async.fuel_dispatch import topology as topology
from fuel_async.fuel_dispatch.compiled import CompiledNode as CompiledNode
from fuel_async.fuel_dispatch.compiled import Completion as Completion
from fuel_async.fuel_dispatch.compiled import CompletionHandle as CompletionHandle
from fuel_async.fuel_dispatch.compiled import compile_node as compile_node
from fuel_async.fuel_dispatch.compiled import dispatched_kernel_ident as dispatched_kernel_ident
from fuel_async.fuel_dispatch.compiled import execute_compiled as execute_compiled
from fuel_async.fuel_dispatch.kernel import KernelBindingTable as KernelBindingTable
from fuel_async.fuel_dispatch.kernel import KernelDTypes as KernelDTypes
from fuel_async.fuel_dispatch.kernel import KernelRef as KernelRef
from fuel_async.fuel_dispatch.kernel import OpParams as OpParams
from fuel_async.fuel_dispatch.pipelined import PipelinedExecutor as PipelinedExecutor
from fuel_async.fuel_dispatch.plan import ExecutionPlan as ExecutionPlan
from fuel_async.fuel_dispatch.plan import PlanOptions as PlanOptions
from fuel_async.fuel_dispatch.plan import compile_plan as compile_plan
from fuel_async.fuel_dispatch.ranker import KEEP_PER_DEVICE as KEEP_PER_DEVICE
from fuel_async.fuel_dispatch.ranker import AlternativeFilter as AlternativeFilter
from fuel_async.fuel_dispatch.ranker import AlternativeSet as AlternativeSet
from fuel_async.fuel_dispatch.ranker import BitStablePreferenceFilter as BitStablePreferenceFilter
from fuel_async.fuel_dispatch.ranker import Candidate as Candidate
from fuel_async.fuel_dispatch.ranker import CapabilitiesLookup as CapabilitiesLookup
from fuel_async.fuel_dispatch.ranker import CouplingAdjustment as CouplingAdjustment
from fuel_async.fuel_dispatch.ranker import FilterClass as FilterClass
from fuel_async.fuel_dispatch.ranker import FilterContext as FilterContext
from fuel_async.fuel_dispatch.ranker import HashMapJudge as HashMapJudge
from fuel_async.fuel_dispatch.ranker import JudgeOracle as JudgeOracle
from fuel_async.fuel_dispatch.ranker import PrecisionFloorFilter as PrecisionFloorFilter
from fuel_async.fuel_dispatch.ranker import PrecisionRequirement as PrecisionRequirement
from fuel_async.fuel_dispatch.ranker import StridedInputPreferenceFilter as StridedInputPreferenceFilter
from fuel_async.fuel_dispatch.ranker import TransferEstimator as TransferEstimator
from fuel_async.fuel_dispatch.ranker import apply_filter_chain as apply_filter_chain
from fuel_async.fuel_dispatch.ranker import apply_inbound_transfer_costs as apply_inbound_transfer_costs
from fuel_async.fuel_dispatch.ranker import composite_ns as composite_ns
from fuel_async.fuel_dispatch.ranker import compute_static_costs as compute_static_costs
from fuel_async.fuel_dispatch.ranker import default_chain as default_chain
from fuel_async.fuel_dispatch.ranker import enumerate_candidates as enumerate_candidates
