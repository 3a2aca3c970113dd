"""Faults that a real device can take: too little memory; and, in processes of their own, crashes and hanging."""

from __future__ import annotations

import math
import subprocess
import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from fuel_async.backends import OpenOptions
from fuel_async.errors import DeviceLost, OutOfMemory
from fuel_async.ir import DType
from fuel_async.testing.gpu_check.finding import opened
from fuel_async.testing.gpu_check.programs import PATIENCE_S, Bound, products, rotation, small

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fuel_async.backends import Found
    from fuel_async.testing.gpu_check.budget import Budget
    from fuel_async.testing.gpu_check.check import Setting
    from fuel_async.testing.gpu_check.report import Section

#: An address that no device gives out.
_NOWHERE = 0x10
#: How long work may take, and how long it takes: several times that, whatever the device.
_DEADLINE_S, _WORK_S = 0.1, 0.8


async def break_things(setting: Setting, section: Section, budget: Budget) -> None:
    """Lack memory here; crash and hang in children, of which nothing is left."""
    _lack_memory(setting, section)
    for name in CRASHES:
        if budget.left_s < setting.scale.child_s:
            section.left_out.append(f"{name}: the time was over")
            continue
        section.figures[name] = _in_child(setting, section, name, budget)


def _lack_memory(setting: Setting, section: Section) -> None:
    """Ask for more than there is, within a budget that promises more; then go on."""
    found = setting.found[:1]
    whole = found[0].info.total_nbytes or 1 << 34
    feed = np.arange(1_024, dtype=np.float32)
    with opened(found, OpenOptions(memory_nbytes=4 * whole)) as (device,):
        try:
            device.memory.allocate_array((2 * whole,), DType.U8)
            section.faults.append("twice the memory of the device was given")
        except OutOfMemory as error:
            section.figures["out of memory"] = str(error)
        bound = Bound(device, small(3), feed)
        bound.run()
        section.demand(bool((bound.y.read() == -feed).all()), "wrong numbers after a refused allocation")
        section.demand(device.lost is None, f"a refused allocation lost the device: {device.lost}")


def _in_child(setting: Setting, section: Section, name: str, budget: Budget) -> str:
    command = [sys.executable, "-m", "fuel_async.testing.gpu_check", "--crash", name]
    command += ["--double"] if setting.is_double else []
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=budget.left_s + 10.0, check=False)
    except subprocess.TimeoutExpired:
        section.faults.append(f"{name}: the child did not end")
        return "no end"
    section.demand(ended.returncode == 0, f"{name}: {(ended.stdout + ended.stderr).strip()[-500:]}")
    return ended.stdout.strip()[-200:] or f"exit {ended.returncode}"


# --- in a child ---------------------------------------------------------------------------------------------------


def crash(found: Sequence[Found], name: str, *, is_double: bool) -> int:
    """Do one of `CRASHES`; the exit code says whether it went as it must."""
    print(CRASHES[name](found, is_double))
    return 0


def _illegal_address(found: Sequence[Found], is_double: bool) -> str:
    """A kernel writes where nothing is: its device is lost, others go on."""
    with opened(found) as devices:
        bound = Bound(devices[0], small(3), np.ones(64, np.float32))
        bound.run()
        bound.y.ptr = _NOWHERE
        bound.y.block.number = -1
        try:
            bound.run()
        except DeviceLost as error:
            told = str(error)
        else:
            raise AssertionError("a write to nowhere went unnoticed")
        for other in devices[1:]:
            beside = Bound(other, small(3), np.ones(64, np.float32))
            beside.run()
            assert (beside.y.read() == -1).all()
        try:
            bound.run()
        except DeviceLost:
            return told
        raise AssertionError("a lost device took work")


def _deadline(found: Sequence[Found], is_double: bool) -> str:
    """Work takes longer than it may: the device counts as lost, and whoever waits hears of it in time."""
    size, times = (32, 400) if is_double else (4_096, 100)
    with opened(found[:1]) as (device,):
        bound = Bound(device, products(times, size), rotation(size))
        bound.run()
        started = perf_counter()
        bound.run()
        took_s = perf_counter() - started
    times = max(times, math.ceil(times * _WORK_S / took_s))
    with opened(found[:1], deadline_s=_DEADLINE_S) as (device,):
        bound = Bound(device, products(times, size), rotation(size))
        handles = [bound.submit() for _ in range(4)]
        try:
            for handle in handles:
                handle.wait(PATIENCE_S)
        except DeviceLost as error:
            return str(error)
    raise AssertionError(f"{times} products of {size} took less than {_DEADLINE_S} s")


#: By name: what is done in a child.
CRASHES: Mapping[str, Callable[[Sequence[Found], bool], Any]] = {
    "illegal address": _illegal_address,
    "deadline": _deadline,
}
