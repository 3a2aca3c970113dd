"""The seeds' module `kernel`: what a kernel is, its parameters, and the table of kernels."""

from fuel_async.dispatch import KernelBindingTable as KernelBindingTable
from fuel_async.dispatch import KernelCaps as KernelCaps
from fuel_async.dispatch import KernelDTypes as KernelDTypes
from fuel_async.dispatch import KernelRef as KernelRef
from fuel_async.dispatch import OpParams as OpParams
