"""Each kernel of the host against the plain numpy expression of the same op, on one thread, in three sizes.

A kernel writes into an output that is there; the expression makes its own, as it does for its users. Both are measured
in turn, and the medians are compared. What looks slow is measured again in quiet moments: then those count.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.kernel_cases import Case, case_for
from benchmarks.kernel_expressions import COMPUTED, Array, expression_for
from benchmarks.report import Figures, Report, Target, WrongResult
from benchmarks.timing import LoopFactory, Quiet, loop_factories, median, now_ns, run_on
from fuel_async.backends.cpu.kernels import register_cpu_kernels
from fuel_async.backends.cpu.kernels.base import HostKernel
from fuel_async.dispatch import KernelBindingTable
from fuel_async.ir import DType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LIMIT = 1.3

#: Results are compared up to this many elements: beyond it kernels do the same in more blocks.
CHECKED = 100_000

TARGETS = {"worst_ratio": Target(max=LIMIT)}

#: How far a result may be from the expression's in float64, relative to the largest element, by its dtype.
_TOLERANCES = {DType.F64: 1e-9, DType.F32: 1e-4, DType.F16: 2e-3, DType.BF16: 2e-2}


class Size(NamedTuple):
    """How many elements, how many calls are timed together, and how often."""

    elements: int
    calls: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    sizes: Sequence[Size] = (Size(1_000, 50, 15), Size(100_000, 3, 9), Size(10_000_000, 1, 3))
    again: int = 3
    patience_s: float = 90


QUICK = Scale(sizes=(Size(200, 1, 1),), again=0, patience_s=0)


class Measured(NamedTuple):
    """The time of the kernel over that of numpy's expression."""

    kernel: HostKernel
    elements: int
    ratio: float

    @property
    def name(self) -> str:
        return f"{self.kernel.op.as_str()}_{'_'.join(map(str, self.kernel.dtypes))}_{self.elements}"


def measure(quick: bool) -> Report:
    """Measure every registered kernel of the host."""
    scale = QUICK if quick else Scale()
    quiet = Quiet(scale.patience_s)
    factory = next(iter(loop_factories().values()))
    found = host_kernels()
    with threadpool_limits(1), np.errstate(all="ignore"):
        measured = [_measured(kernel, size, scale, quiet, factory) for size in scale.sizes for kernel in found]
    figures = {"host": figures_of(measured)}
    return Report("kernels", figures, TARGETS, {"kernels": len(found), "limit": LIMIT, **quiet.facts})


def host_kernels() -> list[HostKernel]:
    """Return every kernel that the host registers."""
    table = KernelBindingTable()
    register_cpu_kernels(table)
    return [entry.kernel for *_, entry in table.finalize().iter_entries() if isinstance(entry.kernel, HostKernel)]


def figures_of(measured: Sequence[Measured]) -> Figures:
    """Return the worst ratio, the median of each size, and the five slowest by name."""
    ordered = sorted(measured, key=lambda one: one.ratio, reverse=True)
    sizes = sorted({one.elements for one in measured})
    return {
        "worst_ratio": ordered[0].ratio,
        "above_limit": float(sum(one.ratio > LIMIT for one in measured)),
        **{f"median_ratio.{size}": median(one.ratio for one in measured if one.elements == size) for size in sizes},
        **{f"worst_of_size.{size}": max(one.ratio for one in measured if one.elements == size) for size in sizes},
        **{f"slowest.{one.name}": one.ratio for one in ordered[:5]},
    }


def _measured(kernel: HostKernel, size: Size, scale: Scale, quiet: Quiet, factory: LoopFactory) -> Measured:
    case, expression = case_for(kernel, size.elements), expression_for(kernel)
    out = np.empty(case.shape, kernel.operands[-1].require_np())
    call = bound(kernel, case, out)
    call()
    if size.elements <= CHECKED:
        check(kernel, case, out)
    numpy = partial(expression, *case.inputs)

    async def measured() -> tuple[list[float], list[float]]:
        pairs = [(_timed_ns(call, size.calls), _timed_ns(numpy, size.calls)) for _ in range(size.rounds)]
        ours, theirs = zip(*pairs, strict=True)
        return list(ours), list(theirs)

    def ratio(rounds: Sequence[tuple[list[float], list[float]]]) -> float:
        return median(ns for ours, _ in rounds for ns in ours) / median(ns for _, theirs in rounds for ns in theirs)

    found = ratio([run_on(factory, measured())])
    if found > LIMIT and scale.again:
        found = ratio(run_on(factory, quiet.rounds(scale.again, measured)))
    return Measured(kernel, size.elements, found)


def bound(kernel: HostKernel, case: Case, out: Array) -> Callable[[], object]:
    """Return the call of a kernel with operands, output and working memory in place."""
    sizes = kernel.scratch(case.params, [operand.shape for operand in case.inputs], case.shape)
    scratch = [np.zeros(nbytes, np.uint8) for nbytes in sizes]
    others = [np.empty(shape, dtype.require_np()) for shape, dtype in zip(case.others, kernel.slots[1:], strict=True)]
    function, args = kernel.bind(case.inputs, [out, *others], case.params, scratch)
    return partial(function, *args)


def _timed_ns(call: Callable[[], object], calls: int) -> float:
    started_ns = now_ns()
    for _ in range(calls):
        call()
    return (now_ns() - started_ns) / calls


def check(kernel: HostKernel, case: Case, out: Array) -> None:
    """`WrongResult` unless the result is the expression's: exactly where nothing is rounded, else in float64."""
    expression, dtype = expression_for(kernel), kernel.operands[-1]
    if kernel.op in COMPUTED and not kernel.operands[0].is_int:
        wide = [x.astype(np.float64) if x.dtype.kind not in "ui" else x for x in case.inputs]
        expected = np.asarray(COMPUTED[kernel.op](*wide)).astype(dtype.require_np())
    else:
        expected = np.asarray(expression(*case.inputs))
    if dtype not in _TOLERANCES or kernel.op not in COMPUTED:
        same = bool((out == expected).all())
    else:
        got, wanted = out.astype(np.float64), expected.astype(np.float64)
        tolerance = _TOLERANCES[dtype]
        same = np.allclose(got, wanted, tolerance, tolerance * max(1.0, float(np.abs(wanted).max())))
    if not same or out.shape != expected.shape:
        raise WrongResult(f"{kernel.op.as_str()} of {', '.join(map(str, kernel.dtypes))} is not what numpy gives")
