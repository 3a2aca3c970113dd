"""Programs by way of the backend, the CuPy and the NVRTC that are installed: as on a GPU, but for the GPU."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from fuel_async.backends.cuda.kernels.code import code_of
from tests.backends.cuda.demands import DEMANDED
from tests.backends.cuda.nvrtc import ARCHITECTURES, nvrtc
from tests.backends.cuda.shaders import fixed, printed

pytestmark = pytest.mark.skipif(
    not DEMANDED and find_spec("cupy") is None, reason="CuPy is not installed: pip install 'fuel_async[test-cuda]'"
)

SCRIPT = Path(__file__).with_name("through_cupy.py")
#: Elementwise kernels that are chosen each time.
CHOSEN = 12
#: Arithmetic that flushes. That within CUDA's own functions of approximations is theirs, and they allow for it.
FLUSHING = re.compile(r"\b(?:add|sub|mul|fma|div|sqrt|min|max|abs|neg|setp|cvt)\.(?!approx)[.\w]*ftz")
FLUSHED = ('extern "C" __global__ void kernel_main(float *x) { x[0] = x[1] + x[2]; }', ("-ftz=true",))


def test_what_cupy_compiles_is_loadable_and_keeps_subnormal_floats(request: pytest.FixtureRequest) -> None:
    nvrtc()  # skips where it is missing
    chance = random.Random(request.config.getoption("hypothesis_seed"))
    shaders = [chance.choice(made) for made in fixed().values()]
    shaders += [chance.choice(made) for made in chance.sample(list(printed().values()), CHOSEN)]
    codes = [code_of(shader) for shader in shaders]
    asked = json.dumps({"codes": [*codes, FLUSHED], "architectures": [chance.choice(ARCHITECTURES)]})
    root = str(SCRIPT.parents[3])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": path}
    command = [sys.executable, str(SCRIPT)]
    ran = subprocess.run(
        command, input=asked, capture_output=True, text=True, env=environment, check=False, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    *answers, (_, flushing) = json.loads(ran.stdout)
    assert FLUSHING.search(flushing)
    assert len(answers) == len(codes)
    for code, (loaded, ptx) in zip(codes, answers, strict=True):
        assert loaded == repr(b"\x7fELF")
        assert not FLUSHING.search(ptx), code.options
        assert ".entry" in ptx
