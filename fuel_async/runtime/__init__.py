"""The async shell: executors, runs, and the one place where the scheduler's instructions are carried out."""

from fuel_async.runtime.compiled import CompiledNode as CompiledNode
from fuel_async.runtime.compiled import compile_node as compile_node
from fuel_async.runtime.compiled import dispatched_kernel_ident as dispatched_kernel_ident
from fuel_async.runtime.compiled import execute_compiled as execute_compiled
from fuel_async.runtime.executor import Executor as Executor
from fuel_async.runtime.pipelined import PipelinedExecutor as PipelinedExecutor
from fuel_async.runtime.run import Run as Run
from fuel_async.runtime.statistics import DeviceStatistics as DeviceStatistics
from fuel_async.runtime.statistics import Statistics as Statistics
