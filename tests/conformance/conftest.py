"""The host and a simulated device as subjects of the conformance suite: some cases each time, chosen by the session's
seed, and all of them in a slow test for each op.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import pytest

from fuel_async.backends.sim import ScaledClock, SimDeviceSpec, SimMachine
from fuel_async.runtime import Executor
from fuel_async.testing.conformance import ConformanceCase, Subject, cases, parameters

HOST = Subject("host", ("cpu:0",), frozenset({"own memory"}))
#: Its devices come with the machine.
SIMULATED = Subject("simulated", (), frozenset({"other memory"}))


@contextmanager
def host() -> Iterator[Subject]:
    yield HOST


@contextmanager
def simulated() -> Iterator[Subject]:
    machine = SimMachine([SimDeviceSpec()], clock=ScaledClock(100.0))
    try:
        yield replace(SIMULATED, devices=machine.devices)
    finally:
        machine.close()


#: name -> what is known beforehand, how it comes about, and how many cases are run each time.
SUBJECTS: dict[str, tuple[Subject, Callable[[], AbstractContextManager[Subject]], int]] = {
    HOST.name: (HOST, host, 1_000),
    SIMULATED.name: (SIMULATED, simulated, 500),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        seed = int(metafunc.config.getoption("hypothesis_seed"))
        found = [
            pytest.param(name, *parameter.values, id=f"{name}-{parameter.id}", marks=parameter.marks)
            for name, (subject, _, budget) in SUBJECTS.items()
            for parameter in parameters(subject, seed, budget)
        ]
        metafunc.parametrize(("subject", "case"), found, indirect=["subject"])
    elif "subject_cases" in metafunc.fixturenames:
        pairs: list[object] = []
        for name, (subject, _, _) in SUBJECTS.items():
            by_op: defaultdict[str, list[ConformanceCase]] = defaultdict(list)
            for case in cases(subject):
                by_op[case.op].append(case)
            pairs += [pytest.param(name, found, id=f"{name}-{op}") for op, found in by_op.items()]
        metafunc.parametrize(("subject", "subject_cases"), pairs, indirect=["subject"])


@pytest.fixture(scope="module")
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    _, opened, _ = SUBJECTS[request.param]
    with opened() as subject:
        yield subject


@pytest.fixture(scope="module")
def executor(subject: Subject) -> Iterator[Executor]:
    executor = Executor(devices=subject.devices)
    yield executor
    asyncio.run(executor.aclose())
