"""Vulkan devices: GPUs, and software ones for tests, through the `vulkan` package. Importing it touches no driver."""

from fuel_async.backends.vulkan.discovery import BACKEND as BACKEND
from fuel_async.backends.vulkan.discovery import discover as discover
from fuel_async.backends.vulkan.discovery import open_devices as open_devices
from fuel_async.backends.vulkan.options import VulkanOptions as VulkanOptions
