"""Compiles what it reads with the CuPy of its interpreter, as devices do but without one. Run as a script.

It reads JSON, of `codes` (text and options each) and `architectures`, and writes what was made of each code for each
architecture: the first bytes of what is loaded, and the whole text of the same as PTX.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import cupy

from fuel_async.backends.cuda.compiling import Compiler
from fuel_async.backends.cuda.kernels.code import Code


def made(code: Code, architecture: int, method: str) -> bytes:
    """Compile one, where CuPy would ask the device what it is."""
    asked = {"cubin": f"-arch=sm_{architecture}", "ptx": f"-arch=compute_{architecture}"}[method]
    compiler: Any = cupy.cuda.compiler
    compiler._get_arch_for_options_for_nvrtc = lambda arch=None: (asked, method)
    context: Any = SimpleNamespace(
        cuda=cupy.cuda,
        driver=SimpleNamespace(cupy=cupy),
        name="cuda:0",
        options=SimpleNamespace(cache="0"),
        physical=SimpleNamespace(capability=divmod(architecture, 10)),
        runtime=cupy.cuda.runtime,
    )
    return Compiler(context).compiled(code)


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    answers = [
        (repr(made(code, architecture, "cubin")[:4]), made(code, architecture, "ptx").decode())
        for code in (Code(text, tuple(options)) for text, options in asked["codes"])
        for architecture in asked["architectures"]
    ]
    json.dump(answers, sys.stdout)
