"""fuel_async: an asyncio-native scheduling runtime for tensor graphs on heterogeneous devices.

Describe a DAG of tensor operations with `Graph`, then `await executor.run(graph, …)` from any coroutine.
"""

from fuel_async.dispatch import KernelBindingTable as KernelBindingTable
from fuel_async.errors import DeviceError as DeviceError
from fuel_async.errors import FuelError as FuelError
from fuel_async.errors import InternalError as InternalError
from fuel_async.errors import UserError as UserError
from fuel_async.ir import BackendId as BackendId
from fuel_async.ir import DeviceLocation as DeviceLocation
from fuel_async.ir import DType as DType
from fuel_async.ir import Graph as Graph
from fuel_async.ir import PrecisionGuarantee as PrecisionGuarantee
from fuel_async.ir import Tensor as Tensor
from fuel_async.ir import concat as concat
from fuel_async.ir import full as full
from fuel_async.ir import full_like as full_like
from fuel_async.ir import gather as gather
from fuel_async.ir import index_add as index_add
from fuel_async.ir import iota as iota
from fuel_async.ir import layer_norm_backward as layer_norm_backward
from fuel_async.ir import linear as linear
from fuel_async.ir import log_softmax_backward as log_softmax_backward
from fuel_async.ir import masked_fill as masked_fill
from fuel_async.ir import matmul as matmul
from fuel_async.ir import max_to_backward as max_to_backward
from fuel_async.ir import maximum as maximum
from fuel_async.ir import minimum as minimum
from fuel_async.ir import pad as pad
from fuel_async.ir import pad_backward as pad_backward
from fuel_async.ir import permute_dims as permute_dims
from fuel_async.ir import powi_backward as powi_backward
from fuel_async.ir import rms_norm_backward as rms_norm_backward
from fuel_async.ir import roll as roll
from fuel_async.ir import rope as rope
from fuel_async.ir import scatter_add as scatter_add
from fuel_async.ir import selective_scan as selective_scan
from fuel_async.ir import softmax_backward as softmax_backward
from fuel_async.ir import softmax_cross_entropy as softmax_cross_entropy
from fuel_async.ir import symbol as symbol
from fuel_async.ir import take as take
from fuel_async.ir import take_along_axis as take_along_axis
from fuel_async.ir import tril as tril
from fuel_async.ir import triu as triu
from fuel_async.ir import where as where
from fuel_async.ir import zeros as zeros
from fuel_async.ir import zeros_like as zeros_like
from fuel_async.runtime import Executor as Executor
from fuel_async.runtime import PipelinedExecutor as PipelinedExecutor
from fuel_async.runtime import Run as Run
from fuel_async.storage import DeviceArray as DeviceArray
from fuel_async.streams import CompletionHandle as CompletionHandle

u8, i8, u32, i16, i32, i64 = DType.U8, DType.I8, DType.U32, DType.I16, DType.I32, DType.I64
bf16, f16, f32, f64 = DType.BF16, DType.F16, DType.F32, DType.F64
f8e4m3, f8e8m0 = DType.F8E4M3, DType.F8E8M0

__version__ = "0.1.0"

__all__ = [
    "BackendId",
    "CompletionHandle",
    "DType",
    "DeviceArray",
    "DeviceError",
    "DeviceLocation",
    "Executor",
    "FuelError",
    "Graph",
    "InternalError",
    "KernelBindingTable",
    "PipelinedExecutor",
    "PrecisionGuarantee",
    "Run",
    "Tensor",
    "UserError",
    "bf16",
    "concat",
    "f8e4m3",
    "f8e8m0",
    "f16",
    "f32",
    "f64",
    "full",
    "full_like",
    "gather",
    "i8",
    "i16",
    "i32",
    "i64",
    "index_add",
    "iota",
    "layer_norm_backward",
    "linear",
    "log_softmax_backward",
    "masked_fill",
    "matmul",
    "max_to_backward",
    "maximum",
    "minimum",
    "pad",
    "pad_backward",
    "permute_dims",
    "powi_backward",
    "rms_norm_backward",
    "roll",
    "rope",
    "scatter_add",
    "selective_scan",
    "softmax_backward",
    "softmax_cross_entropy",
    "symbol",
    "take",
    "take_along_axis",
    "tril",
    "triu",
    "u8",
    "u32",
    "where",
    "zeros",
    "zeros_like",
]
