"""CUDA devices: NVIDIA's GPUs, through CuPy. Importing it loads no driver, and no CuPy."""

from fuel_async.backends.cuda.discovery import BACKEND as BACKEND
from fuel_async.backends.cuda.discovery import discover as discover
from fuel_async.backends.cuda.discovery import open_devices as open_devices
from fuel_async.backends.cuda.interchange import adopt as adopt
from fuel_async.backends.cuda.options import CudaOptions as CudaOptions
