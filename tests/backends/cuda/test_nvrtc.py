"""Every program of CUDA devices is compiled by NVRTC, as on a machine with a GPU.

Each module and each elementwise kernel is compiled once each time, as the seed in the session's header chooses, and in
all its forms for all architectures in slow tests.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from fuel_async.backends.cuda.kernels.code import ENTRY, code_of
from fuel_async.backends.grids.catalog import MODULES, Module
from tests.backends.cuda.nvrtc import ARCHITECTURES, nvrtc, together
from tests.backends.cuda.shaders import fixed, printed
from tests.backends.cuda.source_rig import LIMITS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.backends.grids.kernel import GridKernel, Shader
    from tests.backends.cuda.nvrtc import Compiled

#: Elementwise kernels by their ops.
BY_OP: dict[str, list[GridKernel]] = {}
for _kernel in printed():
    BY_OP.setdefault(_kernel.op.value, []).append(_kernel)


@pytest.fixture(scope="module")
def shaders() -> Mapping[str, Sequence[Shader]]:
    return fixed()


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """What chooses: the same for one seed and one test."""
    return random.Random(f"{request.config.getoption('hypothesis_seed')} {request.node.name}")


def check_interface(made: Compiled, entry: str, shader: Shader) -> None:
    """A pointer for each binding, and then the words that are pushed."""
    pushed = [shader.push_nbytes] if shader.push_nbytes else []
    assert made.parameters(entry) == [*[8] * shader.bindings, *pushed]


def check_fixed(shader: Shader, architecture: int) -> None:
    """Compile a module, and look at what can be seen of it without a device."""
    made = nvrtc().compile(*code_of(shader), architecture)
    assert made.ptx is not None, made.log
    assert not made.log, "warnings"
    check_interface(made, ENTRY, shader)
    assert made.shared_nbytes() <= LIMITS.shared_nbytes
    assert not made.has("call"), "something is not inlined"
    assert not made.has(".local"), "an array lies in memory"
    assert isinstance(shader.code, Module)
    is_product_of_floats = shader.code.source == "matmul" and shader.code.floats > 0
    assert made.has("fma.") == is_product_of_floats, "what is rounded together is not what it should be"


def check_printed(shaders: Sequence[Shader], architecture: int) -> None:
    """Compile programs that are printed, as one."""
    codes = [code_of(shader) for shader in shaders]
    assert len({code.options for code in codes}) == 1
    text, entries = together([code.text for code in codes], ENTRY)
    made = nvrtc().compile(text, codes[0].options, architecture)
    assert made.ptx is not None, made.log
    for shader, entry in zip(shaders, entries, strict=True):
        check_interface(made, entry, shader)


@pytest.mark.parametrize("name", MODULES)
def test_a_fixed_module_compiles(name: str, shaders: Mapping[str, Sequence[Shader]], chance: random.Random) -> None:
    check_fixed(chance.choice(shaders[name]), chance.choice(ARCHITECTURES))


@pytest.mark.parametrize("op", BY_OP)
def test_an_elementwise_kernel_compiles(op: str, chance: random.Random) -> None:
    shader = chance.choice(printed()[chance.choice(BY_OP[op])])
    made = nvrtc().compile(*code_of(shader), chance.choice(ARCHITECTURES))
    assert made.ptx is not None, made.log
    check_interface(made, ENTRY, shader)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", MODULES)
def test_all_forms_of_a_fixed_module_compile(
    name: str, architecture: int, shaders: Mapping[str, Sequence[Shader]]
) -> None:
    for shader in shaders[name]:
        check_fixed(shader, architecture)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("op", BY_OP)
def test_all_forms_of_an_elementwise_kernel_compile(op: str, architecture: int) -> None:
    check_printed([shader for kernel in BY_OP[op] for shader in printed()[kernel]], architecture)
