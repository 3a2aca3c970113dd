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
