"""SPIR-V for elementwise kernels, written in Python: no compiler, no library, equal bytes for equal trees.

`module_of` in `spirv/kernel.py` is the way in. Nothing is imported here, so that a process which only lists kernels has
no part of it.
"""

#: The modules that decide on the bytes.
WRITERS = tuple(
    [f"{__name__}.{name}" for name in ("circular", "code", "floats", "functions", "kernel", "module", "scalars")]
)
