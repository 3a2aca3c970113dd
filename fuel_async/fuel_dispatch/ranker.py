"""The seeds' module `ranker`: the candidates of a node, filtered, priced, and ranked."""

from fuel_async.cost import composite_ns as composite_ns
from fuel_async.plan import KEEP_PER_DEVICE as KEEP_PER_DEVICE
from fuel_async.plan import AlternativeFilter as AlternativeFilter
from fuel_async.plan import AlternativeSet as AlternativeSet
from fuel_async.plan import BitStablePreferenceFilter as BitStablePreferenceFilter
from fuel_async.plan import Candidate as Candidate
from fuel_async.plan import CapabilitiesLookup as CapabilitiesLookup
from fuel_async.plan import CouplingAdjustment as CouplingAdjustment
from fuel_async.plan import FilterClass as FilterClass
from fuel_async.plan import FilterContext as FilterContext
from fuel_async.plan import HashMapJudge as HashMapJudge
from fuel_async.plan import JudgeOracle as JudgeOracle
from fuel_async.plan import PrecisionFloorFilter as PrecisionFloorFilter
from fuel_async.plan import PrecisionRequirement as PrecisionRequirement
from fuel_async.plan import StridedInputPreferenceFilter as StridedInputPreferenceFilter
from fuel_async.plan import TransferEstimator as TransferEstimator
from fuel_async.plan import apply_filter_chain as apply_filter_chain
from fuel_async.plan import apply_inbound_transfer_costs as apply_inbound_transfer_costs
from fuel_async.plan import compute_static_costs as compute_static_costs
from fuel_async.plan import default_chain as default_chain
from fuel_async.plan import enumerate_candidates as enumerate_candidates
