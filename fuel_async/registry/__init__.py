"""What a process has one of: binding table, capability registry, topology generation, in-flight counters.

Everything is published as immutable snapshots or is a locked counter; no lock is held while foreign code
runs, except the writers' turn of the binding table.
"""

from fuel_async.registry.bindings import KERNEL_PACKS_GROUP as KERNEL_PACKS_GROUP
from fuel_async.registry.bindings import BindingsStore as BindingsStore
from fuel_async.registry.bindings import Extender as Extender
from fuel_async.registry.bindings import bindings_problems as bindings_problems
from fuel_async.registry.bindings import extend_global_bindings as extend_global_bindings
from fuel_async.registry.bindings import global_bindings as global_bindings
from fuel_async.registry.capabilities import CapabilitiesStore as CapabilitiesStore
from fuel_async.registry.capabilities import global_registry as global_registry
from fuel_async.registry.capabilities import register_backend_capabilities as register_backend_capabilities
from fuel_async.registry.fused_kernels import FusedKernelsStore as FusedKernelsStore
from fuel_async.registry.fused_kernels import default_kernel_registry as default_kernel_registry
from fuel_async.registry.fused_kernels import register_default_fused_kernels as register_default_fused_kernels
from fuel_async.registry.inflight import Inflight as Inflight
from fuel_async.registry.inflight import InflightCounters as InflightCounters
from fuel_async.registry.inflight import inflight_count as inflight_count
from fuel_async.registry.inflight import inflight_dec as inflight_dec
from fuel_async.registry.inflight import inflight_inc as inflight_inc
from fuel_async.registry.inflight import inflight_of as inflight_of
from fuel_async.registry.inflight import pending_ns as pending_ns
from fuel_async.registry.inflight import pending_ns_add as pending_ns_add
from fuel_async.registry.process import fork_generation as fork_generation
from fuel_async.registry.system_topology import SystemTopology as SystemTopology
from fuel_async.registry.system_topology import TopologyStore as TopologyStore
from fuel_async.registry.topology import GenerationCounter as GenerationCounter
from fuel_async.registry.topology import bump_topology_generation as bump_topology_generation
from fuel_async.registry.topology import on_topology_change as on_topology_change
from fuel_async.registry.topology import topology_generation as topology_generation
