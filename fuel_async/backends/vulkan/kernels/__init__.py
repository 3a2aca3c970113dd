"""Kernels of Vulkan devices: the rows of their table, and the code of their dispatches."""
