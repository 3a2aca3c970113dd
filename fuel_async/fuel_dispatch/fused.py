"""The seeds' module `fused`: kernels that do a composite op in one go, how exact they are, and which code they are."""

from fuel_async.dispatch import BackendImpl as BackendImpl
from fuel_async.dispatch import FusedKernelRegistry as FusedKernelRegistry
from fuel_async.dispatch import KernelRevisionHash as KernelRevisionHash
from fuel_async.dispatch import register_fused as register_fused
from fuel_async.ir import PrecisionGuarantee as PrecisionGuarantee
