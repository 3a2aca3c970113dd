"""Kernels of Vulkan devices: what they compute as plans of dispatches, and the table of their rows."""
