"""SPIR-V for elementwise kernels, written in Python: no compiler, no library, equal bytes for equal trees."""

from fuel_async.backends.vulkan.spirv import circular, code, floats, functions, kernel, module, scalars
from fuel_async.backends.vulkan.spirv.kernel import ITEMS as ITEMS
from fuel_async.backends.vulkan.spirv.kernel import LOCAL as LOCAL
from fuel_async.backends.vulkan.spirv.kernel import MOST_WORDS as MOST_WORDS
from fuel_async.backends.vulkan.spirv.kernel import Access as Access
from fuel_async.backends.vulkan.spirv.kernel import ModuleForm as ModuleForm
from fuel_async.backends.vulkan.spirv.kernel import module_of as module_of
from fuel_async.backends.vulkan.spirv.kernel import numbers_given as numbers_given
from fuel_async.backends.vulkan.spirv.kernel import words_of as words_of
from fuel_async.backends.vulkan.spirv.scalars import SINGLE_ONLY as SINGLE_ONLY

#: The modules that decide on the bytes.
WRITERS = (module, code, floats, functions, circular, scalars, kernel)
