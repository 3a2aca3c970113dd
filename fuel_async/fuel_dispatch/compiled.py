"""The seeds' module `compiled`: one kernel resolved, executed, and the handle of its completion."""

from fuel_async.runtime import CompiledNode as CompiledNode
from fuel_async.runtime import compile_node as compile_node
from fuel_async.runtime import dispatched_kernel_ident as dispatched_kernel_ident
from fuel_async.runtime import execute_compiled as execute_compiled
from fuel_async.streams import Completion as Completion
from fuel_async.streams import CompletionHandle as CompletionHandle
