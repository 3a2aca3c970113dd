"""CUDA C for elementwise kernels, printed from what a module depends on: equal text for equal forms, no header."""

from fuel_async.backends.cuda.printing import functions, module, scalars
from fuel_async.backends.cuda.printing.module import printed as printed

#: The modules that decide on the text.
PRINTERS = (functions, scalars, module)
