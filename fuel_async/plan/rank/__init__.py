"""Which kernels could compute a node, what each costs, and which are kept: candidates, filters, prices, frontiers."""

from fuel_async.plan.rank.alternatives import KEEP_PER_DEVICE as KEEP_PER_DEVICE
from fuel_async.plan.rank.alternatives import AlternativeSet as AlternativeSet
from fuel_async.plan.rank.alternatives import DecisionContext as DecisionContext
from fuel_async.plan.rank.candidate import Candidate as Candidate
from fuel_async.plan.rank.candidate import CouplingAdjustment as CouplingAdjustment
from fuel_async.plan.rank.candidate import operand_on as operand_on
from fuel_async.plan.rank.candidate import operand_strided as operand_strided
from fuel_async.plan.rank.coupling import couple_producers as couple_producers
from fuel_async.plan.rank.coupling import couple_strides as couple_strides
from fuel_async.plan.rank.enumerate import enumerate_candidates as enumerate_candidates
from fuel_async.plan.rank.filters import AlternativeFilter as AlternativeFilter
from fuel_async.plan.rank.filters import BitStablePreferenceFilter as BitStablePreferenceFilter
from fuel_async.plan.rank.filters import FilterClass as FilterClass
from fuel_async.plan.rank.filters import FilterContext as FilterContext
from fuel_async.plan.rank.filters import PrecisionFloorFilter as PrecisionFloorFilter
from fuel_async.plan.rank.filters import PrecisionRequirement as PrecisionRequirement
from fuel_async.plan.rank.filters import StridedInputPreferenceFilter as StridedInputPreferenceFilter
from fuel_async.plan.rank.filters import apply_filter_chain as apply_filter_chain
from fuel_async.plan.rank.filters import default_chain as default_chain
from fuel_async.plan.rank.static_costs import CapabilitiesLookup as CapabilitiesLookup
from fuel_async.plan.rank.static_costs import HashMapJudge as HashMapJudge
from fuel_async.plan.rank.static_costs import JudgeOracle as JudgeOracle
from fuel_async.plan.rank.static_costs import compute_static_costs as compute_static_costs
from fuel_async.plan.rank.transfers import TransferEstimator as TransferEstimator
from fuel_async.plan.rank.transfers import apply_inbound_transfer_costs as apply_inbound_transfer_costs
from fuel_async.plan.rank.transfers import inbound_ns as inbound_ns
