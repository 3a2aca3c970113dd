"""From a form to the text of the program that computes it over whole operands.

A thread computes `ITEMS` elements. Where all of them are there, all are read and computed before any is written, and
none is asked for on a condition: so their reads are under way together. What a program is given is said by
`grids.form`; the words are one argument, a struct by value, which is left out where they are written into the program.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from fuel_async.backends.cuda.printing.functions import written
from fuel_async.backends.cuda.printing.scalars import PRIMITIVES, TYPES, converted, given, literal
from fuel_async.backends.grids.form import ITEMS, LOCAL, Access, dtype_words, places_words, words_of
from fuel_async.ir import Prim, Step

if TYPE_CHECKING:
    from fuel_async.backends.grids.form import ModuleForm

_HEAD = "typedef unsigned int u32;\ntypedef unsigned long long u64;"


def printed(form: ModuleForm) -> str:
    """Return the program of a form: `kernel_main(inputs…, output, words)`. Pure: equal forms make equal text."""
    return _Printer(form).text()


class _Printer:
    """The parts of one program."""

    def __init__(self, form: ModuleForm) -> None:
        self.form = form
        self.needed: list[str] = []
        self.result = TYPES[form.result]
        self.inputs = [f"const {TYPES[dtype]} *a{number}" for number, (dtype, _) in enumerate(form.inputs)]

    def text(self) -> str:
        """The whole text."""
        form = self.form
        element = self._element()
        words = [] if form.baked else [f"struct Words {{ u32 at[{words_of(form)}]; }};"]
        return "\n\n".join([_HEAD, *words, *written(self.needed), element, self._kernel()]) + "\n"

    def _word(self, number: int) -> str:
        return f"{self.form.baked[number]:#x}u" if self.form.baked else f"w.at[{number}]"

    def _element(self) -> str:
        """The function that computes one element."""
        form, lines = self.form, list[str]()
        places, word = self._places(lines), count(places_words(form))
        for number, step in enumerate(form.steps):
            lines.append(f"const {TYPES[step.dtype]} v{number} = {self._value(step, places, word)};")
        params = [*self.inputs, *([] if form.baked else ["const Words &w"]), "u32 place"]
        body = "\n".join([f"    {line}" for line in (*lines, f"return v{len(form.steps) - 1};")])
        return f"static __device__ __forceinline__ {self.result} element({', '.join(params)}) {{\n{body}\n}}"

    def _value(self, step: Step, places: list[str], word: count[int]) -> str:
        args = [f"v{arg}" for arg in step.args]
        match step:
            case Step(None, key=int(index)):
                return f"a{index}[{places[index]}]"
            case Step(None, key=bytes(data)):
                return literal(data, step.dtype)
            case Step(None, key=None):
                return given([self._word(next(word)) for _ in range(dtype_words(step.dtype))], step.dtype)
            case Step(Prim.CAST):
                return converted(args[0], self.form.steps[step.args[0]].dtype, step.dtype, self.needed.append)
            case Step(Prim() as op):
                return PRIMITIVES[op](args, self.form.steps[step.args[-1]].dtype, self.needed.append)
            case _:
                raise AssertionError(step)

    def _places(self, lines: list[str]) -> list[str]:
        """Where each input's element is; all modulo 2^32. What that takes is added to `lines`."""
        form, after, rest = self.form, 2 + len(self.form.inputs), "place"
        axes = list[str]()
        for axis in range(form.rank - 1):
            size, above = self._word(after + axis), f"above{axis}"
            lines.append(f"const u32 {above} = {rest} / {size}, i{axis} = {rest} - {above} * {size};")
            axes.append(f"i{axis}")
            rest = above
        axes.append(rest)
        stride = count(after + len(axes) - 1)
        found = []
        for number, (_, access) in enumerate(form.inputs):
            at = self._word(2 + number)
            match access:
                case Access.DENSE:
                    at = f"{at} + place"
                case Access.STRIDED:
                    at = " + ".join([at, *[f"{along} * {self._word(next(stride))}" for along in axes]])
                case Access.ONE:
                    pass
            found.append(at)
        return found

    def _kernel(self) -> str:
        baked = bool(self.form.baked)
        params = [*self.inputs, f"{self.result} *out", *([] if baked else ["Words w"])]
        names = [*[f"a{number}" for number in range(len(self.inputs))], *([] if baked else ["w"])]
        computed = f"element({', '.join([*names, 'place'])})"
        return f"""\
extern "C" __global__ void __launch_bounds__({LOCAL}) kernel_main({", ".join(params)}) {{
    u32 group = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    u32 first = group * {LOCAL * ITEMS}u + threadIdx.x, count = {self._word(0)};
    if (first < count && count - first > {LOCAL * (ITEMS - 1)}u) {{
        {self.result} found[{ITEMS}];
#pragma unroll
        for (u32 k = 0; k < {ITEMS}u; ++k) {{
            u32 place = first + k * {LOCAL}u;
            found[k] = {computed};
        }}
#pragma unroll
        for (u32 k = 0; k < {ITEMS}u; ++k) {{
            out[{self._word(1)} + first + k * {LOCAL}u] = found[k];
        }}
    }} else {{
        for (u32 k = 0; k < {ITEMS}u; ++k) {{
            u32 place = first + k * {LOCAL}u;
            if (place < count) {{
                out[{self._word(1)} + place] = {computed};
            }}
        }}
    }}
}}"""
