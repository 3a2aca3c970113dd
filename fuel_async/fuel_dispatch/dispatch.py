"""The seeds' module `dispatch`: who can run what, how bytes get there, and what the process has one of.

The kernels of the host come the way those of every backend do, by the entry point that names the function.
"""

from importlib.metadata import entry_points as _entry_points

from fuel_async.dispatch import BackendCapabilities as BackendCapabilities
from fuel_async.dispatch import BackendStreams as BackendStreams
from fuel_async.dispatch import CapabilityRegistry as CapabilityRegistry
from fuel_async.dispatch import TransferMatrix as TransferMatrix
from fuel_async.dispatch import TransferPath as TransferPath
from fuel_async.dispatch import derive_backend_caps as derive_backend_caps
from fuel_async.dispatch import pending_work_count as pending_work_count
from fuel_async.dispatch import resolve_target_backend as resolve_target_backend
from fuel_async.dispatch import resolve_target_backend_residency_aware as resolve_target_backend_residency_aware
from fuel_async.ir import CPU_DEVICE as _HOST
from fuel_async.ir import SubstrateClass as SubstrateClass
from fuel_async.registry import KERNEL_PACKS_GROUP as _KERNEL_PACKS
from fuel_async.registry import Extender as _Extender
from fuel_async.registry import bump_topology_generation as bump_topology_generation
from fuel_async.registry import extend_global_bindings as extend_global_bindings
from fuel_async.registry import global_bindings as global_bindings
from fuel_async.registry import global_registry as global_registry
from fuel_async.registry import inflight_count as inflight_count
from fuel_async.registry import inflight_dec as inflight_dec
from fuel_async.registry import inflight_inc as inflight_inc
from fuel_async.registry import register_backend_capabilities as register_backend_capabilities
from fuel_async.registry import register_default_fused_kernels as register_default_fused_kernels
from fuel_async.registry import topology_generation as topology_generation
from fuel_async.storage import cpu_input as cpu_input
from fuel_async.storage import cpu_output as cpu_output
from fuel_async.storage import read_storage as read_storage
from fuel_async.storage import write_storage as write_storage

register_cpu_kernels: _Extender = _entry_points(group=_KERNEL_PACKS)[_HOST.backend.name].load()
