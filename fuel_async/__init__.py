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
from fuel_async.ir import matmul as matmul
from fuel_async.ir import maximum as maximum
from fuel_async.ir import minimum as minimum
from fuel_async.ir import permute_dims as permute_dims
from fuel_async.ir import symbol as symbol
from fuel_async.ir import take as take
from fuel_async.ir import where as where
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
    "i8",
    "i16",
    "i32",
    "i64",
    "matmul",
    "maximum",
    "minimum",
    "permute_dims",
    "symbol",
    "take",
    "u8",
    "u32",
    "where",
]
