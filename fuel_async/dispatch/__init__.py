"""Where and how an op can run, as tables: kernels, their parameters, device capabilities, transfer paths.

Pure: nothing here runs a kernel or touches a device.
"""

from fuel_async.dispatch.backend_streams import BackendStreams as BackendStreams
from fuel_async.dispatch.backend_streams import pending_work_count as pending_work_count
from fuel_async.dispatch.capability import BackendCapabilities as BackendCapabilities
from fuel_async.dispatch.capability import CapabilityRegistry as CapabilityRegistry
from fuel_async.dispatch.capability import FitStatus as FitStatus
from fuel_async.dispatch.capability import would_fit as would_fit
from fuel_async.dispatch.derive_caps import derive_backend_caps as derive_backend_caps
from fuel_async.dispatch.kernel import RUNTIME_FUSED_BASE as RUNTIME_FUSED_BASE
from fuel_async.dispatch.kernel import BindableKernel as BindableKernel
from fuel_async.dispatch.kernel import BindingEntry as BindingEntry
from fuel_async.dispatch.kernel import BindingKey as BindingKey
from fuel_async.dispatch.kernel import Bound as Bound
from fuel_async.dispatch.kernel import CostExpr as CostExpr
from fuel_async.dispatch.kernel import CostFn as CostFn
from fuel_async.dispatch.kernel import KernelCaps as KernelCaps
from fuel_async.dispatch.kernel import KernelDTypes as KernelDTypes
from fuel_async.dispatch.kernel import KernelRef as KernelRef
from fuel_async.dispatch.kernel import RuntimeFused as RuntimeFused
from fuel_async.dispatch.kernel import StorageLike as StorageLike
from fuel_async.dispatch.kernel import unknown_cost as unknown_cost
from fuel_async.dispatch.links import DEFAULT_LINKS as DEFAULT_LINKS
from fuel_async.dispatch.links import LinkEstimate as LinkEstimate
from fuel_async.dispatch.node_params import derive_params as derive_params
from fuel_async.dispatch.node_params import kernel_dtypes as kernel_dtypes
from fuel_async.dispatch.params import AffineParams as AffineParams
from fuel_async.dispatch.params import CastParams as CastParams
from fuel_async.dispatch.params import ClampParams as ClampParams
from fuel_async.dispatch.params import ConcatParams as ConcatParams
from fuel_async.dispatch.params import CumSumParams as CumSumParams
from fuel_async.dispatch.params import FlipParams as FlipParams
from fuel_async.dispatch.params import FusedSoftmaxCrossEntropyParams as FusedSoftmaxCrossEntropyParams
from fuel_async.dispatch.params import GatherParams as GatherParams
from fuel_async.dispatch.params import GivenParams as GivenParams
from fuel_async.dispatch.params import IndexAddParams as IndexAddParams
from fuel_async.dispatch.params import IndexSelectParams as IndexSelectParams
from fuel_async.dispatch.params import LogSoftmaxLastDimParams as LogSoftmaxLastDimParams
from fuel_async.dispatch.params import MaskedFillParams as MaskedFillParams
from fuel_async.dispatch.params import MatmulParams as MatmulParams
from fuel_async.dispatch.params import NoParams as NoParams
from fuel_async.dispatch.params import NormLastDimParams as NormLastDimParams
from fuel_async.dispatch.params import OpParams as OpParams
from fuel_async.dispatch.params import PadBackwardParams as PadBackwardParams
from fuel_async.dispatch.params import PadParams as PadParams
from fuel_async.dispatch.params import PowIParams as PowIParams
from fuel_async.dispatch.params import ReduceMaxToBackwardParams as ReduceMaxToBackwardParams
from fuel_async.dispatch.params import ReduceMaxToParams as ReduceMaxToParams
from fuel_async.dispatch.params import ReduceParams as ReduceParams
from fuel_async.dispatch.params import ReduceSumToParams as ReduceSumToParams
from fuel_async.dispatch.params import RollParams as RollParams
from fuel_async.dispatch.params import RopeParams as RopeParams
from fuel_async.dispatch.params import ScatterAddParams as ScatterAddParams
from fuel_async.dispatch.params import SoftmaxLastDimParams as SoftmaxLastDimParams
from fuel_async.dispatch.params import TriangularParams as TriangularParams
from fuel_async.dispatch.params import WriteSliceDoffParams as WriteSliceDoffParams
from fuel_async.dispatch.params import WriteSliceParams as WriteSliceParams
from fuel_async.dispatch.params import WriteSliceRotatingParams as WriteSliceRotatingParams
from fuel_async.dispatch.program import BINDABLE as BINDABLE
from fuel_async.dispatch.program import KernelCall as KernelCall
from fuel_async.dispatch.program import LaneProgram as LaneProgram
from fuel_async.dispatch.program import SlotClass as SlotClass
from fuel_async.dispatch.program import SlotTable as SlotTable
from fuel_async.dispatch.resolve_target import Resident as Resident
from fuel_async.dispatch.resolve_target import resolve_target_backend as resolve_target_backend
from fuel_async.dispatch.resolve_target import (
    resolve_target_backend_residency_aware as resolve_target_backend_residency_aware,
)
from fuel_async.dispatch.routes import Hop as Hop
from fuel_async.dispatch.routes import Pair as Pair
from fuel_async.dispatch.routes import PricedLink as PricedLink
from fuel_async.dispatch.routes import Route as Route
from fuel_async.dispatch.routes import cheapest_route as cheapest_route
from fuel_async.dispatch.routes import route_over as route_over
from fuel_async.dispatch.table import KernelBindingTable as KernelBindingTable
from fuel_async.dispatch.transfer import CHEAPEST_FIRST as CHEAPEST_FIRST
from fuel_async.dispatch.transfer import TransferMatrix as TransferMatrix
from fuel_async.dispatch.transfer import TransferPath as TransferPath
