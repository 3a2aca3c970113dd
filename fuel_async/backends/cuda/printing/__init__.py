"""CUDA C for elementwise kernels, printed from what a module depends on: equal text for equal forms, no header.

`printed` in `printing/module.py` is the way in. Nothing is imported here, so that a process which only lists kernels
has no part of it.
"""

#: The modules that decide on the text.
PRINTERS = tuple([f"{__name__}.{name}" for name in ("functions", "module", "scalars")])
