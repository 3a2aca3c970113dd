"""A double of the part of CuPy that a backend for CUDA devices uses: threads for streams, host memory for devices.

It keeps the rules that such a backend must keep, and tells when they are broken: order within streams, events, devices
of threads, the life of memory, capture, errors that end a device. Kernels are CUDA C, compiled for the CPU.
"""

from fuel_async.testing.cuda_double.install import doubled as doubled
from fuel_async.testing.cuda_double.install import install as install
from fuel_async.testing.cuda_double.install import uninstall as uninstall
from fuel_async.testing.cuda_double.machine import LegacyStreamUsed as LegacyStreamUsed
from fuel_async.testing.cuda_double.machine import Machine as Machine
from fuel_async.testing.cuda_double.machine import installed as installed
from fuel_async.testing.cuda_double.model import Counts as Counts
from fuel_async.testing.cuda_double.model import DeviceModel as DeviceModel
from fuel_async.testing.cuda_double.model import Leaks as Leaks
from fuel_async.testing.cuda_double.model import RandomFaults as RandomFaults
