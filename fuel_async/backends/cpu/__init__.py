"""The host backend: numpy kernels, worker-thread lanes. The floor that every other backend is compared with."""

from fuel_async.backends.base import BackendSpec
from fuel_async.backends.cpu.device import BACKEND_ID, discover, open_device
from fuel_async.backends.cpu.kernels import register_cpu_kernels as register_cpu_kernels

BACKEND = BackendSpec(BACKEND_ID, discover, open_device)
