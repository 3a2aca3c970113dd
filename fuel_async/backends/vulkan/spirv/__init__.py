"""SPIR-V for elementwise kernels, written in Python: no compiler, no library, equal bytes for equal trees."""

from fuel_async.backends.vulkan.spirv import circular, code, floats, functions, kernel, module, scalars
from fuel_async.backends.vulkan.spirv.kernel import module_of as module_of

#: The modules that decide on the bytes.
WRITERS = (module, code, floats, functions, circular, scalars, kernel)
