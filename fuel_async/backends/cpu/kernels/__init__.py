"""The host's kernels: numpy calls that write where they are told, bound once and called without checks.

A family a module, on the common ground of `base` (the kernel object) and `blocks` (evaluation block by
block). `erf` is also a plain function for whoever needs what numpy lacks.
"""

from fuel_async.backends.cpu.kernels.table import KERNEL_SOURCE as KERNEL_SOURCE
from fuel_async.backends.cpu.kernels.table import register_cpu_kernels as register_cpu_kernels
