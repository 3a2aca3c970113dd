"""Kernels of CUDA devices: the rows of their table, the code of their dispatches, and products by cuBLAS."""
