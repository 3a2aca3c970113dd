"""The async shell: executors, runs, and the one place where the scheduler's instructions are carried out."""

from fuel_async.runtime.compiled import CompiledNode as CompiledNode
from fuel_async.runtime.compiled import compile_node as compile_node
from fuel_async.runtime.compiled import dispatched_kernel_ident as dispatched_kernel_ident
from fuel_async.runtime.compiled import execute_compiled as execute_compiled
from fuel_async.runtime.executor import Executor as Executor
from fuel_async.runtime.explain import CallExplanation as CallExplanation
from fuel_async.runtime.explain import Explanation as Explanation
from fuel_async.runtime.explain import RegionExplanation as RegionExplanation
from fuel_async.runtime.explain import nbytes_text as nbytes_text
from fuel_async.runtime.explain import share_text as share_text
from fuel_async.runtime.pipelined import PipelinedExecutor as PipelinedExecutor
from fuel_async.runtime.run import Run as Run
from fuel_async.runtime.statistics import DeviceStatistics as DeviceStatistics
from fuel_async.runtime.statistics import Statistics as Statistics
from fuel_async.runtime.timeline import Row as Row
from fuel_async.runtime.timeline import Span as Span
from fuel_async.runtime.timeline import joined as joined
from fuel_async.runtime.timeline import step_ms as step_ms
from fuel_async.runtime.timeline import text_picture as text_picture
