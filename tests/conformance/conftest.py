"""The host and simulated devices as subjects of the conformance suite: some cases of each op each time, chosen by the
session's seed, and all of them in slow tests.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fuel_async.backends.sim import ScaledClock, SimDeviceSpec, SimMachine
from fuel_async.testing.conformance import ConformanceCase, Subject, cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOST = Subject("host", ("cpu:0",), frozenset({"host memory"}))
#: Its devices come with the machine.
SIMULATED = Subject("simulated", (), frozenset({"own memory"}))


@contextmanager
def host() -> Iterator[Subject]:
    yield HOST


@contextmanager
def simulated() -> Iterator[Subject]:
    machine = SimMachine([SimDeviceSpec(), SimDeviceSpec(speed=2.0)], clock=ScaledClock(100.0))
    try:
        yield replace(SIMULATED, devices=machine.devices)
    finally:
        machine.close()


#: name -> what is known beforehand, how it comes about, and how many cases are run each time.
SUBJECTS: dict[str, tuple[Subject, Callable[[], AbstractContextManager[Subject]], int]] = {
    HOST.name: (HOST, host, 1_200),
    SIMULATED.name: (SIMULATED, simulated, 500),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that asks for `sample` or `every` the cases of one op of one subject."""
    seed = int(metafunc.config.getoption("hypothesis_seed"))
    for argument in {"sample", "every"} & set(metafunc.fixturenames):
        found: list[object] = []
        for name, (subject, _, budget) in SUBJECTS.items():
            by_op: defaultdict[str, list[ConformanceCase]] = defaultdict(list)
            for case in cases(subject, seed, budget) if argument == "sample" else cases(subject):
                by_op[case.op].append(case)
            found += [pytest.param(name, of_op, id=f"{name}-{op}") for op, of_op in by_op.items()]
        metafunc.parametrize(("subject", argument), found, indirect=["subject"])


@pytest.fixture(scope="module")
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    _, opened, _ = SUBJECTS[request.param]
    with opened() as subject:
        yield subject
