"""The conformance suite on a device of grids. Cases that it has no kernels for are left out by planning them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.errors import NoBackendForOp
from fuel_async.ir import BY_NAME
from fuel_async.plan import Target, make_plan
from fuel_async.registry import global_bindings
from fuel_async.testing.conformance import ConformanceCase, Subject, cases, run_cases

if TYPE_CHECKING:
    from tests.backends.grids.devices import Device

#: What has no kernel for these devices: it runs on the host beside them.
ONLY_ON_HOST = {"selective_scan"}


def target_of(device: Device) -> Target:
    return Target(global_bindings(), device.capabilities, device.rates, spread=True)


def has_kernels(case: ConformanceCase, target: Target) -> bool:
    try:
        make_plan(case.build().graph.freeze(), target)
    except NoBackendForOp:
        return False
    return True


async def judge(device: Device, seed: int, budget: int, least: int) -> None:
    """Judge a sample of the cases, of which at least so many must have kernels."""
    subject, target = Subject(device.info.name, devices=[device]), target_of(device)
    report = await run_cases(
        subject, [case for case in cases(subject, seed=seed, budget=budget) if has_kernels(case, target)]
    )
    assert len(report.verdicts) > least
    assert report.is_good, str(report)


def missing_for_f32(device: Device) -> set[str]:
    """The ops that it has no kernel for where all is plain and of f32."""
    target, missing = target_of(device), set[str]()
    for case in cases(Subject("all")):
        if (case.dtype, case.layout, case.shape, case.values) != ("f32", "contiguous", "odd", "plain"):
            continue
        op = BY_NAME[case.op]
        if op.kind is None:
            continue
        try:
            make_plan(case.build().graph.freeze(), target)
        except NoBackendForOp as error:
            if error.op == op.kind.value:  # not what prepares its operands
                missing.add(case.op)
    return missing
